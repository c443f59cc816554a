"""Every bound of memory, size, number and time of the core, with its reason, in the order of a packet's way.

Those that a lake may set have their defaults in `config` (`[replay]` chunk, task_packets, copies, threads, memory;
`[suites]`), and those of a pass over a link in `low.settings`. Numbers of file formats stand with the format, and those
of the tools beside the core (editor, generator, preview) with the tool. What is beyond a bound is said, never dropped
in silence: an error, a malformed record, or a count under a name such as `other`.
"""

# Texts that people write: what a mistake or a stranger may make Lowwater read.

SETTINGS_BYTES = 1 << 20
"""Most bytes of a settings file."""

STATE_BYTES = 1 << 24
"""Most bytes of a small file of a lake, such as pins and positions."""

KEY_PARTS = 64
"""Most parts of a dotted key in settings: their reader calls itself for each."""

QUERY_BYTES = 250_000
"""Most bytes of a query text, which is parsed as a whole."""

EXPRESSION_DEPTH = 200
"""Most levels of an expression: parser, binder and Python's own compiler call themselves for each."""

DECLARATIONS_BYTES = 1_000_000
"""Most bytes of a file of PROTOCOL declarations."""

LOOKUP_FILE_BYTES = 100_000_000
"""Most bytes of a file of a prefix table or watch list, which is in the memory of each process that looks up."""

FUNCTION_FILE_BYTES = 10_000_000
"""Most bytes of a file of users' functions, which is an input of intervals and read for its digest."""

SUITE_BYTES = 1 << 20
"""Most bytes of a suite of expectations."""

QUERY_NAME_CHARACTERS = 120
"""Most characters of a query name. With the suffixes that stages add, it stays below 255, the limit of file names."""

LINK_NAME_CHARACTERS = 160
"""Most characters of a link's name in the path of a partition, where Delta writes most characters as three for each
byte."""

PLAN_OPERATORS = 200_000
"""Most operators of the queries of a set, where those that several read count for each: planning takes some seconds."""

EXPRESSION_NODES = 4_000
"""Nodes that rules may make of smaller expressions, by putting definitions in place of columns. A chain of queries that
each read a column twice doubles it with every step, so beyond it two operators stay two."""

GROUPING_SETS = 1 << 16
"""Most grouping sets of one query: each packet makes a group in every one."""

IN_VALUES = 10_000
"""Most values of an IN list: a kernel has them in its text, and Spark needs a call for each."""

TOP_ROWS = 100_000
"""Most rows that LIMIT keeps of an epoch: a task holds them in memory, of each value of PER."""

FILLED_GROUPS = 10_000
"""Most groups that FILL makes of each epoch without rows."""

LAG_ROWS = 1_000
"""Most rows that lag looks back: of each partition so many are kept from interval to interval."""

STREAM_WAIT = 60.0
"""Seconds without a byte, after which a stream that was named in place of a file is given up."""

# Capture files.

CAPTURE_CHUNK_BYTES = 4 << 20
"""Bytes read at a time: few enough to stay in the processor's cache while they are scanned and decoded."""

BATCH_ROWS = 1 << 16
"""Most records that go from one step to the next together: enough that a call for each batch costs nothing."""

DECOMPRESSOR_HISTORY = 128 << 20
"""Most bytes of history that a zstd or xz stream may request; the highest levels of the tools use as much."""

DECOMPRESSED_AHEAD = 16
"""Blocks that are decompressed in advance, so that decompression and decoding run side by side."""

CHUNK_INTERFACES = 32
"""Most interfaces whose clocks a chunk has of its own: of many chunks of many interfaces each would have all."""

MALFORMED_ROWS = 1 << 22
"""Most malformed rows that are stored for a capture; all are counted."""

DROP_RANGES = 512
"""Most ranges of time for which a capture tells its drops; further ones are told together with those near them."""

CAPTURE_HOLES = 256
"""Most holes of a capture that the ledger keeps; of more, those with the least time between them are joined."""

CAPTURE_PARTS = 16_384
"""Most further headers of a file of several captures; behind them headers are damage, and those of sections divide
nothing."""

REORDERED_BYTES = 16 << 30
"""Most bytes of a compressed file that are unpacked into a temporary file, to be read in another order."""

MEDIAN_INTERFACES = 256
"""Interfaces of a capture with a median. A capture with more makes no links of its interfaces, so needs none."""

MEDIAN_TIMESTAMPS, LEAST_MEDIAN_TIMESTAMPS = 1 << 23, 1 << 16
"""Most timestamps in memory for the first interface, and for the last ones; further ones are in a file."""

UNCOMPARED_RECORDS = 1 << 18
"""Records that wait before they are compared with earlier ones, to count copies."""

HASH_CLASSES = 64
"""Classes of hashes of copies across links. One of them at a time is in memory, and the others are in files."""

ANONYMISED_ADDRESSES = 1 << 16
"""Most addresses of a kind whose anonymised form is kept; a further one empties the cache."""

# Files of other records: CSV, JSON lines, parquet, logs.

RECORD_BLOCK_BYTES = 4 << 20
"""Bytes of a file that are parsed at a time."""

RECORD_BLOCK_RECORDS = 1 << 17
"""Most records that are parsed at a time: short ones take far more memory than their bytes."""

QUERY_MISTAKES = 200
"""Mistakes of query texts after which no others are looked for."""

RECORD_BYTES = 1 << 20
"""Longest record, bytes; a longer one is malformed. A quote that never ends makes a record of all that follows."""

PARQUET_TEXT_BYTES = 64 << 20
"""Most bytes of the texts of a piece of parquet: a dictionary of one long text stands for any number of them."""

SEPARATED_COLUMNS = 10_000
"""Most columns of a file with separators, or of parquet. Each costs memory, whatever is in it."""

JSON_OBJECT_BYTES = 1 << 18
"""Bytes of lines whose objects are in memory at a time: they take many times as much."""

EVENT_TYPES = 64
"""Types of events that a piece counts by name; further ones are counted together."""

LEFT_OUT_TYPES = 64
"""Types of records left out that a file counts by name; further ones are counted together."""

LOG_HEADERS = 1000
"""Most different headers of a log. A log has one; a hostile file would make a section of every line."""

LOG_COLUMNS = 4096
"""Most columns of a header of a log."""

LOG_HEADER_CHARACTERS = 1 << 17
"""Most characters of the names in a header: all headers of a file stay in memory."""

DICTIONARY_BYTES = 1 << 20
"""Most bytes of a dictionary that rows of texts keep: with a larger one each row has its text."""

# Proposals of settings for files (`init`, `inspect`), which read samples.

SAMPLE_FIRST_BYTES = 1 << 20
"""Bytes of the first piece of a sample."""

SAMPLE_LATER_BYTES = 1 << 18
"""Bytes of the pieces of a sample from the middle and the end."""

SAMPLE_UNPACKED_BYTES = 64 << 20
"""Most bytes of a compressed file that are decompressed for a sample."""

SAMPLE_ROWS = 10_000
"""Rows of a row group of parquet that are read for a sample, bounded also by SAMPLE_GROUP_BYTES."""

SAMPLE_GROUP_BYTES = 256 << 20
"""Largest row group that is read for a sample, bytes without compression."""

SAMPLE_SEPARATORS = 1 << 22
"""Separators in a sample, beyond which a candidate costs more memory than it is worth."""

PROPOSED_COLUMNS = 1000
"""Most columns of a proposal; access functions count as far."""

PROPOSED_FILES = 200_000
"""Most files of a folder for which settings are proposed; a tree of more is no folder of captures."""

COMPARED_NAMES = 2_000_000
"""Most comparisons of names of files with the patterns of other links: a second or two."""

PROPOSAL_READ_BYTES = 64 << 20
"""Most bytes of the files of a link that are all read to the end, to find cut ones."""

# Ingest.

THREAD_BYTES = 1 << 29
"""Bytes of memory for each thread: what the tasks of ingest and of both levels take, and results that wait. A machine
with less memory for each core has fewer threads, unless `[replay]` threads says how many."""

INGEST_CHUNK_BYTES = 8 << 20
"""Approximate size of a chunk of a capture, bytes: a task holds this much of the file at a time."""

COMMIT_CAPTURES, COMMIT_BYTES = 1_000, 64 << 20
"""Captures, and their bytes, that become visible in one commit: a commit takes as long as the decoding of some
megabytes, and what is not committed yet is done again after a crash."""

FILE_ROWS = 1 << 19
"""Rows after which another file of `packets/` begins. A file is one row group: its pages wait in memory until then."""

FILE_BYTES = 128 << 20
"""Bytes of frames, records and texts after which another file begins, whatever its rows."""

PACKET_PAGE_ROWS = 1 << 15
"""Packets of which a page is made; fewer are copied, since the memory of their batch is used again."""

TASK_WAITING_ROWS, TASK_WAITING_BYTES = 1 << 19, 256 << 20
"""Most packets, and most bytes of frames and texts, that wait in all files of a task together."""

RECORD_PAGE_ROWS, RECORD_PAGE_BYTES = 1 << 16, 16 << 20
"""Records, or bytes of them, of which a page is made: they wait in memory until then."""

RECORD_WAITING_PAGES = 2
"""Pages of a file that wait for the thread that makes them, beside the one that it makes."""

WATCH_FILES, WATCH_BYTES = 32, 256 << 20
"""Most files, and about most bytes, that are ingested before a watch can stop."""

LISTED_FOLDERS = 20_000
"""Most folders of a pattern that are listed; a loop of symbolic links has no end."""

LOOK_READ_BYTES = 512 << 20
"""Bytes of files that nobody ingests that one look reads to their end; those of which only the begin is read go on
until they were last written, as far as anybody knows, and the next look reads more of them."""

UNCLAIMED_FILES = 100_000
"""Most files of a folder that no pattern claims and that are looked at."""

LINKS_AT_ONCE = 8
"""Most links that are ingested at a time where the tasks are of Spark."""

GIVEN_UP_WAIT = 5.0
"""Seconds in which links that are given up free their locks; one may wait for a lock itself, or for a store."""

INGEST_WAIT = 3600.0
"""Seconds to wait for another ingest of the same link, which may have to decode gigabytes first."""

# Tables, ledgers and their logs.

COMPARED_RECORDS = 1 << 22
"""Records that are compared at once to find copies. Where a window holds more, their hashes are compared in classes."""

BOUND_CHARACTERS = 64
"""Most characters of a text in the bounds of a file, by which readers leave files out."""

LEDGER_FRAGMENTS, LEDGER_FRAGMENTS_OF_STORE = 64, 2
"""Small files of a partition of a ledger, on a disk and in a store, above which they are joined: readers open each of
them, which is a request to a store."""

JOINED_LEDGER_BYTES = 4 << 20
"""Bytes of a joined file of a ledger in a store; of a larger ledger, joins write again only what is new."""

JOINED_FILE_BYTES = 100 << 20
"""Bytes of files that one joined file takes up; a larger file stays as it is."""

JOINED_GROUP_ROWS = 1 << 20
"""Most rows of a row group of a joined file of a published table."""

JOIN_HELD_BYTES = 64 << 20
"""Bytes of rows that a join holds until they are written as a row group."""

LEDGER_GROUP_ROWS = 1 << 13
"""Most rows of a row group of a ledger, of which readers ask for few."""

CAPTURE_OBJECTS = 4_096
"""Captures of a link that are kept as objects, while nobody walks through all of them."""

OPEN_TABLES = 64
"""Most open tables of a thread, and most computed values of the process."""

COMMIT_ROOM_BYTES = 1 << 20
"""Bytes that the disk of a lake must have before a commit: a log that was cut cannot be read."""

RESERVE_BYTES = 2 * COMMIT_ROOM_BYTES
"""Bytes that `maintain` keeps on the disk of a lake, so that it has room for the commits by which packets go."""

PACKED_CHECKPOINT_BYTES = 64 << 10
"""Bytes of a checkpoint from which on it is not packed with others."""

PACKED_FILE_BYTES = 64 << 10
"""Bytes of a data file of a ledger up to which it is packed with others, and gets the next rows of its ledger."""

TABLE_COLUMNS = 10_000
"""Most columns of a table that is read."""

LOG_FILES = 500_000
"""Most files in the folder of a log. Delta keeps those of 30 days: a commit every five seconds."""

LOG_COMMITS = 10_000
"""Most commits behind a checkpoint, which Lowwater makes every hundred: 2 s and 80 MB."""

LOG_COMMIT_BYTES = 1 << 27
"""Most bytes of the commits that are read at once: 2 GB of memory. Removing 262,800 files takes 80 MB of them."""

LOG_LINE_BYTES = 1 << 22
"""Most bytes of one action of a log; the schema of `packets/` has 16 KB."""

CHECKPOINT_BYTES = 1 << 30
"""Most bytes of a checkpoint in memory; those of the files of ten years of 30 links."""

CHECKPOINT_HINT_BYTES = 1 << 16
"""Most bytes of `_last_checkpoint`."""

FILE_COUNT = 1 << 48
"""Most rows, and bytes, that a log may say of one file: sums of them stay 64-bit numbers."""

LIBRARY_MESSAGE_CHARACTERS = 500
"""Most characters of what a library says, which may repeat a value of the log."""

PARQUET_FOOTER_BYTES = 1 << 24
"""Most bytes of a footer of parquet; one of 60 columns and 100 row groups has 300 KB."""

PARQUET_PAGE_BYTES = 1 << 28
"""Most bytes of a page. Writers make pages of 1 MiB, and of one value where that is larger."""

PARQUET_PAGE_HEADER_BYTES = 1 << 16
"""Most bytes of the header of a page, which may hold statistics."""

PARQUET_GROUP_BYTES = 1 << 30
"""Most bytes of a row group in memory. Lowwater writes groups of 128 Ki rows."""

PARQUET_FILE_BYTES = 1 << 38
"""Most bytes that decoding of all of a file may make, one row group after another: some minutes. Lowwater's files have
100 MB, which are a few GB."""

PARQUET_TEXTS = 1 << 24
"""Most texts of a column whose lengths are looked at before they are decoded."""

# The low level.

GROUP_TABLE_SLOTS = 1 << 14
"""Slots of an LFTA's group table, for queries without `aggregate_slots`: further groups leave it early."""

GROUP_ROWS = 1 << 17
"""Rows of a row group of a stream or an exported file."""

SHARED_GROUP_ROWS = 1 << 19
"""Rows of a stream that are divided by share together: each share is a row group of its own."""

FRAME_BATCH_ROWS = 1 << 13
"""Packets of a batch with frames, each up to 64 KiB."""

# The high level.

ROWS_IN_MEMORY = 1 << 22
"""Largest number of rows that an operator keeps in memory before it spills, where a part has no bound of its own."""

_ROW_BYTES = 128
"""About the bytes that such a row takes."""

ROW_BLOCK_ROWS = 1 << 20
"""Most rows of a block that an operator makes at once, unless a single row makes more."""

BATCH_PACKETS = 2_000_000
"""Most packets of intervals that run as one: from there on what an interval costs beside its packets is small, and an
interruption waits, or a kill loses, a few seconds of work."""

BATCH_INTERVALS = 48
"""Most intervals that run as one, for the same reason: the pages of their audits, and the copies of their files."""

OPEN_HOUR_FILES = 64
"""Files of hours that are open at once; rows of more hours in mixed order make several files for an hour."""

TIMELINE_TICKS = 1 << 16
"""Most ticks of a stream in an interval; beyond it ticks are made longer."""

IDLE_EPOCHS = 1_000
"""Most successive epochs without rows through which groups may stay open (SEMANTICS O4)."""

RUN_INTERVALS = 100_000
"""Most intervals of `lowwater run`: with more, files of intervals would take longer than packets."""

# The audit.

PROFILE_SOURCES = 1 << 16
"""Senders of a link that are counted. Beyond it the less busy half is dropped, so a share may be too low."""

OFFENDER_PACKETS = 100_000
"""Violations whose packets are looked up to name their senders."""

EXAMPLE_ROWS = 1000
"""Rows that are kept as examples of a broken rule."""

KEY_DIGESTS = 1 << 27
"""Most rows whose digests of keys are held in memory, 8 bytes each."""

# Results and pages.

COMPARED_HOUR_ROWS = 5_000_000
"""Most rows of an hour that a comparison of two versions reads."""

SORTED_ROWS = 200_000
"""Most rows that are sorted at a time."""

PLOT_PARTS = 120
"""Most parts of time of a plot, and one."""

EXPLORED_BYTES = 512 << 20
"""Memory of an answer over published rows: a page, a plot, a filter; what it groups and sorts beyond goes to the disk
meanwhile."""

COMMIT_FILES = 64
"""Most files of a commit that adds instants to published tables."""

SEARCHED_COMMITS = 64
"""Most commits that are searched for the note of the publication before; the ledger knows it too, but later."""

ROW_PACKETS = 5_000_000
"""Most packets of a row whose positions are held, for the export of what a row counted."""

EXPORT_BATCH_BYTES = 32 << 20
"""Bytes of frames that an export reads at a time."""

PUBLISH_WAIT = 600.0
"""Seconds to wait for another publication of the set, which copies files and commits."""

SQL_BYTES = 1 << 30
"""Memory of a statement of SQL, unless `[replay] memory` of a lake says another; what it groups and sorts beyond goes
to the disk meanwhile."""

# Stores, other processes and the network.

FIRST_READ_BYTES = 64 << 10
"""Bytes of the first request for a file; whoever looks at the first bytes of a file needs no more."""

READ_AHEAD_BYTES = 4 << 20
"""Most bytes of a capture in a store that are read ahead of what was asked for."""

FILE_CACHE_BYTES = 16 << 30
"""Bytes of copies of objects on the disk, above which those are removed that nobody asked for lately."""

COMPARED_BYTES = 8 << 20
"""Bytes of a file of a table up to which its readers compare all of it with its digest, in 4 ms; of a larger one they
read few columns, and compare the checksums of pages."""

STORE_PIECE_BYTES = 8 << 20
"""Bytes of an object that are read or sent at a time."""

STORE_CONNECTIONS = 8
"""Most connections to a store that wait for the next request."""

STORE_READS = 8
"""Objects that are read at the same time."""

STORE_PATIENCE = 300.0
"""Seconds for which a request to a store is tried. Setting: the environment variable LOWWATER_STORE_PATIENCE."""

STORE_FIRST_PATIENCE = 20.0
"""The same for a store that has never answered: its address may be wrong."""

COMPILE_WAIT = 600.0
"""Seconds for which one process that compiles kernels waits for another."""

SCRAPE_CONNECTIONS = 16
"""Most connections to the endpoint of metrics. A further one ends the one whose request has been under way longest."""

SCRAPE_SECONDS = 10.0
"""Seconds for which a request for metrics, and then its answer, may be under way."""

PUSH_SECONDS = 10.0
"""Longest time of a request that sends metrics or traces, with its retries, s."""


def rows_within(memory: int) -> int:
    """Returns the number of rows that an operator may keep in so many bytes; 0, for the usual number, without a bound.

    Example:
        >>> rows_within(512 << 20) == ROWS_IN_MEMORY, rows_within(0)
        (True, 0)
    """
    return max(1, memory // _ROW_BYTES) if memory else 0

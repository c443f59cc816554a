"""Paths of a lake, and the schemas of its tables."""

from __future__ import annotations

import json
import shlex
import uuid
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import PurePath

import pyarrow as pa

from lowwater import documents, errors
from lowwater.catalog import expr as ex, schemas
from lowwater.lake import open_tables
from lowwater.lake.tables import create, lake_errors, safe_name
from lowwater.plan import operators as ops, properties
from lowwater.storage import objects, paths, untrusted
from lowwater.storage.failures import hint_in_lake, hint_of
from lowwater.storage.locks import Fence
from lowwater.storage.object_paths import ObjectPath


def _required(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


_TEXT, _INT = pa.string(), pa.int64()

PACKETS = pa.schema([*schemas.READABLE, _required("link", _TEXT), _required("hour", _INT)])

CONTENTS = pa.schema(
    [
        _required("link", _TEXT),
        _required("source", _TEXT),  # link that the file was read for; `link` is it, or an interface of it
        _required("content", _TEXT),  # identity of its records (T5), hex
        _required("attempt", _TEXT),  # names the files of packets/ and the rows of malformed that belong to it
        _required("decoded_at", _INT),
        _required("sha256", _TEXT),  # of the bytes that were decoded, hex
        _required("bytes", _INT),
        _required("format", _TEXT),
        _required("link_type", _TEXT),
        _required("packets", _INT),  # sane records
        _required("undecoded", _INT),  # sane records without an IP header
        _required("malformed", _INT),
        pa.field("first", _INT),  # timestamps of sane records, ns; NULL without one
        pa.field("last", _INT),
        pa.field("smallest", _INT),
        pa.field("largest", _INT),
        pa.field("median", _INT),
        _required("ended_cleanly", pa.bool_()),
        pa.field("largest_ahead", _INT),  # another max_jump in [largest_ahead, smallest_jump) changes nothing
        pa.field("smallest_jump", _INT),
        _required("decoder_version", _INT),
        pa.field("interface", _TEXT),  # name (link_names); NULL without one, and if several names are one link
        pa.field("interfaces", _INT),  # number of names of interfaces that the row stands for
        pa.field("compression", _TEXT),  # empty where plain
        pa.field("record_bytes", _INT),  # bytes of sane records with headers; this and the next three are of the file
        pa.field("overhead", _INT),  # bytes that are neither records nor malformed
        pa.field("unpacked", _INT),  # decompressed bytes; + `skipped` = records, malformed rows and overhead
        pa.field("skipped", _INT),  # stored bytes behind the damage of a compressed file
        pa.field("kept", _TEXT),  # stored frames and applications, in words; empty for headers only
        pa.field("key", _TEXT),  # digest of the key of the anonymisation; empty where addresses are true
        pa.field("left_out", _TEXT),  # in the log of a tool: {type of records left out: number}, JSON
        pa.field("lull", _INT),  # longest time between two arrivals in the file, ns; NULL without a record
        pa.field("file_first", _INT),  # first and largest timestamp of the file, over all of its interfaces
        pa.field("file_largest", _INT),
        pa.field("head", _TEXT),  # digest of its first records; NULL where there are few
        pa.field("absent", _TEXT),  # [fields that the file lacks, its columns that no field reads], JSON; or NULL
        pa.field("leading", _INT),  # malformed records before the first sane one, which count at the clock before it
        pa.field("drops", _TEXT),  # records that the file says were lost (`DeclaredDrops`), JSON; or NULL
        pa.field("holes", _TEXT),  # damaged stretches, as `capture.records.facts.Hole`, JSON; NULL without one
        pa.field("lag", _INT),  # largest lateness of a record by the clock of its capture, ns
        pa.field("edges", _TEXT),  # ends that its own records do not judge (T3): `edges.Edges`, JSON; or NULL
        # {"wire": bytes of all packets, "types": {what is in place of an IP header: [packets, bytes]}}, JSON; or NULL
        pa.field("undecoded_types", _TEXT),
        pa.field("parts", _TEXT),  # the captures in the file, as they were read (`ReadingOrder`), JSON; or NULL
        pa.field("begins_with", _TEXT),  # contents whose records are its first ones, JSON; NULL without any
        pa.field("begins", _TEXT),  # contents whose first records are its own, JSON; NULL without any
        pa.field("erased", _INT),  # packets that were taken out of it (T11); NULL where nobody erased any
    ]
)
"""What decoding knew of a content (T5): a row for each attempt at a file and each link that it has, of which one with
several interfaces has several. Nothing is in it of names, settings or what people said, so it never changes."""

SIGHTINGS = pa.schema(
    [
        _required("path", _TEXT),  # from the folder of the lake where both are on this machine: they move together
        _required("state", _TEXT),
        _required("reason", _TEXT),
        _required("unread", pa.bool_()),  # whether it may hold records that are in no interval
        _required("links", pa.list_(_TEXT)),  # the links that have it, or lack it
        _required("size", _INT),
        _required("written", _INT),  # last write, ns
        pa.field("first", _INT),  # smallest and largest timestamp of its sane records, ns; NULL where unknown
        pa.field("last", _INT),
        pa.field("packets", _INT),  # sane records; NULL where it was not read to its end
        pa.field("declared_from", _INT),  # what its name tells that it covers, ns
        pa.field("declared_to", _INT),
        pa.field("rotated", pa.bool_()),  # whether the end of that was made up from a rotation
        pa.field("named", _TEXT),  # digest of the settings that told so; NULL where others must be asked
        pa.field("name", _TEXT),  # under the folder of the pattern that claims it; empty where none does
        _required("attempts", pa.list_(_TEXT)),  # decodings of what lies there, one for each link that has it
        pa.field("sha256", _TEXT),  # of the bytes that lie there, where they were read
        pa.field("judged", _TEXT),  # by what settings a file that no pattern claims was judged
        pa.field("digests", _TEXT),  # sha256 of an unread file that was read to its end, and of its decompressed bytes
        pa.field("silences", pa.list_(_INT)),  # begin and end of each long silence in it, ns
        pa.field("drops", _TEXT),  # records that a log beside those of its links says were lost, as in `CONTENTS`
        # whether its last write was so long before it was seen that a later one differs; NULL: not known
        pa.field("settled", pa.bool_()),
        _required("seen_at", _INT),  # later than every row before; the newest row of a path counts
    ]
)
"""What was seen at each place, in the order of the looks. The table is made when the first file is seen."""

STATEMENTS = pa.schema(
    [
        _required("at", _INT),  # wall clock, ns, later than every row before; the newest row about a defect counts
        _required("person", _TEXT),
        _required("act", _TEXT),  # one of `statements.ACTS`
        _required("why", _TEXT),
        _required("link", _TEXT),  # empty where it is about a query set
        _required("cause", _TEXT),  # of what is accepted; empty in other acts
        # identity of the file that it is about, of one that is set aside the sha256 of its bytes, empty where nobody
        # had read them; of a roll back the version, of a retired query the one in its place
        _required("what", _TEXT),
        _required("start", _INT),  # the time that it is about, ns; both 0 where nobody knows it
        _required("end", _INT),
        _required("amount", _INT),  # how large it was: what is larger is not accepted, another size not set aside
        pa.field("file", _TEXT),  # path, as in `SIGHTINGS`, of a file that is set aside or declared; else NULL
        # whose interval is approved or rolled back, or whose query is retired; else NULL, as the next
        pa.field("query_set", _TEXT),
        pa.field("query", _TEXT),
    ]
)
"""What people say of the data, a row for each thing that an act is about. It is made with the first statement; what
becomes of it is in force by its own ledger (`replay.statement_log`)."""

MALFORMED = pa.schema(
    [
        _required("link", _TEXT),
        _required("capture", _TEXT),
        pa.field("position", _INT),  # NULL if unknown
        _required("offset", _INT),
        _required("length", _INT),
        _required("reason", _TEXT),
        pa.field("arrival", _INT),  # clock of the capture at the record, ns; NULL before its first sane record
        _required("attempt", _TEXT),
        pa.field("line", _INT),  # line of a text file, from 1; NULL in captures and parquet
    ]
)

VIOLATIONS = pa.schema(
    [
        _required("link", _TEXT),
        _required("capture", _TEXT),
        _required("position", _INT),
        _required("skew", _INT),
        _required("timestamp", _INT),
        _required("arrival", _INT),
        _required("lateness", _INT),
    ]
)

OUTCOMES = ("not_of_protocol", "filtered", "failed", "sampled_out", "shed", "accepted")
"""Outcomes of a sane record in an LFTA; each record has one of them (A1)."""

LATER_OUTCOMES = ("sampled_out", "shed")
"""Outcomes that lakes of 0.1 have no columns for. Readers take NULL as 0."""

HEARTBEATS = pa.schema(
    [
        _required("query_set", _TEXT),
        _required("lfta", _TEXT),
        _required("link", _TEXT),
        _required("start", _INT),  # begin of the part of a minute that lies in the interval, ns
        _required("end", _INT),
        _required("sane", _INT),
        *(pa.field(outcome, _INT, outcome in LATER_OUTCOMES) for outcome in OUTCOMES),
        # The next columns depend on tables, chunks and the machine, and no result on them; NULL if nothing was counted.
        pa.field("rows_out", _INT),
        pa.field("ejections", _INT),
        pa.field("punctuations", _INT),
        pa.field("collisions", _INT),
        pa.field("records", _INT),  # records that the kernel processed, including the read range
        pa.field("groups", _INT),  # most groups in the table at once
        pa.field("slots", _INT),
        pa.field("nanoseconds", _INT),  # processor time; `beat_nanoseconds` is its part for punctuation
        pa.field("beat_nanoseconds", _INT),
        pa.field("period", _INT),  # time between ticks, ns; NULL for another policy
        pa.field("shape", _TEXT),  # what the LFTA computes
        pa.field("conjuncts", pa.list_(_TEXT)),  # conjuncts of its predicate
        pa.field("asked", pa.list_(_INT)),  # sampled records that evaluated each conjunct; `met`: that met it
        pa.field("met", pa.list_(_INT)),
    ]
)
"""Operator statistics. Accounts are by the minute of the timestamp, the columns after them by the minute of the link's
clock. Work outside of the interval counts in its first or last minute."""

REPLAYS = pa.schema(
    [
        _required("query_set", _TEXT),
        _required("query", _TEXT),  # empty for the whole set
        _required("interval_start", _INT),
        _required("interval_end", _INT),
        _required("stage", _TEXT),
        _required("state", _TEXT),
        _required("reason", _TEXT),
        _required("digest", _TEXT),
        pa.field("rows", _INT),
        pa.field("publication", _INT),  # number of the publication in the log of the table; NULL of other stages
        _required("settings", _TEXT),  # JSON, as the next two
        _required("timings", _TEXT),
        _required("accounting", _TEXT),
        _required("finished_at", _INT),
    ]
)

_OF_INTERVAL = [_required("query_set", _TEXT), _required("interval_start", _INT), _required("interval_end", _INT)]

QUALITY = pa.schema(
    [
        *_OF_INTERVAL,
        _required("suite", _TEXT),
        _required("expectation", _TEXT),  # its stable id
        _required("kind", _TEXT),  # its type, as the suite file names it
        _required("severity", _TEXT),  # warning or critical
        _required("success", pa.bool_()),
        _required("evaluated", _INT),  # number of subjects: links, LFTAs or queries
        _required("unexpected", _INT),  # number of subjects that broke the rule
        _required("messages", _TEXT),  # one a line
        _required("page", _TEXT),  # relative to reports/
        pa.field("title", _TEXT),  # the rule in words; NULL where an older version wrote the row
        _required("audited_at", _INT),
    ]
)
"""Results of the newest audit of every interval: a row for every expectation."""

QUARANTINE = pa.schema(
    [
        *_OF_INTERVAL,
        _required("suite", _TEXT),
        _required("expectation", _TEXT),
        _required("subject", _TEXT),  # the link, LFTA or query that broke the rule
        _required("total", _INT),  # rows of the subject that broke the rule; a bounded number of them is stored
        _required("row", _TEXT),  # JSON: a row of the stream in its published form, else the measures of the subject
        _required("kept_at", _INT),
    ]
)
"""Rows that failed the newest audit of their interval."""

METRICS = pa.schema(
    [
        *_OF_INTERVAL,
        _required("kind", _TEXT),  # kind of the subject: link or query
        _required("subject", _TEXT),
        _required("measure", _TEXT),
        _required("item", _TEXT),  # measured item of the subject: an address, a link type; else empty
        _required("value", pa.float64()),
        _required("measured_at", _INT),
    ]
)
"""History that audits compare with: measures of the links and queries of every interval, one a row."""

LATENESS = pa.schema(
    [
        _required("link", _TEXT),
        _required("month", _TEXT),  # month in which the interval begins, for example 2026-01
        _required("interval_start", _INT),
        _required("interval_end", _INT),
        _required("skew", _INT),  # skew in force at the measurement, ns
        _required("refused", _INT),  # records later than the skew
        _required("largest", _INT),
        _required("busiest", _INT),  # most records in one second of the link's clock
        _required("bounds", pa.list_(_INT)),  # bounds of the buckets, two significant digits, ns, ascending
        _required("counts", pa.list_(_INT)),  # records between a bound and the bound before it
        _required("measured_at", _INT),
    ]
)
"""Lateness of the records of every link and interval of arrival, as measured by the newest audit."""


MEASURES = {
    "links": "a row for each link of an interval: its account, coverage and change against earlier intervals",
    "lftas": "a row for each LFTA and link of an interval: the outcomes of its records",
    "queries": "a row for each output query of an interval: its stream, and change against earlier intervals",
    "rows": "a row for each expectation that people wrote for the rows of a query, and interval",
    "skew": "a row for each link and hour of an interval: records later than the skew, and what another one would do",
}
"""Tables of measures, by which the suites of the audit judge: those of the newest audit of every interval."""

LEDGERS = (
    *("contents", "sightings", "malformed", "skew_violations", "heartbeats", "replays", "quality", "quarantine"),
    *("metrics", "lateness"),
    *(f"measures/{name}" for name in MEASURES),
)
"""Ledgers that people read, by their folders."""
_MEASURED = pa.schema(
    [
        _required("query_set", _TEXT),
        _required("interval_start", _INT).with_metadata({"comment": "ns since 1970, UTC"}),
        _required("interval_end", _INT).with_metadata({"comment": "ns since 1970, UTC, exclusive"}),
        _required("measured_at", _INT).with_metadata({"comment": "ns since 1970, UTC"}),
    ]
)
_SHARES = ("_share", "_drift", "_warning", "_critical", "_growth")


def measures_schema(frame: pa.Schema) -> pa.Schema:
    """Schema of a table of measures, with comments; the name of a number says whether it is a duration or a share."""
    columns = []
    for each in frame:
        kind, comment = _INT, ""
        if pa.types.is_string(each.type) or pa.types.is_boolean(each.type):
            kind = each.type
        elif each.name.endswith("_ns"):
            comment = "ns"
        elif each.name.endswith(_SHARES):
            kind, comment = pa.float64(), "share, 0 to 1"
        columns.append(pa.field(each.name, kind, metadata={"comment": comment} if comment else None))
    return pa.schema([*_MEASURED, *columns])


def stream_schema(fields: tuple[ops.Field, ...]) -> pa.Schema:
    """Schema of `lfta/` tables: fields, CONTROL, and the partition column `interval`."""
    return pa.schema([*properties.stream_schema(fields), _required("interval", _TEXT)])


def result_schema(fields: tuple[ops.Field, ...]) -> pa.Schema:
    """Schema of `streams/` tables: published fields, CONTROL, and the partition column `interval`."""
    return pa.schema([*properties.result_schema(fields), _required("interval", _TEXT)])


def table_schema(fields: tuple[ops.Field, ...]) -> pa.Schema:
    """Schema of `tables/`: the columns of its rows, and the partition column `_hour`; with comments for other tools."""
    comments = {each.name: f"begin of {each.of}, UTC" for each in properties.instant_columns(fields)}
    comments |= {each.name: comment for each in fields if (comment := _comment(each))}
    comments |= {"_last": "last instant that could have changed the row, ns since 1970, UTC"}
    comments |= {"_hour": "hours since 1970 of _last, UTC; the partition"}
    columns = [*row_schema(fields), _required("_hour", _INT)]
    return pa.schema(
        [each.with_metadata({"comment": comments[each.name]}) if each.name in comments else each for each in columns]
    )


MOMENT = "instant, UTC"
"""Comment of a column of instants that is one of its query; one that is derived (S8) has another comment, or none."""


def _comment(field: ops.Field) -> str:
    """What a reader of a table should know of a column: its unit, or what its text is."""
    from lowwater.gsql.words import unit_name  # who makes a table of rows has the parser; who reads one need not
    from lowwater.plan.bind.durations import unit_of

    if field.type is ex.Type.INSTANT:
        return MOMENT
    if field.type in (ex.Type.IP, ex.Type.MAC):
        return f"{field.type.upper()} address, as text"
    unit = unit_of(field.temporal) if field.temporal is not None else None
    name = unit_name(unit) if unit is not None else ""
    return f"time in {name}" if name else ""


def row_schema(fields: tuple[ops.Field, ...]) -> pa.Schema:
    """Columns of published rows that their files have: published fields and their instants, and `_last`."""
    return pa.schema([*properties.visible_schema(fields), _required("_last", _INT)])


class _Folder:
    """A folder of a lake; with `shared` of what was ingested, which a trial has in the lake that it is of."""

    def __init__(self, name: str, shared: bool = False) -> None:
        self._name, self._shared = name, shared

    def __get__(self, lake: Lake, of: type[Lake]) -> PurePath:
        return (lake.source if self._shared else lake.root) / self._name


@dataclass(frozen=True)
class Lake:
    """The paths of a lake; picklable, for workers."""

    root: PurePath  # folder of the lake, or its prefix in an object store
    fence: Fence | None = field(default=None, compare=False)  # lease under which this process writes; None without one
    # folder of the lake whose packets, records and captures this one has too, of a trial; None without
    shared: PurePath | None = None

    packets = _Folder("packets", shared=True)
    contents = _Folder("contents", shared=True)
    sightings = _Folder("sightings", shared=True)
    statements = _Folder("statements", shared=True)
    malformed = _Folder("malformed", shared=True)
    violations = _Folder("skew_violations")
    heartbeats = _Folder("heartbeats")
    replays = _Folder("replays")
    quality = _Folder("quality")
    quarantine = _Folder("quarantine")
    metrics = _Folder("metrics")
    lateness = _Folder("lateness")
    states = _Folder("state")
    reports = _Folder("reports")
    work = _Folder("_work")
    locks = _Folder("_locks")

    def __post_init__(self) -> None:
        for folder in (self.root, self.shared):
            if folder is not None:
                untrusted.know(folder)
                open_tables.know(folder)

    @property
    def source(self) -> PurePath:
        """Folder with what was ingested."""
        return self.shared or self.root

    def records(self, link: str) -> PurePath:
        """Path of the table with the records of a link that are no packets."""
        return self.source / "records" / safe_name(link)

    def record_tables(self) -> list[PurePath]:
        """Paths of the tables with records that are no packets."""
        return paths.folders(self.source / "records") if paths.may_hold(self.source, "records") else []

    def table_of(self, link: str, records: bool) -> PurePath:
        """Path of the table with the records of a link: `packets/`, or its own if they are no packets."""
        return self.records(link) if records else self.packets

    def ledgers(self) -> list[PurePath]:
        return [self.contents, self.sightings, self.statements, self.malformed, *self.run_ledgers()]

    def all_tables(self) -> list[PurePath]:
        """Paths of every Delta table that the lake may have."""
        folders = [folder for name in ("tables", "streams") for folder in paths.folders(self.root / name)]
        folders += [folder for query_set in paths.folders(self.root / "lfta") for folder in paths.folders(query_set)]
        return [*self.ledgers(), self.packets, *self.record_tables(), *sorted(folders)]

    def run_ledgers(self) -> list[PurePath]:
        """Paths of the ledgers to which the run of an interval writes."""
        per_interval = [self.violations, self.heartbeats, self.quality, self.quarantine, self.metrics, self.lateness]
        return [self.replays, *per_interval, *self.all_measures()]

    def packed_ledgers(self) -> list[PurePath]:
        """Paths of the ledgers whose small files are in the pack of logs: each run reads them, or adds to them."""
        read = self.contents, self.sightings, self.replays, self.heartbeats, self.metrics, self.lateness
        return [*read, self.quality, *self.all_measures()]

    def all_measures(self) -> list[PurePath]:
        """Paths of the tables of measures, which no run reads."""
        return [self.measures(name) for name in MEASURES]

    def measures(self, name: str) -> PurePath:
        return self.root / "measures" / name

    def lfta(self, query_set: str, node: str) -> PurePath:
        return self.root / "lfta" / safe_name(query_set) / safe_name(node)

    def stream(self, query: str) -> PurePath:
        """Path of the table with a query's rows and punctuation."""
        return self.root / "streams" / safe_name(query)

    def table(self, query: str) -> PurePath:
        return self.root / "tables" / safe_name(query)


NO_LAKE = (
    "name the folder of a lake, or its address s3://BUCKET/PREFIX; `lowwater init CAPTURES --lake {lake}` makes one"
)
UNWRITABLE = "this command writes to the lake: run it as a user who may; to read it takes no such right"


def make_records_table(path: PurePath, columns: pa.Schema) -> None:
    """Creates the table of a link with other records than packets, and adds the columns that it lacks.
    Raises LakeError if the table cannot be created."""
    keys = [*schemas.IDENTITY, _required("timestamp", _INT)]
    objects.look_again(path.parent, path.parent.parent)
    create(path, pa.schema([*keys, *columns, _required("link", _TEXT), _required("hour", _INT)]), ["link", "hour"])


TRIAL = "trial.json"
"""File of a trial of a lake, which `lowwater try` makes; results are read in its folder as in a lake."""


RESTORING = "restoring.json"
"""File of a folder to which a backup is being restored: it is no lake before all is there, and this file is gone."""


def is_lake(root: PurePath) -> bool:
    """Whether a folder or a prefix is a lake, or a trial: it has settings, which `init` writes, or ledgers, as older
    versions made without them. A part of a lake, to which a backup is being restored, is none.
    Raises OSError if it may not be looked into, and LakeError if it has another format."""
    names = paths.names_in(root)
    if RESTORING in names:
        return False
    found = not names.isdisjoint((documents.FILE_NAME, TRIAL, FORMAT)) or {"captures", "packets"} <= names
    if found:
        _require_format(root, names)
    return found


FORMAT = "_format=2"
"""File in the folder of a lake whose name says by which layout the facts of its files are kept. It is empty."""


def is_format_1(names: Collection[str]) -> bool:
    """Whether a folder in which are these names is a lake of format 1."""
    return not {FORMAT, RESTORING} & set(names) and {"captures", "packets"} <= set(names)


RENAMING = "renaming.json"
"""File of a lake in which a link, query or query set is being renamed or moved: until it is gone, only who does so
opens the lake."""

_OPENED_BY_NAMES = set[PurePath]()


@contextmanager
def renaming(root: PurePath) -> Iterator[None]:
    """Lets this process open a lake in which it changes names."""
    _OPENED_BY_NAMES.add(root)
    try:
        yield
    finally:
        _OPENED_BY_NAMES.discard(root)


def _require_format(root: PurePath, names: Collection[str]) -> None:
    """Raises LakeError if a lake, in whose folder are these names, has another format than this version reads, or its
    names are being changed."""
    if RENAMING in names and root not in _OPENED_BY_NAMES:
        raise errors.LakeError(
            f"{root}: names in it are being changed, or a command that did so was ended",
            f"`lowwater rename --resume --lake {shlex.quote(str(root))}` goes on, unless it is at work still",
        )
    other = next((name for name in names if name.startswith(_FORMAT) and name != FORMAT), None)
    if other is not None:
        text = f"{root}: is a lake of format {other.removeprefix(_FORMAT)}, and this version of Lowwater reads format 2"
        raise errors.LakeError(text, "install the version that made it, or a later one")
    if is_format_1(names):
        text = f"{root}: is a lake of format 1, and this version of Lowwater reads format 2"
        raise errors.LakeError(text, f"lowwater upgrade --lake {shlex.quote(str(root))} makes one of format 2 of it")


_FORMAT = "_format="

_CLOSED = "a lake of format 2, for Lowwater 0.3 or later"


def closing_entry(version: int) -> bytes:
    """Returns an entry of the log of `captures` of format 1 behind which no program reads or writes that ledger: it
    asks for a feature that none has, whose name is what older versions say."""
    features = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": [_CLOSED], "writerFeatures": [_CLOSED]}
    actions: list[dict[str, object]] = [{"protocol": features}]
    if not version:
        table = {"format": {"provider": "parquet", "options": {}}, "partitionColumns": [], "configuration": {}}
        column = {"name": "capture", "type": "string", "nullable": True, "metadata": {}}
        schema = json.dumps({"type": "struct", "fields": [column]})
        actions.append({"metaData": {"id": str(uuid.uuid4()), **table, "schemaString": schema, "createdTime": 0}})
    return "".join(json.dumps(action) + "\n" for action in actions).encode()


def is_closing(entry: bytes) -> bool:
    """Whether an entry of the log is one of `closing_entry`."""
    return _CLOSED.encode() in entry.partition(b"\n")[0]


def close_format_1(root: PurePath) -> None:
    """Has programs that know format 1 only say in one line that they cannot read a lake of format 2.
    Raises OSError if that cannot be written."""
    entry = open_tables.commit_file(root / documents.OF_FORMAT_1[0], 0)
    paths.make_folders(entry.parent)
    paths.add(entry, closing_entry(0))


def lake_to_read(root: str | PurePath) -> Lake:
    """Returns a lake of which nothing is made or written.
    Raises LakeError if there is no lake, or it may not be read."""
    path = paths.lake_path(root)
    try:
        found = is_lake(path)
    except OSError as error:
        hint = hint_in_lake(error, "check that it can be read")
        raise errors.LakeError(f"{path}: cannot be read: {error.strerror}", hint) from error
    if not found and RESTORING in paths.names_in(path):
        raise errors.LakeError(
            f"{path}: a backup was not restored to its end here", "run the same `lowwater restore` again: it goes on"
        )
    if not found:
        raise errors.LakeError(f"{path}: there is no lake", NO_LAKE.format(lake=shlex.quote(str(root))))
    lake = Lake(path)
    untrusted.require_plain_folder(path)
    return lake


def make_ledgers(lake: Lake, runs: bool = True, whole: bool = False) -> None:
    """Makes the folders and ledgers that a lake lacks, without `runs` those of ingests only; `whole` says that it is
    known to lack no ledger. Who writes to it calls this first; what this process makes from then on is private
    (`paths.keep_private`).
    Raises LakeError if they cannot be made."""
    root = lake.root
    untrusted.require_plain_folder(root)
    paths.keep_private()
    try:
        paths.share_with_group(root)
        unwritable = paths.make_folders(root, lake.work, lake.locks)
    except OSError as error:
        raise errors.LakeError(f"{root}: cannot be written: {error.strerror}", hint_of(error, UNWRITABLE)) from error
    for folder in unwritable:
        raise errors.LakeError(f"{folder}: cannot be written: permission denied", UNWRITABLE)
    names = paths.names_in(root)
    _require_format(root, names)
    for path, schema, partition in () if whole else _missing(lake, names):
        if runs or path not in lake.run_ledgers():
            create(path, schema, partition)
    if lake.shared is None and not {FORMAT, documents.OF_FORMAT_1[0]} <= names:
        with lake_errors(f"{root / FORMAT}: cannot be written"):
            paths.write(root / FORMAT, b"")
            close_format_1(root)
    if isinstance(root, ObjectPath) and _layout(lake) not in names:
        with suppress(OSError):  # who may only read a lake looks at each ledger
            paths.write(root / _layout(lake), b"")
            for name in (each for each in names if each.startswith(LAYOUT)):
                paths.remove(root / name)
            objects.look_again(root)


def make_facts(lake: Lake) -> None:
    """Makes the tables of facts of files, empty. Raises LakeError if they cannot be made."""
    create(lake.contents, CONTENTS, ["link"])
    create(lake.sightings, SIGHTINGS)


def open_lake(root: PurePath, make: bool = True, shared: PurePath | None = None, runs: bool = True) -> Lake:
    """Opens a lake to write to it; with `make` a missing one is made, with the packets, records and captures of another
    lake if that is `shared`. `runs` as of `make_ledgers`: False in a lake that lives as long as its command.
    Raises LakeError if the lake cannot be created, read or written."""
    lake = Lake(paths.lake_path(root), shared=shared) if make else lake_to_read(root)
    make_ledgers(lake, runs)
    return lake


LAYOUT = "_ledgers"
"""What the name of an object of a lake in a store begins with that says by which layout its ledgers were made: opening
each to look takes requests, and names are listed anyway."""


def _ledgers(lake: Lake) -> list[tuple[PurePath, pa.Schema, list[str]]]:
    return [
        (lake.packets, PACKETS, ["link", "hour"]),
        (lake.contents, CONTENTS, ["link"]),
        (lake.malformed, MALFORMED, ["link"]),
        (lake.violations, VIOLATIONS, ["link"]),
        (lake.heartbeats, HEARTBEATS, ["query_set"]),
        (lake.replays, REPLAYS, ["query_set"]),
        (lake.quality, QUALITY, ["query_set"]),
        (lake.quarantine, QUARANTINE, ["query_set"]),
        (lake.metrics, METRICS, ["query_set"]),
        (lake.lateness, LATENESS, ["link", "month"]),
    ]


def _missing(lake: Lake, names: Collection[str]) -> list[tuple[PurePath, pa.Schema, list[str]]]:
    """Returns the ledgers that are to be made, or may lack columns, in a lake in whose folder are these names."""
    ledgers = _ledgers(lake)
    if not isinstance(lake.root, ObjectPath) or _layout(lake) not in names:
        return ledgers
    there = {folder for parent in {lake.root, lake.source} for folder in paths.folders(parent)}
    return [ledger for ledger in ledgers if ledger[0] not in there]


def _layout(lake: Lake) -> str:
    """The name of the object that says which columns the ledgers have, and where they are."""
    text = "\n".join(f"{path}: {schema} {partition}" for path, schema, partition in _ledgers(lake))
    return f"{LAYOUT}={sha256(text.encode()).hexdigest()[:16]}"

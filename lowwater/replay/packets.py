"""Packets of a lake again: exports by a condition as a capture (other records as a table), and the packets of a row.

From a published row to the packets that it counted, its group is turned into conditions. The plan of the query gives
each GROUP BY variable as an expression over packets. A condition says that the expressions have the values of the row.
Where the packets are no function of the row, an error says why.
"""

from __future__ import annotations

import heapq
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from lowwater import errors, limits
from lowwater.capture.content.retention import EVERYTHING, ContentOptions, has_times_of_file, resolution_of
from lowwater.capture.formats import capture_file
from lowwater.capture.reader import digest, read
from lowwater.capture.records.parts import IN_FILE, ReadingOrder
from lowwater.capture.tables.options import READER_VERSION, TableOptions
from lowwater.catalog import expr as ex
from lowwater.catalog.protocols import PROTOCOLS
from lowwater.catalog.records import ISO, RecordField, stored_parts
from lowwater.catalog.schemas import FRAME, READABLE, stored
from lowwater.catalog.time import is_late, link_skews
from lowwater.catalog.values import format_ip, ip_from_words, pack_ip, parse_mac
from lowwater.config import Config, section_of
from lowwater.gsql import nodes as syntax, parser
from lowwater.instants import SECOND, parse_moment
from lowwater.lake.ingestion.record_options import record_options
from lowwater.lake.keys import outdated
from lowwater.lake.layout import Lake
from lowwater.lake.ledgers.captures import Capture, Captures, ingested_links, read_captures, standing_for
from lowwater.lake.packets import LinkRead, PacketFile, PacketFiles, packet_files, read_packets
from lowwater.low.predicate import Predicate
from lowwater.plan import definitions, operators as ops, properties, temporal
from lowwater.plan.context import Context, Links
from lowwater.plan.queryset import QueryPlan, plan_texts
from lowwater.replay.row_files import spreadsheet_rows
from lowwater.storage.captures import capture_path
from lowwater.storage.paths import local

# A WHERE clause over stored packets, read without a query.
QUERY_START = "SELECT 1 AS chosen FROM packets.{} WHERE\n"


def read_predicate(
    text: str | None, protocol: str = "ETH", context: Context | None = None, kind: str = "pcap"
) -> Predicate:
    """Binds the text of a WHERE clause, None for every record, over the columns of a protocol of a context, None for
    the built-in ones.
    Raises QueryError if the clause is wrong, marked in the text; QueryErrors for several errors, and ConfigError if
    there is no such protocol."""
    protocols = PROTOCOLS if context is None else context.protocols
    if protocol not in protocols:
        raise errors.ConfigError(
            f"--protocol {protocol}: there is no such protocol", errors.nearest(protocol, protocols)
        )
    if text is None:
        return Predicate(protocols[protocol].member, None)
    source = text.replace("\r\n", "\n").replace("\r", "\n")
    query = QUERY_START.format(protocol)
    try:
        statements = parser.parse(query + source).statements
        plain = parser.parse(query.removesuffix("WHERE\n")).statements
        if [replace(each, where=None) for each in statements if isinstance(each, syntax.Select)] != [*plain]:
            raise errors.QueryError(
                "more than one condition", "write one expression, for example: srcPort = 53", "", 2, 1
            )
        links = Links(("packets",), kinds={} if kind == "pcap" else {"packets": kind})
        plan = plan_texts([("export", query + source)], links, context=context)
    except errors.QueryError as error:
        errors.raise_all(
            [_in_text(cause, source) for cause in (error.errors if isinstance(error, errors.QueryErrors) else (error,))]
        )
    node = plan.queries[0].logical
    assert isinstance(node, ops.Map) and isinstance(node.input, ops.Source)
    for expr in ex.walk(node.predicate) if node.predicate else ():
        if isinstance(expr, ex.StateCall) or (isinstance(expr, ex.Call) and expr.function.value is None):
            line, column = expr.place
            message = f"{expr.function.name} cannot be computed for one packet"
            raise errors.UnsupportedError(message, "", OPTION, line - 1, column, source)
    return Predicate(node.input.member, node.predicate)


OPTION = "--where"


def _in_text(error: errors.QueryError, source: str) -> errors.QueryError:
    """Moves an error to its place in the clause: the query has one more line before it."""
    line, column = (error.line - 1, error.column) if error.line > 1 else (1, 1)
    hint = re.sub(r"(?<= at )\d+(?=:\d)", lambda match: str(int(match[0]) - 1), error.hint)
    return type(error)(error.message, hint, OPTION, line, column, source)


# Exports of a lake: packets as a capture, records of other kinds as a table; by time and a WHERE clause.

# Frames read from the capture files themselves, for packets whose bytes the lake did not keep. A file is found by the
# path in the ledger, and is used only if its SHA-256 is that of the ingest.

NAMED = 5
"""Most files that a message names."""


class CaptureFrames:
    """The frames of packets of one capture at chosen positions, read forward once; about one window of the file is in
    memory."""

    def __init__(
        self, path: Path, positions: NDArray[np.int64], kept: str | None, order: ReadingOrder = IN_FILE
    ) -> None:
        self._path, self._positions, self._kept, self._order = path, np.unique(positions), kept, order
        self._batches = self._read()
        self._ahead: dict[int, bytes] = {}

    def _read(self) -> Iterator[pa.RecordBatch]:
        # Which packets have a time depends on these; which time does not matter.
        untimed = 0 if has_times_of_file(self._kept) else None
        content = ContentOptions(EVERYTHING, untimed=untimed, resolution=resolution_of(self._kept))
        columns, jump = ["position", FRAME], temporal.END_OF_TIME
        yield from read(self._path, jump, sha256="-", content=content, columns=columns, order=self._order)

    def frame(self, position: int) -> bytes:
        """Returns the captured bytes of a packet; positions must be asked for nearly in order.
        Raises LakeError if the file does not hold the record."""
        while position not in self._ahead:
            batch = next(self._batches, None)
            if batch is None:
                hint = "ingest the capture again"
                raise errors.LakeError(f"{self._path}: has no record {position}, which the lake has", hint)
            found = pc.is_in(batch.column("position"), pa.array(self._positions))
            chosen = batch.filter(found)
            numbers, frames = (chosen.column(name).to_pylist() for name in ("position", FRAME))
            self._ahead.update((number, frame or b"") for number, frame in zip(numbers, frames, strict=True))
        return self._ahead.pop(position)


def frame_sources(
    link: str,
    captures: Sequence[Capture],
    wanted: Mapping[str, Sequence[NDArray[np.int64]]],
    file_of: Callable[[Capture], Path],
) -> dict[str, CaptureFrames]:
    """Opens the files of the captures whose frames are wanted. `wanted`: identity of a capture -> arrays of positions.
    Raises LakeError if the addresses of a capture were replaced, or files are gone or have changed; the message names
    them."""
    chosen = [capture for capture in captures if capture.capture in wanted]
    if any(capture.key for capture in chosen):
        raise errors.LakeError(
            f"link {link!r}: its addresses are anonymised, so the bytes of its capture files are not given out",
            "leave `anonymise` out and ingest the captures again, if the addresses may be seen",
        )
    gone = [text for capture in chosen if (text := _fault(capture, file_of(capture)))]
    if gone:
        more = f", and {len(gone) - NAMED} more" if len(gone) > NAMED else ""
        raise errors.LakeError(
            f"link {link!r}: the lake kept no bytes of the frames, and their files cannot be read: "
            f"{', '.join(gone[:NAMED])}{more}",
            "bring the files back to their places, or set `payload` and ingest them again",
        )
    return {
        capture.capture: CaptureFrames(
            file_of(capture),
            np.concatenate(wanted[capture.capture]),
            capture.kept,
            ReadingOrder.parse(capture.parts),
        )
        for capture in chosen
    }


def _fault(capture: Capture, path: Path) -> str:
    """Returns why the file of a capture cannot be used, with its path; empty if it can."""
    try:
        if not path.is_file():
            return f"{path} (is gone)"
        return "" if digest(path) == capture.file_digest else f"{path} (has changed)"
    except (OSError, errors.LowwaterError):
        return f"{path} (cannot be read)"


# Packets as a capture. A first pass surveys them, so that a file is only begun if it can be written whole.

ETHERNET = "EN10MB"
Admitted = Mapping[tuple[str, str], Sequence[NDArray[np.int64]]]
"""(link, capture) -> arrays of positions."""


@dataclass(frozen=True)
class _LinkPackets:
    """The packets of one link that a selection reads."""

    read: LinkRead  # its files; the read range is [start, end) of the selection
    link_types: dict[str, str]  # capture -> name of its link type
    captures: Sequence[Capture]
    file_of: Callable[[Capture], Path]


@dataclass
class Selection:
    """The packets that a predicate selects, as surveyed in a first pass."""

    feeds: tuple[_LinkPackets, ...]
    predicate: Predicate
    admitted: Admitted | None = None  # (link, capture) -> positions of the packets that may be selected; None for all
    packets: int = 0
    cut: int = 0  # packets of which less is stored than was captured
    kept: int = 0  # largest number of bytes stored of a cut packet
    # (link, link type) of the packets, in order of the links
    interfaces: list[tuple[str, str]] = field(default_factory=list)
    nanoseconds: bool = False  # whether a timestamp is not a whole microsecond
    latest: int = 0  # largest timestamp, ns
    snaplen: int = capture_file.SNAPLEN  # upper limit of the frame length, bytes
    # (link, capture) -> positions of packets whose frames are read from the capture file
    absent: dict[tuple[str, str], list[NDArray[np.int64]]] = field(default_factory=dict)

    @property
    def link_types(self) -> list[str]:
        """The link types, without duplicates."""
        return list(dict.fromkeys(link_type for _, link_type in self.interfaces))


def exported_links(lake: Lake, config: Config, names: Sequence[str]) -> list[str]:
    """Resolves names of links, sets and captures with interface links; no name stands for all links of packets.

    A link of other records than packets is alone in the list.
    Raises LakeError if the lake has no captures, and ConfigError if a name stands for no link with captures, or there
    are several links, and one has other records."""
    ingested = ingested_links(lake)
    if not ingested:
        raise errors.LakeError(f"{lake.root}: the lake has no captures", "take some in with `lowwater ingest`")
    packets = [link for link in ingested if config.link(link).kind == "pcap"]
    selected: list[str] = []
    for link in (link for name in names for link in config.sets.get(name, (name,))):
        matches = standing_for(link, ingested)
        if not matches:
            raise errors.ConfigError(
                f"--link: link {link!r} has no captures in the lake", errors.nearest(link, ingested)
            )
        selected += matches
    chosen = list(dict.fromkeys(selected or packets or ingested))
    others = [link for link in chosen if link not in packets]
    if others and len(chosen) > 1:
        raise errors.ConfigError(
            f"--link: link {others[0]!r} has {config.link(others[0]).kind} records, and they are exported alone",
            f"name one of them: --link {others[0]}",
        )
    return chosen


def select(
    lake: Lake,
    config: Config,
    links: Sequence[str],
    predicate: Predicate,
    start: int = 0,
    end: int = temporal.END_OF_TIME,
    progress: Callable[[int], None] = lambda packets: None,
    admitted: Admitted | None = None,
) -> Selection:
    """Surveys the packets with a timestamp in [start, end), ns, that a predicate selects. `admitted`: those that may be
    selected; None for all.
    Raises LakeError: frames of some packets are neither stored nor in their files, a link type is unknown, or the lake
    cannot be read."""
    captures, files = read_captures(lake, links), PacketFiles.of(lake)
    feeds = []
    for link in links:
        settings = config.link(link)
        read = packet_files(files, link, captures[link], settings, start, end, end)
        types = {capture.capture: capture.link_type for capture in captures[link]}
        feeds.append(_LinkPackets(read, types, captures[link], lambda capture: capture_path(capture.path)))
    selection = Selection(tuple(feeds), predicate, admitted)
    for feed in feeds:
        for capture, interface, batch in _selected(feed, predicate, admitted):
            _survey(selection, feed.read.link, capture, interface, batch)
            progress(selection.packets)
        _sources(selection, feed)  # refuses files that are gone before anything is written
    if not selection.interfaces:
        numbered = [(feed.read.link, kind) for feed in feeds for kind in feed.link_types.values() if _numbered(kind)]
        selection.interfaces = numbered[:1] or [(links[0], ETHERNET)]
    return selection


def _sources(selection: Selection, feed: _LinkPackets) -> dict[str, CaptureFrames]:
    """Opens the capture files of a link whose frames are not stored."""
    link = feed.read.link
    wanted = {capture: positions for (name, capture), positions in selection.absent.items() if name == link}
    return frame_sources(link, feed.captures, wanted, feed.file_of)


def _absent(batch: pa.RecordBatch) -> pa.Array:
    """Which packets have captured bytes, and no stored frame."""
    return pc.and_(batch.column(FRAME).is_null(), pc.greater(batch.column("caplen"), 0))


def _survey(selection: Selection, link: str, capture: str, link_type: str, batch: pa.RecordBatch) -> None:
    absent = _absent(batch)
    if pc.any(absent).as_py():
        positions = batch.column("position").filter(absent).to_numpy()
        selection.absent.setdefault((link, capture), []).append(positions)
    stored = pc.fill_null(pc.cast(pc.binary_length(batch.column(FRAME)), pa.int64()), 0)
    lengths = pc.if_else(absent, pc.cast(batch.column("caplen"), pa.int64()), stored)
    cut = pc.less(lengths, batch.column("caplen"))
    selection.cut += pc.sum(cut).as_py()
    selection.kept = max(selection.kept, pc.max(lengths.filter(cut)).as_py() or 0)
    selection.packets += batch.num_rows
    stamps = batch.column("timestamp").to_numpy()
    selection.nanoseconds |= bool(np.any(stamps % 1000))
    selection.latest = max(selection.latest, int(stamps.max()))
    selection.snaplen = max(selection.snaplen, pc.max(lengths).as_py())
    if (link, link_type) not in selection.interfaces:
        if not _numbered(link_type):
            raise errors.LakeError(
                f"link {link!r}: the link type of some of its packets is not known: {link_type}",
                "make each interface of its captures a link of its own, and ingest them again",
            )
        selection.interfaces.append((link, link_type))


def require_frames(batch: pa.RecordBatch, link: str, packets: str) -> None:
    """Refuses packets whose captured bytes are not stored.
    Raises LakeError if a packet has captured bytes, and the lake none of them."""
    if pc.any(_absent(batch)).as_py():
        raise errors.LakeError(
            f"link {link!r}: the lake stores no bytes of the frames {packets}",
            f"set `payload` in {section_of(link.partition('/')[0])} to the bytes of each payload to keep, and ingest "
            "its captures again",
        )


def _selected(
    feed: _LinkPackets, predicate: Predicate, admitted: Admitted | None
) -> Iterator[tuple[str, str, pa.RecordBatch]]:
    """Yields (capture, link type, selected packets) in the order of the link; no batch is empty."""
    read = feed.read
    test = predicate.test(read.link)
    low, high = max(read.read_from, read.since), min(read.end, read.until)
    names = list(dict.fromkeys(["arrival", "timestamp", "position", "len", "caplen", FRAME, *predicate.columns]))
    for file in read.files:
        try:
            for batch in _batches(file, names, low, high):
                if predicate.reads_payload:
                    require_frames(batch, read.link, "whose payload the condition asks for")
                chosen = batch.filter(pa.array(test(batch)))
                if admitted is not None:
                    positions = admitted.get((read.link, file.capture), [])
                    inside = pa.chunked_array(positions, pa.int64()).combine_chunks()
                    chosen = chosen.filter(pc.is_in(chosen.column("position"), inside))
                if chosen.num_rows:
                    yield file.capture, feed.link_types[file.capture], chosen
        except OSError as error:
            raise errors.LakeError(
                f"{file.path}: packets of link {read.link!r} cannot be read: {error.strerror or error}",
                "if the capture was ingested anew meanwhile, export again",
            ) from error


def _batches(file: PacketFile, names: list[str], low: int, high: int) -> Iterator[pa.RecordBatch]:
    """Reads the packets of a file within [low, high), ns, with absolute arrivals; a missing column is NULL."""
    with pq.ParquetFile(local(file.path)) as content:
        stored = content.schema_arrow.names
        for group in range(content.num_row_groups):
            if not _meets(content.metadata.row_group(group), stored, low, high):
                continue
            rows = _rows_at_once(content.metadata.row_group(group), stored)
            for batch in content.iter_batches(
                rows, [group], [name for name in names if name in stored], use_threads=False
            ):
                columns = [_column(batch, name) for name in names]
                columns[0] = pc.max_element_wise(columns[0], pa.scalar(file.clock, pa.int64()))
                whole = pa.RecordBatch.from_arrays(columns, names)
                stamps = whole.column("timestamp")
                inside = whole.filter(pc.and_(pc.greater_equal(stamps, low), pc.less(stamps, high)))
                if inside.num_rows:
                    yield inside


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    if name in batch.schema.names:
        return batch.column(name)
    return pa.nulls(batch.num_rows, READABLE.field(name).type)


def _meets(group: pq.RowGroupMetaData, names: list[str], low: int, high: int) -> bool:
    bounds = group.column(names.index("timestamp")).statistics
    return bounds is None or not bounds.has_min_max or (bounds.min < high and bounds.max >= low)


def _rows_at_once(group: pq.RowGroupMetaData, names: list[str]) -> int:
    """The number of rows whose frames take about 32 MiB."""
    size = int(group.column(names.index(FRAME)).total_uncompressed_size) if FRAME in names else 0
    return max(256, min(65_536, limits.EXPORT_BATCH_BYTES * int(group.num_rows) // max(size, 1)))


def write_selection(selection: Selection, form: str, write: Callable[[bytes], object]) -> None:
    """Writes the selected packets as a capture, of the form `pcap` or `pcapng`; several links are merged by (arrival,
    link). Raises ConfigError if the format cannot hold the packets."""
    numbers = {link_type: _number(link_type) for link_type in selection.link_types}
    if form == "pcapng":
        for kind, number in numbers.items():
            if number >= capture_file.PCAPNG_LINK_TYPES:
                raise errors.ConfigError(f"a pcapng cannot say the link type {kind}", "give --format pcap")
        interfaces = [capture_file.WrittenInterface(link, numbers[kind]) for link, kind in selection.interfaces]
        write(capture_file.pcapng_header(interfaces, selection.snaplen))
        for _, _, interface, stamp, wire, frame in _merged(selection):
            write(capture_file.pcapng_record(interface, stamp, wire, frame))
        return
    _check_pcap(selection)
    nanoseconds = selection.nanoseconds
    write(capture_file.pcap_header(numbers[selection.link_types[0]], nanoseconds, selection.snaplen))
    for _, _, _, stamp, wire, frame in _merged(selection):
        write(capture_file.pcap_record(stamp, wire, frame, nanoseconds))


def _check_pcap(selection: Selection) -> None:
    if len(selection.link_types) > 1:
        kinds = ", ".join(sorted(f"{link} has {kind}" for link, kind in selection.interfaces))
        raise errors.ConfigError(f"a pcap has one link type, and {kinds}", "give --format pcapng, or one --link")
    if selection.latest >= capture_file.PCAP_SECONDS * SECOND:
        raise errors.ConfigError("a pcap cannot say the time of packets after 2106", "give --format pcapng")


def _numbered(link_type: str) -> bool:
    """Whether a text is a single link type, by name or number."""
    return link_type in capture_file.LINK_NUMBERS or link_type.isdecimal()


def _number(link_type: str) -> int:
    return capture_file.LINK_NUMBERS[link_type] if link_type in capture_file.LINK_NUMBERS else int(link_type)


Row = tuple[int, int, int, int, int, bytes]
"""Arrival (ns), number of the link, interface, timestamp (ns), length on the wire, stored part of the frame."""


def _merged(selection: Selection) -> Iterator[Row]:
    feeds = [_rows(selection, place) for place in range(len(selection.feeds))]
    return feeds[0] if len(feeds) == 1 else heapq.merge(*feeds, key=lambda row: row[:2])


def _rows(selection: Selection, place: int) -> Iterator[Row]:
    feed = selection.feeds[place]
    sources = _sources(selection, feed)
    for capture, link_type, batch in _selected(feed, selection.predicate, selection.admitted):
        interface = selection.interfaces.index((feed.read.link, link_type))
        columns = [batch.column(name).to_pylist() for name in ("arrival", "timestamp", "len", FRAME)]
        absent, positions = _absent(batch).to_pylist(), batch.column("position").to_pylist()
        for at, (arrival, stamp, wire, frame) in enumerate(zip(*columns, strict=True)):
            whole = sources[capture].frame(positions[at]) if absent[at] else frame or b""
            yield arrival, place, interface, stamp, wire, whole


# Records that are no packets as CSV, JSON lines or parquet. The file has the fields of the protocol under their
# names. A time in text is written with the digits that the record had where it is the clock, else in whole units.

_ISO, _SECONDS = pa.timestamp("ns", "UTC"), pa.decimal128(28, 9)
_BILLIONTH = Decimal("0.000000001")
_ARROW = {ex.Type.BOOL: pa.bool_(), ex.Type.INT: pa.int64(), ex.Type.FLOAT: pa.float64(), ex.Type.STRING: pa.string()}


@dataclass(frozen=True)
class RecordSelection:
    """The records of a link in a range that a predicate selects."""

    lake: Lake
    config: Config
    link: str
    options: TableOptions
    predicate: Predicate
    start: int
    end: int

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([pa.field(field.name, _exported_type(field)) for field in self.options.layout.fields])

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the selected records in the order of the link; no batch is empty.
        Raises LakeError if files must be ingested again, or cannot be read."""
        settings, layout = self.config.link(self.link), self.options.layout
        captures = read_captures(self.lake, [self.link])[self.link]
        late = outdated(captures, settings, READER_VERSION, self.start, self.end, self.options)
        if late:
            raise errors.LakeError(late[0].removesuffix(": ingest it again"), "ingest it again")
        parts = [part for field in layout.fields for part in stored_parts(field.stored)]
        columns = list(dict.fromkeys([*parts, *(name for name in self.predicate.columns if name != "timestamp")]))
        read = read_packets(self.lake, self.link, captures, settings, self.start, self.start, self.end, columns)
        test = self.predicate.test(self.link)
        for batch in read:
            stamps = batch.column("timestamp")
            inside = batch.filter(pc.and_(pc.greater_equal(stamps, self.start), pc.less(stamps, self.end)))
            chosen = inside.filter(pa.array(test(inside))) if inside.num_rows else inside
            if chosen.num_rows:
                values = [_exported(chosen, field, field.stored == layout.clock) for field in layout.fields]
                yield pa.RecordBatch.from_arrays(values, schema=self.schema)


def select_records(lake: Lake, config: Config, link: str, where: str | None, start: int, end: int) -> RecordSelection:
    """Finds how the records of a link that are no packets are read, and binds the condition; None for every record.
    Raises ConfigError if the settings do not name the protocol of the link, and QueryError if the condition is wrong.
    """
    options = record_options(config, link)
    assert options is not None, "the caller asks for links of records"
    context = definitions.make_context(Links(), [*config.link_schemas])
    predicate = read_predicate(where, options.layout.protocol, context, options.kind)
    return RecordSelection(lake, config, link, options, predicate, start, end)


def write_records(
    selection: RecordSelection,
    form: str,
    out: IO[bytes],
    progress: Callable[[int], None] = lambda records: None,
    spreadsheet: bool = False,
) -> int:
    """Writes the selected records in one of FORMATS, for a `spreadsheet` without texts that it would take for formulas.
    Returns their number.
    Raises LakeError if files must be ingested again, or cannot be read, and OSError if the file cannot be written."""
    schema, batches = selection.schema, selection.batches()
    if spreadsheet:
        schema = spreadsheet_rows(pa.RecordBatch.from_pylist([], schema)).schema
        batches = map(spreadsheet_rows, batches)
    write, close = _writer(schema, form, out)
    count = 0
    for batch in batches:
        write(batch)
        count += batch.num_rows
        progress(count)
    close()
    return count


def _writer(schema: pa.Schema, form: str, out: IO[bytes]) -> tuple[Callable[[pa.RecordBatch], Any], Callable[[], Any]]:
    if form == "csv":
        # Quotes around every text: an empty one is not NULL.
        csv = pcsv.CSVWriter(out, schema)
        return csv.write_batch, csv.close
    if form == "parquet":
        parquet = pq.ParquetWriter(out, schema, compression="zstd")
        return lambda batch: parquet.write_batch(batch, row_group_size=limits.GROUP_ROWS), parquet.close
    return lambda batch: out.writelines(_json_lines(batch)), lambda: None


def _json_lines(batch: pa.RecordBatch) -> Iterator[bytes]:
    names = [json.dumps(name) for name in batch.schema.names]
    columns = [_json_values(column) for column in batch.columns]
    for row in zip(*columns, strict=True):
        yield ("{" + ", ".join(f"{name}: {value}" for name, value in zip(names, row, strict=True)) + "}\n").encode()


def _json_values(column: pa.Array) -> list[str]:
    """Returns the values as JSON: times as texts in ISO 8601, or as numbers with all digits."""
    if column.type == _SECONDS:
        return ["null" if value is None else str(value) for value in column.to_pylist()]
    values = column.cast(pa.string()) if column.type == _ISO else column
    return [json.dumps(value) for value in values.to_pylist()]


def _exported_type(field: RecordField) -> pa.DataType:
    if field.form:
        return _ISO if field.form == ISO else _SECONDS
    return _ARROW.get(field.type, pa.string())


def _exported(batch: pa.RecordBatch, field: RecordField, clock: bool) -> pa.Array:
    parts = [batch.column(name) for name in stored_parts(field.stored)]
    if field.type is ex.Type.IP:
        return _addresses(*parts)
    if not field.form:
        return parts[0]
    instants = batch.column("timestamp") if clock else pc.multiply(parts[0], pa.scalar(field.unit, pa.int64()))
    if field.form == ISO:
        return instants.cast(_ISO)
    return pc.multiply(instants.cast(pa.decimal128(19, 0)), pa.scalar(_BILLIONTH)).cast(_SECONDS)


def _addresses(version: pa.Array, high: pa.Array, low: pa.Array) -> pa.Array:
    @cache
    def text(words: tuple[int, int, int]) -> str:
        return format_ip(ip_from_words(*words))

    every = zip(version.to_pylist(), high.to_pylist(), low.to_pylist(), strict=True)
    return pa.array([None if words[0] is None else text(words) for words in every], pa.string())


# The packets of a row.

SHOWN = ("ether_type", "srcIP", "srcPort", "destIP", "destPort", "protocol", "len")
"""Columns that a list of packets shows beside link, record and time."""

BY_HAND = "`lowwater export` selects packets by a condition of your own"


@dataclass(frozen=True)
class SourceCondition:
    """Packets of one source: those that a row counted, or those with one outcome in an LFTA."""

    source: ops.Source
    parts: tuple[ex.Expr, ...]  # conditions over packets that all hold
    unless: Predicate | None = None  # packets that it selects are none of them

    @property
    def predicate(self) -> Predicate:
        return Predicate(self.source.member, ex.conjunction([*self.parts]))


@dataclass(frozen=True)
class RowPackets:
    """The packets of [start, end), ns, that meet one of the conditions."""

    conditions: tuple[SourceCondition, ...]
    start: int
    end: int


def row_packets(query: QueryPlan, row: Mapping[str, Any]) -> RowPackets:
    """Finds the conditions of the packets that a published row counted.
    Raises LakeError if the packets are no function of the row; the message says why."""
    node = query.logical
    missing = [item.name for item in node.fields if item.name not in row]
    if missing:
        raise errors.LakeError(f"the row of {query.name} lacks the columns {', '.join(missing)}", "give every column")
    for part in _chain(node):
        inner = isinstance(part, ops.Join) and part.kind is ops.JoinKind.INNER
        if not (inner or isinstance(part, ops.Source | ops.Map | ops.Top | ops.Group | ops.Union)):
            raise _refused(query, f"it has a {part.label}, whose packets a row does not tell")
    usable = _from_keys(node)
    grouped = any(isinstance(part, ops.Group) for part in _chain(node))
    key = properties.unique_key(node)
    if grouped and (key is None or not set(key) <= usable):
        raise _refused(query, "its columns do not carry the whole GROUP BY, so several groups may give the same row")
    chosen = [item for item in node.fields if item.name in usable]
    row = {item.name: value_of_row(query, item, row[item.name]) for item in node.fields}
    parts = [equals(item, row[item.name]) for item in chosen]
    start, end = _span(node.fields, row)
    if end <= start:
        raise _refused(query, "no column of it tells a time of packets")
    conditions = together(_conditions(query, node, parts, True))
    # A packet of the other side lies as far from those of this one as the window of the join is wide.
    reach = sum(
        start - min(join.window.needed(start, join.kind)) for join in _chain(node) if isinstance(join, ops.Join)
    )
    return RowPackets(conditions, max(0, start - reach), end + reach)


NOT_OF_PROTOCOL, FILTERED, ACCEPTED = "not_of_protocol", "filtered", "accepted"
FOUND_AGAIN = (NOT_OF_PROTOCOL, FILTERED, ACCEPTED)
"""Outcomes whose packets are found again. Those that fail are found with those that do not meet WHERE."""


def outcome_packets(lfta: ops.Lfta, link: str, outcome: str, start: int, end: int) -> RowPackets:
    """Finds the conditions of packets of a link in [start, end), ns, with an outcome of FOUND_AGAIN (A1) in an LFTA.
    Raises LakeError if the LFTA reads no packets, or samples them."""
    if lfta.kind != "pcap" or lfta.sample is not None:
        why = "samples packets" if lfta.sample is not None else f"reads {lfta.kind} records, which are no packets"
        raise errors.LakeError(f"{lfta.name} {why}: which of them have an outcome is not stored", BY_HAND)
    source = ops.Source(lfta.name, lfta.fields, "", (link,), lfta.protocol, lfta.member)
    condition = SourceCondition(source, ())
    if outcome == NOT_OF_PROTOCOL:
        condition = SourceCondition(replace(source, member=None), (), Predicate(lfta.member, None))
    elif outcome == FILTERED:
        condition = replace(condition, unless=Predicate(lfta.member, lfta.predicate))
    elif outcome == ACCEPTED:
        condition = replace(condition, parts=tuple(_predicate(lfta.predicate)))
    return RowPackets((condition,), start, end)


def together(conditions: Iterable[SourceCondition]) -> tuple[SourceCondition, ...]:
    """Makes one condition of those over the same packets, so that a packet of both sides of a join counts once."""
    found: dict[tuple[Any, ...], SourceCondition] = {}
    for each in conditions:
        key = each.source.links, each.source.member
        if before := found.get(key):
            sides = [ex.conjunction([*side.parts]) for side in (before, each)]
            either = None if None in sides else ex.Binary(ex.Type.BOOL, "OR", *sides)  # type: ignore[arg-type]
            each = SourceCondition(each.source, () if either is None else (either,))
        found[key] = each
    return tuple(found.values())


def _chain(node: ops.Node) -> Iterator[ops.Node]:
    yield node
    for below in node.inputs():
        yield from _chain(below)


def _from_keys(node: ops.Node) -> set[str]:
    """Returns the output columns that are functions of packets' own columns, not of aggregates."""
    if isinstance(node, ops.Map | ops.Top):
        below = _from_keys(node.input)
        return {item.name for item in node.items if set(ex.columns_of(item.expr)) <= below}
    if isinstance(node, ops.Group):
        below = _from_keys(node.input)
        keys = {key.name for key in node.keys if set(ex.columns_of(key.expr)) <= below}
        return {item.name for item in node.items if set(ex.columns_of(item.expr)) <= keys}
    if isinstance(node, ops.Join):
        below = {f"{alias}.{name}" for alias, side in node.sides for name in _from_keys(side)}
        return {item.name for item in node.items if set(ex.columns_of(item.expr)) <= below}
    if isinstance(node, ops.Union):
        branches = [[item.name in _from_keys(branch) for item in branch.fields] for branch in node.branches]
        return {item.name for at, item in enumerate(node.fields) if all(branch[at] for branch in branches)}
    return {item.name for item in node.fields}


def _conditions(query: QueryPlan, node: ops.Node, parts: Sequence[ex.Expr], top: bool) -> Iterator[SourceCondition]:
    """Moves conditions over the columns of a node down to its sources."""
    if isinstance(node, ops.Source):
        if node.kind != "pcap":
            raise _refused(query, f"it reads {node.kind} records, which are no packets")
        if node.sample is not None:
            raise _refused(query, "it samples packets")
        yield SourceCondition(node, tuple(parts))
        return
    if isinstance(node, ops.Union):
        for branch in node.branches:
            renamed = [
                ops.Item(item.name, ex.Column(own.type, own.name))
                for item, own in zip(node.fields, branch.fields, strict=True)
            ]
            yield from _conditions(query, branch, substituted(parts, renamed), False)
        return
    if isinstance(node, ops.Join):
        yield from _joined(query, node, parts)
        return
    if isinstance(node, ops.Top):
        if not top:
            raise _refused(query, f"which rows of {node.query} are the first does not follow from a packet")
        yield from _conditions(query, node.input, substituted(parts, node.items), True)
        return
    if isinstance(node, ops.Map):
        moved = [*substituted(parts, node.items), *_predicate(node.predicate)]
    elif isinstance(node, ops.Group):
        names = {key.name for key in node.keys}
        moved = substituted(parts, node.items)
        if any(not set(ex.columns_of(part)) <= names for part in moved) or (node.having is not None and not top):
            raise _refused(query, f"a condition of {query.name} is on sums or counts of {node.query}, not on packets")
        moved = [*substituted(moved, node.keys), *_predicate(node.predicate)]
    else:
        raise TypeError(type(node).__name__)
    (below,) = node.inputs()
    if any(not set(ex.columns_of(part)) <= _from_keys(below) for part in moved):
        raise _refused(query, f"a condition of {query.name} is on sums or counts of a query below, not on packets")
    yield from _conditions(query, below, moved, False)


def _joined(query: QueryPlan, node: ops.Join, parts: Sequence[ex.Expr]) -> Iterator[SourceCondition]:
    """Divides conditions over the rows of an inner join into those of either side. Columns of which the row says the
    value are replaced by it, so that an equality of the join says the value of the other side too. If no condition on
    both sides is left, every packet of one side meets every one of the other, and gives the same row."""
    ties = [ex.Binary(ex.Type.BOOL, "=", left, right) for left, right in node.equalities]
    left = with_values([*substituted(parts, node.items), *ties, *within(node.window), *_predicate(node.residual)])
    for alias, side in node.sides:
        own = [part for part in left if any(name.startswith(f"{alias}.") for name in ex.columns_of(part))]
        if any(not name.startswith(f"{alias}.") for part in own for name in ex.columns_of(part)):
            raise _refused(query, "its columns do not say which packets of one side met those of the other")
        below = substituted(own, [ops.Item(f"{alias}.{of.name}", ex.Column(of.type, of.name)) for of in side.fields])
        if any(not set(ex.columns_of(part)) <= _from_keys(side) for part in below):
            raise _refused(query, f"a condition of {query.name} is on sums or counts of a query below, not on packets")
        yield from _conditions(query, side, below, False)


def _values_told(part: ex.Expr) -> Iterator[tuple[str, ex.Expr]]:
    """Yields the column of which a condition says the value, and the value."""
    if isinstance(part, ex.Binary) and part.op == "=":
        for column, value in ((part.left, part.right), (part.right, part.left)):
            if isinstance(column, ex.Column) and isinstance(value, ex.Const):
                yield column.name, value


def within(window: ops.Window) -> list[ex.Expr]:
    """Returns the conditions of a window, over the columns of its join."""
    far, near = (ex.Const(window.left.type, bound) for bound in (window.above, window.below))
    return [
        ex.Binary(ex.Type.BOOL, ">=", window.right, ex.Binary(window.left.type, "-", window.left, near)),
        ex.Binary(ex.Type.BOOL, "<=", window.right, ex.Binary(window.left.type, "+", window.left, far)),
    ]


def with_values(parts: Sequence[ex.Expr]) -> list[ex.Expr]:
    """Replaces the columns of which some conditions say the value by it in the others; what they say stands last."""
    left, known = list(parts), dict[str, ex.Expr]()
    while said := {name: value for part in left for name, value in _values_told(part) if name not in known}:
        known.update(said)
        left = [
            ops.with_columns(part, known) for part in left if all(name not in known for name, _ in _values_told(part))
        ]
    return left + [ex.Binary(ex.Type.BOOL, "=", ex.Column(value.type, name), value) for name, value in known.items()]


def _predicate(predicate: ex.Expr | None) -> list[ex.Expr]:
    return [] if predicate is None else [predicate]


def substituted(parts: Sequence[ex.Expr], items: Sequence[ops.Item]) -> list[ex.Expr]:
    """Returns conditions over columns as conditions over what these are computed of."""
    return [ops.substitute(part, items) for part in parts]


def value_of_row(query: QueryPlan, item: ops.Field, value: Any) -> Any:
    """The value of a column of a row, as plans have it. Rows come in addresses, which anybody may write."""
    if value is None:
        return None
    try:
        match item.type:
            case ex.Type.IP:
                return pack_ip(value)
            case ex.Type.MAC if isinstance(value, str):
                return parse_mac(value)
            case ex.Type.INSTANT if isinstance(value, str):
                return parse_moment(value)
            case ex.Type.INSTANT if isinstance(value, datetime):
                return parse_moment(value.isoformat())
            case ex.Type.FLOAT:
                if math.isfinite(number := float(value)):
                    return number
                raise _refused(query, f"its column {item.name} is {number}")
            case ex.Type.BOOL:
                return bool(value)
            case ex.Type.STRING:
                return str(value)
            case _:
                if int(value) == value and -(1 << 63) <= value < 1 << 63:
                    return int(value)
    except (ValueError, TypeError, OverflowError):
        pass
    raise errors.LakeError(f"{value!r:.80} is no value of column {item.name}", f"its type is {item.type}")


def equals(item: ops.Field, value: Any) -> ex.Expr:
    """Returns the condition that a column has a value."""
    column = ex.Column(item.type, item.name)
    if value is None:
        return ex.Unary(ex.Type.BOOL, "IS NULL", column)
    if item.type is ex.Type.BOOL:
        return column if value else ex.Unary(ex.Type.BOOL, "NOT", column)
    return ex.Binary(ex.Type.BOOL, "=", column, ex.Const(item.type, value, f"row_{item.name}"))


def _span(fields: Sequence[ops.Field], row: Mapping[str, Any]) -> tuple[int, int]:
    """Returns the range of timestamps (ns) in which packets of the row lie; empty without a column of the clock."""
    start, end = 0, temporal.END_OF_TIME
    clocks = [item for item in fields if item.temporal and not item.temporal.origin and row[item.name] is not None]
    for item in clocks:
        clock = item.temporal
        assert clock is not None
        bounds = clock.first(row[item.name]), clock.last(row[item.name])
        start, end = max(start, min(bounds)), min(end, max(bounds) + 1)
    return (start, end) if clocks else (0, 0)


def _refused(query: QueryPlan, why: str) -> errors.LakeError:
    return errors.LakeError(f"the packets of a row of {query.name} are not known: {why}", BY_HAND)


@dataclass
class FoundPackets:
    """Packets of a row: the first ones with link, record, timestamp (ns) and the columns SHOWN, and by link and capture
    the positions of those that queries read: not late, in the life of the link."""

    count: int = 0
    first: list[dict[str, Any]] = field(default_factory=list)
    links: dict[str, int] = field(default_factory=dict)
    admitted: dict[tuple[str, str], list[NDArray[np.int64]]] = field(default_factory=dict)


def find_packets(
    lake: Lake,
    config: Config,
    wanted: RowPackets,
    shown: int = 100,
    watch: Callable[[int], None] = lambda files: None,  # called for each block; what it raises ends the work
) -> FoundPackets:
    """Reads the packets that a row counted: those that its conditions select and that are not late (T2).
    Raises LakeError if a link drops copies or sheds load, or the lake cannot be read."""
    result, files = FoundPackets(), PacketFiles.of(lake)
    for condition in wanted.conditions:
        captures = read_captures(lake, condition.source.links)
        earlier = {place: pa.array(np.concatenate(found)) for place, found in result.admitted.items()}
        for link in condition.source.links:
            _find_link(files, config, link, captures[link], condition, wanted, shown, result, earlier, watch)
    return result


def _find_link(
    files: PacketFiles,
    config: Config,
    link: str,
    captures: Captures,
    condition: SourceCondition,
    wanted: RowPackets,
    shown: int,
    result: FoundPackets,
    earlier: Mapping[tuple[str, str], pa.Array],  # positions that other conditions found: a packet counts once
    watch: Callable[[int], None],
) -> None:
    settings = config.link(link)
    if settings.shed is not None or settings.duplicates != "keep":
        why = "sheds load" if settings.shed is not None else "looks for copies of packets"
        raise errors.LakeError(f"link {link!r} {why}: which packets a row counted is not stored", BY_HAND)
    predicate, skews = condition.predicate, link_skews(config, link)
    test, unless = predicate.test(link), condition.unless
    left_out = unless.test(link) if unless else None
    columns = dict.fromkeys(
        [*predicate.columns, *(unless.columns if unless else ()), *stored([*SHOWN]), *skews.columns]
    )
    read = packet_files(files, link, captures, settings, wanted.start, wanted.start, wanted.end)
    for batch in read.batches(
        [name for name in columns if name not in ("arrival", "timestamp", "position", "capture")]
    ):
        watch(0)
        stamps, arrivals = (batch.column(name).to_numpy() for name in ("timestamp", "arrival"))
        late = is_late(arrivals, stamps, skews.of(batch))
        rows = batch.filter(pa.array(~late & (stamps >= wanted.start) & (stamps < wanted.end)))
        rows = rows.filter(pa.array(test(rows))) if rows.num_rows else rows
        rows = rows.filter(pa.array(~left_out(rows))) if left_out and rows.num_rows else rows
        capture = str(batch.column("capture")[0].as_py())
        if (known := earlier.get((link, capture))) is not None:
            rows = rows.filter(pc.invert(pc.is_in(rows.column("position"), known)))
        if not rows.num_rows:
            continue
        result.count += rows.num_rows
        if result.count > limits.ROW_PACKETS:
            raise errors.LakeError(f"these are more than {limits.ROW_PACKETS:,} packets", BY_HAND)
        result.links[link] = result.links.get(link, 0) + rows.num_rows
        result.admitted.setdefault((link, capture), []).append(rows.column("position").to_numpy())
        result.first += [{"link": link, **row} for row in rows.slice(0, shown - len(result.first)).to_pylist()]

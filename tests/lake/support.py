"""Small captures and streams for the tests of the lake."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lowwater.catalog.expr import Type
from lowwater.catalog.schemas import PUNCTUATION, ROW
from lowwater.columns.files import HourFiles, instants
from lowwater.config import Config, Link
from lowwater.instants import HOUR, SECOND
from lowwater.lake.files.patterns import naming
from lowwater.lake.ingestion.batch import contents_of
from lowwater.lake.ingestion.known_files import KnownFile
from lowwater.lake.layout import Lake, result_schema, table_schema
from lowwater.lake.ledgers import files as sightings
from lowwater.lake.ledgers.captures import Capture, family_claims, read_captures
from lowwater.lake.ledgers.claims import SET_ASIDE
from lowwater.lake.ledgers.runs import ReplayRow, record_replays
from lowwater.lake.ledgers.states import GROWING, READ
from lowwater.lake.packets import read_packets
from lowwater.lake.results.publish import Audited, PublishResult, publish
from lowwater.lake.results.published import Act
from lowwater.lake.results.streams import fingerprint, stream_files, write_stream
from lowwater.lake.tables import DataFile, append_rows, create, swap_files
from lowwater.link_names import family_of
from lowwater.plan.operators import Field
from lowwater.plan.properties import instant_columns, result_schema as plan_schema
from tests.capturemaker import ethernet, pcap_bytes

BASE = 500_000 * HOUR
"""2027-01-15T08:00:00Z: tests count seconds from it."""

CONFIG = Config()

FIELDS = (Field("addr", Type.IP), Field("mac", Type.MAC), Field("n", Type.INT))


def at(seconds: float) -> int:
    """ns since the epoch, `seconds` after BASE."""
    return BASE + round(seconds * SECOND)


def capture(path: Path, seconds: Iterable[float], cut: int = 0) -> Path:
    """A capture with one small frame a timestamp; `cut` bytes are missing at its end."""
    frames = [(at(second), ethernet(index.to_bytes(20, "big"), 0x88CC)) for index, second in enumerate(seconds)]
    data = pcap_bytes(frames, nanoseconds=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data[: len(data) - cut])
    return path


def covering(begin: int, end: int, **changes: Any) -> Capture:
    """The row of a capture that covers [begin, end), ns, with a record at each end and one in the middle."""
    made = Capture(
        link="a",
        capture="",
        path="",
        bytes=1,
        format="pcap",
        link_type="EN10MB",
        packets=3,
        undecoded=0,
        malformed=0,
        first=begin,
        last=end - 1,
        smallest=begin,
        largest=end - 1,
        median=(begin + end) // 2,
        covers_from=begin,
        covers_to=end,
        declared_from=None,
        declared_to=None,
        ended_cleanly=True,
        largest_ahead=0,
        smallest_jump=None,
        decoder_version=1,
        ingested_at=1,
        attempt="",
    )
    return replace(made, **changes)


def put_captures(lake: Lake, rows: Iterable[Capture]) -> None:
    """Appends the facts of captures, each of an attempt of its own, of links whose settings say nothing of names."""
    rows = [
        replace(
            row, source=row.source or row.link, sha256=row.file_digest, file_first=row.first, file_largest=row.largest
        )
        for row in rows
    ]
    append_rows(lake.contents, contents_of((KnownFile((row,)), (), ()) for row in rows))
    seen = (
        sightings.SeenFile(
            row.place or row.path or row.attempt,
            GROWING if row.growing else READ,
            "",
            False,
            (family_of(row.link),),
            row.bytes,
            0,
            declared_from=row.covers_from if row.declared_from is None else row.declared_from,
            declared_to=row.covers_to if row.declared_to is None else row.declared_to,
            rotated=row.rotated,
            named=naming(Link()),
            attempts=(row.attempt,),
            sha256=row.sha256,
        )
        for row in rows
    )
    with sightings.changing(lake) as held:
        sightings.put_seen(held, seen)


def known_captures(lake: Lake, link: str, config: Config | None = None) -> list[Capture]:
    """The captures of a link and its interfaces, also those that overlap others or are set aside, in no order."""
    view = family_claims(lake, link, config)
    left = {attempt for attempt, why in view.left.items() if why.why != SET_ASIDE}
    return [Capture(**row) for row in view.rows.to_pylist() if row["attempt"] not in left]


def packet_rows(
    lake: Lake, link: str = "a", config: Config = CONFIG, columns: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """What readers see of a link: capture, position, arrival and timestamp of every packet, and some columns."""
    captures = read_captures(lake, [link], config)[link]
    batches = read_packets(lake, link, captures, config.link(link), 0, 0, 1 << 62, columns)
    return [row for batch in batches for row in batch.to_pylist()]


def stamps(lake: Lake, config: Config = CONFIG) -> list[int]:
    """The timestamps of the packets of link a."""
    return [row["timestamp"] for row in packet_rows(lake, config=config)]


def stream(rows: Iterable[tuple[str | None, int, float]]) -> pa.Table:
    """Rows of a query's stream (address, number, seconds of `_last`), and one punctuation at the end."""
    made = [
        {"addr": a, "mac": "00:00:00:00:00:02", "n": n, "_last": at(s), "_kind": ROW, "_tick": at(s)}
        for a, n, s in rows
    ]
    made.append({"addr": None, "mac": None, "n": None, "_last": at(1e6), "_kind": PUNCTUATION, "_tick": at(1e6)})
    for row in made:
        row |= {"_until": row["_tick"], "_period": 0, "interval": ""}
    return pa.Table.from_pylist(made, schema=result_schema(FIELDS)).drop_columns(["interval"])


def put_table(
    lake: Lake, query_set: str, query: str, fields: tuple[Field, ...], counts: dict[tuple[int, int], int]
) -> None:
    """Makes a published table with so many rows of each interval, for ledgers that were made without runs."""
    path = lake.table(query)
    assert isinstance(path, Path)
    create(path, table_schema(fields), ["_hour"], query_set)
    files, first = [], dict[int, Path]()
    for (start, _), rows in counts.items():
        if rows:
            file = path / f"_hour={start // HOUR}" / f"{start}.parquet"
            file.parent.mkdir(exist_ok=True)
            if rows not in first:
                pq.write_table(pa.table({"_last": pa.array([start] * rows, pa.int64())}), file)
                first[rows] = file
            else:
                os.link(first[rows], file)
            name, hour = file.relative_to(path).as_posix(), {"_hour": str(start // HOUR)}
            files.append(DataFile(name, file.stat().st_size, rows, hour, {"_last": start}, {"_last": start}))
    swap_files(path, files, lambda _: [])


def put_stream(path: PurePath, fields: tuple[Field, ...], start: int, end: int, rows: pa.Table, owner: str) -> int:
    """Writes the stream of a query over [start, end), ns, in files as the high level has them."""
    for column in instant_columns(fields):
        if column.name not in rows.column_names:
            rows = rows.append_column(column.name, instants(column, rows.column(column.of)))
    rows = rows.select(plan_schema(fields).names).cast(plan_schema(fields))
    is_row = pc.equal(rows.column("_kind"), ROW)
    disk = path.parents[1] if isinstance(path, Path) else None  # files are moved there
    with tempfile.TemporaryDirectory(dir=disk) as folder:
        with HourFiles(Path(folder), "rows", rows.schema) as out:
            out.write(rows.filter(is_row))
        promises = Path(folder) / "punctuation.parquet"
        pq.write_table(rows.filter(pc.invert(is_row)), promises)
        files = {(start, end): [*out.files, promises]}
        return write_stream(path, result_schema(fields), files, owner)[start, end]


def audited(lake: Lake, start: int = BASE, end: int = BASE + HOUR, query: str = "q") -> str:
    """The fingerprint of a stream as it is."""
    return fingerprint(stream_files(lake.stream(query), start, end))


def publish_interval(
    lake: Lake,
    query_set: str,
    query: str,
    fields: tuple[Field, ...],
    start: int,
    end: int,
    digest: str,
    fingerprint: str,
    act: Act | None = None,
    **more: Any,
) -> PublishResult:
    """Publishes one interval of a query from its stream, which was audited."""
    span = start, end
    return publish(lake, query_set, query, fields, {span: Audited(digest, fingerprint)}, act, **more)[span]


def publish_rows(
    lake: Lake,
    start: int,
    end: int,
    rows: pa.Table,
    digest: str = "d",
    *,
    query: str = "q",
    fields: tuple[Field, ...] = FIELDS,
    state: str = "done",
    reason: str = "",
    **more: Any,
) -> PublishResult:
    """One interval's run of query set `set`, from a stream to its record."""
    put_stream(lake.stream(query), fields, start, end, rows, "set")
    done = publish_interval(lake, "set", query, fields, start, end, digest, audited(lake, start, end, query), **more)
    facts = {"reason": reason, "digest": digest, "rows": done.rows, "publication": done.number}
    record_replays(lake, [ReplayRow("set", query, start, end, "publish", state, time.time_ns(), **facts)])
    return done

"""The door of notebooks and programs to a lake: published tables, packets, records and ledgers. It writes nothing.

`from lowwater import Lake` is this `Lake`. Inside of the package the paths of a lake are `lake.layout.Lake`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, datetime
from pathlib import PurePath

import pyarrow as pa

from lowwater.config import load_config
from lowwater.errors import LakeError
from lowwater.instants import parse_instant
from lowwater.lake import layout
from lowwater.lake.described import plain_type
from lowwater.lake.layout import MEASURES
from lowwater.lake.ledgers.captures import ingested_links
from lowwater.lake.results.exploring import LAST, result_table
from lowwater.lake.results.visible import SORTED_ROWS, published_rows, sorted_rows
from lowwater.lake.tables import fetch_rows, lake_errors, open_table, table_dataset
from lowwater.plan.temporal import END_OF_TIME
from lowwater.plan.text import nearest
from lowwater.replay.notebook.packet_rows import PacketRows, packet_columns
from lowwater.replay.notebook.rows import INSTANT, Rows
from lowwater.replay.packets.predicate import read_predicate
from lowwater.replay.packets.record_export import select_records
from lowwater.storage import paths

Instant = str | int | date | datetime
"""ISO 8601 (UTC without an offset), ns since the epoch, or Python's date or datetime."""

LEDGERS = (
    *("captures", "malformed", "skew_violations", "heartbeats", "replays", "quality", "quarantine"),
    *("metrics", "lateness"),
    *(f"measures/{name}" for name in MEASURES),
)


class Lake:
    """A lake, to be read.

    Args:
        root: folder of the lake, or its address such as `s3://bucket/prefix`.

    Raises:
        LakeError: there is no lake.
    """

    def __init__(self, root: str | PurePath) -> None:
        self._lake = layout.lake_to_read(root)

    def __repr__(self) -> str:
        return f"<Lake {self._lake.root}>"

    @property
    def tables(self) -> list[str]:
        """Names of the published queries."""
        return sorted(path.name for path in paths.folders(self._lake.root / "tables"))

    @property
    def links(self) -> list[str]:
        """Names of the links with captures."""
        return ingested_links(self._lake)

    def table(
        self,
        query: str,
        start: Instant | None = None,
        end: Instant | None = None,
        version: int | None = None,
        columns: Sequence[str] = (),
    ) -> Rows:
        """Returns published rows, by time (`_last`), then by all columns.

        Args:
            query: an output query.
            start: first instant of `_last`; None for the first published one.
            end: end of the instants, exclusive; None for the last published one.
            version: version of the table; None for the newest now. The rows stay those of the version.
            columns: columns of the query; none for all. `_last` always comes last.

        Raises:
            LakeError: there is no such query, version or column, or the files of the version are gone.
        """
        first, until = _range(start, end)
        found = result_table(self._lake, query, version)
        opened = found.opened()
        for name in columns:
            found.require(name)
        chosen = [found.columns.field(name) for name in dict.fromkeys(columns or found.columns.names)]
        schema = pa.schema([*chosen, pa.field(LAST, INSTANT)])
        notes: tuple[str, ...] = ()
        if version is None:
            bounds = None if start is None else first, None if end is None else until
            notes = published_rows(self._lake, query, *bounds).notes

        def read() -> Iterator[pa.RecordBatch]:
            names = tuple(each.name for each in chosen)
            for batch in sorted_rows(found.path, opened, names, first, until, SORTED_ROWS):
                yield batch.cast(schema)

        return Rows(query, schema, found.version, notes, read)

    def packets(
        self,
        link: str,
        start: Instant | None = None,
        end: Instant | None = None,
        where: str | None = None,
        protocol: str = "ETH",
        columns: Sequence[str] = (),
    ) -> Rows:
        """Returns packets of a link in its order, as `lowwater export` selects them.

        Args:
            link: a link of packets.
            start: first timestamp; None for the first packet.
            end: end of the timestamps, exclusive; None for the last packet.
            where: a condition in GSQL, such as `destPort = 53`; None for every packet.
            protocol: protocol of the packets, and of the columns in `where`.
            columns: columns of docs/packets.md, with `srcIP` for the three columns of an address; none for all that
                every link has.

        Raises:
            LakeError: the link has no captures or no packets, or there is no such column.
            QueryError: the condition is wrong.
        """
        config = load_config(self._lake.root)
        self._require(link)
        if config.link(link).kind != "pcap":
            raise LakeError(f"link {link!r} has {config.link(link).kind} records, no packets", f"records({link!r})")
        first, until = _range(start, end)
        predicate = read_predicate(where, protocol)
        chosen = PacketRows(self._lake, config, link, first, until, predicate, packet_columns(columns))
        return Rows(link, chosen.schema, None, (), chosen.batches)

    def records(
        self, link: str, start: Instant | None = None, end: Instant | None = None, where: str | None = None
    ) -> Rows:
        """Returns records of a link that has no packets, such as logs, in their order, with the fields of its protocol.

        Args:
            link: a link of records.
            start: first timestamp; None for the first record.
            end: end of the timestamps, exclusive; None for the last record.
            where: a condition in GSQL over the fields of the protocol; None for every record.

        Raises:
            LakeError: the link has no captures, or packets.
            QueryError: the condition is wrong.
        """
        config = load_config(self._lake.root)
        self._require(link)
        if config.link(link).kind == "pcap":
            raise LakeError(f"link {link!r} has packets, no records", f"packets({link!r})")
        selection = select_records(self._lake, config, link, where, *_range(start, end))
        return Rows(link, selection.schema, None, (), selection.batches)

    def ledger(self, name: str) -> Rows:
        """Returns the rows of a ledger as they are stored, in no order.

        Args:
            name: `captures`, `replays`, `quality` or another one of docs/results.md.

        Raises:
            LakeError: there is no such ledger.
        """
        if name not in LEDGERS:
            raise LakeError(
                f"there is no ledger {name!r}", nearest(name, LEDGERS) or f"there are: {', '.join(LEDGERS)}"
            )
        path = self._lake.root / name
        table = open_table(path)
        if table is None:
            raise LakeError(
                f"{path}: the ledger is not there",
                "nothing was audited yet, or the lake is older than this version: run an interval",
            )
        known = pa.schema(table.schema().to_arrow())
        schema = pa.schema([pa.field(each.name, plain_type(each.type)) for each in known])

        def read() -> Iterator[pa.RecordBatch]:
            with lake_errors(f"{path}: the table cannot be read"):
                for batch in fetch_rows(path, table_dataset(path, table)).to_batches(columns=schema.names):
                    yield batch.cast(schema)

        return Rows(name, schema, table.version(), (), read)

    def _require(self, link: str) -> None:
        known = self.links
        if link not in known:
            raise LakeError(f"link {link!r} has no captures in the lake", nearest(link, known) or "`links` lists them")


def _range(start: Instant | None, end: Instant | None) -> tuple[int, int]:
    """Returns a range in ns since the epoch.

    Raises:
        LakeError: a bound is no instant, or the range ends before it begins.
    """
    first = 0 if start is None else _instant(start, "start")
    until = END_OF_TIME if end is None else _instant(end, "end")
    if first >= until:
        raise LakeError("the range ends before it begins", "give an `end` after `start`")
    return first, until


def _instant(value: Instant, name: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    try:
        return parse_instant(value)
    except ValueError as error:
        raise LakeError(f"{name}: {error}", "or give ns since the epoch, or a datetime") from None

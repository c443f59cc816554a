"""Random worlds whose links hold records: CSV, JSON lines and parquet, beside a capture of packets."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from lowwater.catalog.values import pack_ip
from lowwater.config import Config, Link
from lowwater.plan.context import Links
from tests.capturemaker import pcap_bytes
from tests.database import database
from tests.law.worlds import BASE, SECOND, Packet
from tests.plan import batch_rows

MS = 1_000_000
RECORD_LINKS = ("a", "b")
PACKETS = "main"
KINDS = ("csv", "json", "parquet")
BANDS = {"seq": 4, "down": 3}
PROTOCOL = """PROTOCOL LOG {{
    llong at_ms {clock} (increasing, clock);
    llong seq get_csv_llong (increasing, banded 4);
    llong down get_csv_llong (decreasing, banded 3);
    llong seen_ms {seen};
    uint port get_csv_uint;
    IP src get_csv_ip;
    float rtt get_csv_float;
    string host get_csv_string;
    bool up get_csv_bool;
}}
"""
CLOCKS = {"whole": "get_csv_llong", "iso": "get_csv_iso_to_timestamp", "seconds": "get_csv_float_to_timestamp"}
"""Form of the clock in the files -> its access function; only the last two have digits below a millisecond."""

ARRIVALS = ("get_system_time (increasing)", "get_csv_llong (increasing, latent)")
STORED = {
    **{name: f"int:{name}" for name in ("at_ms", "seq", "down", "port")},
    **{"seen_ms": f"arrival.{MS}:seen_ms", "src": "ip:src", "rtt": "float:rtt", "host": "string:host", "up": "bool:up"},
}
FIELDS = {
    **dict.fromkeys(("at_ms", "seq", "down", "port"), pa.int64()),
    **{"src": pa.string(), "rtt": pa.float64(), "host": pa.string(), "up": pa.bool_()},
}
Record = dict[str, Any]


@dataclass(frozen=True)
class RecordWorld:
    """Records of each link in the order of their files, packets of one more link, and what is odd about the files."""

    records: dict[str, tuple[Record, ...]]
    packets: tuple[Packet, ...]
    kinds: dict[str, str]
    skews: dict[str, int]
    bands: dict[str, dict[str, int]]
    splits: dict[str, int]
    cuts: tuple[str, ...] = ()
    clock: str = "whole"
    seen: str = ARRIVALS[0]

    @property
    def protocol(self) -> str:
        """The PROTOCOL block of the links."""
        return PROTOCOL.format(clock=CLOCKS[self.clock], seen=self.seen)

    @property
    def known(self) -> Links:
        """The links, as plans know them."""
        return Links((*RECORD_LINKS, PACKETS), kinds=self.kinds)

    @property
    def config(self) -> Config:
        """The settings of the links."""
        own = {"max_jump": 10**15}
        links = {PACKETS: Link().model_copy(update={"skew": self.skews[PACKETS], **own})}
        for name in RECORD_LINKS:
            update = {"skew": self.skews[name], "skews": self.bands[name], "kind": self.kinds[name], **own}
            links[name] = Link().model_copy(update=update)
        return Config(links=links)

    @property
    def stamps(self) -> list[int]:
        """Timestamps of all sane records, ns."""
        records = (stamp_of(row) for name in RECORD_LINKS for row in self.sane(name))
        return [*(stamp for stamp in records if stamp is not None), *(packet.stamp for packet in self.packets)]

    def sane(self, link: str) -> list[Record]:
        """The records of a link that can be read."""
        return [row for row in self.records[link] if "junk" not in row and row["at_ms"] is not None]

    def malformed(self, link: str) -> int:
        """How many records of a link cannot be read."""
        return len(self.records[link]) - len(self.sane(link)) + (link in self.cuts)

    @cached_property
    def judged(self) -> dict[str, list[Record]]:
        """Link -> its sane records with position, arrival (ns) and what admits them."""
        return {link: list(self._judged(link)) for link in RECORD_LINKS}

    def _judged(self, link: str) -> Iterator[Record]:
        arrival, highest = 0, {"seq": -(1 << 62), "down": -(1 << 62)}
        allowed = {**BANDS, **self.bands[link]}
        for position, row in enumerate(self.sane(link)):
            stamp = stamp_of(row) or 0
            arrival = max(arrival, stamp)
            judged = {"link": link, "position": position, "arrival": arrival, "ts": stamp, **row}
            judged |= {"seen_ms": arrival // MS, "admitted": arrival - stamp <= self.skews[link]}
            for name, sign in (("seq", 1), ("down", -1)):
                value = row[name]
                if value is not None:
                    highest[name] = max(highest[name], sign * value)
                judged[f"in_{name}"] = value is not None and highest[name] - sign * value <= allowed[name]
            yield judged

    def violations(self, link: str) -> int:
        """How many records of a link are later than its skew."""
        if link != PACKETS:
            return sum(not row["admitted"] for row in self.judged[link])
        return sum(not admitted for _, admitted, _ in self._arrived())

    def _arrived(self) -> Iterator[tuple[int, bool, Packet]]:
        arrival = 0
        for packet in self.packets:
            arrival = max(arrival, packet.stamp)
            yield arrival, arrival - packet.stamp <= self.skews[PACKETS], packet

    def write(self, folder: Path) -> list[tuple[str, Path]]:
        """Writes the files; a split one is two files that meet."""
        written = []
        for link in RECORD_LINKS:
            rows, at, kind = self.records[link], self.splits[link], self.kinds[link]
            for number, part in enumerate((rows[:at], rows[at:]) if at else (rows,)):
                path = folder / f"{link}-{number}.{kind}"
                data = WRITERS[kind]([row if "junk" in row else self._written(row, kind) for row in part])
                if link in self.cuts and number == bool(at):
                    data += b'{"at_ms": 1' if kind == "json" else b'1,"x'
                path.write_bytes(data)
                written.append((link, path))
        path = folder / f"{PACKETS}.pcap"
        path.write_bytes(pcap_bytes([(p.stamp, p.frame, len(p.frame)) for p in self.packets], nanoseconds=True))
        return [*written, (PACKETS, path)]

    def _written(self, row: Record, kind: str) -> Record:
        """A record as it stands in a file: with its clock in the form of the world."""
        return {**{name: row[name] for name in FIELDS}, "at_ms": written_clock(row, self.clock, kind)}

    def oracle(self) -> duckdb.DuckDBPyConnection:
        """A DuckDB with all sane records as `records`, those admitted by an attribute as `p`, `s`, `d`; packets `k`."""
        connection = database()
        connection.execute("SET error_on_division_by_zero = false")
        rows = [row for link in RECORD_LINKS for row in self.judged[link]]
        connection.register("drawn", pa.Table.from_pylist(rows, ORACLE))
        captured = [
            {"ts": packet.stamp, "dport": packet.columns["destPort"], "len": len(packet.frame)}
            for _, admitted, packet in self._arrived()
            if admitted and packet.kind == "tcp"
        ]
        types = pa.schema([(name, pa.int64()) for name in ("ts", "dport", "len")])
        connection.register("captured", pa.Table.from_pylist(captured, types))
        connection.execute(
            "CREATE TEMP TABLE records AS FROM drawn; CREATE TEMP TABLE k AS FROM captured; "
            "CREATE TEMP VIEW p AS FROM records WHERE admitted; "
            "CREATE TEMP VIEW s AS FROM records WHERE in_seq; CREATE TEMP VIEW d AS FROM records WHERE in_down"
        )
        return connection

    def batch(self, links: Sequence[str]) -> batch_rows.World:
        """Links of records as the batch evaluator reads them: by the clock."""
        packets = {
            link: [
                batch_rows.Packet(link, row["position"], row["arrival"], row["admitted"], _stored(row))
                for row in self.judged[link]
            ]
            for link in links
        }
        return batch_rows.World(packets)


def stamp_of(row: Record) -> int | None:
    """The timestamp of a record, ns: its clock counts milliseconds, its form may keep more digits."""
    return None if row["at_ms"] is None else row["at_ms"] * MS + row["digits"]


def written_clock(row: Record, form: str, kind: str) -> Any:
    """The clock of a record in a file."""
    stamp = stamp_of(row)
    if stamp is None or form == "whole":
        return row["at_ms"]
    seconds, digits = divmod(stamp, SECOND)
    if form == "seconds":
        return f"{seconds}.{digits:09d}" if kind != "parquet" else Decimal(stamp) / SECOND
    zone = ("Z", "", "+02:00")[digits % 3]
    begun = datetime.fromtimestamp(seconds + (7200 if zone == "+02:00" else 0), UTC)
    return f"{begun:%Y-%m-%dT%H:%M:%S}.{digits:09d}{zone}"


def _stored(row: Record) -> Mapping[str, Any]:
    values = {column: row[name] for name, column in STORED.items()}
    values["ip:src"] = row["src"] and pack_ip(row["src"])
    return {"timestamp": row["ts"], **values}


ORACLE = pa.schema(
    [("link", pa.string()), *((name, pa.int64()) for name in ("position", "arrival", "ts", "seen_ms"))]
    + list(FIELDS.items())
    + [(name, pa.bool_()) for name in ("admitted", "in_seq", "in_down")]
)


def _as_csv(rows: Sequence[Record]) -> bytes:
    lines = [",".join(FIELDS)]
    for row in rows:
        lines.append(row["junk"] if "junk" in row else ",".join(_text(row[name]) for name in FIELDS))
    return "".join(f"{line}\n" for line in lines).encode()


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return '"' + value.replace('"', '""') + '"' if isinstance(value, str) else repr(value)


def _as_json(rows: Sequence[Record]) -> bytes:
    lines = [row["junk"] if "junk" in row else json.dumps(row) for row in rows]
    return "".join(f"{line}\n" for line in lines).encode()


def _as_parquet(rows: Sequence[Record]) -> bytes:
    sink = io.BytesIO()
    clocks = [row["at_ms"] for row in rows]
    number = pa.decimal128(20, 9) if any(isinstance(clock, Decimal) for clock in clocks) else pa.int64()
    clock = pa.string() if any(isinstance(clock, str) for clock in clocks) else number
    pq.write_table(pa.Table.from_pylist(list(rows), pa.schema(list({**FIELDS, "at_ms": clock}.items()))), sink)
    return sink.getvalue()


WRITERS = {"csv": _as_csv, "json": _as_json, "parquet": _as_parquet}
JUNK = {"csv": ("no record", "1,2,3", 'x,1,1,1,,,"",true'), "json": ("{", "[1]", '{"at_ms": "x"}', "null")}
GAPS = ((0, 1, 300, 1000, 2000, 7000, 45_000), (0, 1, 10, 70, 150, 150, 4000))


def record_world(seed: int, most: int = 40) -> RecordWorld:
    """Links with records that are disordered, late in each attribute, without values, malformed, in several files."""
    random = Random(f"records {seed}")
    skews = {link: random.choice((0, SECOND // 2, SECOND, 3 * SECOND)) for link in (*RECORD_LINKS, PACKETS)}
    kinds = {link: random.choice(KINDS) for link in RECORD_LINKS}
    records, splits, cuts, bands = {}, {}, [], {}
    for link in RECORD_LINKS:
        rows = _rows(random, random.choice((0, 3, most // 2, most, most)), kinds[link])
        records[link] = tuple(rows)
        splits[link] = _split(rows, random.randint(0, most))
        bands[link] = random.choice(({}, {}, {"seq": 8}, {"down": 0}))
        if kinds[link] != "parquet" and random.random() < 0.2:
            cuts.append(link)
    packets, forms = tuple(_packets(random, most // 2)), Random(f"forms {seed}")
    clock, seen = forms.choice(("whole", *CLOCKS)), forms.choice(ARRIVALS)
    for row in (row for rows in records.values() for row in rows if "junk" not in row):
        row["digits"] = 0 if clock == "whole" else forms.choice((0, 0, 1, 500_000, 999_999))
    return RecordWorld(records, packets, kinds, skews, bands, splits, tuple(cuts), clock, seen)


def _rows(random: Random, count: int, kind: str) -> list[Record]:
    clock, seq, rows = BASE // MS, 1000, []
    gaps = random.choice(GAPS)
    for _ in range(count):
        clock, seq = clock + random.choice(gaps), seq + random.choice((0, 0, 1, 2, 9))
        late = random.choice((0, 0, 0, 1, 400, 1000, 2500, 9000))
        behind = random.choice((0, 0, 0, 2, 4, 5, 8, 12))
        row: Record = {
            "at_ms": max(BASE // MS, clock - late) if random.random() < 0.97 else None,
            "seq": seq - behind if random.random() < 0.93 else None,
            "down": 9000 - seq + random.choice((0, 0, 1, 3, 4)) if random.random() < 0.95 else None,
            "port": random.choice((53, 80, 80, 1024, None)),
            "src": random.choice(("10.0.0.1", "10.0.0.2", "10.0.0.9", None)),
            "rtt": random.choice((0.25, 0.5, -1.75, 3.0, None)),
            "host": random.choice(("alpha", "a,b", 'say "hi"', "", None)),
            "up": random.choice((True, False, None)),
        }
        if kind in JUNK and random.random() < 0.05:
            row = {"junk": random.choice(JUNK[kind])}
        rows.append(row)
    return rows


def _packets(random: Random, count: int) -> Iterator[Packet]:
    stamp = BASE
    for _ in range(random.choice((0, count, count))):
        stamp += random.choice((0, 250 * MS, SECOND, 5 * SECOND))
        late = random.choice((0, 0, 400 * MS, 2 * SECOND))
        ports = 1024, random.choice((53, 80))
        kind = random.choice(("tcp", "tcp", "udp"))
        yield Packet(max(BASE, stamp - late), kind, "10.0.0.1", "10.0.0.2", *ports, 16, b"")


def _split(rows: Sequence[Record], wanted: int) -> int:
    """A place where a file may end: one before and after which the ranges of timestamps do not overlap (T1)."""
    times = [row.get("at_ms") for row in rows]
    for at in range(min(wanted, len(rows) - 1), 0, -1):
        before = [time for time in times[:at] if time is not None]
        after = [time for time in times[at:] if time is not None]
        if before and after and max(before) < min(after):
            return at
    return 0

"""`init` over files of records: its proposals for random files read them back, and a lake of them has DuckDB's rows."""

from __future__ import annotations

import csv
import datetime
import gzip
import io
import json
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st

from lowwater.capture.tables.reader import RecordReader
from lowwater.capture.tables.sniffing import sniff
from lowwater.catalog.records import stored_parts
from lowwater.catalog.values import pack_ip, words_from_ip
from lowwater.config import load_config
from lowwater.instants import HOUR
from lowwater.lake.files.sample import propose_protocol
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.captures import read_captures
from lowwater.low import Policy
from lowwater.replay.job import Job
from lowwater.replay.stages.engines import reference_stage
from tests.replay.support import lowwater

BEGIN = 1_767_225_600
UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
CLOCKS = (*UNITS, "seconds", "iso")
NAMES = ("bytes", "select", "id.orig_h", "a b", "size", "Count", "größe", "x'y", "_under", "9lives", "link")
Record = dict[str, Any]


@dataclass(frozen=True)
class Drawn:
    """Records with their instants (ns), and the form of the file."""

    kind: str
    clock: str
    stamps: list[int]
    columns: dict[str, list[Any]]
    separator: str
    header: bool
    null: str
    place: int

    @property
    def names(self) -> list[str]:
        names = list(self.columns)
        return [*names[: self.place], "when", *names[self.place :]]

    @property
    def records(self) -> list[Record]:
        told = {**self.columns, "when": [_instant(stamp, self.clock) for stamp in self.stamps]}
        return [{name: told[name][at] for name in self.names} for at in range(len(self.stamps))]


def _instant(stamp: int, clock: str) -> Any:
    if clock in UNITS:
        return stamp // UNITS[clock]
    if clock == "seconds":
        return float(f"{stamp // 10**9}.{stamp % 10**9 // 1000:06d}")
    moment = datetime.datetime.fromtimestamp(stamp // 10**9, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{moment}.{stamp % 10**9 // 1000:06d}Z"


TEXTS = st.text(st.sampled_from('ab,;|\t "é'), max_size=6).map(lambda text: f"x{text}")
VALUES = {
    "int": st.integers(-(1 << 40), 1 << 40),
    "uint": st.integers(1, 1500),
    "float": st.floats(-1e6, 1e6, width=32).map(lambda value: value + 0.0),
    "bool": st.booleans(),
    "ip": st.sampled_from(["10.0.0.1", "192.168.7.254", "2001:db8::1", "::ffff:1.2.3.4"]),
    "string": TEXTS,
}


@st.composite
def drawn(draw: st.DrawFn) -> Drawn:
    count = draw(st.integers(12, 40))
    kind = draw(st.sampled_from(["csv", "csv", "json", "parquet"]))
    clock = draw(st.sampled_from(CLOCKS))
    random = Random(draw(st.integers(0, 1 << 30)))
    stamps, now = [], BEGIN * 10**9
    for _ in range(count):
        now += random.choice((0, 1, 2, 5)) * 10**9 + random.randint(1, 999_999) * 1000
        stamps.append(now - random.choice((0, 0, random.randint(0, 2_000_000_000 // 1000) * 1000)))
    step = UNITS.get(clock, 1000)
    stamps = [stamp // step * step for stamp in stamps]
    columns = {}
    for name in draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=6, unique=True)):
        values = VALUES[draw(st.sampled_from([*VALUES]))]
        column = draw(st.lists(st.one_of(st.none(), values, values, values), min_size=count, max_size=count))
        if any(value is not None for value in column):
            columns[name] = column
    null = draw(st.sampled_from(["", "", "-", "NULL"]))
    place = draw(st.integers(0, len(columns)))
    return Drawn(
        kind, clock, stamps, columns, draw(st.sampled_from(",;\t|")), draw(st.booleans()), null, place
    )  # fmt: skip


def write(path: Path, case: Drawn, compressed: bool = False) -> Path:
    records = case.records
    if case.kind == "parquet":
        table = pa.table({name: [record[name] for record in records] for name in case.names})
        if case.clock in UNITS and records[0]["when"] % 2:
            at = table.schema.get_field_index("when")
            table = table.set_column(at, "when", table.column(at).cast(pa.timestamp(case.clock)))
        pq.write_table(table, path, row_group_size=7)
        return path
    if case.kind == "json":
        lines = [json.dumps({k: v for k, v in r.items() if v is not None or k != "size"}) for r in records]
        data = "".join(f"{line}\n" for line in lines).encode()
    else:
        out = io.StringIO()
        rows = csv.writer(out, delimiter=case.separator, lineterminator="\n")
        rows.writerows([case.names] if case.header else [])
        for record in records:
            rows.writerow([_text(record[name], case) for name in case.names])
        data = out.getvalue().encode()
    path.write_bytes(gzip.compress(data) if compressed else data)
    return path


def _text(value: Any, case: Drawn) -> str:
    if value is None:
        return case.null
    return repr(value) if isinstance(value, float) else str(value)


@pytest.mark.slow
@given(drawn(), st.booleans())
def test_a_proposal_reads_the_records_back(tmp_path_factory: pytest.TempPathFactory, case: Drawn, gz: bool) -> None:
    path = write(tmp_path_factory.mktemp("t") / "log", case, gz)
    proposal = propose_protocol(sniff(path), "log")
    reader = RecordReader(path, proposal.options, 10**11, "")
    table = pa.Table.from_batches([*reader], reader.schema)
    assert reader.malformed.num_rows == 0 and proposal.options.kind == case.kind, proposal.block
    assert table["timestamp"].to_pylist() == case.stamps, proposal.block
    read = {proposed.column.position: proposed for proposed in proposal.fields}
    by_label = {proposed.column.label: proposed for proposed in proposal.fields}
    for number, name in enumerate(case.names, 1):
        proposed = read[number] if case.kind == "csv" else by_label[name]
        field = next(f for f in proposal.layout.fields if f.name == proposed.name)
        if name == "when":
            assert proposal.layout.clock == field.stored
            continue
        parts = [table[part].to_pylist() for part in stored_parts(field.stored)]
        values = parts[0] if len(parts) == 1 else [None if v[0] is None else v for v in zip(*parts, strict=True)]
        # In a text a dash stands for NULL only where it does so in a column of another type.
        absent = case.null if case.kind == "csv" and case.null not in proposal.text.null else None
        expected = [_expected(value, len(parts)) if value is not None else absent for value in case.columns[name]]
        assert values == expected, (name, proposal.block)


def _expected(value: Any, parts: int) -> Any:
    return words_from_ip(pack_ip(value)) if parts > 1 else value


CASES = [
    Drawn("csv", "iso", [], {}, ";", True, "", 1),
    Drawn("csv", "ms", [], {}, "\t", False, "-", 2),
    Drawn("json", "seconds", [], {}, ",", True, "", 0),
    Drawn("parquet", "us", [], {}, ",", True, "", 3),
]
ORACLES = {"csv": "read_csv('{}', header={})", "json": "read_json('{}')", "parquet": "read_parquet('{}')"}


@pytest.mark.slow
@pytest.mark.parametrize("form", CASES, ids=lambda form: f"{form.kind}-{form.clock}")
def test_init_ingest_and_run_give_the_rows_of_duckdb(form: Drawn, tmp_path: Path) -> None:
    random, folder, lake = Random(7), tmp_path / "in", tmp_path / "lake"
    folder.mkdir()
    for part in range(3):
        stamps = sorted((BEGIN + part * 900) * 10**9 + random.randrange(900_000_000) * 1000 for _ in range(400))
        stamps = [stamp // 10**6 * 10**6 for stamp in stamps]
        stamps[100], stamps[101] = stamps[101], stamps[100]
        columns: dict[str, list[Any]] = {
            "src": [random.choice(("10.0.0.1", "10.0.0.2", "2001:db8::1")) for _ in stamps],
            "bytes": [random.choice((None, random.randint(0, 1500))) for _ in stamps],
            "rtt": [random.random() for _ in stamps],
            "host": [random.choice(("web", "mail, two", 'the "third"')) for _ in stamps],
        }
        case = Drawn(form.kind, form.clock, stamps, columns, form.separator, form.header, form.null, form.place)
        write(folder / f"log_{part}.{form.kind}", case)
    names = {name: name for name in ("src", "bytes", "rtt", "host", "when")}
    if not form.header:
        names = {name: f"c{at}" for at, name in enumerate(case.names, 1)}
    minute = {"ms": 60_000, "us": 60_000_000, "iso": 60_000, "seconds": 60_000}[form.clock]
    query = (
        f"DEFINE {{ query_name 'q'; }} SELECT tb, src, count(*) AS n, sum({names['bytes']}) AS s, "
        f"max({names['host']}) AS h FROM log.LOG GROUP BY {names['when']}/{minute} AS tb, {names['src']} AS src"
    )
    (tmp_path / "q.gsql").write_text(query)
    said = lowwater("init", *sorted(folder.iterdir()), "--lake", lake, "--query", tmp_path / "q.gsql")
    assert said.code == 0 and "3 of 3 files read, 1,200 records" in said.out, said
    assert lowwater("ingest", "--lake", lake).code == 0, (lake / "log.schema").read_text()
    captures = read_captures(open_lake(lake), ["log"])["log"]
    assert sum(each.packets for each in captures) == 1200 and sum(each.malformed for each in captures) == 0
    job = Job.open(lake, "q", lake)
    start = BEGIN * 10**9
    outcome = reference_stage(job.inputs(start, start + HOUR, job.captures()), 10**9, Policy.PERIODIC)
    rows = outcome.rows["q"]
    found = zip(*(rows[name].to_pylist() for name in ("tb", "n", "s", "h")), strict=True)
    assert sorted(found, key=repr) == sorted(_by_duckdb(folder, form, case), key=repr)
    assert load_config(lake).link("log").kind == form.kind


def _by_duckdb(folder: Path, form: Drawn, case: Drawn) -> list[tuple[Any, ...]]:
    source = ORACLES[form.kind].format(folder / "log_*", str(form.header).lower())
    if form.kind == "csv":
        nulls = f", nullstr='{form.null}'" if form.null else ""
        source = source.replace(")", f", delim='{form.separator}', quote='\"', names={case.names}{nulls})")
    at = {"iso": 'epoch("when")', "seconds": '"when"'}.get(form.clock, f'"when" / {1e9 / UNITS.get(form.clock, 1)}')
    return duckdb.sql(
        f"SELECT floor({at} / 60)::BIGINT, count(*), sum(bytes::BIGINT)::BIGINT, max(host) FROM {source} "
        f"GROUP BY floor({at} / 60), src"
    ).fetchall()

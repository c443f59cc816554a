"""What an audit measures: rows of a stream against naive definitions, links and LFTAs from real ledgers."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import given, strategies as st

from lowwater.catalog.schemas import PUNCTUATION, ROW
from lowwater.catalog.time import Skews
from lowwater.catalog.values import Type
from lowwater.config import Link, load_config
from lowwater.instants import HOUR, SECOND
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import Lake, open_lake
from lowwater.lake.ledgers.captures import read_captures
from lowwater.lake.ledgers.coverage import Gap
from lowwater.lake.ledgers.runs import record_heartbeats, record_measures, record_violations
from lowwater.lake.packets import PacketFiles, packet_files
from lowwater.low import VIOLATIONS
from lowwater.plan.operators import Field
from lowwater.plan.properties import result_schema
from lowwater.plan.temporal import CLOCK
from lowwater.quality import measures, streams
from lowwater.quality.links import MINUTE, LinkProfile, LinkScan, RecordRange, scan_link
from lowwater.quality.measures import AuditScope, frames, lfta_counts
from lowwater.quality.streams import (
    BrokenRows,
    QueryMeasures,
    RuleResult,
    StreamCheck,
    WrittenStream,
    check_stream,
    distinct_keys,
    shared_keys,
)
from tests.capturemaker import pcap_bytes, tcp
from tests.lake.support import BASE, at
from tests.quality import frames as frame

FIELDS = (Field("addr", Type.IP), Field("n", Type.INT))
PLAIN = (Field("n", Type.INT),)
Event = tuple[str, int, int]


def events(*rows: Event) -> pa.Table:
    """Rows of (kind, _tick, _last); `n` numbers them."""
    data = [
        {"n": n, "_kind": kind, "_tick": tick, "_until": tick, "_period": 0, "_last": last}
        for n, (kind, tick, last) in enumerate(rows)
    ]
    return pa.Table.from_pylist(data, schema=result_schema(PLAIN))


def written(folder: Path, *tables: pa.Table) -> list[Path]:
    """Tables as files of a stream."""
    files = [folder / f"{number:05d}.parquet" for number in range(len(tables))]
    for file, table in zip(files, tables, strict=True):
        pq.write_table(table, file)
    return files


def checked(folder: Path, start: int, end: int, *tables: pa.Table) -> StreamCheck:
    return check_stream(written(folder, *tables), PLAIN, start, end)


KEPT = (
    (ROW, 10, 5), (PUNCTUATION, 10, 6), (ROW, 20, 6), (ROW, 20, 9), (PUNCTUATION, 20, 15), (ROW, 30, 15)
)  # fmt: skip


def test_rows_may_equal_a_promise_and_come_with_its_tick_but_not_after_it_from_below(tmp_path: Path) -> None:
    assert checked(tmp_path, 0, 99, events(*KEPT)).below_promise.total == 0
    found = checked(tmp_path, 0, 99, events(*KEPT), events((ROW, 40, 14))).below_promise
    assert [row["_tick"] for row in found.rows] == [40]


@pytest.mark.parametrize(("end", "left"), [(14, 0), (15, 0), (16, 1)])
def test_a_stream_is_closed_by_the_promise_of_the_end(end: int, left: int, tmp_path: Path) -> None:
    assert checked(tmp_path, 5, end, events(*KEPT)).open_ns == left
    assert checked(tmp_path, 5, end, events((ROW, 10, 5))).open_ns == end - 5
    assert check_stream([], PLAIN, 5, end).open_ns == end - 5


LIKE_TICKS = st.integers(0, 12)


@given(
    st.lists(st.tuples(st.sampled_from((ROW, ROW, PUNCTUATION)), LIKE_TICKS, LIKE_TICKS), max_size=30),
    st.integers(1, 4),
    st.integers(1, 5),
)
def test_counts_are_those_of_the_definitions(rows: list[Event], parts: int, batch: int) -> None:
    """However the rows lie in files and batches."""
    data = [(last, tick) for kind, tick, last in rows if kind == ROW]
    promises = [(last, tick) for kind, tick, last in rows if kind == PUNCTUATION]
    strays = [last for last, _ in data if not 3 <= last < 9]
    broken = [last for last, tick in data if any(made < tick and last < promise for promise, made in promises)]
    size = -(-len(rows) // parts) or 1
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(streams, "BATCH", batch)
        patch.setattr(streams, "EXAMPLE_ROWS", 3)
        found = checked(Path(folder), 3, 9, *(events(*rows[i : i + size]) for i in range(0, len(rows), size)))
    assert (found.rows, found.columns) == (len(data), "")
    assert found.open_ns == max(0, 9 - max((last for last, _ in promises), default=3))
    assert (found.not_owned.total, [row["_last"] for row in found.not_owned.rows]) == (len(strays), strays[:3])
    assert (found.below_promise.total, [row["_last"] for row in found.below_promise.rows]) == (len(broken), broken[:3])


def test_kept_rows_are_shown_as_they_would_be_published(tmp_path: Path) -> None:
    row = {"addr": "10.0.0.1", "n": 3, "_last": 7, "_kind": ROW, "_tick": 8, "_until": 8, "_period": 0}
    files = written(tmp_path, pa.Table.from_pylist([row], schema=result_schema(FIELDS)))
    (kept,) = check_stream(files, FIELDS, 0, 5).not_owned.rows
    assert kept == row


def replaced(name: str, values: list[Any], kind: pa.DataType) -> pa.Table:
    table = events(*KEPT)
    return table.set_column(table.schema.get_field_index(name), name, pa.array(values, kind))


@pytest.mark.parametrize(
    ("table", "says", "rows"),
    [
        (replaced("n", ["1"] * 6, pa.string()), "00001.parquet: column n is string, not int64", 8),
        (events(*KEPT).drop_columns(["n"]), "00001.parquet: column n is missing", 8),
        (events(*KEPT).append_column("m", pa.array(range(6))), "00001.parquet: column m is not in the plan", 8),
        (replaced("_last", list("123456"), pa.string()), "00001.parquet: column _last is string, not int64", 0),
        (events(*KEPT).drop_columns(["_kind"]), "00001.parquet: column _kind is missing", 0),
    ],
)
def test_a_schema_that_is_not_planned(table: pa.Table, says: str, rows: int, tmp_path: Path) -> None:
    """Rows are looked at as long as the control columns are there."""
    found = checked(tmp_path, 5, 16, events(*KEPT), table)
    assert (found.columns, found.rows) == (says, rows)


def test_control_columns_that_are_null_break_every_rule(tmp_path: Path) -> None:
    row = {"n": 1, "_kind": ROW, "_tick": None, "_until": 1, "_period": 0, "_last": None}
    loose = pa.schema([each.with_nullable(True) for each in result_schema(PLAIN)])
    found = checked(tmp_path, 0, 99, events(*KEPT), pa.Table.from_pylist([row], schema=loose))
    assert (found.not_owned.total, found.below_promise.total) == (1, 1)


@pytest.mark.parametrize("damage", ["gone", "no parquet", "a broken page"])
def test_a_file_that_cannot_be_read(damage: str, tmp_path: Path) -> None:
    files = written(tmp_path, events(*KEPT), events(*KEPT))
    if damage == "gone":
        files[1].unlink()
    elif damage == "no parquet":
        files[1].write_bytes(b"nothing")
    else:  # the pages of `n` come first: only who reads the data finds out
        data = bytearray(files[1].read_bytes())
        data[4:60] = bytes(56)
        files[1].write_bytes(data)
        assert check_stream(files, PLAIN, 5, 16).columns == ""
    found = check_stream(files, PLAIN, 5, 16, whole=True)
    assert found.columns.startswith("a file cannot be read: ")
    assert found.rows == found.not_owned.total == 0


def keyed(folder: Path, rows: Sequence[tuple[str | None, int | None]]) -> list[Path]:
    """A stream of (address, number), and a punctuation with neither."""
    data = [
        {"addr": address, "n": n, "_kind": ROW, "_tick": 1, "_until": 1, "_period": 0, "_last": i}
        for i, (address, n) in enumerate(rows)
    ]
    promise = {"addr": None, "n": None, "_kind": PUNCTUATION, "_tick": 2, "_until": 2, "_period": 0, "_last": 9}
    tables = [pa.Table.from_pylist([row], schema=result_schema(FIELDS)) for row in (*data, promise)]
    return written(folder, *tables)


def test_rows_that_share_their_key(tmp_path: Path) -> None:
    shared = [("10.0.0.1", 1), (None, 1), ("10.0.0.1", None), (None, None), ("10.0.0.1", 1), (None, None), (None, None)]
    files = keyed(tmp_path, shared)
    timed = FIELDS[0], Field("n", Type.INT, CLOCK)
    asked = {
        "both": (files, FIELDS, ("addr", "n")),
        "one": (files, FIELDS, ("n",)),
        "none": (files[:4], FIELDS, ("addr", "n")),
        "timed": (files, timed, ("n",)),
    }
    found = {name: shared_keys(*each, 4, tmp_path / "it's work") for name, each in asked.items()}
    counts = {name: (keys, broken.total) for name, (keys, broken) in found.items()}
    assert counts == {"both": (2, 5), "one": (2, 7), "none": (0, 0), "timed": (2, 7)}
    rows = found["both"][1].rows
    assert [row["_last"] for row in rows] == [3, 5, 6, 0]  # by key, NULL first; no more than asked for
    assert list(rows[0]) == result_schema(FIELDS).names


@pytest.mark.slow
@pytest.mark.parametrize("bits", [64, 3, 0])
def test_distinct_keys_whatever_their_digests(bits: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside Python's sets; digests of few bits are those of an attacker, who makes them equal: then it is unknown."""
    whole = streams.row_digests
    monkeypatch.setattr(streams, "row_digests", lambda columns, rows: whole(columns, rows) & np.uint64((1 << bits) - 1))
    chance = random.Random(bits)
    answers = set()
    for number in range(40):
        rows = [
            (chance.choice([None, "10.0.0.1", "10.0.0.2", "::1"]), chance.choice([None, 0, 1, -1, 1 << 62, number]))
            for _ in range(chance.randrange(1, 9))
        ]
        (tmp_path / str(number)).mkdir()
        files = keyed(tmp_path / str(number), rows)
        answers.add(len(set(rows)) == len(rows))
        distinct = distinct_keys(files, FIELDS, ("addr", "n"))
        assert distinct <= (len(set(rows)) == len(rows)) and (bits < 64 or distinct == (len(set(rows)) == len(rows)))
    assert answers == {True, False}
    monkeypatch.setattr(streams, "KEY_DIGESTS", 0)
    assert not distinct_keys(files, FIELDS, ("addr", "n"))


SETTINGS = """
[links.a]
skew = "1s"
[links.a.thresholds]
failed = { warning = 0.2, critical = 0.3 }
[links.b]
skew = "0s"
policy = "publish"
[thresholds]
violating = 0.2
"""
NAMES = ("sane", "not_of_protocol", "filtered", "failed", "sampled_out", "shed", "accepted")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Link a with a violation, a record years ahead and one cut; link b without any capture."""
    lake = open_lake(tmp_path / "lake")
    (lake.root / "lowwater.toml").write_text(SETTINGS, encoding="utf-8")
    frame = tcp("10.0.0.1", "10.0.0.2", 1024, 80)
    stamps = [at(0), at(10), at(7.7), at(10**9), at(11), at(3599), at(3600)]
    data = pcap_bytes([(stamp, frame) for stamp in stamps], nanoseconds=True)
    first, second = tmp_path / "first.pcap", tmp_path / "second.pcap"
    first.write_bytes(data)
    second.write_bytes(pcap_bytes([(at(3605), frame), (at(3606), frame)], nanoseconds=True)[:-5])
    ingest(lake, "a", [first], load_config(lake.root), (BASE, at(3601)))
    ingest(lake, "a", [second], load_config(lake.root), (at(3601), at(7200)))
    return lake


def account(lake: Lake, *rows: tuple[str, str, tuple[int, ...]]) -> None:
    """Writes the accounts of LFTAs: (LFTA, link, counts)."""
    unknown = dict.fromkeys(("rows_out", "ejections", "punctuations"))
    data = [
        {"lfta": lfta, "link": link, "start": BASE, "end": BASE + HOUR, **dict(zip(NAMES, counts, strict=True))}
        for lfta, link, counts in rows
    ]
    schema = pa.schema([*((name, pa.string()) for name in ("lfta", "link")), *((n, pa.int64()) for n in NAMES)])
    schema = schema.append(pa.field("start", pa.int64())).append(pa.field("end", pa.int64()))
    table = pa.Table.from_pylist(data, schema=schema)
    for name in unknown:
        table = table.append_column(name, pa.nulls(table.num_rows, pa.int64()))
    record_heartbeats(lake, "s", BASE, BASE + HOUR, table)


def measured(lake: Lake, instances: Sequence[tuple[str, str]], queries: Sequence[QueryMeasures]) -> dict[str, Any]:
    config = load_config(lake.root)
    captures = read_captures(lake, ["a", "b"])
    gaps = [Gap("b", BASE, BASE + HOUR)]
    scope = AuditScope(lake, config, "s", BASE, BASE + HOUR, captures, instances, [], gaps)
    reads = [
        packet_files(PacketFiles.of(lake), link, captures[link], config.link(link), BASE, BASE, BASE + HOUR)
        for link in scope.links
    ]
    scans = [scan_link(read, Skews(config.link(read.link).skew)) for read in reads]
    found = frames(scope, scans, lfta_counts(scope), queries, {each.query: [RuleResult(None)] for each in queries})
    return found


def test_a_capture_of_another_day_is_named_where_it_claims_to_be(tmp_path: Path) -> None:
    """Its records are charged to their own interval; that it holds nothing of this one is told here too."""
    lake, config = open_lake(tmp_path / "lake"), load_config(tmp_path)
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap_bytes([(at(90_000 + n), tcp("10.0.0.1", "10.0.0.2", 1, 2)) for n in range(20)]))
    ingest(lake, "a", [path], config, (BASE, BASE + HOUR))
    account(lake, ("q.x", "a", (0, 0, 0, 0, 0, 0, 0)))
    (row,) = measured(lake, [("q.x", "a")], [])["links"]
    assert (row["read"], row["uncovered"], row["misdated"]) == (0, 0, 20)
    assert row["places"] == (
        "20 records of captures that are declared to cover this interval lie at other times: a.pcap (20 outside of its "
        "declared coverage, 2027-01-15T08:00:00Z/2027-01-15T09:00:00Z; "
        "its records are from 2027-01-16T09:00:00Z to 2027-01-16T09:00:19Z)"
    )


@pytest.mark.slow
def test_a_capture_that_contradicts_its_coverage_in_part_is_named_in_every_interval_that_it_claims(
    tmp_path: Path,
) -> None:
    """Once by each: records of this interval are told as uncovered, those of other intervals as lying elsewhere."""
    (tmp_path / "lowwater.toml").write_text('[links.a]\nuntil = "2027-01-15T12:00:00Z"\n', encoding="utf-8")
    lake, config = open_lake(tmp_path), load_config(tmp_path)
    # Two where it claims, one late by less than the skew, twenty an hour later, and as many behind the life of the
    # link: fewer at an end would be strays.
    later, behind = [at(7200 + 5 * n) for n in range(20)], [at(5 * 3600 + n) for n in range(20)]
    stamps = [at(1800), at(1900), at(2000.5), *later, *behind]
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap_bytes([(each, tcp("10.0.0.1", "10.0.0.2", 1, 2)) for each in stamps], nanoseconds=True))
    for end, (here, other) in ((at(2000), (0, 40)), (at(3 * 3600), (0, 20)), (at(6 * 3600), (0, 0))):
        ingest(lake, "a", [path], config, (at(1800), end))
        account(lake, ("q.x", "a", (0, 0, 0, 0, 0, 0, 0)))
        (row,) = measured(lake, [("q.x", "a")], [])["links"]
        assert (row["uncovered"], row["misdated"]) == (here, other)
    ingest(lake, "a", [path], config, (at(1850), at(2 * 3600 + 50)))
    (row,) = measured(lake, [("q.x", "a")], [])["links"]
    assert (row["uncovered"], row["misdated"]) == (1, 29)
    assert row["places"].startswith("of 3 read, 1 record outside of the declared coverage of their captures: a.pcap")
    assert (
        "; 29 records of captures that are declared to cover this interval lie at other times: a.pcap" in row["places"]
    )


def late_rows(lake: Lake) -> pa.Table:
    (capture, _) = read_captures(lake, ["a"])["a"]
    row = {"position": 2, "timestamp": at(7.7), "arrival": at(10), "lateness": 2_300_000_000}
    return pa.Table.from_pylist([{"capture": capture.capture, **row}])


INSTANCES = [("q.x", "a"), ("q.x", "b"), ("q.y", "a")]


@pytest.mark.slow
def test_links_and_lftas_from_the_ledgers(lake: Lake) -> None:
    record_violations(lake, "a", Link(), BASE, BASE + HOUR, late_rows(lake))
    account(lake, ("q.x", "a", (4, 1, 1, 1, 0, 0, 1)), ("q.y", "a", (4, 0, 0, 0, 2, 1, 1)))
    found = measured(lake, INSTANCES, [])
    a, b = found["links"]
    interval = "2027-01-15T08:00:00Z to 2027-01-15T09:00:00Z"
    assert a == frame.LINK | {
        "link": "a", "interval": interval, "captures": "first.pcap",
        "read": 6, "violating": 1, "sane": 4, "outcomes": 6,
        "account": "malformed 1 + violating 1 + sane 4 + outside 0",
        "violating_share": 1 / 6, "violating_warning": 0.2, "violating_critical": 1.0, "malformed_share": 1 / 6,
        "violations": "first.pcap record 2 (2.3s late)", "offsets": f"first.pcap at byte {24 + 3 * 70} (time-jump)",
    }  # fmt: skip
    assert (b["captures"], b["read"], b["gap_ns"], b["excluded_ns"]) == ("none", 0, 0, HOUR)
    assert b["gaps"].startswith("2027-01-15T08:00:00Z to ") and "no capture covers" not in b["gaps"]
    assert (b["violating_share"], b["violations"], b["offsets"]) == (0.0, "", "")
    x, silent, y = found["lftas"]
    failed = {"failed": 1, "failed_share": 0.25, "failed_warning": 0.2, "failed_critical": 0.3}
    counts = {"sane": 4, "named": 4, "captures": "first.pcap"}
    assert x == frame.LFTA | {"lfta": "q.x", "link": "a", "interval": interval, **counts, **failed}
    assert (silent["sane"], silent["failed_share"], silent["failed_critical"]) == (0, 0.0, 0.1)
    assert (y["named"], y["failed"]) == (4, 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sane", "violating", "stray"), [(3, 1, 1), (5, 1, -1), (4, 0, 1), (5, 0, 1), (0, 0, 5), (6, 1, -2)]
)
def test_a_record_that_the_accounts_lack_or_invent(lake: Lake, sane: int, violating: int, stray: int) -> None:
    """Too few of one kind are not made up for by too many of another."""
    record_violations(lake, "a", Link(), BASE, BASE + HOUR, late_rows(lake).slice(0, violating))
    account(lake, ("q.x", "a", (sane, 0, 0, 0, 0, 0, sane)))
    (a,) = measured(lake, [("q.x", "a")], [])["links"]
    assert (a["read"], a["sane"], a["violating"], a["unaccounted"]) == (6, sane, violating, stray)
    assert ("first.pcap record 2, late, in no account" in a["strays"]) == (not violating)
    assert ("2027-01-15T08:00:00Z" in a["strays"]) == (sane != 3)  # of the four, three are in the first minute


@pytest.mark.slow
def test_unaccounted_records_are_named_by_capture_and_position(lake: Lake) -> None:
    record_violations(lake, "a", Link(), BASE, BASE + HOUR, late_rows(lake))
    account(lake, ("q.x", "a", (1, 0, 0, 0, 0, 0, 1)))
    (a,) = measured(lake, [("q.x", "a")], [])["links"]
    assert a["strays"] == (
        "2027-01-15T08:00:00Z 2 more in packets/ (first.pcap records 0 to 4), "
        "2027-01-15T08:59:00Z 1 more in packets/ (first.pcap records 5 to 5)"
    )
    record_violations(lake, "a", Link(), BASE, BASE + HOUR, late_rows(lake).slice(0, 0))
    account(lake, ("q.x", "a", (7, 0, 0, 0, 0, 0, 7)))
    (a,) = measured(lake, [("q.x", "a")], [])["links"]
    assert a["strays"].startswith(
        "first.pcap record 2, late, in no account, 2027-01-15T08:00:00Z 4 more in the accounts"
    )


@pytest.mark.slow
def test_lftas_that_disagree_or_do_not_add_up(lake: Lake) -> None:
    account(lake, ("q.x", "a", (4, 0, 0, 0, 0, 0, 4)), ("q.y", "a", (3, 0, 0, 0, 0, 0, 5)))
    x, _, y = measured(lake, INSTANCES, [])["lftas"]
    assert (x["unaccounted"], x["disagreement"], y["unaccounted"], y["disagreement"]) == (0, 1, -2, -1)
    account(lake, ("q.x", "a", (4, 0, 0, 0, 0, 0, 4)))
    x, _, y = measured(lake, INSTANCES, [])["lftas"]
    assert (x["disagreement"], y["sane"], y["disagreement"]) == (4, 0, -4)


@pytest.mark.slow
def test_malformed_records_are_charged_to_the_interval_of_the_record_before(lake: Lake) -> None:
    """The second capture is cut: its damage belongs to the second hour."""
    config, captures = load_config(lake.root), read_captures(lake, ["a"])
    scope = AuditScope(lake, config, "s", BASE + HOUR, BASE + 2 * HOUR, captures, [("q", "a")], [])
    scan = LinkScan("a", 2, late_rows(lake).slice(0, 0), LinkProfile(BASE + HOUR, BASE + 2 * HOUR, SECOND))
    (a,) = frames(scope, [scan], lfta_counts(scope), [], {})["links"]
    assert (a["malformed"], a["offsets"]) == (1, f"second.pcap at byte {24 + 70} (cut)")
    assert a["captures"] == "first.pcap, second.pcap"


@pytest.mark.slow
def test_queries(lake: Lake) -> None:
    strays = BrokenRows(2, [{"tb": 7, "srcIP": None, "_last": 70}])
    check = StreamCheck(10, "", 5, strays, BrokenRows())
    shared, keys = BrokenRows(4, [{"tb": 1}]), ("tb", "srcIP")
    bad = QueryMeasures("q", ("b", "a"), keys, WrittenStream(9, "f"), "g", check, shared, 2)
    fine = StreamCheck(1, "", 0, BrokenRows(), BrokenRows())
    good = QueryMeasures("p", ("a",), None, WrittenStream(1, "f"), "f", fine, BrokenRows(), 0)
    first, second = measured(lake, [("q", "a")], [bad, good])["queries"]
    assert first == frame.QUERY | {
        "query": "q", "interval": "2027-01-15T08:00:00Z to 2027-01-15T09:00:00Z", "links": "a, b",
        "captures": "first.pcap", "rows": 10, "made": 9, "not_owned": 2, "duplicate_keys": 2, "open_ns": 5,
        "example": "tb=7, srcIP=NULL, _last=70",
    }  # fmt: skip
    assert (second["keys"], second["changed"], second["example"]) == ("none", 0, "")


@pytest.mark.slow
def test_late_records_are_told_by_hour(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three hours of 900, 20 and no records; in the second, the share of the interval decides."""
    scope = AuditScope(lake, load_config(lake.root), "s", BASE, BASE + 3 * HOUR, {}, [], [])
    late = [(BASE + 9, "x"), (BASE + 8, "y"), (BASE + HOUR, "x"), (BASE + HOUR + 1, "x")]
    rows = [
        {"capture": capture, "position": at, "timestamp": 0, "arrival": arrival, "lateness": (at + 2) * SECOND}
        for at, (arrival, capture) in enumerate(late)
    ]
    minutes = {(BASE // MINUTE, "x"): RecordRange(800, 0, 799), ((BASE + HOUR) // MINUTE, "x"): RecordRange(18, 0, 17)}
    minutes[BASE // MINUTE + 1, "y"] = RecordRange(98, 0, 97)
    profile = LinkProfile(BASE, BASE + 3 * HOUR, SECOND)
    profile.watch.lags.add(np.array([0] * 916 + [2 * SECOND, 3 * SECOND, 4 * SECOND, 5 * SECOND]))
    table = pa.Table.from_pylist(rows, schema=VIOLATIONS)
    monkeypatch.setattr(measures, "late_share", lambda *_: 0.001)
    first, second = measures._skew(scope, LinkScan("a", 916, table, profile, minutes))
    assert (first["read"], first["violating"], first["judged_share"]) == (900, 2, 2 / 900)
    assert (second["read"], second["violating"], second["judged_share"]) == (20, 2, 4 / 920)
    assert (second["interval"], second["latest_ns"]) == ("2027-01-15T09:00:00Z to 2027-01-15T10:00:00Z", 5 * SECOND)
    assert (first["worst_capture_share"], second["worst_capture"], second["worst_capture_share"]) == (0.5, "x", 1.0)
    assert second["growth_share"] == 4 / 920 - 0.001
    assert (second["own_read"], second["own_violating"], second["own_captures"]) == (18, 0, "")
    assert {second[f"recommended_{name}"] for name in ("ns", "lost")} == {5 * SECOND, 0}
    (none,) = measures._skew(scope, LinkScan("a", 0, VIOLATIONS.empty_table(), LinkProfile(BASE, BASE + HOUR, 1), {}))
    assert (none["judged_share"], none["week_before_share"], none["recommended_ns"]) == (0.0, None, None)


@pytest.mark.slow
def test_the_measures_of_an_interval_are_tables_that_its_newest_audit_wrote(lake: Lake) -> None:
    for number, broken in enumerate(({}, {"gap_ns": 7})):
        tables = frame.frames("links", **broken)
        for hour in (0, 1):
            span = BASE + hour * HOUR, BASE + (hour + 1) * HOUR
            record_measures(lake, "s", {span: tables}, number, again=number > 0)
    links = DeltaTable(lake.measures("links"))
    rows = links.to_pyarrow_table()
    assert (rows.num_rows, rows["measured_at"].unique().to_pylist()) == (4, [1])
    assert rows["gap_ns"].to_pylist() == [7, 0, 7, 0] and rows["usual_volume"][0].as_py() == 1100
    comments = {each.name: each.metadata.get("comment") for each in links.schema().fields}
    assert (comments["gap_ns"], comments["volume_drift"], comments["read"]) == ("ns", "share, 0 to 1", None)
    assert (links.metadata().description or "").startswith("a row for each link")
    counts = [DeltaTable(lake.measures(name)).to_pyarrow_table().num_rows for name in ("skew", "lftas", "rows")]
    assert counts == [4, 4, 4]


@pytest.mark.slow
def test_the_scan_counts_by_the_definition(lake: Lake) -> None:
    captures, link = read_captures(lake, ["a"])["a"], load_config(lake.root).link("a")
    read = packet_files(PacketFiles.of(lake), "a", captures, link, at(8), at(8), at(11))
    found = scan_link(read, Skews(SECOND))
    assert (found.sane, found.violations.num_rows) == (1, 1)
    assert pc.max(found.violations.column("lateness")).as_py() == 2_300_000_000

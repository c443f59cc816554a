"""The tree of keys: what was published before stands, rules and decoders have versions of their own, and `plan` says
which part of a key is another one."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lowwater import revisions
from lowwater.documents import stored_object
from lowwater.instants import HOUR, SECOND
from lowwater.lake import keys
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.captures import Captures, read_captures
from lowwater.lake.ledgers.runs import read_heartbeats, read_replays
from lowwater.replay.job import Job
from lowwater.revisions import Decoding, Revision
from tests.capturemaker import ACK, LINUX_SLL, SYN, pcap_bytes, tcp
from tests.replay.support import lowwater, stored_rows, table_rows

BEGIN = 1_767_225_600  # 2026-01-01T00:00:00Z
SETTINGS = """
[interval]
length = "1h"
[links.a]
captures = "a_%Y%m%d%H.pcap"
rotation = "1h"
skew = "2s"
since = "2026-01-01T00:00:00Z"
[links.b]
captures = "b_%Y%m%d%H.pcap"
rotation = "1h"
since = "2026-01-01T00:00:00Z"
until = "2026-01-01T02:00:00Z"
policy = "publish"
[query_sets.all]
files = "all.gsql"
params = { most = "5" }
"""
QUERIES = """
DEFINE { query_name 'counted'; } SELECT tb, count(*) AS n, sum(len) AS bytes FROM a.TCP GROUP BY time/60 AS tb;
DEFINE { query_name 'busy'; } SELECT tb, n FROM counted WHERE n > 2;
DEFINE { query_name 'answered'; }
SELECT S.time, A.destPort AS port FROM a.TCP S INNER JOIN b.TCP A
ON S.srcPort = A.destPort AND S.timestamp <= A.timestamp AND A.timestamp <= S.timestamp + 3 s;
DEFINE { query_name 'unanswered'; }
SELECT S.time, S.srcPort AS port FROM a.TCP S LEFT JOIN b.TCP A
ON S.srcPort = A.destPort AND S.timestamp <= A.timestamp AND A.timestamp <= S.timestamp + 3 s WHERE A.destPort IS NULL;
DEFINE { query_name 'known'; }
SELECT R.time, R.srcIP FILTER_JOIN(time, 10) FROM a.TCP R, a.TCP S WHERE R.srcPort + 0 = S.srcPort AND S.len > 40;
DEFINE { query_name 'totals'; }
SELECT tb, srcIP, running_sum(len) AS total FROM a.TCP GROUP BY time/3600 AS tb, srcIP CLOSING_WHEN count(*) = 0;
DEFINE { query_name 'chosen'; } PARAM { most int; } SELECT time, len FROM b.TCP WHERE len > $most AND srcPort = 443;
"""
NAMES = ("answered", "busy", "chosen", "counted", "known", "totals", "unanswered")


def frames(hour: int) -> dict[str, bytes]:
    """The files of an hour of both links."""
    begin = BEGIN + 3600 * hour
    asked = [((begin + 60 * at) * SECOND, tcp("10.0.0.1", "192.0.2.1", 2000 + at, 443, SYN)) for at in range(60)]
    answers = [(at + SECOND // 9, tcp("192.0.2.1", "10.0.0.1", 443, 2000 + 2 * n, SYN | ACK))
               for n, (at, _) in enumerate(asked[::2])]  # fmt: skip
    return {name: pcap_bytes(rows, nanoseconds=True) for name, rows in (("a", asked), ("b", answers))}


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Two hours of two links, not run."""
    folder = tmp_path / "lake"
    folder.mkdir()
    for hour in range(2):
        for link, content in frames(hour).items():
            (folder / f"{link}_20260101{hour:02d}.pcap").write_bytes(content)
    (folder / "lowwater.toml").write_text(SETTINGS)
    (folder / "all.gsql").write_text(QUERIES)
    assert lowwater("ingest", "--lake", folder).code == 0
    return folder


def digests(lake: Path) -> dict[str, list[str]]:
    """Query -> the digests of the inputs of its hours, as they are where captures were decoded by version 14."""
    job = Job.open(lake, "all", lake)
    captures = {
        link: Captures([replace(row, decoder_version=14) for row in rows]) for link, rows in job.captures().items()
    }
    inputs = [job.inputs(at, at + HOUR, captures) for at in range(BEGIN * SECOND, BEGIN * SECOND + 3 * HOUR, HOUR)]
    return {query.name: [each.digest(query)[:16] for each in inputs] for query in job.plan.queries}


PUBLISHED = {
    "counted": ["e641ba6f59942c56", "bea3a6c720e0a1e0", "644c2e417a91665d"],
    "busy": ["c34731b15e167576", "6c25093e275bca36", "7997f3528de579ac"],
    "answered": ["f81b6becaa444b88", "20c646f543223e4d", "8e220ec8760aafe9"],
    "unanswered": ["ba6a4b87d16c8428", "fa556c3a036868b5", "d9d22e45da40b11b"],
    "known": ["7fa4b5a45f3e38fe", "9d155e9640a3288f", "6673ea1d128bac6c"],
    "totals": ["71ba7cdb5c2450b7", "071034045c13a94e", "b80bf077fdce4995"],
    "chosen": ["f32fb3285d09d5f2", "9f23238f01a7f2ed", "b0201a2a21f1b06a"],
}
"""Digests by which the code before the tree of keys published this lake (commit b76e52b6)."""


def test_what_was_published_before_the_tree_of_keys_is_not_stale(lake: Path) -> None:
    assert digests(lake) == PUBLISHED


def stale(lake: Path) -> set[str]:
    words = [line.split() for line in lowwater("status", "--lake", lake).out.splitlines()]
    return {each[2] for each in words if {"stale", "stale:"} & {*each}}


def said_of(lake: Path) -> list[str]:
    """The lines of `plan` that say each cause of stale intervals once."""
    lines = lowwater("plan", "--lake", lake).out.splitlines()
    return [line for line in lines if re.search(r"\d hours? stale: ", line)]


TIES = Revision(
    ("join",), "ties of joins", "a tie of two NULL is one", "0.9", concerns=lambda join: join.kind == "INNER_JOIN"
)
SUMS = Revision(("aggregate sum",), "sums", "a sum of nothing is 0", "0.9")
LOW = Revision((revisions.LFTA,), "the order of packets", "equal times stand as in their file", "0.9")


@pytest.mark.slow
def test_a_rule_makes_those_queries_stale_that_use_it(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert lowwater("backfill", "--lake", lake).code == 0
    assert stale(lake) == set() and said_of(lake) == []
    span = "2026-01-01T00:00:00Z to 2026-01-01T02:00:00Z"
    monkeypatch.setattr(revisions, "REVISIONS", (*revisions.REVISIONS, TIES))
    assert stale(lake) == {"answered"}
    words = "the rule of join is version 4 (since 0.9): ties of joins: a tie of two NULL is one"
    assert said_of(lake) == [f"answered: 2 hours stale: {words}, {span}"]
    plan = " ".join(lowwater("plan", "--lake", lake).out.split())
    assert f"{span} (2 intervals) all stale" in plan and plan.count(" all stale ") == 1, "one row of one cause"
    monkeypatch.setattr(revisions, "REVISIONS", (*revisions.REVISIONS[:-1], SUMS))
    assert stale(lake) == {"counted", "busy"}
    words = "the rule of aggregate sum is version 2 (since 0.9): sums: a sum of nothing is 0"
    assert said_of(lake) == [f"counted, busy: 2 hours stale: {words}, {span}"]
    assert lowwater("backfill", "--lake", lake).code == 0
    assert stale(lake) == set()
    monkeypatch.setattr(revisions, "REVISIONS", (*revisions.REVISIONS, LOW))
    assert stale(lake) == set(NAMES)
    monkeypatch.setattr(revisions, "REVISIONS", revisions.REVISIONS[:-2])
    assert stale(lake) == {"counted", "busy"}, "an older program does not know the rule"


@pytest.mark.slow
def test_plan_says_once_why_hours_are_stale(lake: Path) -> None:
    assert lowwater("backfill", "--lake", lake).code == 0
    settings = lake / "lowwater.toml"
    settings.write_text(settings.read_text().replace('skew = "2s"', 'skew = "3s"'))
    (lake / "all.gsql").write_text(QUERIES.replace("n > 2", "n > 3"))
    span = "2026-01-01T00:00:00Z to 2026-01-01T02:00:00Z"
    names = "counted, busy, answered, unanswered, known, totals"
    assert said_of(lake) == [
        f"{names}: 2 hours stale: link a: skew was 2s, is 3s, {span}",
        f"busy: 2 hours stale: query busy has changed, {span}",
    ]


def decoded(lake: Path) -> Iterator[tuple[str, str, int]]:
    for link, rows in read_captures(open_lake(lake), ["a", "b"]).items():
        yield from ((link, row.path.rpartition("/")[2], row.decoder_version) for row in rows)


@pytest.mark.slow
def test_a_version_of_the_decoder_concerns_the_captures_that_it_may_read_otherwise(
    lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One hour of b is of Linux's cooked captures, which the new version reads otherwise."""
    cooked = pcap_bytes([((BEGIN + 3600 + at) * SECOND, bytes(16)) for at in range(5)], link_type=LINUX_SLL)
    (lake / "b_2026010101.pcap").write_bytes(cooked)
    assert lowwater("ingest", "--lake", lake).code == 0
    assert lowwater("backfill", "--lake", lake).code == 0
    before = sorted(decoded(lake))
    version = before[0][2]
    monkeypatch.setattr("lowwater.lake.ingestion.known_files.DECODER_VERSION", version + 1)
    change = Decoding("cooked frames of hotspots", link_types=frozenset({"LINUX_SLL"}))
    monkeypatch.setattr(revisions, "DECODINGS", {version + 1: change})
    assert stale(lake) == {*NAMES}, "the hour of the capture does not run until it is ingested again"
    told = f"a capture was decoded by version {version}, now {version + 1} (cooked frames of hotspots): ingest it again"
    (line,) = said_of(lake)
    assert line.endswith(f": 1 hour stale: {told}, 2026-01-01T01:00:00Z")
    said = lowwater("ingest", "--lake", lake)
    assert said.code == 0 and said.out.count("replaced") == 1, said.out
    after = sorted(decoded(lake))
    assert {name for name, *_ in {*after} - {*before}} == {"b"} and len({*after} - {*before}) == 1
    assert lowwater("backfill", "--lake", lake).code == 0 and stale(lake) == set()
    # One that no table describes may read every capture otherwise.
    monkeypatch.setattr(revisions, "DECODINGS", {})
    assert stale(lake) == set(NAMES)


@pytest.mark.parametrize(
    ("change", "concerned"),
    [
        (Decoding("x"), {"ethernet", "vlan", "old", "log"}),
        (Decoding("x", formats=frozenset({"csv"})), {"log"}),
        (Decoding("x", link_types=frozenset({"EN10MB"})), {"ethernet", "vlan", "old"}),
        (Decoding("x", types=frozenset({"0x8874"})), {"vlan", "old", "log"}),
        (Decoding("x", types=frozenset({"0x9999"})), {"old", "log"}),
        (Decoding("x", kept=frozenset({"dns"})), {"ethernet"}),
    ],
)
def test_a_change_of_decoding_concerns_what_the_ledger_cannot_rule_out(
    change: Decoding, concerned: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = {
        "ethernet": revisions.Seen("pcap", "EN10MB", (), ("dns", "payload")),
        "vlan": revisions.Seen("pcapng", "EN10MB", ("0x8874", "cut"), ()),
        "old": revisions.Seen("pcap", "EN10MB", None, ()),
        "log": revisions.Seen("csv", "", None, ()),
    }
    assert {name for name, each in seen.items() if change.concerns(each)} == concerned
    monkeypatch.setattr(revisions, "DECODINGS", {15: change, 16: change})
    for name, each in seen.items():
        assert revisions.last_version(16, False, lambda each=each: each) == (16 if name in concerned else 14)
        assert revisions.last_version(17, False, lambda each=each: each) == 17, "no table tells"
        assert revisions.changes_of(14, 16, False, each) == ("x; x" if name in concerned else "")


def test_types_beyond_those_that_the_ledger_keeps_apart_may_be_any() -> None:
    seen = revisions.Seen("pcap", "EN10MB", ("0x0001", revisions.OTHER), ())
    assert Decoding("x", types=frozenset({"0x9999"})).concerns(seen)


def test_lines_of_one_cause_are_of_one_kind() -> None:
    named = "link a: capture {}"
    for tail in ("was added", "is no longer read", "was replaced, or is gone", ": its records and its decoder changed"):
        kinds = {keys.kind(named.format(name) + tail if tail[0] == ":" else f"{named.format(name)} {tail}")
                 for name in ("a 1.pcap", "was added.pcap", "b")}  # fmt: skip
        assert len(kinds) == 1, kinds
    assert keys.kind("link a: there is a gap from 2026-01-01T00:00:00Z to 2026-01-01T01:00:00Z") == (
        "link a: there is a gap from ... to ..."
    )
    assert keys.kind("link a: skew was 1s, is 2s") != keys.kind("link a: skew was 1s, is 3s")


def evaluated(lake: Path, since: int) -> tuple[list[list[str]], set[str], int]:
    """Behind a number of rows of the ledger: the LFTAs that each low stage ran, the queries of high stages, and the
    number of rows of the ledger now."""
    rows = read_replays(open_lake(lake))
    new = rows[since:]
    lows = [stored_object(row.accounting)["ran"] for row in new if row.stage == "low"]
    return lows, {row.query for row in new if row.stage == "high"}, len(rows)


@pytest.mark.slow
def test_an_edit_of_one_query_runs_its_lftas_only(lake: Path, tmp_path: Path) -> None:
    """Counterexample: one of seven queries was edited, and every LFTA and query of a year was evaluated again."""

    def after(text: str) -> tuple[list[list[str]], set[str]]:
        nonlocal count
        (lake / "all.gsql").write_text(text)
        said = lowwater("backfill", "--lake", lake)
        assert said.code == 0, said
        lows, queries, count = evaluated(lake, count)
        return lows, queries

    count = 0
    lows, queries = after(QUERIES)
    assert queries == {*NAMES} and len(lows[0]) == len({*lows[0]}) > 6, "an LFTA that two queries read runs once"
    assert after(QUERIES.replace("len > $most", "len >= $most")) == ([["chosen"]] * 2, {"chosen"})
    text = QUERIES.replace("len > $most", "len >= $most").replace("n > 2", "n > 3")
    assert after(text) == ([[], []], {"busy"}), "it reads rows of an LFTA that are there"
    assert after(text.replace("SELECT tb, n FROM", "-- packets\nSELECT tb, n FROM")) == ([], set())
    assert after(text.partition("DEFINE { query_name 'chosen'")[0]) == ([], set())
    extra = "DEFINE { query_name 'more'; } SELECT tb, bytes FROM counted WHERE n > 1;"
    assert after(text + extra) == ([[], []], {"more"}), "a query that reads another one reads its LFTA"
    suites = lake / "expectations" / "all"
    suites.mkdir(parents=True)
    suite = {
        "name": "busy",
        "expectations": [{"type": "expect_column_values_to_be_between", "kwargs": {"column": "n", "min_value": 0}}],
    }
    (suites / "busy.json").write_text(json.dumps(suite))
    judged = "2 intervals audited by suites or limits that have changed since"
    assert after(text + extra) == ([], set()) and judged in lowwater("plan", "--lake", lake).out
    (suites / "busy.json").unlink()
    assert judged not in lowwater("plan", "--lake", lake).out
    settings = lake / "lowwater.toml"
    settings.write_text(settings.read_text() + "[thresholds]\nviolating = { warning = 0.5 }\n")
    assert after(text + extra) == ([], set()) and judged in lowwater("plan", "--lake", lake).out
    span = ("--from", "2026-01-01T00:00Z", "--to", "2026-01-01T02:00Z")
    assert lowwater("replay", "all", "--lake", lake, "--stage", "audit", *span).code == 0
    assert judged not in lowwater("plan", "--lake", lake).out
    whole = tmp_path / "whole"
    shutil.copytree(lake, whole, ignore=shutil.ignore_patterns("lfta", "streams", "tables", "replays", "heartbeats",
                    "state", "pins", "metrics", "quality", "measures", "skew_violations", "lateness"))  # fmt: skip
    assert lowwater("backfill", "--lake", whole).code == 0
    for query in (*NAMES, "more"):
        assert table_rows(lake, query, 0, 1 << 62) == table_rows(whole, query, 0, 1 << 62), query


@pytest.mark.slow
def test_what_an_edit_that_failed_left_is_not_used(lake: Path) -> None:
    """The stream or the LFTA of a query whose key is the same is damaged: it is evaluated, too."""
    assert lowwater("backfill", "--lake", lake).code == 0
    *_, count = evaluated(lake, 0)
    first = "interval=2026-01-01T00*"
    for file in (lake / "streams" / "counted").glob(f"{first}/*.parquet"):
        file.write_bytes(file.read_bytes()[:-9] + bytes(9))
    (lake / "all.gsql").write_text(QUERIES.replace("len > $most", "len >= $most"))
    assert lowwater("backfill", "--lake", lake).code == 0
    lows, queries, count = evaluated(lake, count)
    assert lows == [["chosen"]] * 2 and queries == {"chosen", "counted"}, "its LFTA is as it was"
    shutil.rmtree(next((lake / "lfta" / "all").glob("counted-*")))
    (lake / "all.gsql").write_text(QUERIES)
    assert lowwater("backfill", "--lake", lake).code == 0
    lows, queries, count = evaluated(lake, count)
    assert lows == [["chosen", "counted"]] * 2 and queries == {"chosen", "counted", "busy"}


@pytest.mark.slow
def test_accounts_that_an_interval_of_another_length_replaced_are_made_again(lake: Path) -> None:
    """Counterexample: hours, then two hours at once by another text, then hours by the first text again. The rows of
    the hours were there, and their accounts were those of the other text."""
    text = "DEFINE {{ query_name 'long'; }} SELECT time, len FROM a.TCP WHERE srcPort > {};"
    for length, least, accepted in (("1h", 2009, 100), ("2h", 2049, 20), ("1h", 2009, 100)):
        settings = SETTINGS.replace('params = { most = "5" }', "").replace('length = "1h"', f'length = "{length}"')
        (lake / "lowwater.toml").write_text(settings)
        (lake / "all.gsql").write_text(text.format(least))
        assert lowwater("backfill", "--lake", lake).code == 0
        assert len(table_rows(lake, "long", 0, 1 << 62)) == accepted
        accounts = read_heartbeats(open_lake(lake), "all", 0, 1 << 62)
        assert sum(accounts.column("accepted").to_pylist()) == accepted


@pytest.mark.slow
def test_after_a_failure_of_the_audit_nothing_is_kept(lake: Path) -> None:
    """Counterexample: the accounts of a query that was kept were gone. Each audit of an edit failed by them, and no run
    made them again."""
    assert lowwater("backfill", "--lake", lake).code == 0
    shutil.rmtree(lake / "heartbeats")
    (lake / "all.gsql").write_text(QUERIES.replace("len > $most", "len >= $most"))
    hour = ("replay", "all", "--lake", lake, "--from", "2026-01-01T00:00Z", "--to", "2026-01-01T01:00Z")
    assert lowwater(*hour).code == 1
    *_, count = evaluated(lake, 0)
    assert lowwater(*hour).code == 0
    assert evaluated(lake, count)[1] == {*NAMES}


@pytest.mark.slow
def test_rows_by_share_are_not_those_in_order(lake: Path) -> None:
    """Counterexample: rows of an LFTA were divided by the group of its reader, which was then edited to take the first
    and the last one. Of rows of one instant it took those of other groups, as done."""
    count, lengths = 70_000, 50
    frames = [tcp("10.0.0.1", "192.0.2.1", 1000 + at, 443, SYN, data=bytes(at)) for at in range(lengths)]
    sent = [frames[(7 * at + 13) % lengths] for at in range(count)]
    rows = [((BEGIN + at // 40) * SECOND, frame) for at, frame in enumerate(sent)]
    (lake / "a_2026010100.pcap").write_bytes(pcap_bytes(rows, nanoseconds=True))
    assert lowwater("ingest", "--lake", lake).code == 0
    settings = SETTINGS.replace('params = { most = "5" }', "").replace(
        "[links.b]", 'until = "2026-01-01T01:00:00Z"\n[links.b]'
    )
    (lake / "lowwater.toml").write_text(settings)
    groups = "len, approx_count_distinct(srcPort) AS ports FROM a.TCP GROUP BY time/3600 AS tb, len"
    edges = "FIRST(len) AS early, FIRST(srcPort) AS port, LAST(len) AS late FROM a.TCP GROUP BY time/3600 AS tb"
    for items in (groups, edges):
        (lake / "all.gsql").write_text(f"DEFINE {{ query_name 'q'; }} SELECT tb, {items};")
        assert lowwater("backfill", "--lake", lake).code == 0
    (row,) = stored_rows(lake, "q", 0, 1 << 62).to_pylist()
    first, last = len(sent[0]), len(sent[-1])
    assert (row["early"], row["port"], row["late"]) == (first, 1013, last)


PREFIXES = """
DEFINE { query_name 'flows'; visibility 'internal'; }
SELECT tb, destIP, count(*) AS n FROM a.TCP GROUP BY time/600 AS tb, destIP;
DEFINE { query_name 'chosen'; } SELECT tb, n FROM flows WHERE getlpmid(destIP, 'TABLE') = 7;
"""


@pytest.mark.slow
def test_a_condition_that_moved_into_an_lfta_brings_what_it_reads(lake: Path) -> None:
    """Counterexample: the condition of the reader is in the LFTA of the query that it reads, whose key did not have the
    prefix table: after an edit of the table its old rows were published, as done."""
    table, settings = lake / "prefixes.txt", lake / "lowwater.toml"
    settings.write_text(SETTINGS.replace('params = { most = "5" }', f'[files]\nfolders = ["{lake}"]'))
    (lake / "all.gsql").write_text(PREFIXES.replace("TABLE", str(table)))
    for content, rows in (("192.0.2.0/24 7\n", 12), ("192.0.2.0/24 8\n", 0), ("0.0.0.0/0 7\n192.0.2.0/28 7\n", 12)):
        table.write_text(content)
        assert lowwater("backfill", "--lake", lake).code == 0
        assert len(table_rows(lake, "chosen", 0, 1 << 62)) == rows, content
    (lfta,) = Job.open(lake, "all", lake).plan.lftas
    assert "getlpmid" in repr(lfta.predicate), "the condition has moved"


NUMBERED = """
[interval]
length = "1h"
[links.w]
captures = "w_%Y%m%d%H.csv"
rotation = "1h"
kind = "csv"
schemas = ["w.schema"]
since = "2026-01-01T00:00:00Z"
until = "2026-01-01T01:00:00Z"
[query_sets.all]
files = "all.gsql"
"""


@pytest.mark.slow
def test_a_skew_of_an_attribute_is_an_input(tmp_path: Path) -> None:
    """Counterexample: `[links.w.skews]` was edited, and hours whose rows are others by it stayed done."""
    rows = [(BEGIN + 60 * at, at - 7 * (at % 5 == 4)) for at in range(60)]
    (tmp_path / "w_2026010100.csv").write_text("time,seq\n" + "".join(f"{at},{seq}\n" for at, seq in rows))
    fields = "uint time get_csv_uint (increasing); llong seq get_csv_llong (increasing, banded 2);"
    (tmp_path / "w.schema").write_text(f"PROTOCOL W {{ {fields} }}\n")
    query = "DEFINE { query_name 'q'; } SELECT sb, count(*) AS n FROM w.W GROUP BY seq/10 AS sb;"
    (tmp_path / "all.gsql").write_text(query)
    settings = tmp_path / "lowwater.toml"

    def counted() -> int:
        assert lowwater("backfill", "--lake", tmp_path).code == 0
        return sum(row[2] for row in table_rows(tmp_path, "q", 0, 1 << 62))

    settings.write_text(NUMBERED)
    assert lowwater("ingest", "--lake", tmp_path).code == 0
    assert counted() == 48
    settings.write_text(f"{NUMBERED}[links.w.skews]\nseq = 50\n")
    assert "link w: skews was not set, is seq 50" in lowwater("plan", "--lake", tmp_path).out
    assert counted() == 60
    settings.write_text(f"{NUMBERED}[links.w.skews]\nseq = 1\n")
    assert counted() == 48
    settings.write_text(NUMBERED)
    assert counted() == 48 and stale(tmp_path) == set()

"""The law's batches: what intervals leave that run together is what they leave one by one, also after kills."""

from __future__ import annotations

import json
import re
import shutil
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path, PurePath
from random import Random
from typing import Any

import pytest
from lowwater_expectations.audits import SUITES
from lowwater_review import Ledgers
from lowwater_review.app import create

from lowwater import limits
from lowwater.cli.backfills import names_of
from lowwater.config import Retention
from lowwater.errors import LowwaterError
from lowwater.high.process import InProcess
from lowwater.high.runner import Running, Tasks
from lowwater.instants import HOUR, SECOND, format_instant
from lowwater.lake import tables
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.intervals import approve
from lowwater.lake.ledgers.runs import ReplayRow, read_replays
from lowwater.lake.locks import hold_range
from lowwater.lake.maintain import maintain
from lowwater.lake.results.pins import pinned
from lowwater.lake.results.streams import stream_files
from lowwater.quality import reports
from lowwater.replay.interval import run_batch
from lowwater.replay.job import Job
from lowwater.replay.progress import Progress
from lowwater.replay.schedule import backfill as backfills
from lowwater.replay.schedule.backfill import IntervalResult, backfill
from lowwater.replay.schedule.due import Due, DueSelection, due, statuses
from lowwater.replay.stages.batches import divides
from tests.breadth import each_push
from tests.capturemaker import pcap_bytes, udp
from tests.replay.support import QUERIES, START, lowwater, table_rows
from tests.review.asgi import ask

pytestmark = pytest.mark.slow

INTERVALS = 7
LINKS = ("a", "b")
LENGTHS = {"5min": 300, "20min": 1200, "1h": 3600}
POLICIES = ("fail", "wait", "publish")
NAMES = ("flows", "minutes", "pairs")
TEXT = """DEFINE { query_name 'flows'; }
SELECT tb, srcIP, count(*) AS cnt, sum(len) AS bytes FROM [both].DataProtocol GROUP BY time/60 AS tb, srcIP;
DEFINE { query_name 'minutes'; }
SELECT tb, count(*) AS cnt FROM a.DataProtocol GROUP BY time/90 AS tb;
DEFINE { query_name 'pairs'; }
SELECT A.time, A.srcIP, B.len FROM a.DataProtocol A INNER JOIN b.DataProtocol B
WHERE A.time = B.time AND A.srcIP = B.srcIP
"""
CHAIN = """;
DEFINE { query_name 'hosts'; }
SELECT tb, srcIP, running_sum(len) AS total FROM a.DataProtocol
GROUP BY time/600 AS tb, srcIP CLOSING_WHEN running_sum(len) > 900
"""
CHAINED = (*NAMES, "hosts")


ASKED = [
    {"type": kind, "kwargs": kwargs, "severity": "warning"}
    for kind, kwargs in (
        ("expect_column_values_to_not_be_null", {"column": "bytes"}),
        ("expect_column_values_to_not_be_in_set", {"column": "srcIP", "value_set": ["10.0.0.3"], "mostly": 0.01}),
        ("expect_table_row_count_to_be_between", {"min_value": 1}),
    )
]
"""What is asked of the rows of `flows`: of each, and of all."""


@dataclass(frozen=True)
class World:
    """What lies in the captures of a lake of INTERVALS intervals, and how it is run."""

    length: str
    policy: str  # of link b, which lacks a capture
    bad: int  # interval in which so many records are late that its audit fails
    warned: int  # interval of which a person must approve the warnings
    approval: bool
    seed: int
    text: str = TEXT

    @property
    def seconds(self) -> int:
        return LENGTHS[self.length]

    def records(self, link: str, number: int) -> list[tuple[int, bytes]]:
        """The packets of a capture: one an interval."""
        random, begin = Random(f"{self.seed} {link} {number}"), START + number * self.seconds * SECOND
        stamps = sorted(begin + random.randrange(self.seconds * SECOND) for _ in range(random.randrange(12, 40)))
        share = 0.5 if number == self.bad else 0.06 if number == self.warned else 0.0
        late = [at for at in stamps[3:] if random.random() < share]
        moved = {at: max(begin, at - self.seconds * SECOND // 4) for at in late}
        return [
            (moved.get(at, at), udp(f"10.0.0.{random.randrange(4)}", "10.0.1.1", 4000, 53, bytes(random.randrange(60))))
            for at in stamps
        ]

    def make(self, folder: Path) -> Path:
        """The lake with all captures, of which nothing has run."""
        lake, lacks = folder / "lake", Random(self.seed).randrange(1, INTERVALS)
        lake.mkdir(parents=True)
        (lake / "q.gsql").write_text(self.text)
        lines = [f'[interval]\nlength = "{self.length}"\n[sets]\nboth = ["a", "b"]\n[replay]\npatience = "0s"']
        lines.append(f'[query_sets.q]\nfiles = ["q.gsql"]\napproval = {str(self.approval).lower()}')
        for link in LINKS:
            policy = self.policy if link == "b" else "fail"
            lines.append(f'[links.{link}]\nskew = "1s"\nsince = "{format_instant(START)}"\npolicy = "{policy}"')
            lines.append(f'captures = "{folder}/{link}_%Y%m%dT%H%M%SZ.pcap"\nrotation = "{self.length}"')
        (lake / "lowwater.toml").write_text("\n".join(lines) + "\n")
        (lake / "expectations" / "q").mkdir(parents=True)
        (lake / "expectations" / "q" / "flows.json").write_text(json.dumps({"name": "flows", "expectations": ASKED}))
        for link in LINKS:
            for number in range(INTERVALS):
                if (link, number) != ("b", lacks):
                    at = datetime.fromtimestamp(START // SECOND + number * self.seconds, UTC)
                    records = self.records(link, number)
                    (folder / f"{link}_{at:%Y%m%dT%H%M%SZ}.pcap").write_bytes(pcap_bytes(records))
        said = lowwater("ingest", "--lake", lake)
        assert said.code == 0, said
        return lake

    @property
    def spans(self) -> list[tuple[int, int]]:
        length = self.seconds * SECOND
        return [(START + number * length, START + (number + 1) * length) for number in range(INTERVALS)]


def drawn(seed: int) -> World:
    random = Random(seed)
    bad, warned = random.sample(range(INTERVALS), 2)
    length, policy = sorted(LENGTHS)[seed % 3], POLICIES[seed % 3]
    return World(length, policy, bad, warned, random.random() < 0.5, seed)


@cache
def made(folder: Path, world: World) -> Path:
    return world.make(folder / str(world.seed))


def run(lake: Path, most: int) -> list[IntervalResult]:
    """A backfill with at most so many intervals in a batch."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "BATCH_INTERVALS", most)
        job = Job.open(lake, "q", QUERIES)
        return backfill([job], due(job, DueSelection()), runner=InProcess())


def counted(lake: Path, name: str, without: set[str]) -> Counter[tuple[Any, ...]]:
    """The rows of a table without some columns."""
    path = lake / name
    table = tables.open_table(path)
    rows = [] if table is None else tables.table_dataset(path, table).to_table().to_pylist()
    return Counter(
        tuple((key, shown(value)) for key, value in sorted(row.items()) if key not in without)
        for row in rows
        if row.get("sane") != 0 or row.get("read")  # a minute that is read and charged to nobody
    )


def shown(value: Any) -> Any:
    """A value as it is compared: sums of floats in another order are equal up to rounding, and lists have a hash."""
    return f"{value:.9g}" if isinstance(value, float) else repr(value) if isinstance(value, list) else value


CLOCKS = {"finished_at", "measured_at", "audited_at", "kept_at"}
WORK = {
    "records",
    "met",
    "rows_out",
    "punctuations",
    "ejections",
    "collisions",
    "groups",
    "nanoseconds",
    "beat_nanoseconds",
    "slots",
}
"""What an LFTA did, which depends on how its rows were divided."""
LEDGERS = ("heartbeats", "skew_violations", "metrics", "lateness", "quality", "measures/links", "measures/skew")
LEDGERS += ("measures/lftas", "measures/queries", "measures/rows")


def told(row: ReplayRow) -> tuple[Any, ...]:
    """What the ledger says of a stage of an interval, without times, numbers of commits and files."""
    account = json.loads(row.accounting)
    judged = {name: account.get(name) for name in ("verdict", "links", "lftas", "inputs", "suites")}
    rows = None if row.stage == "low" else row.rows
    return row.state, row.reason, row.digest, rows, json.dumps(judged, sort_keys=True)


def left(lake: Path, names: Sequence[str] = NAMES) -> dict[str, Any]:
    """All that runs have left: rows, states, ledgers and pages."""
    opened = open_lake(lake)
    newest = {(row.interval, row.query, row.stage): told(row) for row in read_replays(opened, "q")}
    found: dict[str, Any] = {name: counted(lake, name, CLOCKS | WORK) for name in LEDGERS}
    for query in names:
        found[query] = table_rows(lake, query, 0, 1 << 62) if (lake / "tables" / query).exists() else []
    found["states"] = [(row.start, row.query, row.state, row.why, row.rows) for row in statuses(lake, QUERIES)]
    found["files"] = sorted(path.relative_to(lake).as_posix() for path in lake.glob("reports/q/*/*.html"))
    found["pages"] = {each.address: timeless(each.html) for each in reports.drawn(opened, 0, 1 << 62, lambda _: True)}
    return found | {"replays": newest}


def timeless(page: str) -> str:
    """A page of an audit without the time of it."""
    return re.sub(r"validated at</th><td>[^<]+", "", page)


def same(ours: dict[str, Any], theirs: dict[str, Any], root: Path, other: Path) -> None:
    """Holds two lakes against each other; messages name the folder of their lake."""
    for name in theirs:
        text = repr(ours[name]).replace(str(root), str(other))
        if text != repr(theirs[name]):
            assert ours[name] == theirs[name], name


def one_by_one(lake: Path, folder: Path) -> Path:
    """The same lake, of which each interval has run by itself."""
    alone = folder / "alone"
    if not alone.exists():
        shutil.copytree(lake, alone)
        run(alone, 1)
    return alone


@pytest.mark.parametrize("seed", each_push(range(3), 3))
def test_a_batch_leaves_what_its_intervals_leave_one_by_one(seed: int, tmp_path: Path) -> None:
    """A failed audit, a gap under each policy, late records and approval are in each of them."""
    world = drawn(seed)
    lake = made(tmp_path, world)
    alone = one_by_one(lake, tmp_path)
    tried = run(lake, INTERVALS)
    lows = [json.loads(row.accounting) for row in read_replays(open_lake(lake), "q") if row.stage == "low"]
    assert any("range" in each for each in lows), "some ran together"
    same(left(lake), left(alone), lake, alone)
    failed = {(each.due.start - START) // (world.seconds * SECOND) for each in tried if each.state == "failed"}
    assert world.bad in failed and len(failed) < 4
    # An interval of a batch is one like any other: an edit evaluates one query, and reads the rows of LFTAs again.
    for each in (lake, alone):
        (each / "q.gsql").write_text(TEXT.replace("time/90", "time/30"))
        run(each, INTERVALS)
    same(left(lake), left(alone), lake, alone)
    # So is one that runs by itself.
    (start, end), span = next(each for at, each in enumerate(world.spans) if at not in (world.bad, world.warned)), []
    span += ["--from", format_instant(start), "--to", format_instant(end), "--stage"]
    for stage in ("high", "audit"):
        assert lowwater("replay", "q", "--lake", lake, *span, stage).code in (0, 1)
    for query in NAMES:
        assert table_rows(lake, query, 0, 1 << 62) == table_rows(alone, query, 0, 1 << 62)


def test_pages_of_an_audit_are_drawn_of_its_ledgers_and_are_files_where_it_did_not_pass(tmp_path: Path) -> None:
    world = World("5min", "publish", 2, -1, False, 9)
    lake = made(tmp_path, world)
    run(lake, INTERVALS)
    opened = open_lake(lake)
    audits = reports.interval_audits(opened)
    verdicts = [each.verdict for each in audits]
    assert verdicts[2] == "failed" and {"passed"} <= {*verdicts}
    for audit in audits:
        assert [*audit.pages] == [*SUITES]
        for address in audit.pages.values():
            page, file = reports.page(opened, address), lake / "reports" / address
            assert page is not None and (page.query_set, page.address) == ("q", address)
            assert file.exists() == any(finding.suite == PurePath(address).stem for finding in audit.failures)
            if file.exists():
                assert timeless(page.html) == timeless(file.read_text()), "also which rows of measures are broken"
    rows = reports.page(opened, audits[0].pages["rows"])
    assert rows is not None and "nothing is asked of its rows" in rows.html and "srcIP" in rows.html
    nobody = ("q/1969-01-01T000000Z_1970-01-01T000000Z/links.html", "q/9999-01-01T000000Z_9999-01-02T000000Z/rows.html")
    for address in (*nobody, audits[0].pages["rows"].replace("q/", "other/"), "links.html", "../lowwater.toml", ""):
        assert reports.page(opened, address) is None
    for sees, status in ((True, 200), (False, 404)):
        app = create(Ledgers(lake, QUERIES), permissions=lambda sees=sees: lambda _: sees)
        for audit in (audits[0], audits[2]):
            answer = ask(app, f"/docs/{audit.page}")
            assert answer.status == status and ("expectations hold" in answer.text) == sees
        assert ask(app, "/docs/suites/links.html").status == ask(app, "/docs/assets/lowwater.css").status == 200
    # One that passes in the end has none as a file.
    with (lake / "lowwater.toml").open("a") as settings:
        settings.write("".join(f"[links.{link}.thresholds]\nviolating = 1.0\n" for link in LINKS))
    run(lake, INTERVALS)
    again = reports.interval_audits(opened)
    assert (again[2].verdict, [*lake.glob(f"reports/{audits[2].page}")]) == ("passed", [])
    assert {path.parent.name for path in lake.glob("reports/q/*/*.html")} == {
        tables.interval_label(each.start, each.end) for each in again if each.verdict == "warned"
    }


class Killed(BaseException):
    """The process ends here."""


@contextmanager
def dies(at: int, before: bool) -> Iterator[list[int]]:
    """Kills the process at its commit of a number, at none where it is -1, before or behind it; yields the number of
    commits so far. No thread of it commits behind that, and all have ended when this is left."""
    commits, real = [0], tables.commit

    def commit(*arguments: Any, **more: Any) -> None:
        mine, commits[0] = commits[0], commits[0] + 1
        if mine > at >= 0 or (mine == at and before):
            raise Killed
        real(*arguments, **more)
        if mine == at:
            raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "commit", commit)
        yield commits
        for thread in threading.enumerate():
            if thread.name.startswith("lowwater-backfill"):
                thread.join(60)
                assert not thread.is_alive()


def killed(lake: Path, *kill: Any) -> int:
    """A backfill in one batch that is killed; returns the number of commits, 0 if it lived."""
    with dies(*kill) as commits:
        try:
            run(lake, INTERVALS)
        except Killed:
            return commits[0]
    return 0


def test_a_killed_batch_leaves_the_old_or_the_new_and_the_next_run_goes_on(tmp_path: Path) -> None:
    world = World("20min", "fail", 2, 4, False, 11)
    lake = made(tmp_path, world)
    alone = one_by_one(lake, tmp_path)
    right, chance = left(alone), Random(7)
    at = 0
    while killed(lake, at, chance.random() < 0.5):
        for query in NAMES:
            for start, end in world.spans:
                if (lake / "tables" / query).exists():
                    assert table_rows(lake, query, start, end) in ([], table_rows(alone, query, start, end))
        pins = pinned(open_lake(lake), "q")
        assert pins is None or pins.tables or pins.unfinished
        at += chance.randrange(5, 14)
    assert at > 20, "the last runs were killed where they publish"
    ours = left(lake)
    for name in (*NAMES, "states", *LEDGERS):
        assert ours[name] == right[name], name


def test_where_one_cannot_be_read_the_others_are_published(tmp_path: Path) -> None:
    """Which interval is at fault is known once each runs by itself."""
    world = World("1h", "publish", -1, -1, False, 5)
    lake = made(tmp_path, world)
    hour = START // (3600 * SECOND) + 3
    (victim,) = (lake / "packets" / "link=a").glob(f"hour={hour}/*.parquet")
    whole = victim.read_bytes()
    victim.write_bytes(b"PAR1" + bytes(len(whole) - 8) + b"PAR1")
    states = [each.state for each in sorted(run(lake, INTERVALS), key=lambda each: each.due.start)]
    assert states.count("failed") in (1, 2) and states[3] == "failed" and len(states) == INTERVALS
    victim.write_bytes(whole)
    assert {each.state for each in run(lake, INTERVALS)} <= {"done", "incomplete", "provisional"}
    alone = one_by_one(world.make(tmp_path / "again"), tmp_path)
    for query in NAMES:
        assert table_rows(lake, query, 0, 1 << 62) == table_rows(alone, query, 0, 1 << 62)


def test_a_commit_publishes_a_batch_and_names_each_of_its_intervals(tmp_path: Path) -> None:
    world = World("5min", "publish", -1, -1, False, 8)
    lake = made(tmp_path, world)
    with dies(-1, True) as commits:
        run(lake, INTERVALS)
    assert commits[0] < 40
    table = tables.open_table(lake / "tables" / "flows")
    assert table is not None
    published = [entry for entry in table.history() if "lowwater.published" in entry]
    assert len(published) == 1
    said = lowwater("history", "flows", "--lake", lake)
    assert said.code == 0 and said.out.count("first publication") == INTERVALS
    streams = [stream_files(open_lake(lake).stream("flows"), *span) for span in world.spans]
    assert all(len(each) == 2 for each in streams)
    stored = {path.parent.name for path in lake.glob("lfta/q/*/interval=*/*.parquet")}
    assert stored == {f"interval={tables.interval_label(world.spans[0][0], world.spans[-1][1])}"}
    next(lake.glob("lfta/q/flows-*/interval=*/*.parquet")).unlink()
    (lake / "q.gsql").write_text(TEXT.replace("time/90", "time/30"))
    assert {each.state for each in run(lake, INTERVALS)} <= {"done", "incomplete", "provisional"}, "lost rows are made"
    first = world.spans[2]
    before, settings = table_rows(lake, "flows", 0, 1 << 62), (lake / "lowwater.toml").read_text()
    (lake / "lowwater.toml").write_text(settings.replace('skew = "1s"', 'skew = "2s"'))
    said = lowwater("replay", "q", "--lake", lake, "--from", format_instant(first[0]), "--to", format_instant(first[1]))
    assert said.code == 0 and table_rows(lake, "flows", 0, 1 << 62) == before  # no record is late


def test_consent_to_one_audit_of_a_batch_is_none_to_another(tmp_path: Path) -> None:
    """A stream that was changed since a person approved its audit is not published, and not audited anew in silence."""
    world = World("5min", "publish", -1, -1, True, 2)
    lake, job = world.make(tmp_path), partial(Job.open, tmp_path / "lake", "q", QUERIES)
    looks_back = "SELECT tb, count(*) AS cnt FROM b.DataProtocol GROUP BY time/3600 AS tb"  # into the gap, which warns
    (lake / "q.gsql").write_text(f"{TEXT};\nDEFINE {{ query_name 'hours'; }}\n{looks_back};\n")
    held = [(each.due.start, each.due.end) for each in run(lake, INTERVALS) if each.state == "held"]
    assert len(held) > 2
    for start, end in held:
        approve(job().lake, "q", start, end, "ann")
    first, *others = sorted(held)
    stream_files(job().lake.stream("flows"), *first)[0].write_bytes(b"PAR1")
    states = {each.due.start: each for each in run(lake, INTERVALS)}
    assert states[first[0]].state == "failed" and "changed since its audit" in states[first[0]].reason
    assert {states[start].state for start, _ in others} <= {"done", "incomplete", "provisional"}


class Gone(InProcess):
    """A runner that cannot be started."""

    def __init__(self) -> None:
        super().__init__()
        self.tries = 0

    def follow(self, running: Running) -> Any:
        self.tries += 1
        raise LowwaterError("there is no such runner")

    def broken(self, error: LowwaterError) -> bool:
        return "no such runner" in error.message


def test_a_batch_does_not_wait_for_a_broken_runner_once_for_each_interval(tmp_path: Path) -> None:
    lake, runner = World("5min", "publish", -1, -1, False, 8).make(tmp_path), Gone()
    job = Job.open(lake, "q", QUERIES)
    with pytest.raises(LowwaterError, match="no such runner"):
        backfill([job], due(job, DueSelection()), runner=runner)
    assert runner.tries <= 2, "of both levels of the batch"


class Watched(InProcess):
    """Notes which levels are at work, that nobody waits for, where the low level of an interval begins."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.left = list[Running](), list[str]()

    def follow(self, running: Running) -> Any:
        if isinstance(running.level, Tasks):
            self.left += [each.level.what for each in self.begun if not (each.ended.is_set() or each.future.done())]
        self.begun.append(running)
        return super().follow(running)


def test_where_the_low_level_fails_the_high_one_does_not_wait_for_it(tmp_path: Path) -> None:
    """Counterexample: each interval of a batch left a level that waited, and the seventh had no thread."""
    lake, runner = World("5min", "publish", -1, -1, False, 8).make(tmp_path), Watched()
    for file in (lake / "packets" / "link=a").glob("hour=*/*.parquet"):
        file.write_bytes(b"PAR1" + bytes(file.stat().st_size - 8) + b"PAR1")
    job = Job.open(lake, "q", QUERIES)
    tried = backfill([job], due(job, DueSelection())[:3], runner=runner)
    assert [each.state for each in tried] == ["failed"] * 3
    assert len(runner.begun) == 8 and runner.left == []


def test_a_bar_names_intervals_that_run_together_in_one() -> None:
    hours = [Due("q", at * HOUR, (at + 1) * HOUR, "missing", (), (), 1, None) for at in (4, 0, 1, 2)]
    assert names_of([*hours, replace(hours[0], query_set="r")]) == (
        "q 1970-01-01T00:00:00Z to 1970-01-01T03:00:00Z (3 intervals), q 1970-01-01T04:00:00Z, r 1970-01-01T04:00:00Z"
    )


def test_which_lengths_are_divided() -> None:
    """The accounts of LFTAs are by minute."""
    assert divides(60 * SECOND) and divides(3600 * SECOND)
    assert not divides(90 * SECOND + 1) and not divides(30 * SECOND)


def states_kept(lake: Path) -> dict[str, bytes]:
    """The files of the states that intervals left for those behind them, by folder."""
    files = (path for path in (lake / "state").rglob("*") if path.is_file())
    return {path.relative_to(lake).as_posix(): path.read_bytes() for path in files}


@pytest.mark.nightly
@pytest.mark.parametrize("seed", each_push(range(2), 2))
def test_a_chain_leaves_what_its_intervals_leave_one_by_one(seed: int, tmp_path: Path) -> None:
    """They are evaluated one by one, and audited and published together."""
    world = replace(drawn(seed), policy="publish", bad=-1, warned=-1, approval=False, text=TEXT + CHAIN)
    lake = made(tmp_path, world)
    alone = one_by_one(lake, tmp_path)
    with dies(-1, True) as commits:
        tried = run(lake, INTERVALS)
    assert [(each.due.start, each.due.end) for each in tried] == world.spans
    assert len({each.seconds for each in tried}) == 1, "in one batch"
    with dies(-1, True) as alone_commits:
        shutil.rmtree(tmp_path / "again", ignore_errors=True)
        run(world.make(tmp_path / "again"), 1)
    assert commits[0] < alone_commits[0] * 0.7
    same(left(lake, CHAINED), left(alone, CHAINED), lake, alone)
    assert states_kept(lake) == states_kept(alone) != {}
    # An edit in the middle of the chain: what is before it stays.
    for each in (lake, alone):
        (each / "q.gsql").write_text(world.text.replace("> 900", "> 1200"))
        (start, _), (_, end) = world.spans[0], world.spans[2]
        job = Job.open(each, "q", QUERIES)
        backfill([job], due(job, DueSelection(start, end)), runner=InProcess())
        run(each, INTERVALS if each == lake else 1)
    same(left(lake, CHAINED), left(alone, CHAINED), lake, alone)
    assert states_kept(lake) == states_kept(alone)


def test_what_is_behind_one_of_a_chain_that_fails_waits(tmp_path: Path) -> None:
    world = World("20min", "publish", 3, -1, False, 4, TEXT + CHAIN)
    lake = made(tmp_path, world)
    alone = one_by_one(lake, tmp_path)
    for _ in range(2):
        states = {each.due.start: each.state for each in run(lake, INTERVALS)}
        found = [states.get(start, "") for start, _ in world.spans]
        assert found[3:] == ["failed", *["waiting"] * (INTERVALS - 4)]
    ours, theirs = left(lake, CHAINED), left(alone, CHAINED)
    for name in CHAINED:
        assert ours[name] == theirs[name]
    # Those behind it were evaluated, which their reason says, and never published.
    plain = [[each[:3] + each[4:] for each in found["states"]] for found in (ours, theirs)]
    assert plain[0] == plain[1]


@pytest.mark.nightly
def test_a_killed_batch_of_a_chain_goes_on(tmp_path: Path) -> None:
    world = World("20min", "publish", -1, -1, False, 12, TEXT + CHAIN)
    lake = made(tmp_path, world)
    alone = one_by_one(lake, tmp_path)
    right, chance, at = left(alone, CHAINED), Random(8), 0
    while killed(lake, at, chance.random() < 0.5):
        for query in CHAINED:
            for start, end in world.spans:
                if (lake / "tables" / query).exists():
                    assert table_rows(lake, query, start, end) in ([], table_rows(alone, query, start, end))
        at += chance.randrange(5, 20)
    ours = left(lake, CHAINED)
    assert {name: ours[name] for name in (*CHAINED, "states")} == {name: right[name] for name in (*CHAINED, "states")}
    assert states_kept(lake).keys() == states_kept(alone).keys()


def test_an_hour_that_runs_elsewhere_does_not_delay_the_rest_of_its_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World("1h", "publish", -1, -1, False, 6)
    lake = world.make(tmp_path)
    job = Job.open(lake, "q", QUERIES)
    work = due(job, DueSelection())
    monkeypatch.setattr(backfills, "PAUSE", 0.01)
    with hold_range(job.lake, "q", *world.spans[3]):
        tried = {each.due.start: each.state for each in backfill([job], work, runner=InProcess(), patience=0.0)}
    states = [tried[start] for start, _ in world.spans]
    assert states[3] == "running" and {*states[:3], *states[4:]} <= {"done", "incomplete", "provisional"}
    assert run(lake, INTERVALS)[0].state in ("done", "incomplete")


def test_rows_of_lftas_of_a_batch_go_though_one_of_its_intervals_has_failed(tmp_path: Path) -> None:
    """They were of use to all of them together only, and stayed for ever."""
    world = World("1h", "publish", 2, -1, False, 3)
    lake = world.make(tmp_path)
    run(lake, INTERVALS)
    label = tables.interval_label(world.spans[0][0], world.spans[-1][1])
    assert {path.parent.name for path in lake.glob("lfta/q/*/interval=*/*.parquet")} == {f"interval={label}"}
    failed = lake / "streams" / "flows" / f"interval={tables.interval_label(*world.spans[2])}"
    assert [*failed.glob("*.parquet")]
    later = [row.finished_at for row in read_replays(open_lake(lake), "q")]
    assert "removed streams" not in [each.what for each in maintain(open_lake(lake), Retention(streams="7d"))]
    maintain(open_lake(lake), Retention(streams=0), clock=lambda: max(later) + SECOND)
    assert [*lake.glob("lfta/q/*/interval=*/*.parquet")] == []
    assert [*failed.glob("*.parquet")], "what was audited and not published stays"
    rows = table_rows(lake, "flows", 0, 1 << 62)
    (lake / "q.gsql").write_text(TEXT.replace("time/90", "time/30"))
    assert "done" in {each.state for each in run(lake, INTERVALS)}
    assert table_rows(lake, "flows", 0, 1 << 62) == rows


def test_an_edit_in_the_middle_of_a_batch_is_for_the_next_run(tmp_path: Path) -> None:
    """The batch ends as it began, and all of it is stale; then it is as if the edit had been there before."""
    world = World("20min", "publish", -1, -1, False, 9)
    lake = world.make(tmp_path)
    edited = tmp_path / "alone"
    shutil.copytree(lake, edited)

    def edit(folder: Path) -> None:
        settings = folder / "lowwater.toml"
        settings.write_text(settings.read_text().replace('skew = "1s"', 'skew = "3s"', 1))
        (folder / "q.gsql").write_text(TEXT.replace("time/90", "time/30"))

    job = Job.open(lake, "q", QUERIES)
    job.prepare()
    results = run_batch(job, world.spans, Progress(quiet=True), InProcess(), ask=True, evaluated=lambda: edit(lake))
    assert not [each for each in results if isinstance(each, LowwaterError)]
    assert {row.state for row in statuses(lake, QUERIES)} == {"stale"}
    edit(edited)
    run(edited, 1)
    run(lake, INTERVALS)
    ours, theirs = left(lake), left(edited)
    for name in ("lateness", "skew_violations"):  # which keep what was measured by the skew of before
        assert ours.pop(name).keys() >= theirs.pop(name).keys()
    same(ours, theirs, lake, edited)


def test_an_hour_of_a_batch_that_is_published_again_leaves_the_files_of_the_others(tmp_path: Path) -> None:
    """A file of a published table has rows of one interval, so nothing is cut, and nothing is copied."""
    world = World("1h", "publish", -1, -1, False, 10)
    lake = world.make(tmp_path)
    run(lake, INTERVALS)

    def files() -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for row in tables.live_files(tables.open_table(lake / "tables" / "flows")):  # type: ignore[arg-type]
            found.setdefault(str(row["partition._hour"]), set()).add(row["path"])
        return found

    before, rows = files(), [table_rows(lake, "flows", *span) for span in world.spans]
    (lake / "q.gsql").write_text(TEXT.replace("count(*) AS cnt, sum(len)", "count(*) AS cnt, max(len)"))
    job, (start, end) = Job.open(lake, "q", QUERIES), world.spans[3]
    backfill([job], due(job, DueSelection(start, end)), runner=InProcess())
    after, hour = files(), str(start // HOUR)
    assert before.keys() == after.keys() and before[hour].isdisjoint(after[hour])
    assert {name: each for name, each in before.items() if name != hour} == {
        name: each for name, each in after.items() if name != hour
    }
    now = [table_rows(lake, "flows", *span) for span in world.spans]
    assert now[3] != rows[3] and [*now[:3], *now[4:]] == [*rows[:3], *rows[4:]]

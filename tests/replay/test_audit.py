"""Write, audit, publish: what an audit finds wrong is never visible, is kept, and is told by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from lowwater_review import Ledgers, render

from lowwater.catalog.schemas import PUNCTUATION, ROW
from lowwater.errors import AuditError, LakeError, LawError
from lowwater.instants import HOUR, SECOND, format_instant
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.runs import read_lateness, read_metrics, read_quality, read_quarantine, read_replays
from lowwater.lake.results.streams import stream_files
from lowwater.lake.tables import interval_label
from lowwater.quality.gx_project import write_suites
from lowwater.quality.reports import IntervalAudit, interval_audits
from lowwater.replay.interval import Outcome, replay
from lowwater.replay.job import Job
from lowwater.replay.progress import Progress
from lowwater.replay.schedule.due import statuses
from tests.breadth import some
from tests.capturemaker import pcap_bytes, tcp
from tests.replay.support import (
    END,
    QUERIES,
    START,
    Said,
    all_tables,
    commits,
    copy_lake,
    leftovers,
    lowwater,
    replay_range,
    states,
    table_rows,
    write_settings,
)

if TYPE_CHECKING:
    from lowwater.high.runner import Runner

HOUR_0 = (START, START + HOUR)
INTERVAL = "2026-01-01T00:00:00Z to 2026-01-01T01:00:00Z"


def held(lake: Path, runner: Runner, query_set: str = "demo") -> Outcome:
    """Runs the first hour up to its audit."""
    job = Job.open(lake, query_set, QUERIES)
    (outcome,) = replay(job, *HOUR_0, None, Progress(quiet=True), runner, hold=True)
    return outcome


def files(lake: Path, query: str = "flows") -> list[Path]:
    return stream_files(open_lake(lake).stream(query), *HOUR_0)


def with_rows(lake: Path) -> Path:
    """The first file of the stream that has data rows."""
    return next(file for file in files(lake) if ROW in pq.read_table(file).column("_kind").to_pylist())


def set_values(row: pa.Table, **values: Any) -> pa.Table:
    for name, value in values.items():
        at = row.schema.get_field_index(name)
        row = row.set_column(at, row.schema.field(at), pa.array([value] * row.num_rows, row.schema.field(at).type))
    return row


def add_row(lake: Path, **values: Any) -> None:
    """Adds the first row once more, with other values."""
    file = with_rows(lake)
    table = pq.read_table(file)
    pq.write_table(pa.concat_tables([table, set_values(table.slice(0, 1), **values)]), file)


def a_duplicate(lake: Path) -> None:
    add_row(lake, cnt=999_999)


def a_row_outside(lake: Path) -> None:
    add_row(lake, _last=START + HOUR, tb=7)


def a_row_below_a_promise(lake: Path) -> None:
    add_row(lake, _tick=START + 2 * HOUR, tb=7)


def a_row_gone(lake: Path) -> None:
    file = with_rows(lake)
    pq.write_table(pq.read_table(file).slice(1), file)


def a_value_changed(lake: Path) -> None:
    file = with_rows(lake)
    table = pq.read_table(file)
    at = table.schema.get_field_index("cnt")
    pq.write_table(table.set_column(at, table.schema.field(at), pc.add(table.column("cnt"), 1)), file)


def no_closing(lake: Path) -> None:
    for file in files(lake):
        table = pq.read_table(file)
        closes = pc.and_(pc.equal(table.column("_kind"), PUNCTUATION), pc.equal(table.column("_last"), START + HOUR))
        pq.write_table(table.filter(pc.invert(closes)), file)


def another_type(lake: Path) -> None:
    file = with_rows(lake)
    table = pq.read_table(file)
    at = table.schema.get_field_index("cnt")
    pq.write_table(table.set_column(at, "cnt", table.column("cnt").cast(pa.string())), file)


def a_file_gone(lake: Path) -> None:
    with_rows(lake).unlink()


ALTERATIONS: list[tuple[Callable[[Path], None], str, dict[str, int], str]] = [
    (
        a_duplicate,
        "1 key (tb, protocol, srcIP, destIP, srcPort, destPort) in more than one row",
        {"query_keys_to_be_unique": 2},
        "cnt=999999",
    ),
    (a_row_outside, "1 row with _last outside of the interval", {"query_rows_to_be_owned": 1}, "tb=7"),
    (a_row_below_a_promise, "1 row below an earlier promise", {"query_promises_to_be_kept": 1}, "tb=7"),
    (a_row_gone, "rows, but the high stage wrote", {}, ""),
    (a_value_changed, "have changed since the high stage wrote them", {}, ""),
    (no_closing, "before the interval's end", {"query_to_be_closed": 1}, ""),
    (another_type, "column cnt is string, not int64", {"query_columns_as_planned": 1}, ""),
    (a_file_gone, "a file cannot be read", {"query_columns_as_planned": 1}, ""),
]


def kinds(lake: Path) -> dict[str, str]:
    """Expectation -> type, of the suites."""
    rows = read_quality(open_lake(lake)).to_pylist()
    return {row["expectation"]: row["kind"] for row in rows}


def quarantined(lake: Path, query_set: str = "demo") -> dict[str, list[dict[str, Any]]]:
    """Type of the expectation -> the rows that the audit of the first hour kept."""
    known, found = kinds(lake), dict[str, list[dict[str, Any]]]()
    for row in read_quarantine(open_lake(lake), query_set, *HOUR_0).to_pylist():
        found.setdefault(known[row["expectation"]], []).append(row)
    return found


def of_first_hour(lake: Path) -> IntervalAudit:
    return next(each for each in interval_audits(open_lake(lake)) if each.start == START)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("alter", "says", "kept", "shown"), some(ALTERATIONS, 2), ids=[each[0].__name__ for each in some(ALTERATIONS, 2)]
)
def test_an_altered_stream_is_not_published(
    alter: Callable[[Path], None],
    says: str,
    kept: dict[str, int],
    shown: str,
    published: Path,
    tmp_path: Path,
    runner: Runner,
) -> None:
    """Of the hour that is published already the older publication stays, and the other query is held back too."""
    lake = copy_lake(published, tmp_path / "lake")
    alter(lake)
    with pytest.raises(AuditError) as caught:
        replay_range(lake, runner, *HOUR_0, "audit")
    error = caught.value
    assert error.message.startswith(f"the audit of demo, {INTERVAL}, failed: query flows, {INTERVAL}: ")
    assert says in error.message and "main1" in error.message and "full_flow" not in error.message
    assert Path(error.report).is_file() and error.report in error.hint
    assert says.split(" (")[0] in Path(error.report).read_text(encoding="utf-8").replace("&#39;", "'")
    assert states(lake) == {**states(published), (0, "flows"): "failed", (0, "full_flow"): "failed"}
    with pytest.raises(LakeError, match="stage audit failed"):
        replay_range(lake, runner, *HOUR_0, "publish")
    assert (all_tables(lake), commits(lake)) == (all_tables(published), commits(published))
    found = quarantined(lake)
    (changed,) = {"query_rows_as_made", "query_files_as_made"} & set(found)
    expected = {changed: 1, **kept}
    assert {kind: len(rows) for kind, rows in found.items()} == expected
    assert {row["subject"] for rows in found.values() for row in rows} == {"flows"}
    for kind, count in kept.items():
        rows = [json.loads(row["row"]) for row in found[kind]]
        assert {row["total"] for row in found[kind]} == {count}
        assert not shown or any(f"{name}={value}" == shown for row in rows for name, value in row.items())
    assert leftovers(lake) == []


@pytest.mark.slow
def test_a_failed_interval_is_made_again(published: Path, tmp_path: Path, runner: Runner) -> None:
    """Though its inputs have not changed since it was published."""
    lake = copy_lake(published, tmp_path / "lake")
    a_row_gone(lake)
    with pytest.raises(AuditError):
        replay_range(lake, runner, *HOUR_0, "audit")
    (outcome,) = replay_range(lake, runner, *HOUR_0)
    assert (outcome.state, outcome.verdict, outcome.committed) == ("done", "passed", False)
    assert states(lake) == states(published)
    assert quarantined(lake) == {}
    assert of_first_hour(lake).verdict == "passed"
    (again,) = replay_range(lake, runner, *HOUR_0)
    assert (again.verdict, again.report) == (outcome.verdict, outcome.report)


@pytest.mark.slow
def test_what_was_never_visible_stays_so(lake: Path, tmp_path: Path, runner: Runner) -> None:
    outcome = held(lake, runner)
    assert (outcome.state, outcome.verdict, outcome.report) == ("audit", "passed", "")
    assert states(lake)[0, "flows"] == "held" and not (lake / "tables").exists()
    # Altered between audit and publish: it is told without another audit.
    altered = copy_lake(lake, tmp_path / "altered")
    a_value_changed(altered)
    with pytest.raises(LawError, match=r"the stream of query flows has changed since its audit"):
        replay_range(altered, runner, *HOUR_0, "publish")
    assert not (altered / "tables").exists()
    with pytest.raises(AuditError):
        replay_range(altered, runner, *HOUR_0, "audit")
    assert not (altered / "tables").exists()
    (outcome,) = replay_range(lake, runner, *HOUR_0, "publish")
    assert (outcome.state, outcome.verdict, outcome.report) == ("done", "passed", "")


def write_suite(lake: Path, most: int, severity: str) -> None:
    """Asks of the rows of `flows` that they count at most so many packets."""
    path = lake / "expectations" / "demo" / "flows.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    kwargs = {"column": "cnt", "min_value": 1, "max_value": most}
    entry = {"type": "expect_column_values_to_be_between", "kwargs": kwargs, "severity": severity}
    path.write_text(json.dumps({"name": "flows", "expectations": [entry]}), encoding="utf-8")


@pytest.mark.slow
def test_what_people_expect_of_rows_decides_by_its_severity(lake: Path, runner: Runner) -> None:
    """A critical rule holds back the set, its rows are kept; as a warning it is published; a change is judged alone."""
    write_suite(lake, 1, "critical")
    with pytest.raises(AuditError, match=r"query flows, .*: cnt values to be between: .*: broken by "):
        replay_range(lake, runner, *HOUR_0)
    assert not (lake / "tables").exists() or not any((lake / "tables").iterdir())
    opened = open_lake(lake)
    kept = [row for row in read_quarantine(opened, "demo", *HOUR_0).to_pylist() if row["suite"] == "rows"]
    rows = [json.loads(row["row"]) for row in kept]
    assert rows and all(row["cnt"] > 1 and isinstance(row["srcIP"], str) for row in rows)
    assert {row["subject"] for row in kept} == {"flows: cnt values to be between: min_value 1, max_value 1"}

    write_suite(lake, 1, "warning")
    (outcome,) = replay_range(lake, runner, *HOUR_0)
    assert (outcome.state, outcome.verdict) == ("done", "warned")
    found = [row[0] for row in table_rows(lake, "flows", *HOUR_0)]
    page = Path(outcome.report).with_name("rows.html").read_text(encoding="utf-8")
    assert "nothing is asked of its rows" in page and f"broken by {kept[0]['total']:,} of {len(found):,}" in page

    before = all_tables(lake), commits(lake)
    asked = ("--lake", lake, "--queries", QUERIES, "--from", "2026-01-01T00:00Z", "--to", "2026-01-01T01:00Z")
    write_suite(lake, 1_000_000, "critical")
    said = lowwater("plan", *asked)
    again = "--stage audit --from 2026-01-01T00:00:00Z --to 2026-01-01T01:00:00Z"
    assert (
        "nothing is due\ndemo: 1 interval audited by suites or limits that have changed" in said.out
        and again in said.out
    )
    assert lowwater("replay", "demo", *asked, "--stage", "audit").code == 0
    assert lowwater("plan", *asked).out == "nothing is due\n"
    assert interval_audits(opened)[0].verdict == "passed"
    assert (all_tables(lake), commits(lake)) == before

    write_suite(lake, 1, "critical")
    said = lowwater("replay", "demo", *asked[:-1], "2026-01-01T03:00Z", "--stage", "audit")
    assert said.code == 1 and "cnt values to be between" in said.err + said.out and "_kind=" not in said.err + said.out
    failed = {row.interval_start for row in read_replays(opened, "demo") if row.state == "failed" and row.query == ""}
    assert failed == {START, START + HOUR, START + 2 * HOUR}, "an audit that fails does not stop the others"
    assert "suites that have changed" not in lowwater("plan", *asked).out, "what is failed is due"


@pytest.mark.slow
def test_a_wrong_suite_is_refused_before_anything_runs(lake: Path) -> None:
    assert lowwater("expect", "--lake", lake, "--query-set", "demo", "--queries", QUERIES, "--write").code == 0
    path = lake / "expectations" / "demo" / "full_flow.json"
    shown = lowwater("expect", "--lake", lake, "--query-set", "demo", "--queries", QUERIES).out
    assert path.read_text(encoding="utf-8") in shown
    path.write_text(path.read_text(encoding="utf-8").replace('"cnt1"', '"cnt3"'), encoding="utf-8")
    for command in ("plan", "backfill", "replay demo --from 2026-01-01T00:00Z --to 2026-01-01T01:00Z"):
        said = lowwater(*command.split(), "--lake", lake, "--queries", QUERIES)
        assert f"{path}: expectation 8 (expect_column_values_to_not_be_null): " in said.err
        assert said.code == int(command != "plan"), "a plan only says it"
        assert "the query has no column 'cnt3'\n  hint: did you mean cnt" in said.err
    assert not (lake / "lfta").exists()


@pytest.mark.slow
def test_a_suite_that_asks_nothing_may_be_of_a_query_that_the_set_had_before(lake: Path) -> None:
    """Counterexample: a query was renamed. `lowwater gx` wrote an empty suite for its table, and nothing ran."""
    write_suites(open_lake(lake), "demo", ["before", "flows"])
    asked = ("plan", "--lake", lake, "--queries", QUERIES)
    assert lowwater(*asked).code == 0
    path = lake / "expectations" / "demo" / "before.json"
    rule = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "cnt"}}
    path.write_text(json.dumps({"name": "demo.before", "expectations": [rule]}), encoding="utf-8")
    said = lowwater(*asked)
    assert said.code == 0 and f"{path}: demo has no output query of this name" in said.err


@pytest.mark.slow
def test_the_verdicts_of_the_demo(published: Path, tmp_path: Path, runner: Runner) -> None:
    """The hour with the excluded gap is published with a warning that names link and gap."""
    found = interval_audits(open_lake(published))
    assert [(each.start, each.verdict) for each in found] == [
        (START, "passed"),
        (START + HOUR, "warned"),
        (START + 2 * HOUR, "passed"),
    ]
    ((finding),) = found[1].failures
    assert finding.kind == "link_to_exclude_nothing"
    (message,) = finding.messages
    assert message.startswith("link control, 2026-01-01T01:00:00Z to 2026-01-01T02:00:00Z: ")
    assert "incomplete: no capture covers 2026-01-01T01:" in message and ".pcap" in message
    assert message.count("control") == 1 + message.count("control_") and message.count("no capture") == 1
    for each in found:
        files = {suite for suite, page in each.pages.items() if (published / "reports" / page).is_file()}
        assert files == {finding.suite for finding in each.failures}
    lake = copy_lake(published, tmp_path / "lake")
    outcomes = replay_range(lake, runner, START, END)
    assert [each.verdict for each in outcomes] == ["passed", "warned", "passed"]
    (row,) = [
        row
        for row in read_replays(open_lake(lake))
        if (row.query, row.stage, row.interval_start) == ("flows", "audit", START)
    ]
    accounting = json.loads(row.accounting)
    assert set(accounting["links"]) == {"main1", "main2", "control"}
    for link in accounting["links"].values():
        assert link["read"] == link["malformed"] + link["violating"] + link["sane"] > 0
    said = lowwater("report", "--lake", published)
    assert said.code == 0, said.err
    assert f"  warning: {message}\n" in said.out


@pytest.mark.slow
def test_a_report_that_cannot_be_written(published: Path, tmp_path: Path, runner: Runner) -> None:
    lake = copy_lake(published, tmp_path / "lake")
    (lake / "reports" / "demo").rename(lake / "reports" / "kept")
    (lake / "reports" / "demo").write_text("no folder")
    with pytest.raises(LakeError, match=r"links\.html: the data-quality report cannot be written: .*[Dd]irectory"):
        replay_range(lake, runner, START + HOUR, START + 2 * HOUR, "audit")
    assert states(lake)[1, "flows"] == "failed"
    assert all_tables(lake) == all_tables(published)
    assert leftovers(lake) == []


FRAME = tcp("10.0.0.1", "10.0.0.2", 1024, 80)
LONE = "SELECT tb, srcPort, count(*) AS n FROM main1.TCP GROUP BY time/600 AS tb, srcPort"


def lone_lake(folder: Path, thresholds: str) -> Path:
    """A lake with an hour of 200 packets on main1, of which 4 are late and as many far ahead of all others."""
    lake = folder / "lake"
    lake.mkdir()
    query = folder / "lone.gsql"
    query.write_text(LONE, encoding="utf-8")
    set_thresholds(lake, query, thresholds)
    stamps = [START + i * 18 * SECOND for i in range(200)]
    for number in range(4):
        stamps[20 + 10 * number] -= 60 * SECOND
        stamps[100 + number] += 400 * 24 * HOUR
    path = folder / "main1.pcap"
    path.write_bytes(pcap_bytes([(stamp, FRAME) for stamp in stamps], nanoseconds=True))
    covers = f"{format_instant(START)}/{format_instant(START + 2 * HOUR)}"
    assert lowwater("ingest", "--lake", lake, "--link", "main1", "--covers", covers, path).code == 0
    return lake


def set_thresholds(lake: Path, query: Path, thresholds: str) -> None:
    write_settings(lake, sets={"lone": query})
    with (lake / "lowwater.toml").open("a", encoding="utf-8") as file:
        file.write(thresholds)


@pytest.mark.slow
def test_thresholds_decide(tmp_path: Path, runner: Runner) -> None:
    """Too many fail the audit; with the limits raised the same interval is published with warnings."""
    lake = lone_lake(tmp_path, "[thresholds]\nviolating = 0.001\nmalformed = 0.001\n")
    with pytest.raises(AuditError) as caught:
        replay_range(lake, runner, *HOUR_0, query_set="lone")
    second, first = caught.value.message.splitlines()
    assert f"link main1, {INTERVAL}: 4 of 196 records (2.041%) are later than the skew of 1s" in first
    assert "more than the critical limit of 1%; the first: main1.pcap record 20 (" in first
    assert "4 of 200 records (2%) are malformed" in second
    at = 24 + 100 * (16 + len(FRAME))
    assert f"the first: main1.pcap at byte {at} (time-jump), main1.pcap at byte" in second
    assert not (lake / "tables").exists()
    (state,) = [row for row in statuses(lake, QUERIES) if row.start == START]
    assert (state.state, state.reason) == ("failed", f"audit: {second}")
    shown: Said = lowwater("report", "--lake", lake, "--interval", format_instant(START))
    assert shown.code == 0 and f"lone, {INTERVAL}: failed\n" in shown.out
    assert f"  critical: {second.partition('failed: ')[2]}\n" in shown.out
    title = "Skew violations stay within the critical limit of the link"
    assert title in shown.out and "1 of 1 fail" in shown.out
    assert "more than the warning limit" not in shown.out, "each fact is told once"
    page = render(Ledgers(lake, QUERIES).now(), f"interval/lone/{interval_label(*HOUR_0)}.html") or ""
    (audit,) = interval_audits(open_lake(lake))
    assert "<h3>Link main1: 4 of 200 records (2%) are malformed, more than the critical limit of 1% " in page
    assert title in (lake / "reports" / audit.pages["skew"]).read_text()
    assert "more than the critical limit" in page and "more than the warning limit" not in page
    came = page.partition('id="came"')[2].partition("</table>")[0]
    assert '<td class="n">200</td>' in came and "\N{EN DASH}" not in came, "also where it failed"
    found = {kind: [json.loads(row["row"]) for row in rows] for kind, rows in quarantined(lake, "lone").items()}
    assert {kind: [row["violating"] for row in rows] for kind, rows in found.items()} == {
        "link_violations_to_stay_within_limit": [4, 4],
        "link_malformed_to_stay_within_limit": [4, 4],
    }
    limits = "{ warning = 0.01, critical = 1 }"
    set_thresholds(
        lake, tmp_path / "lone.gsql", f"[links.main1.thresholds]\nviolating = {limits}\nmalformed = {limits}\n"
    )
    (outcome,) = replay_range(lake, runner, *HOUR_0, query_set="lone")
    assert (outcome.state, outcome.verdict, outcome.committed) == ("incomplete", "warned", True)
    assert "4 of 196 packets" in outcome.reason, "until a person accepts it (T6)"
    (warned,) = interval_audits(open_lake(lake))
    assert [each.severity for each in warned.failures] == ["warning", "warning"]
    assert "more than the warning limit of 1%" in warned.messages[0]
    set_thresholds(lake, tmp_path / "lone.gsql", "[thresholds]\nviolating = 0.5\nmalformed = 0.5\n")
    (outcome,) = replay_range(lake, runner, *HOUR_0, "audit", query_set="lone")
    assert outcome.verdict == "passed"


@pytest.mark.slow
def test_what_an_interval_was_is_kept_beside_its_audit(lake: Path, runner: Runner) -> None:
    held(lake, runner)
    opened = open_lake(lake)
    rows = read_metrics(opened, "demo").to_pylist()
    found = {(row["subject"], row["measure"]): row["value"] for row in rows if not row["item"]}
    accounts = json.loads(next(row for row in read_replays(opened) if row.stage == "audit").accounting)["links"]
    for link, account in accounts.items():
        assert found[link, "volume"] == account["read"]
        (late,) = read_lateness(opened, link)
        assert (late.interval_start, late.interval_end, late.refused) == (*HOUR_0, account["violating"])
        assert abs(sum(late.counts) - account["read"] + account["malformed"]) <= account["violating"] + 20  # by arrival
        shares = [row["value"] for row in rows if (row["subject"], row["measure"]) == (link, "talkers")]
        assert 0 < sum(shares) <= 1 + 1e-9 and len(shares) <= 20
    assert found["flows", "volume"] > 0 and ("full_flow", "volume") in found
    before = read_metrics(opened, "demo").num_rows
    held(lake, runner)
    assert read_metrics(opened, "demo").num_rows == before and len(read_lateness(opened, "main1")) == 1


@pytest.mark.slow
def test_audits_of_several_intervals_at_once(published: Path, tmp_path: Path, runner: Runner) -> None:
    lake = copy_lake(published, tmp_path / "lake")
    before = read_quality(open_lake(lake)).num_rows
    with ThreadPoolExecutor(3) as pool:
        spans = [(START + hour * HOUR, START + (hour + 1) * HOUR) for hour in range(3)]
        for done in [pool.submit(replay_range, lake, runner, *span, "audit") for span in spans]:
            done.result()
    assert read_quality(open_lake(lake)).num_rows == before
    assert [each.verdict for each in interval_audits(open_lake(lake))] == ["passed", "warned", "passed"]

"""The suites and their expectations: each with a frame that keeps it and one that breaks it, and stable ids."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lowwater_expectations import audits, pages
from lowwater_expectations.audits import SUITES, Entry, Finding, Severity, Validation, once, read_suite, verdict

from lowwater.errors import LawError
from tests.quality.frames import CASES, GOOD, INTERVAL, Case, audited, frames, judged

ROOT = Path(__file__).resolve().parents[2]


def entry(suite: str, case: Case) -> Entry:
    return next(each for each in read_suite(suite).expectations if name_of(each) == case.name)


def name_of(each: Entry) -> str:
    """The rule, with its limit where it has two."""
    two = each.meta["title"].endswith(each.severity) or f"{each.severity} limit" in each.meta["title"]
    return f"{each.meta['rule']}/{each.severity}" if two else str(each.meta["rule"])


def id_of(suite: str, rule: str) -> str:
    return next(each.id for each in read_suite(suite).expectations if name_of(each) == rule)


def finding(validations: tuple[Validation, ...], expectation: str) -> Finding:
    return next(each for made in validations for each in made.findings if each.expectation == expectation)


@pytest.mark.parametrize("suite", SUITES)
def test_every_entry_of_a_suite_file_has_a_fixture(suite: str) -> None:
    assert [name_of(each) for each in read_suite(suite).expectations] == [case.name for case in CASES[suite]]


def test_every_query_audit_is_critical_and_each_limit_has_its_own_severity() -> None:
    severities = {each.meta["rule"]: each.severity for each in read_suite("queries").expectations}
    assert severities.pop("query_published_rows_to_stand") == "warning", "the run replaces these rows"
    assert set(severities.values()) == {"critical"}
    limits = [each for suite in SUITES for each in read_suite(suite).expectations if "column_A" in each.kwargs]
    limits = [each for each in limits if each.kwargs.get("or_equal")]
    assert all(each.kwargs["column_A"].removesuffix("_ns").endswith(f"_{each.severity}") for each in limits)


@pytest.mark.slow
def test_importing_the_package_is_light() -> None:
    code = "import sys; from lowwater_expectations import pages as e; e.assets(), e.render_suites()\n"
    code += "print('great_expectations' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.strip() == "False"


SPARED = """\
import sys
from lowwater_expectations import worker
worker.spare_imports()
from lowwater_expectations import judging
print({"sqlalchemy.orm", "pyspark.sql", "altair.vegalite", "scipy.stats._stats_py"} & set(sys.modules))
from scipy import stats
print(stats.norm.mean(), sys.modules["scipy.stats._stats_py"].__name__)
"""


@pytest.mark.nightly
@pytest.mark.slow
def test_the_process_that_judges_loads_no_library_that_it_does_not_use() -> None:
    done = subprocess.run([sys.executable, "-c", SPARED], capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.splitlines() == ["set()", "0.0 scipy.stats._stats_py"]


def test_measures_are_said_in_words() -> None:
    ten = "19.4s of traffic are missing: no capture covers the end"
    for said, words in {
        audits.count(1000, "record"): "1,000 records",
        audits.count(2, "query"): "2 queries",
        audits.count(1, "row"): "1 row",
        audits.span(1_201_234_567_890): "1,201.235s",
        audits.span(1_500_000): "1.5ms",
        audits.label("gap_ns"): "gap",
        audits.shown("gap_ns", 5_000_000_000): "5s",
        audits.shown("failed_share", 0.000123456): "0.01235%",
        audits.shown("read", 1000): "1,000",
        audits.shown("volume", None): "not covered",
        audits.filled("{gap_ns} missing[; first: {first}]", {"gap_ns": 5_000_000_000, "first": ""}): "5s missing",
        audits.filled("{read:record}[; first: {first}]", {"read": 1, "first": "a"}): "1 record; first: a",
        audits.headline([f"link control, {INTERVAL}: {ten}"], "x"): "Link control: 19.4s of traffic are missing",
        audits.headline(["said"], "Rows are owned"): "Not so: rows are owned",
        audits.headline(["said", "again"], ""): "said (and 1 more)",
        pages.marked("**Do** `x < y`"): "<p><strong>Do</strong> <code>x &lt; y</code></p>",
        audits.spoken("<b> 1.2s late"): '&lt;b&gt; <span title="1.2s">1.2 s</span> late',
        audits.spoken("set skew = 5s, --from 2026-01-01T00:00:00Z"): "set skew = 5s, --from 2026-01-01T00:00:00Z",
        audits.spoken("--interval 2026-01-01T00:00:00Z --set 5s"): "--interval 2026-01-01T00:00:00Z --set 5s",
    }.items():
        assert said == words


@pytest.mark.slow
def test_an_expectation_passes_what_keeps_it_and_fails_what_breaks_it() -> None:
    """A row that keeps all rules, and one for each case: it breaks the rule of the case, and no other."""
    tables = {name: [row] for name, row in GOOD.items()}
    first = {}
    for suite in SUITES:
        rows = tables[read_suite(suite).meta["table"]]
        first[suite] = len(rows)
        rows += [rows[0] | case.broken for case in CASES[suite]]
    made = judged({name: pa.Table.from_pylist(rows) for name, rows in tables.items()})
    of_suite = {each.suite: each for each in made}
    starts = dict.fromkeys(("links", "skew", "link_history"), "link main1, ")
    starts |= dict.fromkeys(("queries", "query_history", "rows"), "query flows, ")
    starts["lftas"] = "LFTA flows_0 on link main1, "
    for suite in SUITES:
        names = [case.name for case in CASES[suite]]
        evaluated = len(tables[read_suite(suite).meta["table"]])
        for number, case in enumerate(CASES[suite], first[suite]):
            expected = entry(suite, case)
            failed = finding(made, expected.id)
            assert (failed.suite, failed.kind, failed.severity) == (suite, expected.meta["rule"], expected.severity)
            also = case.name.replace("warning", "critical")
            breaking = {number} | ({names.index(also) + first[suite]} if also in names and suite != "rows" else set())
            assert (failed.success, failed.evaluated, set(failed.rows)) == (False, evaluated, breaking), case.name
            message = failed.messages[failed.rows.index(number)]
            assert message.startswith(f"{starts[suite]}{INTERVAL}: {case.says}")
            of_query = suite in ("queries", "rows", "query_history")
            assert message.endswith(f"; captures: {'a.pcap, b.pcap' + ', c.pcap' * of_query}")
            assert not of_query or "; links: main1, main2; " in message
        assert len(of_suite[suite].findings) == len(names) == len(read_suite(suite).expectations)
    assert {each.verdict for each in audited()} == {"passed"}


@pytest.mark.slow
def test_a_table_that_lacks_records_is_told_from_ledgers_that_do() -> None:
    rule = id_of("links", "link_records_to_be_accounted_for")
    message = finding(audited("links", unaccounted=-3, untabled=3), rule).messages[0]
    assert ": the table lacks 3 records that the ledgers count; read 1,000, counted: malformed 1 +" in message


@pytest.mark.slow
def test_a_share_may_equal_its_limit_and_a_link_with_nothing_read_passes() -> None:
    silent = dict.fromkeys(("read", "outcomes", "malformed", "violating", "sane"), 0)
    silent |= dict.fromkeys(("violating_share", "malformed_share"), 0.0)
    for row in (
        {"violating_share": 0.01, "malformed_share": 0.01},
        silent | {"violating_warning": 0.0, "malformed_warning": 0.0, "captures": "none"},
    ):
        assert [each.verdict for each in audited("links", **row)] == ["passed"] * len(SUITES)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("broken", "expected"),
    [({}, "passed"), ({"malformed_share": 0.012}, "warned"), ({"malformed_share": 0.12}, "failed"),
     ({"unaccounted": 1}, "failed")],
)  # fmt: skip
def test_severity_decides(broken: dict[str, Any], expected: str) -> None:
    made = audited("links", **broken)
    assert verdict(each for every in made for each in every.findings) == made[0].verdict == expected
    assert [every.verdict for every in made[1:]] == ["passed"] * (len(SUITES) - 1)


@pytest.mark.slow
def test_an_expectation_that_great_expectations_drops_is_an_error() -> None:
    from lowwater_expectations.judging import built

    configuration = asdict(read_suite("links").expectations[0]) | {"type": "expect_no_such_thing"}
    with pytest.raises(ValueError, match="the suite links has expectations that Great Expectations does not know"):
        built("links", [configuration])


@pytest.mark.slow
def test_rows_are_positions_however_many() -> None:
    rows = [GOOD["links"] | {"link": f"l{n}", "gap_ns": n % 2, "gaps": "x"} for n in range(600)]
    made = judged(frames() | {"links": pa.Table.from_pylist(rows)})
    covered = finding(made, id_of("links", "link_to_be_covered"))
    assert (covered.evaluated, covered.rows) == (600, tuple(range(1, 600, 2)))
    assert [message.split(",")[0] for message in covered.messages] == [f"link l{n}" for n in covered.rows]


@pytest.mark.slow
def test_what_nothing_covers_has_no_value_and_keeps_the_rules() -> None:
    absent = {"volume": None, "violations_share": None, "lateness_ns": None, "silence_ns": None}
    for suite, lacks in (("link_history", absent), ("query_history", {"volume": None})):
        made = audited(suite, **lacks)
        assert all(each.success for every in made for each in every.findings)


@pytest.mark.slow
def test_what_was_not_measured_is_an_error() -> None:
    whole = frames()
    in_words = whole["links"].drop_columns(["gap_ns"]).append_column("gap_ns", pa.array(["1s", "2s"]))
    for wrong, says in (
        ({name: whole[name] for name in whole if name != "lftas"}, "demo .*: nothing was measured for the suite lftas"),
        (whole | {"queries": whole["queries"].slice(0, 0)}, "nothing was measured for the suite queries"),
        (whole | {"links": whole["links"].drop_columns(["gaps", "skew_ns"])}, "links lack the columns gaps"),
        (frames("links", gap_ns=None), "links lack values in the columns gap_ns"),
        (whole | {"links": in_words}, "link_to_be_covered of the suite links could not be evaluated"),
    ):
        with pytest.raises(LawError, match=says):
            judged(wrong)


WATCHED = """
import sys
quiet = []
def hook(event, args):
    if event == "socket.connect" or event == "socket.getaddrinfo":
        quiet.append((event, args[1:]))
    if event == "open" and isinstance(args[1], str) and set(args[1]) & set("wax+"):
        quiet.append((event, args[:2]))
    if event in ("os.mkdir", "os.rename", "os.remove"):
        quiet.append((event, args[:1]))
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
from lowwater_expectations import worker
worker.spare_imports()
from tests.quality.frames import audited
from lowwater_expectations import judging, pages as e
sys.addaudithook(hook)
made = audited("links", gap_ns=5, gaps="x")
pages = [e.render(each) for each in made] + list(e.render_suites().values())
print(len(pages), quiet, file=sys.stdout)
"""


@pytest.mark.slow
def test_nothing_is_written_and_nothing_fetched(tmp_path: Path) -> None:
    """With what the process that judges loads."""
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, str(ROOT)], cwd=tmp_path, env=environment, capture_output=True, text=True,
        timeout=500,
    )  # fmt: skip
    assert (done.stdout.strip(), done.stderr) == (f"{2 * len(SUITES)} []", "")
    assert list(tmp_path.iterdir()) == []


def told(suite: str, kind: str, severity: Severity, *messages: str) -> Finding:
    return Finding(suite, f"{kind} {severity}", kind, severity, not messages, 2, len(messages), (), messages, kind)


def test_what_breaks_both_limits_of_a_rule_is_told_once() -> None:
    late, early = "link a, 1 to 2: 9 late", "link b, 1 to 2: 3 late"
    warning = told("links", "late", "warning", f"{late}, more than 1", f"{early}, more than 1")
    critical = told("links", "late", "critical", f"{late}, more than 5")
    holds = told("links", "gap", "critical")
    found = once([warning, critical, holds])
    assert [each.messages for each in found] == [(f"{early}, more than 1",), (f"{late}, more than 5",), ()]
    assert verdict(found) == verdict([warning, critical]) == "failed"
    assert once([told("links", "late", "warning", late), critical]) == [critical]
    other = told("lftas", "late", "warning", late)
    assert once([other, critical, warning])[0] == other, "another check of the same link is another fact"
    by_hand = [told("rows", "rule", severity, f"query q, 1 to 2: {severity}") for severity in ("warning", "critical")]
    assert once(by_hand) == by_hand, "rules by hand are facts of their own"


def test_ids_never_change() -> None:
    ids = [each.id for suite in SUITES for each in read_suite(suite).expectations]
    assert len(set(ids)) == len(ids)
    assert id_of("links", "link_to_be_covered") == "e18447f3-171a-5c61-91d8-2745c8c23b48"

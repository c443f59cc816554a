"""The suites and their expectations: each with a frame that keeps it and one that breaks it, and stable ids."""

from __future__ import annotations

import doctest
import json
import math
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import UUID

import pytest
from lowwater_expectations import SUITES, Finding, Severity, Validation, once, text, validate, verdict
from lowwater_expectations.entries import Entry, SuiteFile, parse_suite, read_suite, stable_id
from lowwater_expectations.pages import offline

from lowwater.errors import LawError
from lowwater.places import SHARED
from tests.quality.frames import CASES, GOOD, INTERVAL, LINK, RUN, SECOND, Case, frames

ROOT = Path(__file__).resolve().parents[2]
FILES = ROOT / "expectations" / "suites"
ALL = [(suite, case) for suite in SUITES for case in CASES[suite]]
entries = pytest.mark.parametrize(("suite", "case"), ALL, ids=[case.name for _, case in ALL])


def dump_suite(suite: SuiteFile) -> str:
    """The text of a suite file."""
    return json.dumps(asdict(suite), indent=2, ensure_ascii=False) + "\n"


def entry(suite: str, case: Case) -> Entry:
    return next(each for each in read_suite(suite).expectations if each.name == case.name)


def finding(validations: tuple[Validation, ...], expectation: str) -> Finding:
    return next(each for made in validations for each in made.findings if each.expectation == expectation)


# The files


@pytest.mark.parametrize("suite", SUITES)
def test_every_entry_of_a_suite_file_has_a_fixture(suite: str) -> None:
    assert [each.name for each in read_suite(suite).expectations] == [case.name for case in CASES[suite]]


@pytest.mark.parametrize("suite", SUITES)
def test_a_suite_file_is_what_dumping_it_gives(suite: str) -> None:
    text = (FILES / f"{suite}.json").read_text(encoding="utf-8")
    assert dump_suite(parse_suite(text, suite)) == text


def test_ids_are_unique_and_made_of_the_names() -> None:
    ids = [each.id for suite in SUITES for each in read_suite(suite).expectations]
    assert len(set(ids)) == len(ids) == len(ALL)
    assert {UUID(each).version for each in ids} == {5}
    assert stable_id("links", "expect_link_to_be_covered") == "e18447f3-171a-5c61-91d8-2745c8c23b48"


def test_every_query_audit_is_critical_and_each_limit_has_its_own_severity() -> None:
    severities = {each.type: each.severity for each in read_suite("queries").expectations}
    assert severities.pop("expect_query_published_rows_to_stand") == "warning", "the run replaces these rows"
    assert set(severities.values()) == {"critical"}
    limits = [each for suite in SUITES for each in read_suite(suite).expectations if each.kwargs]
    assert len(limits) == 6 + 2 + 2 * 7
    assert [each.severity for each in limits] == [each.kwargs["limit"] for each in limits]


def altered(suite: str, **change: Any) -> str:
    data = json.loads((FILES / f"{suite}.json").read_text(encoding="utf-8"))
    data["expectations"][0].update(change)
    return json.dumps(data)


def test_a_wrong_suite_file_is_refused_with_the_remedy() -> None:
    right = stable_id("links", "expect_link_to_be_covered")
    with pytest.raises(LawError, match=f"not the stable one\n  hint: write {right}"):
        parse_suite(altered("links", id=stable_id("links", "another")), "links.json")
    with pytest.raises(LawError, match="severity 'info'"):
        parse_suite(altered("links", severity="info"), "links.json")
    with pytest.raises(LawError, match=r"links\.json: expect_link_to_be_covered: has not the keys id, type"):
        parse_suite(altered("links", mostly=0.9), "links.json")
    data = json.loads((FILES / "links.json").read_text(encoding="utf-8"))
    data["expectations"].append(data["expectations"][0])
    with pytest.raises(LawError, match="occurs twice"):
        parse_suite(json.dumps(data), "links.json")


# The package


def test_the_packages_of_the_project_are_its_folders() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["packages"]
    found = {".".join(path.parent.relative_to(ROOT).parts) for path in (ROOT / "lowwater").rglob("__init__.py")}
    assert set(listed) == found | {f"lowwater.share.{name}" for name in SHARED} | {
        "lowwater_airflow",
        "lowwater_expectations",
        "lowwater_expectations.pages",
        "lowwater_review",
        "lowwater_review.acts",
        "lowwater_review.results",
    }


def test_importing_the_package_is_light() -> None:
    code = "import sys, lowwater_expectations as e; e.assets(); e.index([]); print('great_expectations' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.strip() == "False"


LOADED = """\
import importlib.util, sys
import lowwater_expectations.validation
from lowwater_expectations.lazy import OPTIONAL
print(sorted(OPTIONAL & set(sys.modules)))
there = [name for name in sorted(OPTIONAL) if importlib.util.find_spec(name)]
for name in there:
    importlib.import_module(name)
print("pyspark" in there, set(there) <= set(sys.modules))
"""


@pytest.mark.slow
def test_an_audit_loads_no_library_of_databases_and_others_still_can() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.splitlines() == ["[]", "True True"]


@pytest.mark.parametrize("module", [offline, text])
def test_the_examples_in_the_light_modules(module: ModuleType) -> None:
    result = doctest.testmod(module)
    assert (result.failed, result.attempted > 0) == (0, True)


# The expectations


@pytest.mark.slow
@entries
def test_an_expectation_passes_what_keeps_it_and_fails_what_breaks_it(suite: str, case: Case) -> None:
    expected = entry(suite, case)
    passed = finding(validate(frames(), RUN), expected.id)
    assert passed == replace(passed, success=True, evaluated=2, unexpected=0, rows=(), messages=())

    failed = finding(validate(frames(suite, **case.broken), RUN), expected.id)
    assert (failed.suite, failed.kind, failed.severity) == (suite, expected.type, expected.severity)
    assert (failed.success, failed.evaluated, failed.unexpected, failed.rows) == (False, 2, 1, (0,))
    (message,) = failed.messages
    of_query = suite in ("queries", "rows", "query_history")
    start = {"links": "link main1, ", "lftas": "LFTA flows_0 on link main1, ", "queries": "query flows, "}
    start |= {"link_history": start["links"], "query_history": start["queries"], "rows": start["queries"]}
    assert message.startswith(f"{start[suite]}{INTERVAL}: {case.says}")
    assert message.endswith(f"; captures: {'a.pcap, b.pcap' + ', c.pcap' * of_query}")
    assert not of_query or "; links: main1, main2; " in message


@pytest.mark.slow
def test_a_frame_breaks_only_the_rule_that_it_is_made_to_break() -> None:
    for suite, case in ALL:
        made = validate(frames(suite, **case.broken), RUN)
        failed = {each.expectation for every in made for each in every.findings if not each.success}
        also = {case.name.replace("critical", "warning")} if "/" in case.name and suite != "rows" else set()
        names = {stable_id(suite, name) for name in {case.name} | also}
        assert failed == names, case.name


@pytest.mark.slow
@pytest.mark.parametrize(
    ("broken", "says"),
    [
        ({"unaccounted": -3}, "the table lacks 3 records that the ledgers count"),
        ({"sane": 990}, "read 1,000, but the outcomes add up to 993: malformed 1 + violating 2 + sane 990 + outside 0"),
    ],
)
def test_the_other_ways_in_which_accounts_are_wrong(broken: dict[str, Any], says: str) -> None:
    expected = stable_id("links", "expect_link_records_to_be_accounted_for")
    assert says in finding(validate(frames("links", **broken), RUN), expected).messages[0]


@pytest.mark.slow
def test_files_that_the_high_stage_did_not_write_fail_though_the_rows_are_as_many() -> None:
    expected = stable_id("queries", "expect_query_rows_as_made")
    message = finding(validate(frames("queries", changed=1), RUN), expected).messages[0]
    assert "the files of the stream, 250 rows, have changed since the high stage wrote them; links" in message


@pytest.mark.slow
def test_a_share_may_equal_its_limit_and_a_link_with_nothing_read_passes() -> None:
    silent = {"read": 0, "malformed": 0, "violating": 0, "sane": 0, "violating_share": 0.0, "malformed_share": 0.0}
    for row in (
        {"violating_share": 0.01, "malformed_share": 0.01},
        silent | {"violating_warning": 0.0, "malformed_warning": 0.0, "captures": "none"},
    ):
        assert [each.verdict for each in validate(frames("links", **row), RUN)] == ["passed"] * len(SUITES)


@pytest.mark.slow
@entries
def test_an_expectation_reads_no_column_that_it_does_not_name(suite: str, case: Case) -> None:
    from lowwater_expectations.rules import Rule
    from lowwater_expectations.suites import load_suite

    (rule,) = [each for each in load_suite(suite).expectations if each.id == entry(suite, case).id]
    assert isinstance(rule, Rule)
    row = {name: value for name, value in (GOOD[suite] | case.broken).items() if name in rule.needs()}
    assert not rule.holds(row)
    assert case.says in rule.message(row)


# The verdict


@pytest.mark.slow
@pytest.mark.parametrize(
    ("broken", "expected"),
    [
        ({}, "passed"),
        ({"violating": 12, "violating_share": 0.012, "sane": 987}, "warned"),
        ({"violating": 120, "violating_share": 0.12, "sane": 879}, "failed"),
        ({"unaccounted": 1}, "failed"),
    ],
)
def test_severity_decides(broken: dict[str, Any], expected: str) -> None:
    made = validate(frames("links", **broken), RUN)
    assert verdict(each for every in made for each in every.findings) == made[0].verdict == expected
    assert [every.verdict for every in made[1:]] == ["passed"] * (len(SUITES) - 1)


# The results


@pytest.mark.slow
def test_great_expectations_keeps_every_entry_and_its_id() -> None:
    from lowwater_expectations.suites import dump_back, load_suite

    made = {each.suite: each for each in validate(frames(), RUN)}
    assert tuple(made) == SUITES
    for name in SUITES:
        ids = [each.id for each in read_suite(name).expectations]
        assert [each.expectation for each in made[name].findings] == ids
        assert [each["expectation_config"]["id"] for each in made[name].document["results"]] == ids
        assert dump_suite(dump_back(load_suite(name))) == (FILES / f"{name}.json").read_text(encoding="utf-8")


@pytest.mark.slow
def test_an_expectation_that_great_expectations_drops_is_an_error() -> None:
    from lowwater_expectations.suites import build_suite

    suite = read_suite("links")
    first, *others = suite.expectations
    unknown = replace(suite, expectations=(replace(first, type="expect_no_such_thing"), *others))
    with pytest.raises(LawError, match=r"suite links: Great Expectations changed it; lost: expect_no_such_thing$"):
        build_suite(unknown)
    surplus = replace(suite, expectations=(replace(first, kwargs={"limt": "warning"}), *others))
    with pytest.raises(LawError, match=r"(?s)suite links: an expectation does not take its arguments: .*limt"):
        build_suite(surplus)


@pytest.mark.slow
def test_the_document_is_json_and_names_run_interval_and_frame() -> None:
    for each in validate(frames("links", gap_ns=SECOND), RUN):
        assert json.loads(json.dumps(each.document, allow_nan=False)) == each.document
        meta = each.document["meta"]
        assert meta["run_id"]["run_name"] == RUN
        assert meta["intervals"] == [INTERVAL]
        assert meta["active_batch_definition"]["data_asset_name"] == each.suite


@pytest.mark.slow
def test_rows_are_positions_whatever_the_index_and_however_many() -> None:
    import pandas as pd

    rows = [LINK | {"link": f"l{n}", "gap_ns": n % 2, "gaps": "x"} for n in range(600)]
    many = frames() | {"links": pd.DataFrame(rows, index=[7] * 600)}
    covered = finding(validate(many, RUN), stable_id("links", "expect_link_to_be_covered"))
    assert (covered.evaluated, covered.rows) == (600, tuple(range(1, 600, 2)))
    assert [message.split(",")[0] for message in covered.messages] == [f"link l{n}" for n in covered.rows]


@pytest.mark.slow
def test_what_nothing_covers_has_no_value_and_keeps_the_rules() -> None:
    absent = {"volume": None, "violations_share": None, "lateness_ns": None, "silence_ns": None}
    for suite, lacks in (("link_history", absent), ("query_history", {"volume": None})):
        made = validate(frames(suite, **lacks), RUN)
        assert all(each.success for every in made for each in every.findings)


@pytest.mark.slow
def test_what_was_not_measured_is_an_error() -> None:
    whole = frames()
    for wrong, says in (
        (
            {name: whole[name] for name in SUITES if name != "lftas"},
            "demo .*: nothing was measured for the suite lftas",
        ),
        (whole | {"queries": whole["queries"].iloc[:0]}, "nothing was measured for the suite queries"),
        (whole | {"links": whole["links"].drop(columns=["gaps", "skew_ns"])}, "links lack the columns gaps, skew_ns"),
        (whole | {"queries": whole["queries"].drop(columns=["links"])}, "queries lack the columns links"),
        (frames("links", gap_ns=math.nan, violations=None), "links lack values in the columns gap_ns, violations"),
        (frames("links", gap_ns="1s", gaps="x"), "expect_link_to_be_covered of the suite links could not be evaluated"),
    ):
        with pytest.raises(LawError, match=says):
            validate(wrong, RUN)


@pytest.mark.slow
def test_threads_do_not_mix_their_frames() -> None:
    def gap(number: int) -> str:
        made = validate(frames("links", gap_ns=number * SECOND, gaps=f"gap {number}"), f"demo {number}")
        return finding(made, stable_id("links", "expect_link_to_be_covered")).messages[0]

    with ThreadPoolExecutor(4) as pool:
        messages = list(pool.map(gap, range(1, 9)))
    assert [
        f"{n}s of traffic are missing: no capture covers gap {n};" in message for n, message in enumerate(messages, 1)
    ] == [True] * 8


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
from tests.quality.frames import RUN, frames
import lowwater_expectations as e, lowwater_expectations.pages.rendering, lowwater_expectations.validation
sys.addaudithook(hook)
made = e.validate(frames("links", gap_ns=5), RUN)
pages = [e.render(each) for each in made] + list(e.render_suites().values())
print(len(pages), quiet, file=sys.stdout)
"""


@pytest.mark.slow
def test_nothing_is_written_and_nothing_fetched(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, str(ROOT)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert (done.stdout.strip(), done.stderr) == (f"{2 * len(SUITES)} []", "")
    assert list(tmp_path.iterdir()) == []


# What is told of them


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
    by_hand = [
        told("rows", "rule", "warning", "query q, 1 to 2: a"),
        told("rows", "rule", "critical", "query q, 1 to 2: b"),
    ]
    assert once(by_hand) == by_hand, "rules by hand are facts of their own"

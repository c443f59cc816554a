"""The functions below the server over texts of every kind: they fail for none, and say what the language says."""

from __future__ import annotations

import time
from cProfile import Profile
from pathlib import Path
from pstats import Stats

import pytest
from hypothesis import example, given, settings, strategies as some
from lowwater_editor import names
from lowwater_editor.checking import check_scripts, formatted, make_script
from lowwater_editor.names import complete, definition_at, learn, meaning_at
from lowwater_editor.words import Script

from lowwater.catalog.builtin import CATALOG
from lowwater.catalog.meanings import AGGREGATES, FUNCTIONS, STATES
from lowwater.catalog.native import NATIVE
from lowwater.config import Config
from lowwater.errors import QueryError, QueryErrors
from lowwater.gsql.parser import parse
from lowwater.plan.bind.queries import WORKS
from lowwater.plan.context import Context, Links
from lowwater.plan.queryset import plan_texts
from tests.breadth import examples
from tests.docs.book import ROOT

FILES = sorted([*ROOT.glob("queries/**/*.gsql"), *ROOT.glob("examples/**/*.gsql")])
TEXTS = [file.read_text(encoding="utf-8") for file in FILES]
CONTEXT = Context(links=Links(("main1", "main2"), {"links": ("main1", "main2")}))
JUNK = [*"(){}[];,.'$#\0\n\ufeff🙂", "--", "//", " FROM ", " SELECT ", " DEFINE {", " GROUP BY ", " JOIN ", " AS "]
JUNK += [" UNION ", "A.", "main1.", "[links]", "'x", "1e999", " PROTOCOL X {"]


@some.composite
def texts(draw: some.DrawFn) -> str:
    """A real text that is cut, doubled or has signs at random places; or signs alone."""
    text = draw(some.sampled_from(TEXTS) | some.text(max_size=60))
    for _ in range(draw(some.integers(0, 3))):
        at, to = sorted((draw(some.integers(0, len(text))), draw(some.integers(0, len(text)))))
        junk = draw(some.sampled_from(JUNK))
        text = draw(
            some.sampled_from([text[:at], text[at:], text[:at] + text[to:], text[:at] + junk + text[at:], text + junk])
        )
    return text[:4000]


@pytest.mark.slow
@settings(max_examples=examples(60), deadline=None)
@example("SELECT [", 0.5)
@example("SELECT time FROM [[[[", 1.0)
@example("DEFINE { query_name", 1.0)
@example(";" * 300, 0.5)
@example("SELECT " + "(" * 300 + "1 FROM TCP", 0.9)
@example("\ufeffSELECT x\rFROM y", 0.2)
@given(texts(), some.floats(0, 1))
def test_no_text_makes_an_editor_fail(text: str, part: float) -> None:
    from lowwater_editor.server import offset_of, position_of

    script = make_script("q.gsql", text)
    begin = time.process_time()
    checked = check_scripts([script], CONTEXT, Config())
    for problem in checked.problems:
        assert 0 <= problem.start <= problem.end <= len(script.source)
        assert "\n" not in script.source[problem.start : problem.end]
        assert problem.message
    known = learn([script], CONTEXT)
    offset = int(part * len(script.source))
    assert offset_of(script.source, position_of(script.source, offset)) == offset
    complete(known, script, offset)
    meaning_at(known, script, offset)
    definition_at(known, script, offset)
    once = formatted(script)
    assert formatted(make_script("q.gsql", once)) == once
    assert time.process_time() - begin < 20, "seconds of the processor"
    assert _tree(once) == _tree(script.source)


def _tree(text: str) -> object:
    try:
        return parse(text, "q.gsql", tuple(NATIVE))
    except QueryError:
        return None


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_file_has_the_mistakes_of_check_and_no_others(file: Path) -> None:
    """With any links: the mistakes are those that the planner itself raises."""
    script = make_script(str(file), file.read_text(encoding="utf-8"))
    problems = [each for each in check_scripts([script], Context(), Config()).problems if each.kind != "note"]
    try:
        plan_texts([(script.file, script.source)], Links(), folders=(file.parent,))
    except QueryError as refusal:
        errors = refusal.errors if isinstance(refusal, QueryErrors) else (refusal,)
        assert [each.message for each in problems] == [each.message for each in errors]
    else:
        assert problems == []


def test_every_name_of_the_language_has_its_meaning() -> None:
    assert set(CATALOG.names()) <= {*FUNCTIONS, *AGGREGATES, *STATES}
    for name in CATALOG.names():
        assert {**FUNCTIONS, **AGGREGATES, **STATES}[name] in names.function(CATALOG, name)
    assert set(names.OPTIONS) == set(WORKS)


def test_sources_are_found_in_every_form() -> None:
    text = (
        "SELECT 1 FROM main1.TCP A, [main1, main2].UDP AS B, 'host'.main1.ETH, lib/query Q, a UNION b AS C "
        "LEFT_OUTER_JOIN d [RANGE 5 min] W WHERE x = 1"
    )
    (statement,) = Script("", text).statements
    found = [(each.name, each.links, each.alias, each.library) for each in statement.sources]
    assert found[:3] == [
        ("TCP", ("main1",), "A", ""),
        ("UDP", ("main1", "main2"), "B", ""),
        ("ETH", ("main1",), "ETH", ""),
    ]
    assert ("query", (), "Q", "lib") in found and ("b", (), "C", "") in found and ("d", (), "W", "") in found


@pytest.mark.slow
@pytest.mark.parametrize("item", ["len", "len + {}", "sum(len + {})"])
def test_work_grows_with_the_text_and_not_with_its_square(item: str) -> None:
    """Calls of Python, counted; a text of twice the size may have 2.5 times as many."""
    calls = []
    for count in (1000, 2000):
        items = ", ".join(item.format(number) for number in range(count))
        groups = " GROUP BY time/60" if "sum" in item else ""
        script = make_script("q.gsql", f"SELECT time/60, {items} FROM main1.TCP{groups};")
        counted = Profile()
        counted.runcall(check_scripts, [script], CONTEXT, Config())
        calls.append(sum(row[1] for row in counted_calls(counted)))
    assert calls[1] < 2.5 * calls[0]


def counted_calls(profile: Profile) -> list[tuple[int, int]]:
    """(calls without recursion, calls) of every function."""
    return [(row[0], row[1]) for row in vars(Stats(profile))["stats"].values()]

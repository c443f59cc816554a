"""`lowwater ask`: each question of the cookbook over one capture, over two, over a lake; what is drawn of its rows."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest
from lowwater_generator import generate

from lowwater.cli.asking import MAIN, OTHER, Recipe, recipe, recipes
from lowwater.instants import parse_instant
from tests import capturemaker as maker
from tests.cli.hostile import HOSTILE, clean
from tests.docs.book import blocks
from tests.replay.support import ROOT, START, Said, lowwater
from tests.review.resultlake import make_results

NAMES = [each.name for each in recipes()]
ONE = [each.name for each in recipes() if not each.compares]
PAGE = ROOT / "docs" / "cookbook.md"


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = list(generate(tmp_path_factory.mktemp("captures"), START, 1, ["main1"], rate=0.7, seed=5))
    return made[0].path


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_results(tmp_path_factory.mktemp("ask"))[0]


def rows(said: Said) -> list[dict[str, str]]:
    assert said.code == 0, said
    return list(csv.DictReader(io.StringIO(said.out)))


def test_every_query_of_the_page_is_a_question() -> None:
    page = PAGE.read_text(encoding="utf-8")
    texts = [block.text for block in blocks(PAGE) if block.words[0] == "gsql"]
    assert [each.text for each in recipes()] == texts and len(set(NAMES)) == len(NAMES) >= 20
    assert {each.title for each in recipes()} == set(re.findall(r"^## (.+)$", page, re.M))
    flat = " ".join(page.split())
    assert all(each.question in flat and each.question.endswith("?") for each in recipes())


def test_a_question_alone_is_its_query() -> None:
    listed = lowwater("ask").out
    assert all(name in listed for name in NAMES)
    for each in recipes():
        assert lowwater("ask", each.name).out == each.text
        assert lowwater("cookbook", each.name).out == each.text, "the command of 0.7"
    assert lowwater("cookbook").out == listed
    assert "did you mean talkers?" in lowwater("ask", "talker").err


@pytest.mark.slow
@pytest.mark.parametrize("name", ONE)
def test_an_answer_has_the_rows_of_run(name: str, capture: Path, tmp_path: Path) -> None:
    """Over one capture, of which both directions are the two links of the page."""
    question = recipe(name)
    text = question.text.replace(f"{OTHER}.", f"{MAIN}.")
    (tmp_path / "q.gsql").write_text(text, encoding="utf-8")
    given = ["--capture", f"main1={capture}", "--skew", "main1=1h", "--query", name]
    assert lowwater("run", tmp_path / "q.gsql", *given, "--out", tmp_path / "out").code == 0
    with (tmp_path / "out" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        wanted = list(csv.DictReader(file))
    found = rows(lowwater("ask", name, "--capture", capture, "--format", "csv"))
    assert [{column: row[column] for column in wanted[0]} for row in found] == wanted if wanted else found == []
    shown = lowwater("ask", name, "--capture", capture)
    assert shown.code == 0 and "query_name" in shown.out and ("no rows" in shown.out) == (not wanted)
    lines = [
        json.loads(line) for line in lowwater("ask", name, "--capture", capture, "--format", "json").out.splitlines()
    ]
    assert len(lines) == len(wanted)


@pytest.mark.slow
def test_most_questions_have_rows(capture: Path) -> None:
    answered = [name for name in ONE if rows(lowwater("ask", name, "--capture", capture, "--format", "csv"))]
    assert len(answered) > len(ONE) * 2 // 3, set(ONE) - set(answered)


@pytest.mark.slow
def test_epochs_of_another_length(capture: Path) -> None:
    """Sums over an hour are those of its minutes."""
    minutes, hour = (
        rows(lowwater("ask", "pairs", "--capture", capture, "--every", every, "--format", "csv"))
        for every in ("1m", "1h")
    )
    assert len({row["tb"] for row in minutes}) > 10 and len({row["tb"] for row in hour}) <= 2
    assert sum(int(row["bytes"]) for row in minutes) == sum(int(row["bytes"]) for row in hour) > 0
    for each in recipes():
        if each.name in ("conversations", "days", "protocols", "percentile"):
            assert "no epochs" in lowwater("ask", each.name, "--every", "10m").err
        else:
            text = lowwater("ask", each.name, "--every", "20m").out
            assert "INTERVAL '1200 seconds'" in text and "INTERVAL '1 minute'" not in text, each.name
            assert not re.search(r"tb \+ (?!1200 s)", text), each.name
            assert not re.search(r"^-- .*\b(a|an|the) (minute|hour)\b", text, re.M), "what it says of itself, too"
    assert "whole seconds" in lowwater("ask", "pairs", "--every", "10ms").err


@pytest.mark.slow
def test_the_largest_rows_come_first_and_a_plot_is_of_all(capture: Path) -> None:
    said = lowwater("ask", "pairs", "--capture", capture, "--every", "10m", "--limit", 3)
    every = rows(lowwater("ask", "pairs", "--capture", capture, "--every", "10m", "--format", "csv"))
    largest = sorted((int(row["bytes"]) for row in every), reverse=True)
    table = re.findall(r"^2026-01-01T00:\S+ +\S+ +\S+ +(\d+) ", said.out, re.M)
    assert [int(number) for number in table] == largest[:3]
    assert f"3 of {len(every)} rows, those of most bytes" in said.out
    bars = re.findall(r"^2026-01-01T(00:\d\d):00Z █+\S* ([\d,]+)$", said.out.partition("largest bytes")[2], re.M)
    assert [begin for begin, _ in bars] == ["00:00", "00:10", "00:20", "00:30", "00:40", "00:50"]
    assert max(int(number.replace(",", "")) for _, number in bars) == largest[0]
    one = lowwater("ask", "pairs", "--capture", capture, "--every", "1d", "--limit", 2)
    assert "bytes, by row" in one.out and one.out.count("█ ") >= 1


@pytest.mark.slow
def test_two_links_are_compared_and_one_is_not(capture: Path, tmp_path: Path) -> None:
    half = tmp_path / "half.pcap"
    content = maker.pcap_bytes([(START, maker.tcp("10.0.0.250", "10.0.0.2", 1, 80, 2))])
    half.write_bytes(content)
    hourly = ("--every", "1h", "--format", "csv")
    said = lowwater("ask", "differences", "--capture", f"left1={capture}", "--capture", f"right1={half}", *hourly)
    found = rows(said)
    assert any(row["srcIP"] == "10.0.0.250" and row["on_main1"] == "" for row in found) and len(found) > 3
    assert "compares two links, and there are 1" in lowwater("ask", "differences", "--capture", capture).err
    three = [part for name in ("a", "b", "c") for part in ("--capture", f"{name}={capture}")]
    assert "and there are 3" in lowwater("ask", "unanswered", *three).err
    both = rows(lowwater("ask", "pairs", "--capture", f"a={capture}", "--capture", f"b={half}", *hourly))
    assert any("10.0.0.250" in row.values() for row in both), "a question of one link is asked of all"


@pytest.mark.slow
def test_records_that_come_late_are_in_the_rows(tmp_path: Path) -> None:
    """The skew is that of the capture."""
    path = tmp_path / "late.pcap"
    stamps = [START, START + 600 * 10**9, START + 300 * 10**9]
    path.write_bytes(
        maker.pcap_bytes(
            [(at, maker.udp("10.0.0.1", "10.0.0.2", 5, 6, b"x")) for at in stamps],
        )
    )
    (row,) = rows(lowwater("ask", "pairs", "--capture", path, "--every", "1d", "--format", "csv"))
    assert row["packets"] == "3"


@pytest.mark.slow
def test_a_lake_is_asked_as_captures_are(root: Path, tmp_path: Path) -> None:
    """All of it, and a part of its time: rows of half an hour are those of the packets of it."""
    before = sorted(path for path in root.rglob("*") if path.is_file())
    whole = rows(lowwater("ask", "pairs", "--lake", root, "--of", "main1", "--every", "10m", "--format", "csv"))
    export = tmp_path / "a.pcap"
    assert lowwater("export", "--lake", root, "--link", "main1", "--out", export).code == 0
    assert whole == rows(lowwater("ask", "pairs", "--capture", export, "--every", "10m", "--format", "csv"))
    bounds = ["--from", "2026-01-01T00:20:00Z", "--to", "2026-01-01T00:40:00Z"]
    part = rows(lowwater("ask", "pairs", "--lake", root, "--of", "main1", *bounds, "--every", "10m", "--format", "csv"))
    assert part == [row for row in whole if START + 1200 * 10**9 <= parse_instant(row["tb"]) < START + 2400 * 10**9]
    assert part and sorted(path for path in root.rglob("*") if path.is_file()) == before, "the lake is as it was"
    outside = lowwater("ask", "pairs", "--lake", root, "--from", "2025-12-31T23:00Z", "--to", "2026-01-01T00:10Z")
    assert outside.code == 0
    assert "link main1 keeps no tls_hello" in lowwater("ask", "names", "--lake", root, "--of", "main1").err
    assert "the lake has no packets of it" in lowwater("ask", "pairs", "--lake", root, "--of", "main").err
    assert "did you mean main1" in lowwater("ask", "pairs", "--lake", root, "--of", "main").err


def test_what_is_asked_of_is_named(tmp_path: Path) -> None:
    assert "one of them" in lowwater("ask", "pairs", "--capture", "x", "--lake", tmp_path).err
    assert "go with --lake" in lowwater("ask", "pairs", "--capture", "x", "--of", "main1").err
    assert "no such file" in lowwater("ask", "pairs", "--capture", tmp_path / "none").err


@pytest.mark.slow
def test_hostile_text_is_text(tmp_path: Path) -> None:
    clean("ask", HOSTILE, code=2)
    path = tmp_path / f"{HOSTILE.replace('/', '')}.pcap"
    path.write_bytes(maker.pcap_bytes([(START, maker.udp("10.0.0.1", "10.0.0.2", 1, 53, b"x"))])[:-1])
    for form in ("table", "csv", "json"):
        clean("ask", "pairs", "--capture", path, "--format", form)


@pytest.mark.slow
def test_the_last_line_of_inspect_leads_to_rows(capture: Path) -> None:
    said = lowwater("inspect", capture)
    asks = said.err.strip().splitlines()[-1].split("; ")[1].split()
    assert asks[:3] == ["lowwater", "ask", "largest"] and "bytes" in lowwater(*asks[1:]).out


def test_a_link_with_a_name_that_is_no_word_is_quoted() -> None:
    question = Recipe("q", "", "", "FROM main1.TCP a JOIN main2.TCP b")
    assert question.over(["left-1"], question.text) == 'FROM "left-1".TCP a JOIN "left-1".TCP b'
    assert question.over(["a", "b"], question.text) == "FROM a.TCP a JOIN b.TCP b"
    assert Recipe("q", "", "", "FROM main1.TCP").over(["a", "b"], "FROM main1.TCP") == "FROM TCP"

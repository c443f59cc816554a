"""A table of an answer says the same on a terminal, as JSON, as CSV and on a page."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
from lowwater_review import Ledgers
from lowwater_review.pages import render

from lowwater.instants import HOUR, SECOND
from lowwater.lake.sheets import COUNT, DURATION, INSTANT, LABELS, RANGE, REASON, SHARE, STATE, Sheet, say_sheet
from tests.cli.hostile import clean
from tests.review import ledgers

START = 1_767_225_600 * SECOND
KINDS = {"interval": RANGE, "since": INSTANT, "state": STATE, "records": COUNT, "share": SHARE}
KINDS |= {"bound": replace(DURATION, none="none"), "remark": LABELS, "why": REASON}
SHEET = Sheet(
    KINDS,
    [
        ((START, START + HOUR, 1), START, "failed", 1234, 0.0183, 90 * SECOND, ["in force"], 'a [red]\x1b[31m,"b"'),
        (None, None, "done", 0, 0.0, None, [], ""),
    ],
)


def test_values_are_exact_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    say_sheet(SHEET)
    head, first, second = capsys.readouterr().out.splitlines()
    assert head.split() == ["interval", "since", "state", "records", "share", "bound", "why"]
    begin = "2026-01-01T00:00:00Z"
    reason = r'a [red]\u001b[31m,"b"'
    assert first.split() == [begin, begin, "failed", "1,234", "1.83%", "90s", "in", "force", *reason.split()]
    assert second.split() == ["done", "0", "0%", "none"]


def test_json_and_csv_have_the_values_of_each_column(capsys: pytest.CaptureFixture[str]) -> None:
    say_sheet(SHEET, "json")
    first, second = json.loads(capsys.readouterr().out)
    begin, end = "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"
    assert (first["from"], first["to"], first["intervals"], first["since"]) == (begin, end, 1, begin)
    numbers = {name: first[name] for name in ("records", "share", "bound", "remark")}
    assert numbers == {"records": 1234, "share": 0.0183, "bound": 90 * SECOND, "remark": "in force"}
    assert (second["from"], second["intervals"], second["bound"]) == (None, None, None)
    say_sheet(SHEET, "csv")
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    rows = list(csv.DictReader(io.StringIO(printed)))
    assert [*rows[0]] == [*first] and len(rows) == 2
    assert (rows[0]["intervals"], rows[0]["remark"], rows[0]["bound"]) == ("1", "in force", str(90 * SECOND))
    assert rows[0]["why"].endswith('"b"') and rows[1]["from"] == rows[1]["bound"] == ""


def test_no_row_has_a_header(capsys: pytest.CaptureFixture[str]) -> None:
    say_sheet(Sheet(KINDS, []), "csv")
    assert capsys.readouterr().out.startswith("from,to,intervals,since,state,")


@pytest.mark.slow
def test_status_and_pages_tell_the_same_of_a_day(tmp_path: Path) -> None:
    root, queries = ledgers.make(tmp_path, 3, frozenset({1}))
    asked = "status", "--lake", root, "--queries", queries
    table = clean(*asked).out
    said = clean(*asked, "--format", "json")
    rows = json.loads(said.out)
    assert [(row["query set"], row["query"]) for row in rows] == [("q", "flows")] * len(rows) and len(rows) >= 3
    assert all(row["from"] in table and row["state"] in table for row in rows)
    told = clean(*asked, "--format", "csv")
    assert [(row["from"], row["state"]) for row in csv.DictReader(io.StringIO(told.out))] == [
        (row["from"], row["state"]) for row in rows
    ]
    assert said.err == told.err and set(said.err.splitlines()) <= {*table.splitlines()}, "lines go aside"
    days = json.loads(clean(*asked, "--by-day", "--format", "json").out)
    page = render(Ledgers(root, queries).now(), "days.html") or ""
    shown = [unescape(re.sub(r"<[^>]*>", "", cell)) for cell in re.findall(r"<t[dh] class=\"why\">(.*?)</td>", page)]
    assert [day["report"].partition(":")[0] for day in reversed(days)] == [text.partition(":")[0] for text in shown]
    assert [day["state"] for day in reversed(days)] == re.findall(r"</span> ([a-z ]+)</span></td>", page)
    assert clean(*asked, "--space", "--format", "csv", code=2).out == ""

"""Published rows read back: in the order of time, in bounded memory, and what is not there is said."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from lowwater.instants import HOUR
from lowwater.lake.layout import Lake, open_lake
from lowwater.lake.results import published_rows as module
from tests.lake.support import BASE, at, publish_rows, stream
from tests.replay.support import lowwater

ROWS: list[tuple[str | None, int, float]] = [
    ("10.0.0.2", 5, 7199.9),
    ("2001:db8::1", 2, 1799.0),
    (None, 3, 1800.0),
    ("10.0.0.2", 4, 3600.0),
    ("10.0.0.1", 1, 0.0),
]


def run(lake: Lake, hour: int, rows: list[tuple[str | None, int, float]], state: str = "done") -> None:
    """Publishes the rows of one hour."""
    start, end = BASE + hour * HOUR, BASE + (hour + 1) * HOUR
    mine = stream([row for row in rows if start <= at(row[2]) < end])
    publish_rows(lake, start, end, mine, state=state, reason="" if state == "done" else "link 'a' has not reported")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Two published hours of q, an hour of nothing, and one that is incomplete."""
    lake = open_lake(tmp_path / "lake")
    for hour, state in ((1, "done"), (0, "done"), (3, "incomplete")):
        run(lake, hour, [*ROWS, ("10.0.0.9", 6, 3.0 * 3600)], state)
    return lake


def numbers(out: str) -> list[int]:
    return [int(row["n"]) for row in csv.DictReader(io.StringIO(out))]


def rows(lake: Lake, *more: object) -> Any:
    return lowwater("rows", "q", "--lake", lake.root, *more)


@pytest.mark.slow
def test_rows_come_by_time_with_addresses_as_texts(lake: Lake) -> None:
    said = rows(lake, "--format", "csv")
    assert said.code == 0 and numbers(said.out) == [1, 2, 3, 4, 5, 6]
    assert said.out.splitlines()[0] == "addr,mac,n" and "2001:db8::1,00:00:00:00:00:02,2" in said.out.splitlines()
    assert "\n,00:00:00:00:00:02,3\n" in said.out
    found = [json.loads(line) for line in rows(lake, "--format", "json").out.splitlines()]
    assert found[0] == {"addr": "10.0.0.1", "mac": "00:00:00:00:00:02", "n": 1} and found[2]["addr"] is None
    table = rows(lake).out.splitlines()
    assert table[0].split() == ["addr", "mac", "n"] and [line.split()[-1] for line in table[1:]] == list("123456")
    assert "NULL" in table[3]


@pytest.mark.slow
def test_an_hour_with_many_rows_is_read_in_parts(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """No more rows are sorted at a time than allowed, and the order is the same; rows of one instant are not sorted."""
    many = [(None, number, 5 * 3600 + (number * 7 % 3000) / 10) for number in range(3000)]
    run(lake, 5, [*many, *((None, 9000 + number, 5 * 3600 + 3500.0) for number in range(50))])
    whole = numbers(rows(lake, "--format", "csv").out)
    held: list[int] = []
    monkeypatch.setattr(module, "SORTED_ROWS", 40)
    taken = module.pc.sort_indices

    def sort(table: Any, **keys: Any) -> Any:
        held.append(table.num_rows)
        return taken(table, **keys)

    monkeypatch.setattr(module.pc, "sort_indices", sort)
    cut = numbers(rows(lake, "--format", "csv").out)
    assert cut == whole == [*range(1, 7), *(row[1] for row in sorted(many, key=lambda row: row[2])), *range(9000, 9050)]
    assert max(held) <= 40 and len(held) > 3000 / 40

"""On lakes of today the model says what the ledgers and `plan` say: captures in order, coverage, what can start, what a
run would publish, and how many records it would have."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings as settings_of

from lowwater.config import load_config
from lowwater.errors import OverlapError
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import Lake, open_lake
from lowwater.lake.ledgers.captures import read_captures
from lowwater.lake.words import BLOCKED, WAITING
from lowwater.replay.schedule.due import statuses
from tests.breadth import examples
from tests.lake.support import at, capture
from tests.lake.test_edges import config as edges_config, taken, written
from tests.lake.test_edges_model import World, drawn_files, worlds
from tests.lake.test_restarts import HOUR, every, named, put, restarted, states, world
from tests.model.ledgers import model_of
from tests.model.rules import records as rec
from tests.model.rules.facts import Commit, Damage, Query
from tests.model.rules.states import States
from tests.replay.support import lowwater
from tests.replay.test_unread_hours import _lake as hours_lake


def restarts(root: Path) -> Lake:
    """The recorder was stopped at 03:10, and started again at 03:20."""
    lake = world(root)
    put(lake, restarted(root))
    return lake


def written_anew(root: Path) -> Lake:
    """Started again within the hour by which it names its files, over its own file: both parts stand."""
    lake = world(root)
    put(lake, [named(root, HOUR * n, part) for n, part in enumerate([every(0, HOUR), every(HOUR, HOUR + 600)])])
    put(lake, [named(root, HOUR, every(HOUR + 1200, 2 * HOUR)), named(root, 2 * HOUR, every(2 * HOUR, 3 * HOUR))])
    return lake


def put_back(root: Path) -> Lake:
    """The clock was put back by an hour between two files, within the skew."""
    lines = 'skew = "1h"\ngap_tolerance = "11s"\nsince = "2027-01-15T09:00:00Z"\nuntil = "2027-01-15T12:00:00Z"'
    lake = world(root, lines, rotation=False)
    for number, offset in enumerate((HOUR, HOUR, 1, 1)):
        records = [t + offset for t in every(HOUR * number, HOUR * (number + 1))]
        put(lake, [capture(root.parent / f"p_{number + 1:05}.pcap", records)])
    return lake


def cut(root: Path) -> Lake:
    """A file is cut before its hour is over, and another one ends with a record that is 30 years ahead."""
    lake = world(root)
    years = 30 * 365 * 24 * HOUR
    hours = [every(0, HOUR), every(HOUR, HOUR + 1800), every(2 * HOUR, 3 * HOUR), every(3 * HOUR, 4 * HOUR)]
    put(lake, [named(root, 0, [*hours[0], years])])
    path = named(root, HOUR, hours[1])
    path.write_bytes(path.read_bytes()[:-7])
    put(lake, [path, *(named(root, HOUR * n, hours[n]) for n in (2, 3))])
    return lake


def declared(root: Path) -> Lake:
    """People know what two files cover, and when there was nothing."""
    lake = world(root, 'since = "2027-01-15T08:00:00Z"', rotation=False)
    config = load_config(root)
    for begin, records in ((0, every(600, 1200)), (HOUR, every(HOUR + 5, HOUR + 2000)), (3 * HOUR, [])):
        path = capture(root.parent / f"t_{begin}.pcap", records)
        ingest(lake, "a", [path], config, covers=(at(begin), at(begin + HOUR)))
    return lake


@pytest.mark.slow
@pytest.mark.parametrize("make", [restarts, written_anew, put_back, cut, declared])
def test_the_model_says_what_the_ledgers_say(make: Callable[[Path], Lake], tmp_path: Path) -> None:
    root = tmp_path / "lake"
    make(root)
    lake, rows = open_lake(root), read_captures(open_lake(root), ["a"])["a"]
    facts, settings = model_of(lake, load_config(root), time.time_ns())
    model = States(facts, settings)
    view = model.claims.links["a"]
    assert [(c.content.id, *c.covers) for c in view.captures] == [(c.capture, c.covers_from, c.covers_to) for c in rows]
    # of the ledger by what a run would publish: publish all in the model, and compare the words
    now = {span: model.state(span).word for span in model.listed}
    facts.logs["n"] = [Commit(span, model.wanted.key(settings.queries[0], span)) for span in model.listed]
    published, found = States(facts, settings), dict[int, tuple[str, int]]()
    for span in model.listed:
        count = sum(
            record.account in (rec.SANE, rec.LATE) and span[0] <= record.charged < span[1]
            for each in view.captures
            for record in each.records
        )
        word = "blocked" if now[span] in (BLOCKED, WAITING) else published.state(span).word
        found[(span[0] - at(0)) // (HOUR * 10**9)] = word, count
    assert found == states(root)


@pytest.mark.slow
@pytest.mark.hypothesis
def test_ends_of_files_and_coverage_are_those_of_the_ledger(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Files of successive hours with records far ahead, far behind, and few."""

    @settings_of(max_examples=examples(40))
    @given(worlds(6))
    def drawn(world: tuple[World, bool]) -> None:
        files, dated = world
        root = tmp_path_factory.mktemp("ends")
        config = edges_config(root / "in", dated, max_jump="60s", skew="1s")
        with suppress(OverlapError):  # one of both is read
            taken(root / "lake", written(root / "in", drawn_files(files)), config)
        lake = open_lake(root / "lake")
        rows = read_captures(lake, ["a"], config)["a"]
        facts, settings = model_of(lake, config, at(100 * HOUR))
        captures = States(facts, settings).claims.links["a"].captures
        assert [(c.content.id, *c.covers, c.strays) for c in captures] == [
            (c.capture, c.covers_from, c.covers_to, c.strays) for c in rows
        ]

    drawn()


@pytest.mark.slow
def test_states_of_a_published_lake_are_those_that_status_has(tmp_path: Path) -> None:
    lake, settings = hours_lake(tmp_path), tmp_path / "lake" / "lowwater.toml"
    for hour in range(3):
        capture(tmp_path / "captures" / f"a_20270115{8 + hour:02}.pcap", every(HOUR * hour, HOUR * hour + 3000, 60))
    logs: dict[str, list[Commit | Damage]] = {}

    def both() -> dict[int, str]:
        """The word of each hour after 08:00, of `status` and of the model, which are equal."""
        assert lowwater("ingest", "--lake", lake).code == 0
        facts, of_model = model_of(open_lake(lake), load_config(lake), time.time_ns())
        facts.logs = logs
        model = States(facts, replace(of_model, queries=[Query("flows")]))
        rows = {row.start: row.shown for row in statuses(lake, lake)}
        assert {span[0]: model.state(span).word for span in model.listed} == rows
        for span in model.due:
            key = model.wanted.key(model.settings.queries[0], span)
            wanted.append(Commit(span, key))
        return {(start - at(0)) // (HOUR * 10**9): word for start, word in rows.items()}

    def run() -> None:
        """Runs what is due in both."""
        said = lowwater("backfill", "--lake", lake)
        assert said.code == 0, said.err
        logs.setdefault("flows", []).extend(wanted)

    wanted: list[Commit] = []
    assert both() == {0: "missing", 1: "missing", 2: "missing"}
    run()
    wanted.clear()
    assert both() == {0: "done", 1: "done", 2: "done"}
    spill = capture(tmp_path / "captures" / "a_2027011509.pcap1", [HOUR + 3000, HOUR + 3100])
    assert both() == {0: "done", 1: "incomplete", 2: "done"}
    spill.unlink()
    assert both() == {0: "done", 1: "incomplete", 2: "done"}, "the way to done is not to delete packets"
    capture(tmp_path / "captures" / "a_2027011508.pcap", every(60, 3000, 60))
    assert both() == {0: "stale", 1: "incomplete", 2: "done"}
    run()
    wanted.clear()
    assert both() == {0: "done", 1: "incomplete", 2: "done"}
    text = settings.read_text()
    settings.write_text(text.replace("T08:00:00Z", "T08:30:00Z"))
    assert both() == {0: "stale", 1: "incomplete", 2: "done"}
    run()
    wanted.clear()
    assert both() == {0: "incomplete", 1: "incomplete", 2: "done"}, "since leaves two packets out"
    settings.write_text(text.replace('rotation = "1h"', 'rotation = "1h"\nskew = "5s"'))
    assert both() == {0: "stale", 1: "stale", 2: "stale"}

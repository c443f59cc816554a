"""On lakes of today the model says what the ledgers and `plan` say: captures in order, coverage, what can start, what a
run would publish, and how many records it would have."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lowwater.config import load_config
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import Lake, open_lake
from lowwater.lake.ledgers.captures import read_captures
from lowwater.lake.model import records as rec
from lowwater.lake.model.facts import Commit
from lowwater.lake.model.states import CANNOT_START, WAITING, States
from tests.lake.support import at, capture
from tests.lake.test_restarts import HOUR, every, named, put, restarted, states, world
from tests.model.ledgers import model_of


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
        word = "blocked" if now[span] in (CANNOT_START, WAITING) else published.state(span).word
        found[(span[0] - at(0)) // (HOUR * 10**9)] = word, count
    assert found == states(root)

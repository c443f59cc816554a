"""Subscribers: each published row once whatever dies, restated intervals as such, and logs that were cleaned up."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from lowwater.catalog.values import Type
from lowwater.errors import BehindError, BusyError, LakeError
from lowwater.instants import HOUR, format_instant
from lowwater.lake.layout import Lake, open_lake
from lowwater.lake.open_tables import existing
from lowwater.lake.results import subscription
from lowwater.lake.results.subscription import Change, subscribe
from lowwater.lake.upkeep import join_files
from lowwater.plan.operators import Field
from lowwater.replay.registry import list_streams
from tests.breadth import examples
from tests.lake.support import BASE, FIELDS, publish_rows, stream as made_stream
from tests.lake.test_publish import run
from tests.replay.support import lowwater

HALF = HOUR // 2
Content = Counter[tuple[Any, ...]]


def put(lake: Lake, slot: int, numbers: list[int], length: int = 1) -> None:
    """Publishes half hours from `slot` on; row n is about second n of them, cyclically."""
    start, end = BASE + slot * HALF, BASE + (slot + length) * HALF
    rows = [("10.0.0.1", n, slot * 1800 + n % (1800 * length)) for n in numbers]
    run(lake, start, end, rows, digest=f"{slot} {length} {numbers}")


@dataclass
class View:
    """What a subscriber has, in one transaction with its position, as a table of a database would."""

    rows: Content = field(default_factory=Counter)
    position: str = ""
    given: list[tuple[int, int]] = field(default_factory=list)

    def apply(self, change: Change) -> None:
        rows = Counter({row: n for row, n in self.rows.items() if not change.start <= row[-1] < change.end})
        for row in change.rows():
            assert change.start <= row["_last"] < change.end
            rows[row["addr"], row["n"], row["_last"]] += 1
        self.rows, self.position = rows, change.position
        self.given.append((change.version, change.start))

    def drain(self, lake: Lake, **options: Any) -> list[Change]:
        changes = []
        with subscribe(lake.root, "q", after=self.position, **options) as stream:
            while (change := stream.poll()) is not None:
                self.apply(change)
                changes.append(change)
        return changes


def published(lake: Lake) -> Content:
    table = existing(lake.table("q"))
    return Counter((row["addr"], row["n"], row["_last"]) for row in table.to_pyarrow_table().to_pylist())


@pytest.mark.slow
def test_a_subscriber_gets_each_interval_as_it_is_published(lake: Lake) -> None:
    put(lake, 0, [1, 2])
    view = View()
    (first,) = view.drain(lake)
    assert (first.snapshot, first.end, first.restated) == (True, BASE + HALF, False)
    put(lake, 1, [3])
    (second,) = view.drain(lake)
    assert (second.start, second.end, second.snapshot, second.restated, second.late) == (
        *(BASE + HALF, BASE + HOUR),
        *(False, False, False),
    )
    put(lake, 2, [])  # an interval without rows is published too
    (third,) = view.drain(lake)
    assert (third.start, third.end, list(third.rows())) == (BASE + HOUR, BASE + 3 * HALF, [])
    assert view.drain(lake) == []
    put(lake, 0, [9])
    (again,) = view.drain(lake)
    assert (again.restated, again.late, again.start) == (True, True, BASE)
    assert view.rows == published(lake) and sum(view.rows.values()) == 2


steps = st.one_of(
    st.tuples(st.just("put"), st.integers(0, 3), st.lists(st.integers(0, 1799), max_size=4), st.integers(1, 3)),
    st.tuples(st.just("poll"), st.integers(1, 3)),
    st.tuples(st.just("die"), st.integers(0, 2)),
    st.tuples(st.sampled_from(["restart", "join", "checkpoint"])),
)


@pytest.mark.slow
@given(st.lists(steps, max_size=9), st.booleans())
@settings(max_examples=examples(12), deadline=None)
def test_whatever_dies_a_view_is_the_table(
    tmp_path_factory: pytest.TempPathFactory, script: list[tuple[Any, ...]], history: bool
) -> None:
    lake = open_lake(tmp_path_factory.mktemp("lakes") / "lake")
    put(lake, 0, [1])
    view = View() if history else View(published(lake))
    stream = subscribe(lake.root, "q", after="", history=history)
    before = 1 if history else 0
    for step in script:
        if step[0] == "put":
            put(lake, step[1], step[2], step[3])
            before += 1
        elif step[0] == "join":
            join_files(lake.table("q"), "_hour", [str(BASE // HOUR + hour) for hour in range(3)])
        elif step[0] == "checkpoint":
            table = existing(lake.table("q"))
            table.create_checkpoint()
        elif step[0] == "poll":
            for _ in range(step[1]):
                if (change := stream.poll()) is not None:
                    view.apply(change)
        else:
            if step[0] == "die" and (change := stream.poll()) is not None:
                for _ in zip(range(step[1]), change.rows(), strict=False):
                    pass  # it dies at work: nothing is committed
            stream = subscribe(lake.root, "q", after=view.position, history=history or bool(view.position))
            if not view.position and not history:
                view = View(published(lake))  # it began anew: what is published is not given
    while (change := stream.poll()) is not None:
        view.apply(change)
    assert view.rows == published(lake)
    assert len(set(view.given)) == len(view.given)


@pytest.mark.slow
def test_who_asks_again_after_an_error_misses_nothing(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    put(lake, 0, [1])
    put(lake, 2, [2])
    view = View()
    with subscribe(lake.root, "q", after="") as stream:

        def drain() -> None:
            while (change := stream.poll()) is not None:
                view.apply(change)

        with monkeypatch.context() as patch:
            patch.setattr(subscription, "last_note", Mock(side_effect=LakeError("the store does not answer")))
            with pytest.raises(LakeError, match="does not answer"):
                drain()
        drain()
        assert view.rows == published(lake)
        existing(lake.table("q")).delete("n = 2")
        for _ in range(2):
            with pytest.raises(LakeError, match="does not say of which interval"):
                stream.poll()
        put(lake, 2, [3])  # what the other program changed is published again
        drain()
    assert view.rows == published(lake)


@pytest.mark.slow
def test_a_position_in_a_file_survives_and_is_held_once(lake: Lake, tmp_path: Path) -> None:
    put(lake, 0, [1, 2])
    put(lake, 1, [3])
    place = tmp_path / "q.position"
    with subscribe(str(lake.root), "q", position=place) as stream:
        for change in stream:
            seen = [row["n"] for row in change.rows()]
            stream.stop()
        with pytest.raises(BusyError, match="subscribes with this position"):
            subscribe(lake.root, "q", position=place)
    assert seen == [1, 2, 3]
    put(lake, 2, [4])
    with subscribe(lake.root, "q", position=place, wait=0.01) as stream:
        dying = next(iter(stream))  # not asked for the next one: the work was not done
        assert [row["n"] for row in dying.rows()] == [4]
    with subscribe(lake.root, "q", position=place) as stream:
        again = stream.poll()
        assert again is not None and (again.version, again.start) == (dying.version, dying.start)
        stream.done(again)
        assert stream.poll() is None
    with subscribe(lake.root, "q", position=place) as stream:
        assert stream.poll() is None


@pytest.mark.slow
def test_a_column_that_the_query_gets_later_lies_before_the_last_instant(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(lake, 0, [1])
    wide = (*FIELDS, Field("more", Type.INT))
    rows = made_stream([("10.0.0.1", 2, 1800.0)])
    rows = rows.append_column("more", pa.array([7] * rows.num_rows, pa.int64()))
    command = ("tail", "q", "--lake", lake.root, "--from", format_instant(BASE))

    def follow(stream: subscription.Subscription) -> Iterator[Change]:
        while (change := stream.poll()) is not None:
            yield change
            if change.snapshot:  # the query gets the column while it is followed
                publish_rows(lake, BASE + HALF, BASE + HOUR, rows, fields=wide)

    monkeypatch.setattr(subscription.Subscription, "__iter__", follow)
    for options, names in ((["--format", "csv", "--follow"], ""), (["--format", "csv"], ",more")):
        printed = lowwater(*command, *options).out.splitlines()
        assert printed[0] == f"addr,mac,n{names},_kind,_last,_until,_version"
        (row,) = [line for line in csv.DictReader(printed) if line["_kind"] == "row" and line["n"] == "2"]
        assert (row["_last"], row.get("more", "7")) == (str(BASE + HALF), "7")
    with subscribe(lake.root, "q", after="") as stream:
        change = stream.poll()
        assert change is not None
        assert {(*batch.schema.names,) for batch in change.batches()} == {("addr", "mac", "n", "more", "_last")}


@pytest.mark.slow
def test_the_list_of_streams_names_a_subscriber_whose_place_in_the_log_is_gone(lake: Lake) -> None:
    def is_lost() -> bool:
        (info,) = list_streams(lake, [], {"set": "it has no plan"})
        (reader,) = info.readers
        return reader.lost

    put(lake, 0, [1])
    with subscribe(lake.root, "q", name="billing") as stream:
        change = stream.poll()
        assert change is not None
        stream.done(change)
    put(lake, 1, [2])
    assert not is_lost()
    existing(lake.table("q")).create_checkpoint()
    for entry in sorted(Path(lake.table("q") / "_delta_log").glob("*.json"))[:-1]:
        entry.unlink()
    assert is_lost()
    with pytest.raises(BehindError, match="no longer in its log"):
        subscribe(lake.root, "q", name="billing")


def test_a_log_that_names_files_elsewhere_is_refused(lake: Lake) -> None:
    put(lake, 0, [1])
    stream = subscribe(lake.root, "q", history=False)
    put(lake, 1, [2])
    entry = Path(lake.table("q") / "_delta_log" / f"{2:020d}.json")
    lines = [json.loads(line) for line in entry.read_text().splitlines()]
    for line in lines:
        if "add" in line:
            line["add"]["path"] = "..%2F..%2Fother.parquet"
    entry.write_text("\n".join(json.dumps(line) for line in lines))
    with pytest.raises(LakeError, match="names a file outside of the table"):
        stream.poll()

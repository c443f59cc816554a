"""Cases of the execution model by number: a query, packets, and a setup of any schedule, policy and timestamps.

`python -m tests.experiments.executions --cases 3000` runs so many, and ends with 1 where rows are not those of
the reference engine.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

from experiments.execution import (
    FREE,
    MEASURED,
    Costs,
    DepthFirst,
    Execution,
    Node as Operator,
    Punctuate,
    RoundRobin,
    Schedule,
    Setup,
    Stamps,
    System,
    ask_sources,
    execute,
)
from lowwater.plan.operators import Node
from lowwater.plan.properties import read_from
from lowwater.plan.queryset import plan_texts
from lowwater.plan.temporal import END_OF_TIME
from lowwater.reference.engine import evaluate
from tests.plan.batch_pools import CONTEXT, KNOWN
from tests.plan.batch_worlds import world
from tests.reference.feeds import arriving, batches, write_watch_list
from tests.reference.streams import UNIT
from tests.reference.test_order import SHAPES

LINKS = ("control", "main1", "main2")
SECOND = 1_000_000_000
TIMELESS = {
    "selection": "SELECT timestamp, srcIP, interface, id FROM [main1, main2].UDP WHERE len > 70 AND srcPort <> 80",
    "merge of selections": (
        "DEFINE{query_name 'a';} SELECT time AS t, len FROM main1.ETH WHERE len > 60;\n"
        "DEFINE{query_name 'b';} SELECT time AS t, len FROM [main2, control].ETH WHERE len < 900;\n"
        "DEFINE{query_name 'q';} MERGE a.t : b.t FROM a, b"
    ),
}
"""Queries whose operators need no timestamps."""


@dataclass
class AnyOrder(Schedule):
    """Any operator that can execute; sources are asked where none can, or now and then before."""

    chance: Random

    def next(self, system: System) -> Operator | None:
        """One of those that can execute."""
        asked = False
        while True:
            ready = [node for node in system.graph.nodes if node.more]
            if ready and not (self.chance.random() < 0.05 and ask_sources(system)):
                return self.chance.choice(ready)
            if asked and not ready:
                return None
            asked = not ask_sources(system) and not ready


@dataclass(frozen=True)
class Case:
    """A case.

    Attributes:
        name: of its query.
        plan: the logical plan.
        packets: of each link; `skews` in ns.
        setup: of the execution.
    """

    name: str
    plan: Node = field(repr=False)
    packets: Mapping[str, list[pa.RecordBatch]] = field(repr=False)
    skews: Mapping[str, int]
    setup: Setup


def case(number: int) -> Case:
    """The case of a number; the watch list lies in the working folder (`listed`)."""
    chance = Random(number)
    stamps = chance.choice((Stamps.INTERNAL, Stamps.EXTERNAL, Stamps.INTERNAL, Stamps.EXTERNAL, Stamps.LATENT))
    named = TIMELESS if stamps is Stamps.LATENT else {**SHAPES, **TIMELESS}
    name = chance.choice(list(named))
    plan = planned(named[name])
    made = arriving(world(chance.randrange(1 << 20), LINKS, catalog=CONTEXT.catalog))
    packets = {link: batches(found) for link, found in made.links.items()}
    skews = {link: chance.choice((0, SECOND // 2, 2 * SECOND, 9 * SECOND)) for link in LINKS}
    return Case(name, plan, packets, skews, setup(chance, stamps))


def planned(text: str) -> Node:
    """The logical plan of a text."""
    return plan_texts([("q.gsql", text)], KNOWN, 1, CONTEXT).queries[-1].logical


def setup(chance: Random, stamps: Stamps) -> Setup:
    """Any schedule, policy and costs."""
    punctuate = Punctuate.NONE if stamps is Stamps.LATENT else chance.choice(list(Punctuate))
    periods = {link: chance.choice((7, 33, 600)) * UNIT for link in LINKS if chance.random() < 0.7} or {"main1": UNIT}
    schedule = chance.choice((DepthFirst, RoundRobin, lambda: AnyOrder(chance)))
    costs = chance.choice((FREE, MEASURED, Costs(UNIT, UNIT // 3, UNIT // 7)))
    return Setup(stamps, punctuate, periods if punctuate is Punctuate.PERIODIC else {}, schedule, costs)


def rows_of(found: Any) -> Counter[Any]:
    """Rows with their `_last`; values as texts, since NaN is not itself."""
    return Counter((last, repr(row)) for row, last in zip(found.rows, found.lasts, strict=True))


def check(drawn: Case) -> Execution:
    """Executes a case, and holds its rows against those of the reference engine.

    Raises:
        AssertionError: they are not the same, or a buffer is not empty at the end.
    """
    found = execute(drawn.plan, drawn.packets, drawn.skews, drawn.setup)
    start = read_from(drawn.plan, 0)
    expected = evaluate(drawn.plan, drawn.packets, drawn.skews, 0, END_OF_TIME, start, SECOND)
    ours, theirs = rows_of(found), rows_of(expected)
    missing, extra = list((theirs - ours).items())[:3], list((ours - theirs).items())[:3]
    assert ours == theirs, f"{drawn}: missing {missing}, too many {extra}"
    assert found.queued.tuples == found.queued.punctuations == 0
    return found


@contextmanager
def listed() -> Iterator[None]:
    """The watch list of the queries in a working folder of its own."""
    before = Path.cwd()
    with TemporaryDirectory() as folder:
        write_watch_list(Path(folder))
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def main() -> int:
    """Runs cases, prints those whose rows differ, and what was run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=3000)
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    given = parser.parse_args()
    names, policies, rows, wrong = Counter[str](), Counter[str](), 0, 0
    with listed():
        for number in range(given.first, given.first + given.cases):
            drawn = case(number)
            names[drawn.name] += 1
            policies[f"{drawn.setup.stamps.value} {drawn.setup.punctuate.value}"] += 1
            try:
                rows += len(check(drawn).rows)
            except Exception as error:  # noqa: BLE001 - whatever a case does is its outcome
                wrong += 1
                print(f"{number}: {type(error).__name__}: {error}", flush=True)
    print(f"{given.cases} cases of {len(names)} queries, {rows} rows, {wrong} differ")
    print(", ".join(f"{name} {count}" for name, count in sorted(policies.items())))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

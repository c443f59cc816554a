"""H5 (000, section 6.2): a backlogged operator found from the traces of heartbeats alone."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from experiments.execution import MEASURED, Buffer, Graph, Message, Node, Stamps, build
from experiments.frame import Curve, Experiment, Measurement, Panel, Size, Verdict, main
from experiments.levels import high, low
from experiments.model import SECOND, START, Stream
from lowwater.plan.context import Links
from lowwater.plan.queryset import plan_texts
from lowwater.plan.temporal import END_OF_TIME
from lowwater.replay.run_command import traces
from lowwater.stream.records import merge

SEED = 70
LINKS = ("main1", "main2")
RATE = 100
SECONDS = {Size.QUICK: 10, Size.DEFAULT: 60, Size.FULL: 600}
PERIOD = 1.0
OVERLOAD = 1.25
"""Work that a slow operator gets for each second; the paper names none. Any load above 1 makes a queue that grows."""

NOTHING = "none"

QUERIES = """
DEFINE { query_name 'a'; visibility 'internal'; } SELECT timestamp, len FROM main1.ETH WHERE len >= 50;
DEFINE { query_name 'b'; visibility 'internal'; } SELECT timestamp, len FROM main2.ETH WHERE len >= 50;
DEFINE { query_name 'both'; visibility 'internal'; } MERGE a.timestamp : b.timestamp FROM a, b;
DEFINE { query_name 'large'; } SELECT timestamp, len FROM both WHERE len >= 60
"""
"""Two selections, a merge, and a selection above it."""

LATE = 20.0
"""Seconds that the packets of the late link take to its low level."""

LATE_QUERIES = """
DEFINE { query_name 'first'; } SELECT timestamp, len FROM main1.ETH WHERE len > 50;
DEFINE { query_name 'all_links'; } SELECT timestamp, len FROM main1.ETH UNION main2.ETH UNION main3.ETH WHERE len > 50
"""


@dataclass(frozen=True)
class Visit:
    """What an operator adds to a trace.

    Attributes:
        trace: tick of the heartbeat, ns; of all links the same.
        operator: the one that it visits.
        received: when it came into the operator's queue, ns.
        left: when the operator had done it, ns.
    """

    trace: int
    operator: str
    received: int
    left: int


@dataclass
class Nodes:
    """A query graph with a processor and a queue for each operator, as HFTAs are processes (004).

    Attributes:
        graph: its operators.
        costs: operator -> ns for a row; a heartbeat takes what it takes in the model.
        period: of heartbeats, ns.
    """

    graph: Graph
    costs: Mapping[str, int]
    period: int
    now: int = START
    visits: list[Visit] = field(default_factory=list)

    def run(self, streams: Mapping[str, Stream]) -> list[Visit]:
        """Executes until the links end; what is queued then leaves no trace."""
        arrived: dict[int, deque[int]] = {}
        for node in self.graph.nodes:
            for arc in node.inputs:
                arrived[id(arc)] = self._noted(arc)
        for source in self.graph.sources:
            source.start(START)
        records = merge({name: each.batches() for name, each in streams.items()}, self.graph.columns)
        end = START + round(max(each.seconds for each in streams.values()) * SECOND)
        ticks = range(START + self.period, end, self.period)
        events: list[tuple[int, int, Any]] = [(tick, 0, None) for tick in ticks]
        numbers = dict.fromkeys(self.graph.columns, 0)
        events += [(record.arrival, 1, record) for record in records]
        order, busy = count(), set[Node]()
        queue = [(at, next(order), what) for at, _, what in sorted(events, key=lambda each: each[:2])]
        while queue and queue[0][0] < end:
            self.now, _, what = heapq.heappop(queue)
            if what is None:
                for source in self.graph.sources:
                    source.punctuate(self.now)
            elif isinstance(what, Node):
                busy.remove(what)
                self._done(what, arrived)
            else:
                numbers[what.link] += 1
                for source in self.graph.feeds[what.link]:
                    source.enter(what, numbers[what.link])
            for node in self.graph.nodes:
                if node not in busy and node.more:
                    busy.add(node)
                    heapq.heappush(queue, (self.now + self._cost(node), next(order), node))
        return self.visits

    def _noted(self, arc: Buffer) -> deque[int]:
        """When each message of an arc came into it."""
        times: deque[int] = deque()
        put = arc.put

        def noted(message: Message) -> None:
            times.append(self.now)
            put(message)

        arc.put = noted  # type: ignore[method-assign]
        return times

    def _cost(self, node: Node) -> int:
        """Of the next step; a heartbeat alone in the queues costs less than a row."""
        heads = [arc.messages[0] for arc in node.inputs if arc.messages]
        return MEASURED.punctuation if all(each.row is None for each in heads) else self.costs[node.name]

    def _done(self, node: Node, arrived: Mapping[int, deque[int]]) -> None:
        taken, _ = node.execute()
        (arc,) = (arc for arc in node.inputs if len(arrived[id(arc)]) > len(arc.messages))
        received = arrived[id(arc)].popleft()
        if taken.row is None:
            self.visits.append(Visit(taken.entered, node.name, received, self.now))


def graph() -> Graph:
    """The graph of the queries."""
    plan = plan_texts([("h5.gsql", QUERIES)], Links(LINKS)).queries[-1].logical
    return build(plan, dict.fromkeys(LINKS, 0), Stamps.INTERNAL)


def delays(visits: Sequence[Visit]) -> dict[str, float]:
    """Longest delay (s) of each operator: from the last of its inputs' heartbeats of a tick until it has done them.

    What came before from another input waits for that one, not for the operator.
    """
    received: dict[tuple[str, int], int] = {}
    left: dict[tuple[str, int], int] = {}
    for visit in visits:
        key = visit.operator, visit.trace
        received[key] = max(received.get(key, 0), visit.received)
        left[key] = max(left.get(key, 0), visit.left)
    found: dict[str, float] = {}
    for (operator, trace), at in received.items():
        found[operator] = max(found.get(operator, 0.0), (left[operator, trace] - at) / SECOND)
    return found


def waits(visits: Sequence[Visit]) -> dict[str, float]:
    """Longest delay (s) of each operator, read from each heartbeat by itself."""
    found: dict[str, float] = {}
    for each in visits:
        found[each.operator] = max(found.get(each.operator, 0.0), (each.left - each.received) / SECOND)
    return found


def busy_rows(size: Size) -> list[Measurement]:
    """Every operator in turn is made slow; then none."""
    names = [node.name for node in graph().nodes]
    rows: list[Measurement] = []
    streams = {link: Stream(RATE, SECONDS[size], 50, SEED + at) for at, link in enumerate(LINKS)}
    for slow in (*names, NOTHING):
        made = graph()
        # An operator above the merge gets the rows of both links.
        above = {name: RATE * (1 if len(paths) == 1 else len(LINKS)) for name, paths in _links_below(made).items()}
        costs = {name: round(OVERLOAD * SECOND / above[name]) if name == slow else MEASURED.row for name in names}
        visits = Nodes(made, costs, round(PERIOD * SECOND)).run(streams)
        own, alone = delays(visits), waits(visits)
        rows += [{"slow": slow, "operator": name, "delay": own.get(name), "wait": alone.get(name)} for name in names]
    return rows


def _links_below(made: Graph) -> dict[str, set[str]]:
    """The links that each operator hears of."""
    found: dict[str, set[str]] = {}
    for node in made.nodes:
        below = [found[each.name] if isinstance(each, Node) else {each.link} for each in node.predecessors]
        found[node.name] = set().union(*below)
    return found


def late_rows(size: Size, late: float) -> list[Measurement]:
    """The traces of `lowwater run --traces`, of three links of which one is late."""
    links = (*LINKS, "main3")
    plan = plan_texts([("h5.gsql", LATE_QUERIES)], Links(links))
    streams = {
        link: Stream(RATE, SECONDS[size] + 2 * LATE, 50, SEED + at, late if link == "main2" else 0.0)
        for at, link in enumerate(links)
    }
    with TemporaryDirectory() as folder:
        files = low(plan.lftas, streams, Path(folder), PERIOD)
        results = {}
        for query in plan.queries:
            (own := Path(folder) / query.name).mkdir()
            results[query.name] = [lfta.name for lfta in query.lftas], high(query, files, own, PERIOD, 1000).result
        found = traces(files, results)
    rows = []
    for level, producer, link in sorted({(r["level"], r["producer"], r["link"]) for r in found.to_pylist()}):
        said = [
            row["lag"] / SECOND
            for row in found.to_pylist()
            if (row["level"], row["producer"], row["link"]) == (level, producer, link)
            and row["until"] >= START + LATE * SECOND
            and row["promise"] < END_OF_TIME
        ]
        rows.append({"level": level, "node": producer, "link": link, "lag": max(said, default=None)})
    return rows


def measure(size: Size) -> list[Measurement]:
    """Slow operators in the model, a late link in the traces of a run."""
    return busy_rows(size) + late_rows(size, LATE)


def accused(rows: Sequence[Any], slow: str, column: str = "delay") -> set[str]:
    """The operators that the traces point to: their longest delay is above a tenth of the period of heartbeats."""
    return {row["operator"] for row in rows if row.get("slow") == slow and (row[column] or 0.0) > PERIOD / 10}


def verdicts(rows: Sequence[Any]) -> list[Verdict]:
    """Whether the slow operator is found, and nobody else."""
    slow = list(dict.fromkeys(row["slow"] for row in rows if row.get("slow", NOTHING) != NOTHING))
    found = [name for name in slow if accused(rows, name) == {name}]
    own = [row["delay"] or 0.0 for row in rows if row.get("slow") == row.get("operator", "")]
    others = [row["delay"] or 0.0 for row in rows if row.get("slow", "") not in ("", row.get("operator"))]
    more = [name for name in slow if accused(rows, name, "wait") - {name}]
    wrong = accused(rows, NOTHING)
    lag = {(row["level"], row["node"], row["link"]): row["lag"] or 0.0 for row in rows if "lag" in row}
    late = {key for key, value in lag.items() if value > LATE / 2}
    said = ", ".join(f"{lag[key]:.0f} s: {' '.join(filter(None, key))}" for key in sorted(late))
    rest = max((value for key, value in lag.items() if key not in late), default=0.0)
    return [
        Verdict(
            "traces identify backlogged nodes (taken as: each operator in turn, and no other is accused)",
            f"{len(found)} of {len(slow)} found; they delay a heartbeat by {min(own):.2f} s at least, all others by "
            f"{1000 * max(others):.3f} ms at most",
            len(found) == len(slow) > 0,
            "A delay is from the last of an operator's inputs to its output, for heartbeats of one tick. Read from "
            f"each heartbeat by itself, another one would be accused too beside {len(more)} of {len(slow)} slow "
            "operators: the merge holds the heartbeats of one link until the slow one brings those of the other.",
        ),
        Verdict("without a bottleneck no operator is accused", f"{len(wrong)} of {len(slow)} operators", not wrong),
        Verdict(
            "(ours) `heartbeats.csv` of `lowwater run --traces` points to a late link, and to the queries that wait",
            f"behind by {said or 'nothing'}; all others by {rest:.0f} s at most",
            late == {("lfta", "all_links", "main2"), ("query", "all_links", "")},
            "Its ticks are those of the captures' clocks, not of the machine's: they show what waits for a link and "
            "its skew, not for a processor. Where the processor is the bottleneck, `nanoseconds` of the ledger says so "
            "([tuning](tuning.md#what-is-counted)).",
        ),
    ]


def panels(rows: Sequence[Any]) -> list[Panel]:
    """Delays of the slow operator and of the others, for each operator that is slow."""
    slow = list(dict.fromkeys(row["slow"] for row in rows if row.get("slow", NOTHING) != NOTHING))
    mine, others, alone = [], [], []
    for number, name in enumerate(slow, 1):
        group = [row for row in rows if row.get("slow") == name]
        mine += [(number, 1000 * (row["delay"] or 0.0)) for row in group if row["operator"] == name]
        others.append((number, 1000 * max(row["delay"] or 0.0 for row in group if row["operator"] != name)))
        alone.append((number, 1000 * max(row["wait"] or 0.0 for row in group if row["operator"] != name)))
    curves = [
        Curve("the slow operator", mine),
        Curve("longest of the others", others),
        Curve("the same, each heartbeat by itself", alone),
    ]
    return [Panel("H5: delay of heartbeats", "slow operator (number)", "longest delay (ms)", curves, log_up=True)]


def shown(rows: Sequence[Any]) -> list[Any]:
    """For each slow operator its own delay and the longest of the others; the lags of the traces."""
    groups: dict[str, list[Any]] = {}
    for row in rows:
        if "slow" in row:
            groups.setdefault(row["slow"], []).append(row)
    kept = []
    for slow, group in groups.items():
        others = [row for row in group if row["operator"] != slow]
        kept += [row for row in group if row["operator"] == slow]
        kept.append(max(others, key=lambda row: row["delay"] or 0.0))
    return kept + [row for row in rows if "lag" in row]


EXPERIMENT = Experiment(
    id="H5",
    title="a backlogged operator",
    source="000, section 6.2",
    claim="Heartbeats wait in the queues of operators as tuples do, so their traces identify backlogged nodes.",
    about=f"""
Two selections, a merge and a selection above it, each operator with a processor and a queue of its own, as HFTAs are
processes of their own (004); operators, their costs and internal timestamps are those of the execution model of 003.
Each operator in turn gets {OVERLOAD:g} seconds of work a second; a heartbeat a second carries the tick of its source,
and each operator notes when it received it and when it had done it. Links have {RATE} packets/s: delays grow by the
load, not by the rate. Below that, the traces that Lowwater itself writes, of three links of which the second is late by
{LATE:g} s.
""",
    printed=False,
    seed=SEED,
    measure=measure,
    verdicts=verdicts,
    panels=panels,
    shown=shown,
    columns={
        "slow": "slow operator",
        "operator": "operator",
        "delay": "longest delay (s)",
        "wait": "of one heartbeat by itself (s)",
        "level": "level",
        "node": "node of the traces",
        "link": "link",
        "lag": "promise behind its tick (s)",
    },
)

if __name__ == "__main__":
    main(EXPERIMENT)

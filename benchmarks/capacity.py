"""Makes docs/capacity.md, the model of capacity, from the figures of `bench_capacity` and of `bench_parts`.

`python -m benchmarks.capacity` reads docs/capacity.json and docs/capacity-parts.json. How many cores keep up is a
simulation: tasks of the measured hour, drawn by chance, on cores that take one after another; what a run does by itself
is one step between them. All prices and rates of the extrapolation are assumptions, which the page says.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

from benchmarks.parts import Step, simulated
from benchmarks.performance import table
from lowwater.instants import SECOND, format_duration

ROOT = Path(__file__).resolve().parents[1]
FIGURES = ROOT / "docs" / "capacity.json"
PARTS = ROOT / "docs" / "capacity-parts.json"
PAGE = ROOT / "docs" / "capacity.md"
STAGES = ("ingest", "low", "high", "audit", "publish")
WRITES, READS = ("PUT", "POST", "LIST"), ("GET", "HEAD")
"""Requests that a store charges as writes, copies among them, and as reads. DELETE costs nothing."""

CORES = (1, 2, 4, 8, 16, 32, 64)
"""Of the simulation of the measured hour."""
INTERVALS = (1, 2, 6, 12, 60, 120, 360)
"""Intervals of an hour that the simulation tries."""
HOUR_SECONDS = 3600.0
MOST = 20_000
"""Tasks of a round in an hour that are simulated apart; of more, several alike are one."""
LINKS, RATE, FILL, MEAN = 100, 10e9, (0.1, 0.3, 1.0), 700
"""Links, bits/s of each, shares of the rate that are used, mean bytes of a packet on the wire."""
FRAMING = 20
"""Bytes of preamble and gap with each frame of Ethernet."""
WRITE_PRICE, READ_PRICE, STORAGE_PRICE = 0.005, 0.0004, 0.023
"""US dollars: for 1,000 writes, for 1,000 reads, for a GB and month."""
TERA, DAY = 1e12, 86400.0


@dataclass(frozen=True)
class Line:
    """A straight line through two measurements.

    Attributes:
        fixed: value without packets; at least 0.
        each: value of each packet; at least 0.
    """

    fixed: float
    each: float

    @staticmethod
    def through(packets: Sequence[int], values: Sequence[float]) -> Line:
        """Fits two measurements.

        Example:
            >>> Line.through([1000, 3000], [2.0, 4.0])
            Line(fixed=1.0, each=0.001)
        """
        each = max(0.0, (values[1] - values[0]) / (packets[1] - packets[0]))
        return Line(max(0.0, values[0] - each * packets[0]), each)


@dataclass(frozen=True)
class Model:
    """The measurements in two sizes.

    Attributes:
        figures: the JSON of `bench_capacity`.
    """

    figures: Mapping[str, Any]

    @property
    def packets(self) -> list[int]:
        """Number of packets of each size."""
        return [size["packets"] for size in self.figures["sizes"]]

    def run(self, size: int, cores: int, late: bool = False) -> Mapping[str, Any]:
        """The run of a size with so many cores.

        Args:
            size: 0 or 1.
            cores: number of cores.
            late: whether the store answered later.
        """
        runs = self.figures["sizes"][size]["runs"]
        (found,) = (run for run in runs if run["cores"] == cores and bool(run["late"]) == late)
        return dict(found)

    def has(self, size: int, cores: int, late: bool = False) -> bool:
        """Whether there is such a run; arguments as of `run`."""
        runs = self.figures["sizes"][size]["runs"]
        return any(run["cores"] == cores and bool(run["late"]) == late for run in runs)

    def values(self, stage: str, of: Callable[[Mapping[str, Any]], float], cores: int = 1) -> list[float]:
        """A value of a stage in both sizes.

        Args:
            stage: name of the stage.
            of: takes it from the figures of a stage.
            cores: number of cores.
        """
        return [of(self.run(size, cores)["stages"][stage]) for size in (0, 1)]

    def line(self, stage: str, of: Callable[[Mapping[str, Any]], float], cores: int = 1) -> Line:
        """What a stage takes; arguments as of `values`."""
        return Line.through(self.packets, self.values(stage, of, cores))

    def spent(self, stage: str) -> list[float]:
        """Processor seconds of a stage in both sizes: the means of all runs, which differ in cores and in the store."""
        return [
            fmean(float(run["stages"][stage]["processor"]) for run in size["runs"]) for size in self.figures["sizes"]
        ]

    def bytes_a_packet(self, folder: str) -> float:
        """Bytes of a folder of the lake for each packet, in the larger size."""
        return float(self.run(1, 1)["bytes"][folder]) / self.packets[1]

    def capture_bytes(self) -> float:
        """Bytes of a packet in its capture."""
        return float(self.figures["sizes"][1]["capture_bytes"]) / self.packets[1]

    def requests(self, writes: bool) -> list[Line]:
        """Requests of each stage: writes and lists, or reads."""
        return [self.line(stage, charged_writes if writes else charged_reads) for stage in STAGES]


def clock(stage: Mapping[str, Any]) -> float:
    """Clock seconds of a stage."""
    return float(stage["clock"])


def charged_writes(stage: Mapping[str, Any]) -> float:
    """Requests that are charged as writes."""
    return float(sum(count for name, count in stage["requests"].items() if name in WRITES))


def charged_reads(stage: Mapping[str, Any]) -> float:
    """Requests that are charged as reads."""
    return float(sum(count for name, count in stage["requests"].items() if name in READS))


def page(figures: Mapping[str, Any], parts: Mapping[str, Any]) -> str:
    """The text of docs/capacity.md.

    Args:
        figures: of `bench_capacity`.
        parts: of `bench_parts`.
    """
    model, machine = Model(figures), figures["machine"]
    parts = [
        "# Capacity\n",
        "<!-- Made by `python -m benchmarks.capacity` from docs/capacity.json and docs/capacity-parts.json; "
        "do not edit. -->\n",
        "How many machines, bytes and requests a stream of packets needs. Bytes and requests are measured with one "
        "hour of three links in two sizes; cores come of a simulation with the measured seconds of the parts of an "
        "hour.\n",
        f"- Measured with `{figures['command']}` on {figures['date']}: {machine['cores']} cores, "
        f"{machine['processor']}.",
        _load(float(figures["load_average"]), int(machine["cores"])),
        "- The lake is in the S3 server of the tests (moto, behind a proxy) on the same machine. The server's own "
        "processor seconds are left out.",
        "- Each stage is a process of its own, so the fixed part is mostly its start: Python and Great "
        "Expectations. A backfill of many intervals pays it once.",
        "- The queries are the [demo](../queries/demo.gsql): two tables, one of them a join.\n",
        *_rates(model),
        *_sizes(model),
        *_requests(model),
        *_latency(model),
        *_simulation(model, parts),
    ]
    return "\n".join(parts)


def _load(average: float, cores: int) -> str:
    """What else ran, and where the rates come from.

    Example:
        >>> _load(14.0, 2)[:40]
        '- Other programs ran on the machine: its'
    """
    if average > 2 * cores:
        begin, clocks = "Other programs ran on the machine: its load average was", ", and are too long"
    else:
        begin, clocks = "Nothing else of weight ran on the machine: with the benchmark itself its load average was", ""
    return (
        f"- {begin} {average}. Rates come from processor seconds, those of all processes of a stage; "
        f"clock seconds are shown{clocks}."
    )


def _rates(model: Model) -> list[str]:
    small, large = (f"{packets:,}" for packets in model.packets)
    rows = []
    for stage in STAGES:
        clocks = [
            _short(model.run(1, cores)["stages"][stage]["clock"]) if model.has(1, cores) else "-" for cores in (1, 2)
        ]
        rows.append([stage, *map(_short, model.spent(stage)), *clocks])
    head = ("stage", small, large, f"clock, {large}, 1 core", "2 cores")
    return [
        "## Seconds of a stage\n",
        f"Processor seconds for {small} and for {large} packets (means of the runs on one core, on two and with a "
        "store that is far away), and seconds by the clock. Most of the small ones is the start of a process:\n",
        table(head, rows),
        "A dash means that nothing was measured.\n",
    ]


def _sizes(model: Model) -> list[str]:
    rows = [["capture file", f"{model.capture_bytes():.1f}"]]
    rows += [[f"`{name}/`", f"{model.bytes_a_packet(name):.1f}"] for name in ("packets", "lfta", "streams", "tables")]
    return [
        "## Bytes per packet\n",
        table(("where", "bytes a packet"), rows),
        "`lfta/` and `streams/` are between the stages; `[retention] streams` says for how long they stay.\n",
    ]


def _requests(model: Model) -> list[str]:
    rows = []
    for stage in STAGES:
        counts = [count for of in (charged_writes, charged_reads) for count in model.values(stage, of)]
        rows.append([stage, *(f"{count:,.0f}" for count in counts)])
    small, large = (f"{packets:,}" for packets in model.packets)
    millions = TERA / model.capture_bytes()
    lines = {writes: model.requests(writes) for writes in (True, False)}
    costs = []
    for intervals in (1, 24, 720):
        writes, reads = (
            sum(line.fixed * intervals + line.each * millions for line in lines[kind]) for kind in (True, False)
        )
        dollars = writes / 1000 * WRITE_PRICE + reads / 1000 * READ_PRICE
        costs.append([f"{intervals:,}", f"{writes:,.0f}", f"{reads:,.0f}", f"{dollars:,.2f}"])
    stored = TERA / 1e9 * model.bytes_a_packet("packets") / model.capture_bytes()
    return [
        "## Requests to the store\n",
        table(("stage", f"writes, {small}", large, f"reads, {small}", large), rows),
        "Writes are PUT, POST and lists, copies among them, as stores charge them; reads are GET and HEAD.\n",
        f"A TB of captures is {millions / 1e6:,.0f} million packets of this kind. The same, for so many intervals of "
        f"three links, at ${WRITE_PRICE} for 1,000 writes and ${READ_PRICE} for 1,000 reads:\n",
        table(("intervals", "writes", "reads", "US dollars"), costs),
        f"Its `packets/` are {stored:,.0f} GB: {stored * STORAGE_PRICE:,.2f} dollars a month at ${STORAGE_PRICE} "
        "for a GB.\n",
    ]


def _latency(model: Model) -> list[str]:
    if not all(model.has(size, 2, late) for size in (0, 1) for late in (False, True)):
        return ["## A store that is far away\n", "Not measured in this run.\n"]
    late, rows = model.run(1, 2, late=True)["late"], []
    for stage in STAGES:
        spent = [model.run(size, 2, slow)["stages"][stage]["clock"] for size in (0, 1) for slow in (False, True)]
        more = [max(0.0, spent[1] - spent[0]), max(0.0, spent[3] - spent[2])]
        number = sum(model.run(1, 2)["stages"][stage]["requests"].values())
        rows.append([stage, *map(_short, more), f"{number:,}", f"{min(more) / late:,.0f}"])
    small, large = (f"{packets:,}" for packets in model.packets)
    return [
        "## A store that is far away\n",
        f"Every answer came {late * 1000:.0f} ms later. By so many seconds of the clock a stage took longer, and so "
        "many requests, of all, thus waited one for another. On a busy machine some seconds are noise:\n",
        table(("stage", f"s longer, {small}", f"s longer, {large}", "requests", "one after another"), rows),
    ]


@dataclass(frozen=True)
class HourOfParts:
    """The tasks of a measured hour.

    Attributes:
        figures: of `bench_parts`.
    """

    figures: Mapping[str, Any]

    @property
    def packets(self) -> int:
        """Number of packets."""
        return int(self.figures["packets"])

    def rounds(self, stage: str) -> list[list[float]]:
        """Seconds of the tasks of a stage; those of a round may run side by side."""
        return [each["seconds"] for each in self.figures["stages"][stage]["rounds"]]

    def rest(self, stage: str) -> float:
        """Seconds of what the process of the run does by itself."""
        return float(self.figures["stages"][stage]["rest"])

    def chains(self) -> list[list[list[float]]]:
        """The rounds of the high stage: those over the same queries follow each other."""
        chains: dict[str, list[list[float]]] = {}
        for each in self.figures["stages"]["high"]["rounds"]:
            chains.setdefault(each["of"], []).append(each["seconds"])
        return list(chains.values())


Tasks = Callable[[str, Sequence[float]], Sequence[float]]
"""Stage, seconds of the measured tasks of a round -> seconds of the tasks of an interval."""


def interval_steps(hour: HourOfParts, rest: Callable[[str], float], tasks: Tasks, links: int) -> list[Step]:
    """Returns the steps of an interval: ingest -> low -> high and the counts of the audit -> audit -> publish.

    Args:
        hour: the measured hour.
        rest: what the process of the run does by itself in a stage, s; in ingest for each link.
        tasks: gives the tasks of a round.
        links: number of links; each is ingested by a process of its own.
    """
    steps: list[Step] = []

    def then(seconds: Sequence[float], *after: int) -> int:
        steps.append(Step(seconds, after))
        return len(steps) - 1

    read = then([rest("ingest")] * links)
    decoded = [then(tasks("ingest", each), read) for each in hour.rounds("ingest")]
    low = then([rest("low")], *decoded)
    rows = [then(tasks("low", each), low) for each in hour.rounds("low")]
    counts = [then(tasks("audit", each), *rows) for each in hour.rounds("audit")]
    high, ends = then([rest("high")], *rows), []
    for chain in hour.chains():
        last = high
        for each in chain:
            last = then(tasks("high", each), last)
        ends.append(last)
    then([rest("publish")], then([rest("audit")], high, *ends, *counts))
    return steps


def hour_steps(hour: HourOfParts) -> list[Step]:
    """Returns the steps of the measured hour itself."""
    links = max(1, len(hour.rounds("ingest")))

    def rest(stage: str) -> float:
        return hour.rest(stage) / (links if stage == "ingest" else 1)

    return interval_steps(hour, rest, lambda _, seconds: seconds, links)


def one_hour(hour: HourOfParts, cores: int) -> dict[str, float]:
    """What the measured hour takes on so many cores."""
    span, busy = simulated(hour_steps(hour), cores)
    return {"cores": cores, "seconds": round(span, 2), "busy": round(busy, 3)}


@dataclass(frozen=True)
class Traffic:
    """Hours of more packets than the measured ones.

    Attributes:
        small, large: the measured hours; tasks are those of the large one.
    """

    small: HourOfParts
    large: HourOfParts

    def steps(self, packets: float, links: int, intervals: int) -> list[Step]:
        """Returns the steps of some intervals, which run side by side.

        Args:
            packets: of an interval, all links together.
            links: number of links.
            intervals: number of intervals.
        """
        chance = Random(1)
        measured = max(1, len(self.large.rounds("ingest")))
        lines = {
            stage: Line.through(
                [hour.packets for hour in (self.small, self.large)],
                [hour.rest(stage) for hour in (self.small, self.large)],
            )
            for stage in STAGES
        }
        counted = sum(map(sum, self.large.rounds("audit"))) / self.large.packets

        def rest(stage: str) -> float:
            if stage == "ingest":
                return lines[stage].fixed / measured + lines[stage].each * packets / links
            return lines[stage].fixed + lines[stage].each * packets

        def tasks(stage: str, seconds: Sequence[float]) -> Sequence[float]:
            if stage == "audit":  # one for each link
                return [counted * packets / links] * links
            number = max(1, round(len(seconds) * packets / self.large.packets))
            together = ceil(number * intervals / MOST)  # on one core, one after another
            return [together * each for each in chance.choices(seconds, k=ceil(number / together))]

        steps: list[Step] = []
        for _ in range(intervals):
            first = len(steps)
            for step in interval_steps(self.large, rest, tasks, links):
                steps.append(Step(step.seconds, [first + each for each in step.after]))
        return steps


def keeps_up(traffic: Traffic, fill: float) -> dict[str, float]:
    """How many cores do the packets of an hour in an hour, in the fewest intervals for which some do.

    Args:
        traffic: the measured hours.
        fill: share of the rate of the links that is used.
    """
    packets = LINKS * RATE * fill / 8 / (MEAN + FRAMING)
    for intervals in INTERVALS:
        steps = traffic.steps(packets * HOUR_SECONDS / intervals, LINKS, intervals)
        least = sum(sum(step.seconds) for step in steps) / HOUR_SECONDS
        for more in (1.02, 1.05, 1.1, 1.2):
            cores = ceil(least * more)
            span, busy = simulated(steps, cores)
            if span <= HOUR_SECONDS:
                longest = max(max(step.seconds) for step in steps if step.seconds)
                return {
                    "fill": fill,
                    "intervals": intervals,
                    "cores": cores,
                    "busy": round(busy, 3),
                    "longest": round(longest, 1),
                }
    raise ValueError(f"{fill:.0%}: no division of an hour keeps up")


def _simulation(model: Model, parts: Mapping[str, Any]) -> list[str]:
    hour = HourOfParts(parts["hours"][-1])
    rows = []
    for stage in STAGES:
        seconds = [each for tasks in hour.rounds(stage) for each in tasks]
        even = [f"{max(tasks) / (sum(tasks) / len(tasks)):.2f}" for tasks in hour.rounds(stage) if len(tasks) > 1]
        rows.append(
            [
                stage,
                f"{len(seconds):,}" if seconds else "-",
                _short(sum(seconds)),
                f"{sum(seconds) / len(seconds):.2f}" if seconds else "-",
                ", ".join(even) or "-",
                f"{hour.rest(stage):.2f}",
            ]
        )
    one = [[f"{each['cores']:,}", _short(each["seconds"]), f"{each['busy']:.0%}"] for each in parts["one hour"]]
    keeps = []
    for each in parts["links"]:
        packets = LINKS * RATE * each["fill"] / 8 / (MEAN + FRAMING)
        stored = packets * DAY * model.bytes_a_packet("packets") / TERA
        captured = packets * model.capture_bytes() / 1e9
        keeps.append(
            [
                f"{each['fill']:.0%}",
                f"{packets / 1e6:,.0f}",
                format_duration(round(HOUR_SECONDS / each["intervals"]) * SECOND),
                _short(each["longest"]),
                f"{each['cores']:,}",
                f"{each['busy']:.0%}",
                f"{captured:,.1f}",
                f"{stored:,.0f}",
            ]
        )
    head = ("used", "M packets/s", "intervals", "longest, s", "cores", "busy", "captures, GB/s")
    return [
        "## The parts of an hour\n",
        f"`{parts['command'].strip()}` on {parts['date']} (load average {parts['load_average']}): {hour.packets:,} "
        "packets of three links in one process, one task after another, processor seconds. *By itself* is what the "
        "process of the run does beside its tasks: plans, commits, ledgers, hashes of captures, control columns, Great "
        "Expectations. A round is the tasks that may run side by side.\n",
        table(("stage", "tasks", "s", "mean, s", "longest/mean of each round", "by itself, s"), rows),
        "## The same parts on more cores\n",
        "A simulation gives each task to the first core that is free, the longest first. Tasks of low wait for those "
        "of ingest, high and the counts of the audit for low, the audit for both; what the process does by itself is "
        "one step between them. One interval keeps few cores busy, several side by side many (`backfill --jobs`, "
        "Airflow):\n",
        table(("cores", "the hour, s", "busy"), one),
        f"## {LINKS} links of {RATE / 1e9:.0f} Gb/s\n",
        "The same simulation over an hour of as many tasks as its packets need, each with the seconds of a measured "
        "one, drawn by chance: the fewest cores that do an hour in an hour, and the longest intervals with which they "
        "do:\n",
        table((*head, "`packets/`, TB a day"), keeps),
        "*Longest* is the longest task, or what a run does by itself: its process is on one core, so long intervals of "
        "much traffic do not keep up. Assumptions, none of which was measured at this size:\n",
        f"- A packet has {MEAN} bytes on the wire and {FRAMING} more of framing; its capture keeps as much of it as "
        "the generated ones do.",
        "- A task takes as long on many machines as here. Measured are tasks of one process on one core, whose files "
        "are on its disk; a store adds what [it takes](#a-store-that-is-far-away).",
        "- Traffic has as many groups a packet as the generated one, and links have equal rates. Rows of LFTAs and of "
        "queries grow with groups. The count of the audit is one task a link.",
        "- Each link is ingested by a process of its own, and each interval run by one; on [Spark](cluster.md) their "
        "tasks are those of the simulation.",
        "",
    ]


def _short(value: float) -> str:
    return f"{value:,.1f}"


def main() -> None:
    """Makes the page."""
    figures, parts = (json.loads(file.read_text(encoding="utf-8")) for file in (FIGURES, PARTS))
    PAGE.write_text(page(figures, parts), encoding="utf-8")


if __name__ == "__main__":
    main()

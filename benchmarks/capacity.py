"""Makes docs/capacity.md, the model of capacity, from the figures of `bench_capacity`.

`python -m benchmarks.capacity` reads docs/capacity.json. What a stage takes is a fixed part and a part for each packet;
two sizes of the same hour give both. All prices and rates of the extrapolation are assumptions, which the page says.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.performance import table

ROOT = Path(__file__).resolve().parents[1]
FIGURES = ROOT / "docs" / "capacity.json"
PAGE = ROOT / "docs" / "capacity.md"
STAGES = ("ingest", "low", "high", "audit", "publish")
WRITES, READS = ("PUT", "POST", "LIST"), ("GET", "HEAD")
"""Requests that a store charges as writes, copies among them, and as reads. DELETE costs nothing."""

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

    def cost(self, stage: str) -> Line:
        """Processor seconds of a stage as a line."""
        return Line.through(self.packets, self.spent(stage))

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


def page(figures: Mapping[str, Any]) -> str:
    """The text of docs/capacity.md."""
    model, machine = Model(figures), figures["machine"]
    parts = [
        "# Capacity\n",
        "<!-- Made by `python -m benchmarks.capacity` from docs/capacity.json; do not edit. -->\n",
        "How many machines, bytes and requests a stream of packets needs. Each stage takes a fixed part and a part for "
        "each packet; one hour of three links in two sizes gives both.\n",
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
        *_extrapolation(model),
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
        line, spent = model.cost(stage), model.spent(stage)
        clocks = [
            _short(model.run(1, cores)["stages"][stage]["clock"]) if model.has(1, cores) else "-" for cores in (1, 2)
        ]
        texts = [*map(_short, spent), _short(line.fixed), _rate(line), *clocks]
        rows.append([stage, *texts])
    head = ("stage", small, large, "fixed", "packets/s a core", f"clock, {large}, 1 core", "2 cores")
    return [
        "## Packets per second\n",
        f"Processor seconds for {small} and for {large} packets (means of the runs on one core, on two and with a "
        "store that is far away), the line through them, and seconds by the clock:\n",
        table(head, rows),
        f"All stages together: {1 / sum(model.cost(stage).each for stage in STAGES):,.0f} packets/s "
        "a core, without fixed parts. A dash means that nothing was measured. Half a second between the sizes is noise "
        "on a busy machine: the rates of stages whose two values are closer are only an order of magnitude.\n",
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


def _extrapolation(model: Model) -> list[str]:
    each = {stage: model.cost(stage).each for stage in STAGES}
    rows = []
    for fill in FILL:
        packets = LINKS * RATE * fill / 8 / (MEAN + FRAMING)
        parts = [packets * each[stage] for stage in STAGES]
        stored = packets * DAY * model.bytes_a_packet("packets") / TERA
        captured = packets * model.capture_bytes() / 1e9
        row = [f"{packets / 1e6:,.0f}", *(f"{part:,.1f}" for part in parts), f"{sum(parts):,.0f}"]
        rows.append([f"{fill:.0%}", *row, f"{captured:,.1f}", f"{stored:,.0f}"])
    head = ("used", "M packets/s", *STAGES, "cores", "captures, GB/s", "`packets/`, TB a day")
    return [
        f"## {LINKS} links of {RATE / 1e9:.0f} Gb/s\n",
        "Cores that keep up, by stage and together:\n",
        table(head, rows),
        "Assumptions, none of which was measured at this size:\n",
        f"- A packet has {MEAN} bytes on the wire and {FRAMING} more of framing; its capture keeps as much of it as "
        "the generated ones do.",
        "- Packets per core do not fall with the number of cores. Measured "
        + ("are 1 and 2 cores of one machine." if model.has(1, 2) else "is 1 core."),
        "- Traffic has as many groups a packet as the generated one. Rows of LFTAs and of queries grow with groups.",
        "- The store takes all bytes and requests. The fixed parts, which many intervals share, are left out.",
        "- Measured is one process without Spark. On [Spark](cluster.md) ingest, low, high and the counts of the audit "
        "are tasks. The process of a run still hashes each capture, and reads the control columns of LFTAs and, for "
        "the audit, the rows of queries: its cores must be on one machine, or intervals divided among several runs.",
        "",
    ]


def _short(value: float) -> str:
    return f"{value:,.1f}"


def _rate(line: Line) -> str:
    return f"{1 / line.each:,.0f}" if line.each else "-"


def main() -> None:
    """Makes the page."""
    PAGE.write_text(page(json.loads(FIGURES.read_text(encoding="utf-8"))), encoding="utf-8")


if __name__ == "__main__":
    main()

"""G1 (002, Figure 9): how fast a link may be under each flush policy of the low level, before its buffer overflows.

Q4 counts the packets of each pair of addresses by window. The kernel runs it over packets of 66 k to 520 k pairs, with
tables of half as many slots, as many, and twice as many; the seconds of every step are those of its thread, the least
of some runs. The ring buffer is modelled (`experiments.ring`). Gigascope flushes in order, one group a packet; OOP
lazily or one group every 160 packets, both with two windows of delay.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from experiments.frame import Curve, Experiment, Measurement, Panel, Size, Verdict, main
from experiments.ring import Work, busy, fastest
from lowwater.low import Bounds, Flush, LowSettings, needed_columns, run_link
from lowwater.plan.context import Links
from lowwater.plan.operators import Lfta
from lowwater.plan.queryset import plan_texts
from lowwater.plan.temporal import END_OF_TIME

SECOND = 1_000_000_000
START = 1_700_000_040 * SECOND
WINDOW = 60 * SECOND
WINDOWS = 4
GROUPS = tuple(1 << power for power in (16, 17, 18, 19))
SIZES = {"½": 0.5, "1": 1.0, "2": 2.0}
"""Slots of the table, times the groups."""

PAPER_WINDOW = 760_000 * 60
"""Packets of a window at the rate that the paper's OOP sustains with 260 k groups."""

SCALED = "OOP(sf), scaled"
"""OOP(sf) whose 160 packets are the same share of a window as they are of the paper's window."""

POLICIES = {"IOP": "slow 1", "OOP": "lazy 2", "OOP(sf)": "oop-slow 160 2"}
Q4 = "SELECT tb, srcIP, destIP, count(*) AS packets FROM L.IPV4 GROUP BY time/60 AS tb, srcIP, destIP"
STEP = 4096
"""Packets of a step: so few that no buffer is much larger, so many that what Python does between steps is little."""


@dataclass(frozen=True)
class Point:
    """One measurement.

    Attributes:
        policy: of POLICIES.
        groups: address pairs.
        size: of SIZES.
        served: packets a second that the kernel does if none ever waits.
        sustained: that the link may bring before the buffer overflows.
        busy: share of the time that the kernel works then.
        rows: partial rows out, of each packet in.
        longest: ms of the longest step that is not of the first window; `system` what of it is time of the operating
            system, `faults` its page faults, `step` its number in its window.
        bare: packets a second that the link may bring, if the time of the operating system is left out; `small` so,
            with a buffer of SMALL packets.
    """

    policy: str
    groups: int
    size: str
    served: float
    sustained: float
    busy: float
    rows: float
    longest: float
    system: float
    faults: int
    step: int
    bare: float
    small: float


def query() -> Lfta:
    """The LFTA of Q4."""
    (lfta,) = plan_texts([("q4.gsql", Q4)], Links(("L",))).lftas
    return lfta


class Traffic:
    """Packets of a link in order, each of a pair drawn evenly, as a traffic generator makes them."""

    def __init__(self, columns: list[str], packets: int, groups: int, seed: int) -> None:
        self._columns = columns
        self._pairs = np.random.default_rng(seed).integers(0, groups, packets)
        self._gap = WINDOW // packets
        self.seconds: list[float] = []
        self.system: list[float] = []
        self.faults: list[int] = []

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        count = len(self._pairs)
        for window in range(WINDOWS):
            for begin in range(0, count, STEP):
                batch = self._batch(window, begin, self._pairs[begin : begin + STEP])
                before, began = resource.getrusage(resource.RUSAGE_THREAD), time.thread_time()
                yield batch
                # The reader is back when it has done the packets.
                self.seconds.append(time.thread_time() - began)
                after = resource.getrusage(resource.RUSAGE_THREAD)
                self.system.append(after.ru_stime - before.ru_stime)
                self.faults.append(after.ru_minflt - before.ru_minflt)

    def _batch(self, window: int, begin: int, pairs: np.ndarray) -> pa.RecordBatch:
        stamps = START + window * WINDOW + (begin + np.arange(len(pairs))) * self._gap
        zeros = np.zeros(len(pairs), np.int64)
        known = {
            "capture": pa.DictionaryArray.from_arrays(pa.array(zeros.astype(np.int32)), pa.array(["0" * 64])),
            "position": window * len(self._pairs) + begin + np.arange(len(pairs)),
            "timestamp": stamps,
            "arrival": stamps,
            "ipversion": np.full(len(pairs), 4, np.int32),
            "srcIP_hi": zeros,
            "srcIP_lo": pairs & 1023,
            "destIP_hi": zeros,
            "destIP_lo": pairs >> 10,
        }
        return pa.record_batch([pa.array(known[name]) for name in self._columns], names=self._columns)


def measure(lfta: Lfta, policy: str, groups: int, size: str, packets: int, repeat: int, capacity: int) -> Point:
    """One point of the figure."""
    slots = int(groups * SIZES[size])
    flush = POLICIES.get(policy) or f"oop-slow {max(1, 160 * packets // PAPER_WINDOW)} 2"
    settings = LowSettings(0, SECOND, chunk_rows=STEP, slots=slots, adjacent=True, flush=Flush.parse(flush))
    runs: list[Traffic] = []
    rows = 0
    for _ in range(repeat):
        traffic = Traffic(needed_columns([lfta]), packets, groups, seed=groups)
        bounds = Bounds({lfta.name: 0}, 0, END_OF_TIME)
        result = run_link([lfta], "L", traffic, bounds, settings, lambda name, batch: None)
        rows = result.statistics[0].rows_out
        runs.append(traffic)
    least = np.min([traffic.seconds for traffic in runs], axis=0)
    bare = np.min([np.maximum(np.subtract(t.seconds, t.system), 0) for t in runs], axis=0)
    steps = -(-packets // STEP)
    sizes = np.minimum(STEP, packets - np.arange(steps) * STEP)
    # The first window finds an empty table, and the last is cut short by the end.
    work = Work(np.tile(sizes, WINDOWS - 1), least[steps:])
    rate = fastest(work, capacity)
    at = steps + int(np.argmax(least[steps:]))
    run = min(runs, key=lambda traffic: traffic.seconds[at])
    return Point(
        policy,
        groups,
        size,
        work.rate,
        rate,
        busy(work, rate),
        rows / (packets * WINDOWS),
        1000 * float(least[at]),
        1000 * min(run.system[at], float(least[at])),
        run.faults[at],
        at % steps,
        fastest(Work(work.packets, bare[steps:]), capacity),
        fastest(Work(work.packets, bare[steps:]), SMALL),
    )


PACKETS = {Size.QUICK: 300_000, Size.DEFAULT: 1_200_000, Size.FULL: 6_000_000}
REPEATS = {Size.QUICK: 1, Size.DEFAULT: 2, Size.FULL: 3}
CAPACITY = 65_536
"""Packets that the ring buffer holds. The paper does not say; a flush of its largest table does not fit, as there."""

SMALL = 8_192
"""An eighth of the buffer, so that a flush is long beside it: to see whether that is what the paper measures."""


def measured(size: Size) -> list[Measurement]:
    """All points."""
    lfta = query()
    rows: list[Measurement] = []
    for groups in GROUPS:
        for slots in SIZES:
            for policy in (*POLICIES, SCALED):
                rows.append(asdict(measure(lfta, policy, groups, slots, PACKETS[size], REPEATS[size], CAPACITY)))
    return rows


def verdicts(rows: Sequence[Any]) -> list[Verdict]:
    """What the paper says of Figure 9, and whether it is so here."""
    rate = {(each["policy"], each["groups"], each["size"]): each["sustained"] for each in rows}
    found = []
    for policy in ("OOP", "OOP(sf)"):
        ratio = rate[policy, 1 << 18, "2"] / rate["IOP", 1 << 18, "2"]
        claim = f"{policy} sustains 1.9 to 2 times IOP at 260 k groups, 540 k slots"
        found.append(Verdict(claim, f"{ratio:.2f} times", ratio >= 1.9, "" if ratio >= 1.9 else _cause(rows, policy)))
    ratios = [rate[policy, 1 << 16, "2"] / rate["IOP", 1 << 16, "2"] for policy in ("OOP", "OOP(sf)")]
    close = all(0.8 <= ratio <= 1.25 for ratio in ratios)
    said = " and ".join(f"{ratio:.2f}" for ratio in ratios)
    found.append(
        Verdict("at 66 k groups all are about the same", f"{said} times IOP", close, "" if close else _bare(rows, 16))
    )
    spread = {
        policy: max(
            max(rate[policy, groups, size] for size in SIZES) / min(rate[policy, groups, size] for size in SIZES)
            for groups in GROUPS
        )
        for policy in POLICIES
    }
    less = all(spread[policy] < spread["IOP"] for policy in ("OOP", "OOP(sf)"))
    said = ", ".join(f"{policy} {value:.2f}" for policy, value in spread.items())
    claim = "OOP is less sensitive to the size of the table"
    found.append(Verdict(claim, f"largest by least rate: {said}", less, "" if less else _bare(rows, 18)))
    large = {
        (policy, size): rate[policy, 1 << 19, size] / rate["IOP", 1 << 19, size]
        for policy in ("OOP", "OOP(sf)")
        for size in SIZES
    }
    said = f"{min(large.values()):.2f} times IOP at least"
    faster = min(large.values()) > 1
    claim = "at 520 k groups OOP is faster whatever the table"
    found.append(Verdict(claim, said, faster, "" if faster else _bare(rows, 19)))
    return found


def _cause(rows: Sequence[Any], policy: str) -> str:
    """Which step decides, what of it is the operating system, and what is left with that modelled away."""
    at = {(each["policy"], each["size"]): each for each in rows if each["groups"] == 1 << 18}
    parts = []
    for name in ("IOP", policy):
        steps = ", ".join(
            f"{at[name, size]['longest']:.1f} ms ({at[name, size]['system']:.1f} of the system) at {size} slots a group"
            for size in ("1", "2")
        )
        parts.append(f"{name}'s longest step takes {steps}")
    other = SCALED if policy == "OOP(sf)" else policy
    bare, small = (at[other, "2"][name] / at["IOP", "2"][name] for name in ("bare", "small"))
    return (
        f"The longest step of a window decides, not the kernel's mean. {'; '.join(parts)}. It is the first of a "
        "window: the whole table is read for closed groups, which grows with its slots whatever the policy, and "
        "groups that are two windows old leave at once, of which a larger table keeps more since fewer collide. IOP's "
        f"flush also asks the system for memory. Without the system's time {other} sustains {bare:.2f} times IOP: a "
        f"flush of this kernel fits the buffer of 65,536 packets. With {SMALL:,} packets it is {small:.2f} times."
    )


def _bare(rows: Sequence[Any], power: int) -> str:
    """What decides at a number of groups: the longest steps, and the rates without the operating system."""
    groups = 1 << power
    parts = []
    for size in SIZES:
        at = {each["policy"]: each for each in rows if (each["groups"], each["size"]) == (groups, size)}
        steps = ", ".join(f"{n} {at[n]['longest']:.1f} ({at[n]['system']:.1f} of the system)" for n in POLICIES)
        ratios = " and ".join(f"{at[name]['bare'] / at['IOP']['bare']:.2f}" for name in ("OOP", "OOP(sf)"))
        parts.append(f"{size}: longest step in ms {steps}; without the system's time {ratios} times IOP")
    return f"Slots by group, {groups:,} groups. {'. '.join(parts)}."


PAPER = {
    "paper: IOP-2": [(262, 0.4), (524, 0.35)],
    "paper: IOP-1": [(524, 0.3)],
    "paper: OOP-2": [(262, 0.76)],
    "paper: OOP(sf)-2": [(262, 0.8)],
}
"""Rates that the text prints, millions of packets a second."""


def panels(rows: Sequence[Any]) -> list[Panel]:
    """A panel for each size of the table."""
    return [
        Panel(
            f"table of {size} times the groups",
            "groups (thousands)",
            "link without loss (million packets/s)",
            [
                *(
                    Curve(
                        policy,
                        [
                            (row["groups"] / 1000, row["sustained"] / 1e6)
                            for row in rows
                            if (row["policy"], row["size"]) == (policy, size)
                        ],
                    )
                    for policy in (*POLICIES, SCALED)
                ),
                *(Curve(name, points, True) for name, points in PAPER.items() if name.endswith(f"-{size}")),
            ],
        )
        for size in SIZES
    ]


EXPERIMENT = Experiment(
    id="G1",
    title="flush policies of the low level",
    source="002, Figure 9",
    claim="With 260 k groups in 540 k slots OOP sustains 760 to 800 k packets/s, IOP 400 k.",
    about="""
Packets of pairs of addresses, drawn evenly; windows of a minute; tables of half as many slots as there are groups, as
many, and twice as many. The seconds of each step are those of the kernel's thread, the least of some runs; the buffer
of 65,536 packets is modelled. IOP flushes in order, one group a packet; OOP lazily; OOP(sf) one group every 160
packets, both with two windows of delay: these are the paper's. The default has 1.2 million packets a window, about two
for each of the most groups, and two runs of each point; `--full` has 6 million and three. The paper has 45 million.
""",
    seed=0,
    measure=measured,
    verdicts=verdicts,
    panels=panels,
    columns={
        "policy": "policy",
        "groups": "groups",
        "size": "slots / groups",
        "served": "served/s",
        "sustained": "sustained/s",
        "busy": "busy",
        "rows": "rows/packet",
        "longest": "longest step (ms)",
        "system": "of it system (ms)",
        "faults": "page faults",
        "step": "step of the window",
        "bare": "sustained/s without system time",
        "small": "and with a buffer of 8,192",
    },
)

if __name__ == "__main__":
    main(EXPERIMENT)

"""G2 (002, Figure 1): memory of a window count over two links by their skew, in order and out of order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from experiments.frame import ROOT, Curve, Experiment, Measurement, Panel, Size, Verdict, main
from experiments.levels import held, planned_query, slices
from experiments.model import FORMS, SECOND, START, Stream, memory, planned
from lowwater.low import Bounds, LowSettings, needed_columns, run_link
from lowwater.plan.context import Links
from lowwater.plan.operators import Node
from lowwater.plan.queryset import plan_texts
from lowwater.plan.temporal import END_OF_TIME

SEED = 3
RATE = {Size.QUICK: 22, Size.DEFAULT: 440, Size.FULL: 110_000}
PAPER_RATE, PAPER_GROUPS = 110_000, 65_536
SKEWS = (1, 5, 10, 20, 30, 40)
WINDOWS = (10, 60)
"""Section 1 says 10 seconds of this figure, Q5 in section 8.1 a minute."""

SLOTS = (0.5, 1.0, 2.0)
Q5 = (ROOT / "queries" / "seeds" / "002-q5.gsql").read_text()


def query(window: int) -> str:
    """Q5 with windows of so many seconds."""
    return Q5.replace("1 min", f"{window} s")


def streams(rate: int, window: int, skew: int) -> dict[str, Stream]:
    """Two links, one of them late."""
    seconds, groups = skew + 2 * window + 10, max(1, round(PAPER_GROUPS * rate / PAPER_RATE))
    return {"M1": Stream(rate, seconds, groups, SEED), "M2": Stream(rate, seconds, groups, SEED + 1, skew)}


def point(node: Node, rate: int, window: int, skew: int, form: str) -> Measurement:
    """What the operators keep at one skew."""
    found = memory(node, streams(rate, window, skew), form)
    return {
        "window": window,
        "skew": skew,
        "form": form,
        **found.measures(PAPER_RATE / rate, merge="Order", groups="Group"),
    }


def reduced(slots: float, window: int, size: Size) -> Measurement:
    """Rows of the low level for each packet of a link: what a merge above it waits for."""
    parts = 1 if size != Size.QUICK else 8
    groups, packets = PAPER_GROUPS // parts, PAPER_RATE * window // parts
    lfta = plan_texts([("q5.gsql", query(window))], Links(("M1", "M2"))).lftas[0]
    settings = LowSettings(0, SECOND, slots=int(groups * slots), adjacent=True)
    columns = needed_columns([lfta])
    bounds = Bounds({lfta.name: 0}, 0, END_OF_TIME)
    result = run_link([lfta], "M1", _packets(columns, packets, window, groups), bounds, settings, lambda _, __: None)
    return {"slots": slots, "window": window, "rows a packet": result.statistics[0].rows_out / (2 * packets)}


def _packets(columns: list[str], packets: int, window: int, groups: int) -> Iterator[pa.RecordBatch]:
    random = np.random.default_rng(SEED)
    step = 1 << 16
    for begin in range(0, 2 * packets, step):
        count = min(step, 2 * packets - begin)
        flows = random.integers(0, groups, count)
        stamps = START + (begin + np.arange(count)) * (window * SECOND // packets)
        known = {
            "capture": pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array(["0" * 64])),
            "position": begin + np.arange(count),
            "timestamp": stamps,
            "arrival": stamps,
            "ipversion": np.full(count, 4, np.int32),
            "srcIP_hi": np.zeros(count, np.int64),
            "srcIP_lo": flows & 1023,
            "destIP_hi": np.zeros(count, np.int64),
            "destIP_lo": flows >> 10,
        }
        yield pa.record_batch([pa.array(known[name]) for name in columns], names=columns)


def measure(size: Size) -> list[Measurement]:
    """Every window and skew in both forms, and what the low level makes of the packets."""
    rows = []
    for window in WINDOWS:
        node = planned(query(window), ("M1", "M2"))
        rows += [point(node, RATE[size], window, skew, form) for form in FORMS for skew in SKEWS]
        both = planned_query(query(window), ("M1", "M2"))
        for skew in (SKEWS[0], SKEWS[-1]):
            links = streams(RATE[size], window, skew)
            rows.append({"window": window, "skew": skew} | slices(both, links, 1.0, RATE[size], PAPER_RATE))
    return rows + [reduced(slots, window, size) for window in WINDOWS for slots in SLOTS]


def share(rows: Sequence[Any], window: int, skew: int) -> float:
    """Memory of OOP, of that of IOP."""
    found = {row["form"]: row["megabytes"] for row in rows if (row["window"], row.get("skew")) == (window, skew)}
    return float(found["oop"] / found["iop"])


def beside_low(rows: Sequence[Any], window: int, slots: float, skew: int) -> float:
    """The same share in tuples, if the merge stood above the low level: measured rows a packet, measured groups."""
    (rate,) = (row["rows a packet"] for row in rows if (row.get("slots"), row["window"]) == (slots, window))
    open_windows = 1 + -(-skew // window)
    return float(PAPER_GROUPS * open_windows / (PAPER_RATE * skew * rate + PAPER_GROUPS))


def verdicts(rows: Sequence[Any]) -> list[Verdict]:
    """The share at 40 s, growth of both, the start."""
    found = []
    for window in WINDOWS:
        said = ", ".join(f"{beside_low(rows, window, slots, 40):.0%} ({slots:g})" for slots in SLOTS)
        found.append(
            Verdict(
                f"at 40 s OOP needs only 30 % of IOP's memory, windows of {window} s",
                f"{share(rows, window, 40):.1%}",
                share(rows, window, 40) <= 0.3,
                "Less than there, because the model's merge keeps packets and Gigascope's keeps rows of the low level. "
                "With the measured rows a packet of our low level above which a merge would stand, it would be "
                f"{said}; in brackets the slots of its table, times the groups.",
            )
        )
    grown = {
        (form, window): _at(rows, form, window, 40) / _at(rows, form, window, 1) for form in FORMS for window in WINDOWS
    }
    said = "; ".join(f"{w} s: IOP {grown['iop', w]:.1f} times, OOP {grown['oop', w]:.1f} times" for w in WINDOWS)
    flat = all(grown["oop", window] < grown["iop", window] / 2 for window in WINDOWS)
    found.append(
        Verdict(
            "from 1 to 40 s IOP grows dramatically, OOP slowly (taken as: less than half as many times)", said, flat
        )
    )
    starts = [share(rows, window, 1) for window in WINDOWS]
    said = " and ".join(f"{each:.0%}" for each in starts)
    found.append(Verdict("OOP starts below IOP at 1 s", f"{said} of IOP", max(starts) < 1))
    found.append(held(rows, "the skew", "window"))
    return found


def _at(rows: Sequence[Any], form: str, window: int, skew: int) -> float:
    wanted = form, window, skew
    (found,) = (row["megabytes"] for row in rows if (row.get("form"), row["window"], row.get("skew")) == wanted)
    return float(found)


def panels(rows: Sequence[Any]) -> list[Panel]:
    """Memory by skew, and the share of OOP."""
    across = "skew of M2 (s)"
    amounts = [
        Curve(
            f"{form.upper()}, windows of {window} s",
            [(r["skew"], r["scaled"]) for r in rows if (r.get("form"), r["window"]) == (form, window)],
        )
        for form in FORMS
        for window in WINDOWS
    ]
    shares = [
        Curve(f"windows of {window} s", [(skew, 100 * share(rows, window, skew)) for skew in SKEWS])
        for window in WINDOWS
    ]
    low = Curve(
        "10 s, merge above our low level, slots as groups",
        [(skew, 100 * beside_low(rows, 10, 1.0, skew)) for skew in SKEWS],
    )
    return [
        Panel("G2: count over two links", across, "memory (MB, at the paper's rates)", amounts),
        Panel("OOP's share", across, "OOP / IOP (%)", [*shares, low, Curve("paper: 30 % at 40 s", [(40, 30)], True)]),
    ]


EXPERIMENT = Experiment(
    id="G2",
    title="a window count over two links by skew",
    source="002, Figure 1 (Q5)",
    claim="At a skew of 40 s OOP needs only 30 % of the memory of IOP, and grows slowly.",
    about="""
Q5 over two links, of which M2 arrives late by 1 to 40 s; heartbeats of a second. Section 1 says windows of 10 s, Q5
of section 8.1 a minute: both are measured. The default has a 250th of the paper's rate and groups (440 packets/s a
link, 262 groups), `--full` all of them. The low level runs at the paper's rate at any size: its rows a packet say
what a merge above it would keep.
""",
    seed=SEED,
    measure=measure,
    verdicts=verdicts,
    panels=panels,
    columns={
        "window": "window (s)",
        "skew": "skew (s)",
        "form": "form",
        "merge": "tuples in the merge",
        "groups": "groups",
        "slice": "rows of the largest slice",
        "scaled": "MB at the paper's rates",
        "slots": "low level: slots / groups",
        "rows a packet": "rows a packet",
    },
)

if __name__ == "__main__":
    main(EXPERIMENT)

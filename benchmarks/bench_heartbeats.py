"""What heartbeats cost: the low level with a period of 1 s beside the same without any, in processor time.

Run `python benchmarks/bench_heartbeats.py [--minutes N] [--json FILE]`. The traffic is that of `bench_low` at 100,000
packets/s of link time; 20 pairs run both in turn, the order alternates, and the ratio is taken pair by pair. The paper,
000 (section 7.3), has 37.3 % and 37.5 % CPU. A selection does nothing at a tick but promise. An aggregation also lets
its closed groups go there, which without heartbeats leave by collisions and at the end: that is in its figure.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from bench_low import SECOND, flow_query, packets, selection_query

from lowwater.low import Bounds, LowSettings, Policy, needed_columns, run_link
from lowwater.plan.operators import Lfta
from lowwater.plan.temporal import END_OF_TIME

PAIRS, STUDENT = 20, 2.093
"""Runs of each kind, and the quantile of 97.5 % of Student's t with one degree of freedom less."""

RATE, STRETCH = 100_000, 10
"""Packets a second, and seconds of traffic that are repeated."""

PAPER = "000, section 7.3: 37.3 to 37.5 % CPU without heartbeats and with a period of 1 s, a ratio of 1.005"


def traffic(minutes: int, columns: list[str]) -> list[pa.RecordBatch]:
    """The same ten seconds again and again, each time later; all columns but the two of time are shared."""
    base = packets(RATE * STRETCH, RATE, 100_000).select(columns).combine_chunks()
    stamps, arrivals = (base.column(name).to_numpy() for name in ("timestamp", "arrival"))
    found: list[pa.RecordBatch] = []
    clock = 0
    for number in range(minutes * 60 // STRETCH):
        shift = number * STRETCH * SECOND
        # The last arrivals of a stretch lie behind the first timestamps of the next.
        times = {"timestamp": stamps + shift, "arrival": np.maximum(arrivals + shift, clock)}
        clock = int(times["arrival"][-1])
        later = base
        for name, values in times.items():
            later = later.set_column(later.schema.get_field_index(name), name, pa.array(values))
        found += later.to_batches(max_chunksize=1 << 17)
    return found


def spent(lfta: Lfta, batches: list[pa.RecordBatch], settings: LowSettings) -> float:
    """Processor seconds of one pass."""
    begin = time.process_time()
    run_link([lfta], "L", batches, Bounds({lfta.name: 0}, 0, END_OF_TIME), settings, lambda _, __: None)
    return time.process_time() - begin


def measure(lfta: Lfta, minutes: int) -> dict[str, object]:
    """The ratios of the pairs: mean, and the ends of the 95 % interval of the mean."""
    batches = traffic(minutes, needed_columns([lfta]))
    on = LowSettings(skew=SECOND, period=SECOND)
    kinds = {"on": on, "off": replace(on, policy=Policy.NONE)}
    for settings in kinds.values():  # compiles, and touches the memory
        spent(lfta, batches, settings)
    times: dict[str, list[float]] = {"on": [], "off": []}
    for number in range(PAIRS):
        for kind in ("on", "off") if number % 2 else ("off", "on"):
            times[kind].append(spent(lfta, batches, kinds[kind]))
    ratios = [with_ / without for with_, without in zip(times["on"], times["off"], strict=True)]
    mean, error = statistics.mean(ratios), STUDENT * statistics.stdev(ratios) / PAIRS**0.5
    # The paper's unit: processor time in a second of the link's time.
    shares = {f"% cpu {kind}": round(100 * statistics.mean(each) / (60 * minutes), 4) for kind, each in times.items()}
    figures = {"ratio": round(mean, 4), "95% from": round(mean - error, 4), "to": round(mean + error, 4)}
    return {"case": lfta.name, "packets": minutes * 60 * RATE, "pairs": PAIRS, **shares, **figures}


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=int, default=5, help="of link time in one run")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    figures: list[dict[str, object]] = []
    for lfta in (selection_query(10), flow_query()):
        row = measure(lfta, given.minutes)
        if not figures:
            print("".join(f"{name:>15}" for name in row))
        print(
            "".join(f"{value:>15,}" if isinstance(value, int) else f"{value:>15}" for value in row.values()), flush=True
        )
        figures.append(row)
    print(PAPER)
    if given.json:
        machine = {"python": platform.python_version(), "machine": platform.machine()}
        given.json.write_text(json.dumps({"machine": machine, "figures": figures}, indent=2) + "\n")


if __name__ == "__main__":
    main()

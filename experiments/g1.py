"""G1 (002, Figure 9): how fast a link may be under each flush policy of the low level, before its buffer overflows.

Q4 counts the packets of each pair of addresses by window. Two experiments answer: the table of section 6 counted in
operations (`experiments.smoothing`) before a ring buffer (`experiments.ring`), the same on every machine; and steps of
Lowwater's own kernel (`experiments.kernel_steps`), which show what a larger table costs there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.frame import Curve, Experiment, Measurement, Panel, Size, Verdict, main
from experiments.kernel_steps import WINDOWS, Steps, costs, least, run
from experiments.ring import busy, fastest
from experiments.smoothing import STEP, Costs, Policy, steps

GROUPS = tuple(1 << power for power in (16, 17, 18, 19))
SIZES = {"½": 0.5, "1": 1.0, "2": 2.0}
"""Slots of the table, times the groups."""

WINDOW = 760_000 * 60
"""Packets of a window at the rate that the paper's OOP sustains with 260 k groups."""

POLICIES = {"IOP": Policy(1, 1, True), "OOP": Policy(0, 2, False), "OOP(sf)": Policy(160, 2, False)}
OURS, DEAR = "measured", "row as packet"
COSTS = {OURS: Costs(packet=97.0, row=20.0, slot=4.4), DEAR: Costs(packet=97.0, row=97.0, slot=4.4)}
"""Costs of operations in our kernel, on an AMD EPYC: `costs` of the kernel's steps, once. The other ones ask what
changes where handing on a row costs as much as a packet."""

BUFFERS = tuple(1 << power for power in (14, 15, 16, 17, 18))
"""Packets that the ring buffer holds. The paper does not say: see `implied`."""

PART = {Size.QUICK: 32, Size.DEFAULT: 8, Size.FULL: 1}
"""What groups, slots, packets, steps and buffer are divided by: the shares of all operations stay the same."""

SATURATED = 0.75
"""The paper calls a processor close to saturation, or 50 % busy: what is nearer to the first is at it."""

FLUSHES = {"IOP": "slow 1", "OOP": "lazy 2", "OOP(sf)": "oop-slow 160 2"}
KERNEL_GROUPS = {Size.QUICK: 1 << 16, Size.DEFAULT: 1 << 18, Size.FULL: 1 << 18}
KERNEL_PACKETS = {Size.QUICK: 200_000, Size.DEFAULT: 1_200_000, Size.FULL: 6_000_000}
REPEATS = {Size.QUICK: 1, Size.DEFAULT: 2, Size.FULL: 3}


def model(groups: int, size: str, policy: str, part: int) -> list[Measurement]:
    """The rates of one table, for all costs and buffers."""
    slots = int(groups * SIZES[size]) // part
    counted = steps(POLICIES[policy], groups // part, slots, WINDOW // part, max(1, STEP // part))
    found: list[Measurement] = []
    for name, cost in COSTS.items():
        work = counted.work(cost)
        at = int(work.seconds.argmax()) % len(counted.rows)
        for buffer in BUFFERS:
            rate = fastest(work, buffer // part)
            found.append(
                {
                    "policy": policy,
                    "groups": groups,
                    "size": size,
                    "costs": name,
                    "buffer": buffer,
                    "sustained": rate,
                    "busy": busy(work, rate),
                    "rows": float(counted.rows.sum() / counted.packets.sum()),
                    "burst": int(counted.rows[at]) * part,
                    "visits": int(counted.slots[at]) * part,
                }
            )
    return found


def kernel(size: Size) -> list[Measurement]:
    """The longest steps of the kernel with new and with kept buffers of rows, and the costs of its operations."""
    groups, packets = KERNEL_GROUPS[size], KERNEL_PACKETS[size]
    found: list[Measurement] = []
    kept: list[Steps] = []
    for keeps in (False, True):
        for policy, flush in FLUSHES.items():
            for table in ("1", "2"):
                slots = int(groups * SIZES[table])
                best = least([run(flush, groups, slots, packets, keeps) for _ in range(REPEATS[size])])
                kept += [best] if keeps else []
                at = int(best.column("seconds").argmax())
                part = {n: float(best.column(n)[at]) for n in ("seconds", "system", "rows", "slots", "taken")}
                last = best.rows[(WINDOWS - 1) * best.first :]
                counted = steps(POLICIES[policy], groups, slots, packets)
                found.append(
                    {
                        "policy": policy,
                        "groups": groups,
                        "size": table,
                        "buffers": "kept" if keeps else "new",
                        "longest": 1000 * part["seconds"],
                        "system": 1000 * part["system"],
                        "taken": part["taken"] / 1e6,
                        "table": best.table / 1e6,
                        "burst": int(part["rows"]),
                        "visits": int(part["slots"]),
                        "rows": sum(last) / packets,
                        "counted": float(counted.rows.sum() / packets),
                    }
                )
    packet, row, slot = costs(kept)
    return [*found, {"packet": packet, "row": row, "slot": slot}]


def measured(size: Size) -> list[Measurement]:
    """All rates of the model, then the kernel's steps."""
    rates = [
        row
        for groups in GROUPS
        for table in SIZES
        for policy in POLICIES
        for row in model(groups, table, policy, PART[size])
    ]
    return rates + kernel(size)


class Rates:
    """The rows of the model at the costs of a name.

    Attributes:
        buffer: the least with which every policy is at saturation with 66 k groups, as the paper says; the largest
            where none is.
    """

    def __init__(self, rows: Sequence[Any], name: str) -> None:
        self._at: Mapping[tuple[int, str, int, str], Any] = {
            (row["buffer"], row["policy"], row["groups"], row["size"]): row for row in rows if row.get("costs") == name
        }
        enough = (b for b in BUFFERS if all(self.of(p, GROUPS[0], s, "busy", b) >= SATURATED for p, s in _all()))
        self.buffer = next(enough, BUFFERS[-1])

    def of(self, policy: str, groups: int, size: str, column: str = "sustained", buffer: int = 0) -> float:
        """A column, with the implied buffer or another."""
        return float(self._at[buffer or self.buffer, policy, groups, size][column])

    def gain(self, policy: str, groups: int, size: str, buffer: int = 0) -> float:
        """How many times the rate of IOP a policy sustains."""
        found, base = (self.of(name, groups, size, buffer=buffer) for name in (policy, "IOP"))
        return found / base

    def spread(self, policy: str) -> float:
        """The largest rate by the least, over the sizes of a table, at the number of groups where it is most."""
        rates = [[self.of(policy, groups, size) for size in SIZES] for groups in GROUPS]
        return max(max(each) / min(each) for each in rates)


def _all() -> list[tuple[str, str]]:
    return [(policy, size) for policy in POLICIES for size in SIZES]


LARGE = GROUPS[2]
MOST = GROUPS[3]
OOP = ("OOP", "OOP(sf)")


def verdicts(rows: Sequence[Any]) -> list[Verdict]:
    """What the paper says of Figure 9 and whether it is so in the model; what the kernel's longest step is."""
    rates = Rates(rows, OURS)
    found = []
    for policy, times, printed in (("OOP", 1.9, "760"), ("OOP(sf)", 2.0, "800")):
        gain = rates.gain(policy, LARGE, "2")
        claim = f"{policy} sustains {printed} k packets/s where IOP sustains 400 k (260 k groups, 540 k slots)"
        said = f"{gain:.2f} times (taken as: at least {times})"
        found.append(Verdict(claim, said, gain >= times, _costs_decide(rows, rates, policy)))
    small = [rates.gain(policy, GROUPS[0], size) for policy, size in _all()]
    used = min(rates.of(policy, GROUPS[0], size, "busy") for policy, size in _all())
    found.append(
        Verdict(
            "with 66 k groups all sustain about the same, and processors are close to saturation",
            f"{min(small):.2f} to {max(small):.2f} times IOP, {used:.0%} busy at least",
            min(small) >= 1 / 1.9**0.5 and max(small) <= 1.9**0.5 and used >= SATURATED,
            f"About the same: nearer to 1 than to the 1.9 of 260 k groups. Close to saturation: nearer to 100 % than "
            f"to the 50 % that the paper calls low. The buffer of {rates.buffer:,} packets is the least one.",
        )
    )
    said = ", ".join(f"{policy} {rates.spread(policy):.2f}" for policy in POLICIES)
    found.append(
        Verdict(
            "OOP is less sensitive to the size of the table",
            f"largest by least rate: {said}",
            all(rates.spread(policy) < rates.spread("IOP") for policy in OOP),
            _lazy(rates),
        )
    )
    large = [rates.gain(policy, MOST, size) for policy in OOP for size in SIZES]
    found.append(
        Verdict("with 520 k groups OOP is better than IOP", f"{min(large):.2f} times IOP at least", min(large) > 1)
    )
    return [*found, _half_busy(rates), *_kernel_verdicts(rows)]


def _costs_decide(rows: Sequence[Any], rates: Rates, policy: str) -> str:
    """What the flushes take in both architectures, and the gain where a row costs as much as a packet."""
    cost, dear = COSTS[OURS], Rates(rows, DEAR)
    parts = []
    for name in ("IOP", policy):
        burst, visits = (int(rates.of(name, LARGE, "2", column)) for column in ("burst", "visits"))
        taken = f"{burst * cost.row / 1e6:.1f} ms, {visits:,} slots {visits * cost.slot / 1e6:.1f} ms"
        parts.append(f"{name}'s longest step flushes {burst:,} rows and visits {visits:,} slots: rows take {taken}")
    return (
        f"{'; '.join(parts)}. In our kernel a row takes {cost.row / cost.packet:.0%} of a packet's time, so the search "
        "for what stayed too long weighs as much as rows. Gigascope's row goes to another process. With a row as dear "
        f"as a packet, and the buffer of {dear.buffer:,} packets that the same rule gives, it is "
        f"{dear.gain(policy, LARGE, '2'):.2f} times."
    )


def _lazy(rates: Rates) -> str:
    """What lazy flush leaves to the deadline, by the size of the table."""
    left = ", ".join(f"{int(rates.of('OOP', MOST, size, 'burst')):,} at {size}" for size in SIZES)
    return (
        f"With {MOST:,} groups, rows of OOP's longest step by slots a group: {left}. A large table has few collisions, "
        f"so lazy flush leaves most groups to the deadline, and then it is a burst too. {_slow()}"
    )


def _slow() -> str:
    """What slow flush takes in a window."""
    every = POLICIES["OOP(sf)"].every
    return f"Slow flush takes {WINDOW // every:,} a window, fewer than these groups." if every else ""


def _half_busy(rates: Rates) -> Verdict:
    """The utilization that the paper prints for IOP with 520 k groups, and why no buffer gives it."""
    used = rates.of("IOP", MOST, "2", "busy")
    ways = "; ".join(
        f"{buffer:,}: {rates.of('IOP', MOST, '2', 'busy', buffer):.0%} and {rates.gain('OOP', LARGE, '2', buffer):.2f} "
        "times"
        for buffer in BUFFERS
    )
    falls = rates.of("IOP", LARGE, "2") / rates.of("IOP", MOST, "2")
    return Verdict(
        "with 520 k groups and twice the slots IOP is 50 % busy (taken as: 45 to 55 %, since it says 50 and 51 of two)",
        f"{used:.0%}",
        0.45 <= used <= 0.55,
        "By packets of the buffer, that share, and the rate of OOP by IOP's with 260 k groups: "
        f"{ways}. A flush grows with its groups, so twice of them take {falls:.2f} times off IOP's rate here. In the "
        "paper it falls from 400 to 350 k packets/s, 1.14 times, so something beside the flush limits IOP there.",
    )


def _kernel_verdicts(rows: Sequence[Any]) -> list[Verdict]:
    """Why a table of twice the groups sustains less in our kernel; the model's rows beside the kernel's."""
    at = {(row["buffers"], row["policy"], row["size"]): row for row in rows if "buffers" in row}
    (fit,) = (row for row in rows if "slot" in row)
    new, kept, lazy = (at[key] for key in (("new", "IOP", "2"), ("kept", "IOP", "2"), ("new", "OOP", "2")))
    parts = [
        f"{policy} {at['kept', policy, '1']['longest']:.1f} and {at['kept', policy, '2']['longest']:.1f} ms "
        f"({at['kept', policy, '1']['visits']:,} and {at['kept', policy, '2']['visits']:,} slots)"
        for policy in POLICIES
    ]
    off = max(abs(row["rows"] / row["counted"] - 1) for row in at.values())
    return [
        Verdict(
            "(ours) in our kernel IOP's large table is slow for its rows' memory: it takes more than the table at once",
            f"{new['taken']:.1f} MB for a table of {new['table']:.1f} MB in its longest step, which takes "
            f"{new['longest']:.1f} ms; {kept['longest']:.1f} ms with kept buffers",
            new["taken"] > new["table"] and kept["longest"] < new["longest"],
            "In-order flush may bring all groups at one packet, so its buffer of rows is as large as the table, and "
            f"each batch that is written takes a new one: {new['system']:.1f} ms of the step are the system's, which "
            f"clears pages. OOP takes {lazy['taken']:.1f} MB. With kept buffers the longest steps at 1 and 2 "
            f"slots a group are {', '.join(parts)}: a survey at a window's end reads every slot, whatever the "
            f"policy. Least squares over these steps: {fit['packet']:.0f} ns a packet, {fit['row']:.0f} a row, "
            f"{fit['slot']:.1f} a slot.",
        ),
        Verdict(
            "(ours) the model's table gives as many rows as the kernel's (taken as: within 2 %, as its draws differ)",
            f"{off:.1%} apart at most, in a window of the same packets",
            off <= 0.02,
        ),
    ]


PAPER = {
    "½": {},
    "1": {"paper: IOP": [(524, 300)]},
    "2": {"paper: IOP": [(262, 400), (524, 350)], "paper: OOP": [(262, 760)], "paper: OOP(sf)": [(262, 800)]},
}
"""Rates that the text prints, thousands of packets a second."""


def panels(rows: Sequence[Any]) -> list[Panel]:
    """A panel for each size of the table, and one for the buffer."""
    rates = Rates(rows, OURS)
    scale = 760 / rates.of("OOP", LARGE, "2")
    found = []
    for size in SIZES:
        ours = [Curve(p, [(g / 1000, scale * rates.of(p, g, size)) for g in GROUPS]) for p in POLICIES]
        paper = [Curve(name, points, True) for name, points in PAPER[size].items()]
        up = "link without loss (thousand packets/s)"
        found.append(Panel(f"table of {size} times the groups", "groups (thousands)", up, [*ours, *paper]))
    gains = []
    for name in COSTS:
        of = Rates(rows, name)
        gains += [Curve(f"{p}, {name}", [(b / 1000, of.gain(p, LARGE, "2", b)) for b in BUFFERS]) for p in OOP]
    marks = [
        Curve(f"paper: {policy}", [(rates.buffer / 1000, times)], True)
        for policy, times in zip(OOP, (1.9, 2.0), strict=True)
    ]
    across, up = "buffer (thousand packets)", "rate by that of IOP (times)"
    return [*found, Panel("260 k groups, 540 k slots", across, up, [*gains, *marks], log_across=True, log_up=True)]


def shown(rows: Sequence[Any]) -> list[Any]:
    """The rates at the implied buffer with measured costs; all of the kernel."""
    buffer = Rates(rows, OURS).buffer
    return [row for row in rows if "buffer" not in row or (row["costs"], row["buffer"]) == (OURS, buffer)]


EXPERIMENT = Experiment(
    id="G1",
    title="flush policies of the low level",
    source="002, Figure 9",
    claim="With 260 k groups in 540 k slots OOP sustains 760 to 800 k packets/s, IOP 400 k.",
    about=f"""
Packets of pairs of addresses, drawn evenly; windows of a minute at 760,000 packets/s; tables of half as many slots as
there are groups, as many, and twice as many. IOP flushes in order, one group a packet; OOP lazily; OOP(sf) one group
every 160 packets, both with two windows of delay: these are the paper's. The table of section 6, with the next slot of
its footnote, is counted in operations: packets, rows that leave, slots that are visited. A ring buffer stands before
it. So the rates are the same on every machine. The default has an eighth of groups, slots, packets and buffer, which
leaves all shares as they are; `--full` has all.

Operations take what they took in our kernel, once: {COSTS[OURS].packet:g} ns a packet, {COSTS[OURS].row:g} a row,
{COSTS[OURS].slot:g} a slot. The size of the buffer is not in the paper. It says that with 66 k groups every policy is
close to saturation, so the least such buffer is taken, of powers of two; all other claims follow from it. The figure
multiplies all rates by one number, so that OOP with 260 k groups and 540 k slots has the paper's 760 k.

The second table has Lowwater's kernel: the longest step of 4,096 packets, in seconds of its thread, the least of
{REPEATS[Size.DEFAULT]} runs, {KERNEL_GROUPS[Size.DEFAULT]:,} groups, {KERNEL_PACKETS[Size.DEFAULT]:,} packets a window.
""",
    seed=GROUPS[0],
    measure=measured,
    verdicts=verdicts,
    panels=panels,
    shown=shown,
    columns={
        "policy": "policy",
        "groups": "groups",
        "size": "slots / groups",
        "buffer": "buffer (packets)",
        "sustained": "model: sustained/s",
        "busy": "busy",
        "rows": "rows/packet",
        "burst": "rows of the longest step",
        "visits": "slots visited in it",
        "buffers": "kernel: buffers of rows",
        "longest": "longest step (ms)",
        "system": "of it system (ms)",
        "taken": "MB taken in it for rows",
        "table": "MB of the table",
        "counted": "model's rows/packet",
        "packet": "ns a packet",
        "row": "ns a row",
        "slot": "ns a slot",
    },
)

if __name__ == "__main__":
    main(EXPERIMENT)

"""Generates the functions by which groups leave a table: at a collision, in steps, or at a promise (002, section 6).

Beside the loop of `low.code.aggregation`. `leave` turns a group into a row, `release` evicts groups of closed epochs,
and `survey` counts these groups and finds the oldest one. `filled` of `low.code.compiler` gives them the slots to
visit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lowwater.low.code.key_layout import WordPlace
from lowwater.low.code.operands import indented

FROM, SIZE, COLLISIONS, EJECTIONS, ALIVE, OLD, OLDEST, SINCE, EVERY, POSITION, ALL, TICKETS, TAKEN, BOUNDS = range(14)
"""Positions in a node's state. From BOUNDS on, for each temporal key: the bound of closed epochs, the bound of the
oldest epoch, and the earliest value in the table."""

FunctionText = tuple[str, list[str], bool]
"""Name, lines, and whether it is called from outside of generated code."""


@dataclass(frozen=True)
class Epoch:
    """A temporal key.

    Attributes:
        column: the number of its output column.
        place: its place in the table.
        increasing: its direction.
    """

    column: int
    place: WordPlace
    increasing: bool

    @property
    def before(self) -> str:
        return "<" if self.increasing else ">"


def eviction_functions(number: int, epochs: Sequence[Epoch], writes: list[str], rows: str) -> list[FunctionText]:
    """Returns the functions of one node.

    Args:
        number: the number of the node in the kernel.
        epochs: its temporal keys.
        writes: the statements that write the group in slot s as row `size`.
        rows: the parameters that hold rows, after a comma.
    """
    return [
        _precedes(number, epochs),
        _leave(number, len(epochs), writes, rows),
        _release(number, rows),
        _survey(number, epochs),
    ]


def _precedes(k: int, epochs: Sequence[Epoch]) -> FunctionText:
    """The test whether a group precedes the bounds at a position: any of its temporal keys does."""
    tests = [f"{e.place.read()} {e.before} state[at + {BOUNDS + j}]" for j, e in enumerate(epochs)]
    text = " or ".join([f"state[{ALL}] != 0", *tests])
    return f"precedes{k}", [f"def precedes{k}(table, s, state, at):", f"    return {text}"], False


def _leave(k: int, count: int, writes: list[str], rows: str) -> FunctionText:
    """The function that turns a group into row `size`."""
    lines = [*writes, f"k{k}[size] = tick"]
    lines += [f"if state[{OLD}] > 0 and precedes{k}(table, s, state, 0):", f"    state[{OLD}] -= 1"]
    lines += [f"if state[{OLDEST}] > 0 and precedes{k}(table, s, state, {count}):", f"    state[{OLDEST}] -= 1"]
    lines += ["table[s, 0] = 0", f"state[{ALIVE}] -= 1", "return size + 1"]
    return f"leave{k}", [f"def leave{k}(table, s, state, tick, size{rows}):", *indented(lines)], False


def _release(k: int, rows: str) -> FunctionText:
    """The function that evicts at most `most` groups of closed epochs, from where the last call ended."""
    text = f"""def release{k}(table, state, most, tick, size{rows}):
    first, slots = state[{POSITION}], table.shape[0]
    for lap in range(2):
        for s in filled(table, 0 if lap else first, first if lap else slots):
            if most <= 0 or state[{OLD}] <= 0:
                return size
            if table[s, 0] != 0 and precedes{k}(table, s, state, 0):
                size = leave{k}(table, s, state, tick, size{rows})
                most -= 1
                state[{POSITION}] = (s + 1) & (slots - 1)
    return size"""
    return f"release{k}", text.split("\n"), True


def _survey(k: int, epochs: Sequence[Epoch]) -> FunctionText:
    """The function that counts groups of closed epochs and of the oldest epoch, and finds the earliest values."""
    count = len(epochs)
    lines = [f"def survey{k}(table, state):", "    first, old, oldest = True, 0, 0"]
    loop = ["if table[s, 0] == 0:", "    continue"]
    for j, epoch in enumerate(epochs):
        earliest = f"state[{BOUNDS + 2 * count + j}]"
        loop += [f"v = {epoch.place.read()}", f"if first or v {epoch.before} {earliest}:", f"    {earliest} = v"]
        # With one temporal key the oldest epoch has its earliest value, so one pass counts it.
        loop += ["    oldest = 1", f"elif v == {earliest}:", "    oldest += 1"] if count == 1 else []
    loop += ["first = False", f"if precedes{k}(table, s, state, 0):", "    old += 1"]
    loop += [f"if precedes{k}(table, s, state, {count}):", "    oldest += 1"] if count != 1 else []
    lines += ["    for s in filled(table, 0, table.shape[0]):", *indented(indented(loop))]
    lines += [f"    state[{OLD}] = old", f"    state[{OLDEST}] = oldest", "    return old"]
    return f"survey{k}", lines, True

"""The state of a plan in shares of its keys: each share begins with its part of what the interval before left, and what
the shares leave is one state again, the same whatever their number was.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from lowwater.catalog.schemas import STREAM_TYPES
from lowwater.catalog.state_json import text_of, value_of
from lowwater.columns.files import Bounds, digests
from lowwater.columns.values import Frame
from lowwater.high import over
from lowwater.high.operators import StateHandover, StoredState, operator_of, state_file
from lowwater.high.part import PartOutcome
from lowwater.plan.operators import Over, Running, Sampling, walk
from lowwater.plan.shares import Stage, state_columns
from lowwater.stream.groups import EpochOperator, in_order

# States are divided and merged as the JSON that they are stored in: only keys are read from it.

Plain = Any
"""A part of the JSON of a state."""


class SharedState:
    """The state of a plan that is evaluated by two or more shares in one interval."""

    def __init__(self, stage: Stage, carry: StateHandover, shares: int) -> None:
        self._nodes = [node for node in walk(stage.node) if isinstance(node, Running | Sampling)]
        self._over = [node for node in walk(stage.node) if isinstance(node, Over)]
        self._columns, self._carry, self._shares = state_columns(stage), carry, shares

    def divided(self) -> list[StateHandover]:
        """Divides the state before the interval; returns the place of each share in the chain."""
        earlier = self._carry.earlier
        if earlier is None:
            return [self._carry] * self._shares
        divided: list[dict[str, bytes]] = [{} for _ in range(self._shares)]
        for node in self._nodes:
            progress, emitted, saved = earlier.of(node.query, json.loads)
            for files, part in zip(divided, self._parts(node, saved), strict=True):
                files[state_file(node.query)] = text_of([progress, emitted, part]).encode()
        for each in self._over:
            keys = self._columns[each.query]
            parts = earlier.of(each.query, partial(over.divided, each, keys, self._shares))
            for files, text in zip(divided, parts, strict=True):
                files[state_file(each.query)] = text
        return [replace(self._carry, earlier=StoredState(files, earlier.folder)) for files in divided]

    def merged(self, outcomes: Sequence[PartOutcome]) -> dict[str, bytes] | None:
        """Merges what the shares leave, as in `StoredState.files`; None where their rows are not those of the whole."""
        heads: list[Any] = []
        for node in self._nodes:
            operator, notes = operator_of(node, self._carry), [outcome.notes[node.query] for outcome in outcomes]
            heads.append(_idle(operator, notes) if isinstance(node, Running) else _handing(operator, notes))
        if None in heads:
            return None
        merged = {}
        for node, head in zip(self._nodes, heads, strict=True) if self._carry.left else ():
            states = [StoredState(outcome.states).of(node.query, json.loads) for outcome in outcomes]
            rows = _rows(saved[0] for _, _, saved in states)
            if isinstance(node, Running):
                before, idle = head
                groups = sorted(
                    (group for _, _, saved in states for group in saved[3]), key=lambda group: _order(_key(group))
                )
                whole = [rows, before and {"tuple": [*before]}, idle, groups]
            else:
                handed = [pair for at in head for pair in states[at][2][1]["dict"]]
                whole = [rows, {"dict": sorted(handed, key=lambda pair: _order(pair[0]))}]
            merged[state_file(node.query)] = text_of([*states[0][:2], whole]).encode()
        for each in self._over if self._carry.left else ():
            name = state_file(each.query)
            merged[name] = over.merged(each, [outcome.states[name] for outcome in outcomes])
        return merged

    def _parts(self, node: Running | Sampling, saved: list[Plain]) -> list[list[Plain]]:
        """Divides what an operator has stored."""
        shares = range(self._shares)
        rows: list[list[Plain]] = [[] for _ in shares]
        names = [item.name for item, of in zip(node.keys, node.key_fields, strict=True) if not of.temporal]
        for epoch, waiting in saved[0]["dict"]:
            chosen = self._chosen(node, names, [row["tuple"][1] for row in waiting])
            for share in shares:
                if mine := [row for row, at in zip(waiting, chosen, strict=True) if at == share]:
                    rows[share].append([epoch, mine])
        if isinstance(node, Running):
            chosen = self._chosen(node, names, [*map(_key, saved[3])])
            groups = [[group for group, at in zip(saved[3], chosen, strict=True) if at == share] for share in shares]
            return [[{"dict": rows[share]}, *saved[1:3], groups[share]] for share in shares]
        handed = saved[1]["dict"]
        chosen = self._chosen(node, [name for name in node.supergroup if name in names], [which for which, _ in handed])
        states = [[pair for pair, at in zip(handed, chosen, strict=True) if at == share] for share in shares]
        return [[{"dict": rows[share]}, {"dict": states[share]}] for share in shares]

    def _chosen(self, node: Running | Sampling, names: Sequence[str], keys: Sequence[Plain]) -> list[int]:
        """Returns the share of each key; `names` are those of its values."""
        if not keys:
            return []
        values, keyed, columns = [value_of(key) for key in keys], self._columns[node.query], {}
        for each in keyed:
            column = [value[names.index(each.name)] for value in values]
            columns[each.name] = pa.array(column, STREAM_TYPES[each.type])
        begins = [Bounds.of(share, self._shares).first for share in range(self._shares)]
        found = np.searchsorted(begins, digests(Frame(columns, len(values)), keyed), side="right") - 1
        return [*found.tolist()]


def _key(group: Plain) -> Plain:
    """The keys of a stored group."""
    return group["tuple"][0]


def _order(key: Plain) -> tuple[Any, ...]:
    return in_order(value_of(key))


def _rows(waiting: Iterable[Plain]) -> Plain:
    """Merges waiting rows, in the order of `EpochOperator.saved_state`."""
    epochs: dict[str, tuple[Plain, list[Plain]]] = {}
    for each in waiting:
        for epoch, rows in each["dict"]:
            epochs.setdefault(text_of(epoch), (epoch, []))[1].extend(rows)
    ordered = sorted(epochs.values(), key=lambda item: _order(item[0]))
    return {"dict": [[epoch, sorted(rows, key=lambda row: value_of(row["tuple"][0]))] for epoch, rows in ordered]}


def _idle(operator: EpochOperator, notes: Sequence[Any]) -> tuple[Any, int] | None:
    """The last epoch of a running aggregation, and the number of those before it without rows in any share.

    None where rows without an instant had an epoch of their own: in it every open group has a row.
    """
    if any(None in (before or ()) for before, _, _ in notes):
        return None
    begun = [note for note in notes if note[0] is not None]
    if not begun:
        return None, 0
    before, idle, _ = max(begun, key=lambda note: operator.last(note[0]))
    filled = [each for _, _, each in begun if each is not None]
    if filled:
        idle, epoch = 0, max(filled, key=operator.last)
        while operator.last(epoch) < operator.last(before):
            idle, epoch = idle + 1, operator.after(epoch)
    return before, idle


def _handing(operator: EpochOperator, notes: Sequence[Any]) -> list[int] | None:
    """The shares whose supergroups were in the last epoch that had any (SEMANTICS O1).

    None where a supergroup has continued a state although another share had supergroups in an epoch between: then it
    should have begun anew.
    """
    epochs = {epoch for live, _ in notes for epoch in live}
    if any(None in epoch for epoch in epochs):
        return None
    lasts = sorted(map(operator.last, epochs))

    def passed(epoch: tuple[Any, ...] | None) -> int:
        return 0 if epoch is None else bisect_right(lasts, operator.last(epoch))

    for _, continued in notes:
        if any(passed(since) < bisect_left(lasts, operator.last(epoch)) for since, epoch in continued):
            return None
    return [at for at, (live, _) in enumerate(notes) if passed(live[-1] if live else None) == len(lasts)]

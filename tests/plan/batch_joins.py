"""The joins of the batch evaluator: windowed, filtering, and with a watch list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from lowwater.plan.operators import FilterJoin, Join, JoinKind, WatchJoin, Window
from lowwater.plan.temporal import END_OF_TIME, infer
from tests.plan.batch_rows import Row, World
from tests.plan.batch_values import Evaluate, compiled, condition


def named(alias: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a side as expressions of a join call them."""
    return {f"{alias}.{name}": value for name, value in values.items()}


def join(node: Join, left: Sequence[Row], right: Sequence[Row]) -> list[Row]:
    """Pairs that meet, then the rows that met nobody: every column of the side that is missing is NULL (V1). ASOF has
    the nearest pair of a left row, with ONCE only if it is that of its right row too; SEMI and ANTI have left rows only
    (O8, O9)."""
    window, residual = node.window, condition(node.residual)
    items = [(item.name, compiled(item.expr)) for item in node.items]
    sides = (
        [(named(node.left_alias, row.values), row) for row in left],
        [(named(node.right_alias, row.values), row) for row in right],
    )
    own = [compiled(a) for a, _ in node.equalities], [compiled(b) for _, b in node.equalities]
    at = compiled(window.left), compiled(window.right)
    buckets: dict[tuple[Any, ...], list[int]] = {}
    for number, (env, _) in enumerate(sides[1]):
        buckets.setdefault(tuple(part(env) for part in own[1]), []).append(number)
    found, met = [], set()
    absent = named(node.right_alias, dict.fromkeys(f.name for f in node.right.fields))
    every = []
    for env, row in sides[0]:
        pairs = []
        for number in buckets.get(tuple(part(env) for part in own[0]), ()):
            other, its = sides[1][number]
            both = {**env, **other}
            if _meet(window, at[0](env), at[1](other)) and residual(both):
                met |= {("left", id(row)), ("right", id(its))}
                pairs.append((both, its, at[1](other)))
                every.append((both, row, its))
        if node.kind is JoinKind.SEMI and pairs:
            found.append(_unmatched(env, absent, items, at[0](env), window.last_left))
        elif node.kind.mutual:
            continue
        elif node.kind.nearest and pairs:
            both, _, _ = nearest(window, at[0](env), pairs)
            found.append(_unmatched(both, {}, items, at[0](env), window.last_left))
        elif node.kind.pairs:
            for both, its, _ in pairs:
                found.append(Row({name: made(both) for name, made in items}, max(row.last, its.last)))
    if node.kind.mutual:
        found, met = _mutual(every, items, window, at)
    if node.kind.keeps_left:
        for env, row in sides[0]:
            if ("left", id(row)) not in met:
                found.append(_unmatched(env, absent, items, at[0](env), window.last_left))
    if node.kind.keeps_right:
        absent = named(node.left_alias, dict.fromkeys(f.name for f in node.left.fields))
        for env, row in sides[1]:
            if ("right", id(row)) not in met:
                found.append(_unmatched(env, absent, items, at[1](env), window.last_right))
    return found


def nearest(window: Window, x: int, pairs: Sequence[tuple[Any, Row, int]]) -> tuple[Any, Row, int]:
    """The pair with the least distance; of those the smaller value; then the first in canonical order, or the last one
    where the band lies before the left row (O9)."""
    ordered = sorted(pairs, key=lambda pair: pair[1].order, reverse=window.above <= 0 < window.below)
    return min(ordered, key=lambda pair: (abs(pair[2] - x), pair[2]))


def _mutual(
    pairs: Sequence[tuple[dict[str, Any], Row, Row]],
    items: Sequence[tuple[str, Evaluate]],
    window: Window,
    at: tuple[Evaluate, Evaluate],
) -> tuple[list[Row], set[tuple[str, int]]]:
    """Of pairs that meet those whose right row is the nearest of the left one, and the reverse (O9)."""
    back = replace(window, below=window.above, above=window.below)
    chosen: tuple[dict[int, int], dict[int, int]] = ({}, {})
    for own, other, extent in ((1, 2, window), (2, 1, back)):
        for number in {id(pair[own]) for pair in pairs}:
            mine = [pair for pair in pairs if id(pair[own]) == number]
            values = [(each, each[other], at[other - 1](each[0])) for each in mine]
            found, _, _ = nearest(extent, at[own - 1](mine[0][0]), values)
            chosen[own - 1][number] = id(found[other])
    both = [(env, row) for env, row, its in pairs if chosen[0][id(row)] == id(its) and chosen[1][id(its)] == id(row)]
    rows = [_unmatched(env, {}, items, at[0](env), window.last_left) for env, _ in both]
    return rows, {("left", id(row)) for _, row in both}


def _meet(window: Window, x: int | None, y: int | None) -> bool:
    if window.equality:
        return x == y
    return x is not None and y is not None and x - window.below <= y <= x + window.above


def _unmatched(
    env: Mapping[str, Any],
    absent: Mapping[str, Any],
    items: Sequence[tuple[str, Evaluate]],
    value: int | None,
    last: Any,
) -> Row:
    both = {**env, **absent}
    return Row({name: made(both) for name, made in items}, END_OF_TIME - 1 if value is None else last(value))


def filter_join(node: FilterJoin, left: Sequence[Row], right: Sequence[Row]) -> list[Row]:
    """r passes where some s of its link has equal keys and s.t <= r.t <= s.t + range."""
    r_time, s_time = compiled(node.left_time), compiled(node.right_time)
    clock = infer(
        node.right_time, {f"{node.right_alias}.{f.name}": f.temporal for f in node.right.fields if f.temporal}
    )
    assert clock is not None and not clock.origin
    r_keys, s_keys = [compiled(a) for a, _ in node.keys], [compiled(b) for _, b in node.keys]
    seen: dict[tuple[Any, ...], list[int]] = {}
    for row in right:
        env = named(node.right_alias, row.values)
        seen.setdefault((row.link, *(key(env) for key in s_keys)), []).append(s_time(env))
    items, found = [(item.name, compiled(item.expr)) for item in node.items], []
    for row in left:
        env = named(node.left_alias, row.values)
        known = seen.get((row.link, *(key(env) for key in r_keys)), ())
        if any(time <= r_time(env) <= time + node.range for time in known):
            last = clock.last(r_time(env) - (0 if clock.increasing else node.range))
            found.append(Row({name: made(env) for name, made in items}, last, row.order, row.link))
    return found


def watch_join(node: WatchJoin, rows: Sequence[Row], world: World) -> list[Row]:
    """Every row with every row of the list that has its key and fits the rest."""
    residual = condition(node.residual)
    keys = [(compiled(expr), name) for expr, name in node.keys]
    items, found = [(item.name, compiled(item.expr)) for item in node.items], []
    for row in rows:
        env = named(node.alias, row.values)
        for entry in world.watch[node.watchlist]:
            both = {**env, **named(node.watch_alias, entry)}
            if all(key(env) == both[name] for key, name in keys) and residual(both):
                found.append(Row({name: made(both) for name, made in items}, row.last, row.order, row.link))
    return found

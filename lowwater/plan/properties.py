"""What holds of a plan: its cost and the prefilter, state, read ranges, unique keys, schemas, the columns that are
read or were counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum, StrEnum
from functools import wraps
from math import gcd
from typing import TypeVar

import pyarrow as pa

from lowwater.catalog import expr as ex, functions, schemas
from lowwater.plan import operators as ops, temporal

# State (SEMANTICS I4), which the scheduler of intervals reads: intervals of a query without state run in any order.

ROW = "_row"
"""Column with the number of a record on its links (SEMANTICS I4)."""

TIMESTAMP = "_timestamp"
"""Last column of an LFTA by arrival: the timestamp of the record; NULL for a record that the LFTA does not take."""


T = TypeVar("T")


def _remembered(ask: Callable[[ops.Node], T]) -> Callable[[ops.Node], T]:
    """Remembers what is asked of a plan for each interval: nodes never change, and to compare them costs more."""
    known: dict[int, tuple[ops.Node, T]] = {}

    @wraps(ask)
    def asked(plan: ops.Node) -> T:
        kept = known.get(id(plan))
        if kept is None or kept[0] is not plan:
            if len(known) >= 64:
                known.clear()
            kept = known[id(plan)] = plan, ask(plan)
        return kept[1]

    return asked


@_remembered
def by_arrival(plan: ops.Node) -> bool:
    """Whether an operator of a plan makes progress with records only; then intervals go by arrival (I4)."""
    return any(node.origin for node in ops.walk(plan))


def carried_state(plan: ops.Node) -> list[str]:
    """Returns the reasons why the intervals of a query must run in order; empty if they can run in any order."""
    reasons = (f"{node.query}: {reason}" for node in ops.walk(plan) if (reason := node.state()))
    return list(dict.fromkeys(reasons))


@_remembered
def hands_over(plan: ops.Node) -> bool:
    """Whether a query hands its state to the next interval, so that no interval reads further back than it must.

    It does if the query is evaluated by arrival, since such a query is evaluated in one place. It also does if no
    operator with state stands above CLOSING_WHEN or the sampling operator. An operator with state above them may need
    rows of earlier epochs, so such a plan is evaluated from the start of its chain for every interval. OVER may stand
    below any operator: its state is that of the instant from which its readers need rows (`states_of`).
    """
    return by_arrival(plan) or (any(node.facts.outlives for node in ops.walk(plan)) and _handed(plan))


def _handed(node: ops.Node) -> bool:
    if node.facts.passes:
        return all(_handed(below) for below in node.inputs())
    below = (part for root in node.inputs() for part in ops.walk(root))
    return not any(part.facts.outlives and not isinstance(part, ops.Over) for part in below)


# Read ranges (SEMANTICS I2): for every source a function, which maps an instant to the timestamp from which the source
# must be read so that all rows with `_last` at or after the instant are right. An epoch that is aligned with the
# interval adds nothing. Equalities with scaled sides use the preimage of both sides. Chains of operators compose.


def read_from(node: ops.Node, start: int, handed: bool = False) -> dict[str, int]:
    """Returns from which timestamp (ns) each source must be read, so that all rows with `_last` at or after `start`
    (ns) are right: of a logical plan by `query.alias`, of a high plan by the names of LFTAs and of fragments, whose
    rows are needed from that `_last` on. `handed`: whether the states of the operators at `start` are handed over."""
    starts: dict[str, int] = {}
    _descend(node, max(start, 0), starts, handed)
    if by_arrival(node):
        # Where only records make progress, all earlier records matter, or none if their state is handed over.
        return dict.fromkeys(starts, max(start, 0) if handed else 0)
    return starts


def states_of(node: ops.Node, instant: int) -> dict[str, int]:
    """Returns, of each OVER of a plan, by its query, from which instant (ns) its readers need rows for all that follows
    an instant (ns). A state that is handed over there is that of this instant."""
    starts: dict[str, int] = {}
    _descend(node, instant, {}, True, starts)
    return starts


def _descend(
    root: ops.Node, first: int, starts: dict[str, int], handed: bool, states: dict[str, int] | None = None
) -> None:
    # Plans share queries: an operator is visited again only for an earlier start.
    starts_by_node: dict[int, int] = {}
    stack = [(root, first)]
    while stack:
        node, start = stack.pop()
        if starts_by_node.get(id(node), start + 1) <= start:
            continue
        starts_by_node[id(node)] = start
        if isinstance(node, ops.Source | ops.LftaInput | ops.Cut):
            name = f"{node.query}.{node.alias}" if isinstance(node, ops.Source) else ops.leaf_name(node)
            needed = node.first_read(start) if isinstance(node, ops.LftaInput) else start
            starts[name] = min(needed, starts.get(name, needed))
            continue
        if states is not None and isinstance(node, ops.Over):
            states[node.query] = start
        needs = (start,) if handed and node.facts.outlives else node.reads_from(start)
        stack += reversed(list(zip(node.inputs(), needs, strict=True)))


def horizon(node: ops.Node, latest: int) -> int:
    """Returns the largest `_last` of a row if no packet is after `latest` (ns); there intervals may stop (I3)."""
    ends = [end for below in ops.walk(node) for end in below.ends(latest)]
    return min(max([latest, *ends]), temporal.END_OF_TIME - 1)


def reached(node: ops.Node, first: int, latest: int) -> list[tuple[int, int]] | None:
    """Returns the spans of `_last` that rows from packets between `first` and `latest` (ns, both included) can have. An
    interval outside of these spans has no row and no record to count, unless it has packets of its own. None if packets
    do not decide it: an operator that counts rows or hands a state over may make rows, or states, in idle time (I4)."""
    if by_arrival(node) or any(below.facts.outlives or isinstance(below, ops.Fill) for below in ops.walk(node)):
        return None
    spans = [below.span(first, latest) for below in ops.walk(node) if below.facts.waits]
    bounded = [span for span in spans if span is not None]
    return [(first, latest), *bounded] if len(bounded) == len(spans) else None


# Granularity of punctuation: the coarsest that the readers of an LFTA can use is the period of its heartbeats (002,
# section 6 and appendix).

Need = tuple[int, str]
"""A granularity, ns, and the reader that needs it."""


def needed_granularity(*plans: ops.Node) -> dict[str, tuple[int, str]]:
    """Returns, for each LFTA, the granularity (ns) that its readers can use, and the first reader that needs it.
    `plans`: high plans of output queries, which may share operators."""
    needs: dict[int, Need] = {}

    def add(node: ops.Node, need: Need) -> None:
        needs[id(node)] = _finer(needs.get(id(node)), need)

    for plan in plans:
        add(
            plan,
            (temporal.grid([field.temporal for field in plan.fields if field.temporal]), f"the output of {plan.query}"),
        )
    by_lfta: dict[str, Need] = {}
    # Readers come before their inputs, so all readers of an operator have stated their needs before its turn.
    for node in reversed(list(ops.walk(*plans))):
        need = needs[id(node)]
        if isinstance(node, ops.LftaInput):
            # Readers use every promise of an LFTA by arrival: it says nothing of the columns that they look at.
            need = (1, need[1]) if node.lfta.arrival else need
            by_lfta[node.lfta.name] = _finer(by_lfta.get(node.lfta.name), need)
            continue
        # A group comes out once an epoch, whatever its reader needs.
        if grain := node.grain():
            kind = "aggregation" if isinstance(node, ops.Aggregation) else "join"
            kind = node.label if isinstance(node, ops.Top) else kind
            need = (grain, f"the {kind} of {node.query}")
        for below in node.inputs():
            add(below, need)
    return by_lfta


def _finer(first: Need | None, second: Need) -> Need:
    """Returns the granularity that serves two readers, with the first reader that needs it."""
    both = second[0] if first is None else gcd(first[0], second[0])
    return first if first is not None and both == first[0] else (both, second[1])


# Rows that a plan makes of one row: overlapping windows, groupings such as CUBE. The text alone shows this number, so a
# query of absurd cost is refused before anything is read.


def copies(plan: ops.Node) -> Iterator[tuple[ops.Node, ops.Copies, int]]:
    """Yields the operators that multiply rows, with their factor and the product with the operators right below.
    Aggregations, joins and other operators that make rows of their own start again at 1."""
    for node in ops.walk(plan):
        if (factor := node.copies()) is not None:
            below, times = node, 1
            while isinstance(below, ops.OneInput) and below.facts.passes:
                more = below.copies()
                times *= more.times if more else 1
                below = below.input
            yield node, factor, times


# LFTAs whose rows need their place in the stream (SEMANTICS O1): the high level adds the place, and the low level
# leaves the rows in their order.


def placed_leaves(node: ops.Node, besides: Collection[str] = ()) -> set[str]:
    """Returns the LFTAs below an operator whose rows need their place. `besides`: queries whose operators with a state
    do not count."""
    found: set[str] = set()
    seen: set[tuple[int, bool]] = set()
    waiting = [(node, False)]
    while waiting:  # queries share inputs, so each is visited once
        part, ordered = waiting.pop()
        if (id(part), ordered) in seen:
            continue
        seen.add((id(part), ordered))
        if isinstance(part, ops.LftaInput):
            if part.lfta.arrival or (ordered and not part.lfta.aggregates):
                found.add(part.lfta.name)
            continue
        asks = part.order_dependent and not (part.facts.outlives and part.query in besides)
        below_ordered = (ordered and part.facts.passes) or isinstance(part, ops.FilterJoin) or asks
        waiting += [(below, below_ordered and below.query == part.query) for below in part.inputs()]
    return found


# Unique keys. The audit checks the rows of a run against it. A key is given only if it follows from the operators:
# groups differ in their GROUP BY variables, joined rows in the keys of both inputs.


@dataclass(frozen=True)
class StatedKeys:
    """The columns that DEFINE declares as the unique key of a query."""

    whole: tuple[str, ...] = ()  # columns of `keys`, which replace the key that the plan shows; empty for none
    extra: tuple[str, ...] = ()  # columns of `extra_keys`, which are added to the key

    def with_derived(self, derived: ops.Key, names: Sequence[str]) -> ops.Key:
        """Combines the declared columns with the key that the plan shows; None for none."""
        base = self.whole or derived
        if base is None and not self.extra:
            return None
        chosen = {*(base or ()), *self.extra}
        return tuple(name for name in names if name in chosen)


def unique_key(node: ops.Node, keys: dict[int, ops.Key] | None = None) -> ops.Key:
    """Returns the columns of a unique key of a node's rows, as few as the plan shows, in the order of its fields; NULL
    equals NULL. None if no key follows from the plan. `keys`: identity of an operator -> its key, filled by earlier
    calls where plans share queries; the operators must stay alive."""
    keys = {} if keys is None else keys
    for part in ops.walk(node, done=keys):
        keys[id(part)] = part.key([keys[id(below)] for below in part.inputs()])
    return keys[id(node)]


# Columns that are read. `replay.checks` and the states of intervals ask it what a link has to keep.


def lftas_as_read(highs: Sequence[ops.Node]) -> list[ops.Lfta]:
    """Returns the LFTAs of high plans without the columns that they only hand on and that nothing above them reads. A
    union of two protocols by arrival, for example, hands on all columns of both."""
    wanted: dict[int, set[str]] = defaultdict(set)
    for high in highs:
        wanted[id(high)] |= {field.name for field in high.fields}
    read: dict[str, set[str]] = defaultdict(set)
    for node in reversed(list(ops.walk(*highs))):  # readers before what they read
        names = wanted[id(node)]
        if isinstance(node, ops.LftaInput):
            read[node.lfta.name] |= names
        elif isinstance(node, ops.Union):
            for branch in node.branches:
                places = zip(node.fields, branch.fields, strict=True)
                wanted[id(branch)] |= {own.name for field, own in places if field.name in names}
        else:
            exprs = list(node.exprs())
            if isinstance(node, ops.Map):
                exprs = [item.expr for item in node.items if item.name in names]
                exprs += [node.predicate] if node.predicate is not None else []
                names = set()
            below = names | {name.rpartition(".")[2] for name in ex.columns_of(*exprs)}
            for child in node.inputs():
                wanted[id(child)] |= below

    def is_read(lfta: ops.Lfta, key: ops.Item) -> bool:
        return key.name in read[lfta.name] or not isinstance(key.expr, ex.Column)

    return [replace(lfta, keys=tuple(key for key in lfta.keys if is_read(lfta, key))) for lfta in ops.lftas_of(*highs)]


# Columns of instants: `tb` in minutes is published with `tb_start`, a timestamp

INSTANT = schemas.INSTANT
"""Type of these columns."""


@dataclass(frozen=True)
class InstantColumn:
    """A column with the instants at which the epochs or windows of a temporal column begin."""

    name: str
    of: str
    begins: temporal.Temporal  # its values as a function of the packet clock


def instant_columns(fields: Sequence[ops.Field]) -> tuple[InstantColumn, ...]:
    """Returns the instants of the temporal columns that are functions of the packet clock.

    A column of the query has the name before an instant, in any case of letters: readers such as Spark see no case.

    Example:
        >>> from lowwater.plan.temporal import CLOCK, Step
        >>> minute = ops.Field("tb", ex.Type.INT, CLOCK.then(Step("div", 60_000_000_000)))
        >>> [column.name for column in instant_columns([minute, ops.Field("n", ex.Type.INT)])]
        ['tb_start']
    """
    taken = {field.name.lower() for field in fields}
    found = []
    for field in fields:
        begins = field.temporal.begins if field.temporal and not field.temporal.origin else None
        name = f"{field.name}_time" if field.name.lower().endswith("_start") else f"{field.name}_start"
        if begins is not None and field.type is ex.Type.INT and name.lower() not in taken:
            taken.add(name.lower())
            found.append(InstantColumn(name, field.name, begins))
    return tuple(found)


def instant_schema(fields: Sequence[ops.Field]) -> pa.Schema:
    """Returns the columns of instants of a query."""
    return pa.schema([pa.field(column.name, INSTANT) for column in instant_columns(fields)])


def is_instant(kind: pa.DataType) -> bool:
    """Whether a published column of a type has instants, and is no column of its query."""
    return bool(pa.types.is_timestamp(kind))


# Arrow schemas


def value_schema(fields: Sequence[ops.Field]) -> pa.Schema:
    """Returns the fields as columns of a stream, without the control columns."""
    return pa.schema([pa.field(field.name, schemas.STREAM_TYPES[field.type]) for field in fields])


def stream_schema(fields: Sequence[ops.Field]) -> pa.Schema:
    """Returns the columns of a stream between stages: the fields, then CONTROL (SEMANTICS P5)."""
    return pa.schema([*value_schema(fields), *schemas.CONTROL])


def result_schema(fields: Sequence[ops.Field]) -> pa.Schema:
    """Returns the columns of a query's stream: the fields in published types, their instants, then CONTROL."""
    return pa.schema([*visible_schema(fields), *schemas.CONTROL])


def visible_schema(fields: Sequence[ops.Field]) -> pa.Schema:
    """Returns the columns that readers of a published table see: the fields in published types, then their instants."""
    return pa.schema([*published_schema(fields), *instant_schema(fields)])


def published_schema(fields: Sequence[ops.Field]) -> pa.Schema:
    """Returns the fields in published types, with addresses as texts."""
    return pa.schema([pa.field(field.name, schemas.TABLE_TYPES[field.type]) for field in fields])


# How the columns of a query came to be: counted, computed, or a field of a record as it was; and how the values of
# several rows become one. The review pages propose what to plot by it, and plot so.


class Measure(IntEnum):
    """What a column is, what is best to plot first."""

    COUNT = 0
    AGGREGATE = 1
    COMPUTED = 2
    FIELD = 3
    """A field of a record, such as a port or a length, or a value by which rows are grouped."""


class Combine(StrEnum):
    """How the values of a column in several rows become one, so that it is what a longer epoch would have given."""

    SUM = "sum"
    LARGEST = "largest"
    SMALLEST = "smallest"
    MEAN = "weighted mean"
    ALONE = "alone"
    """Not at all: a distinct count, a quantile, a ratio."""


@dataclass(frozen=True)
class Quantity:
    """What an output column of a query is."""

    measure: Measure = Measure.FIELD
    combine: Combine = Combine.SUM
    weight: str = ""  # of a mean: the column that has the number of its values; without one it stands alone


def quantities(node: ops.Node) -> dict[str, Quantity]:
    """Returns what each output column of a logical plan is, through joins, merges and queries that others read."""
    found: dict[int, dict[str, Quantity]] = {}
    for part in ops.walk(node, done=found):
        below = [found[id(each)] for each in part.inputs()]
        found[id(part)] = _quantities_of(part, below)
    return found[id(node)]


def _quantities_of(node: ops.Node, below: list[dict[str, Quantity]]) -> dict[str, Quantity]:
    names = {name: quantity for each in below for name, quantity in each.items()}
    if isinstance(node, ops.Aggregation):
        names = {key.name: Quantity(combine=Combine.ALONE) for key in node.keys}
        names |= {each.name: Quantity(Measure.AGGREGATE, Combine.ALONE) for each in node.all_aggregates}
        names |= {each.name: _aggregated(node, each) for each in node.aggregates}
    if isinstance(node, ops.TwoInputs):
        for (alias, _), columns in zip(node.sides, below, strict=True):
            names |= {f"{alias}.{name}": quantity for name, quantity in columns.items()}
    items: tuple[ops.Item, ...] | None = getattr(node, "items", None)
    if items is not None:
        shown = {item.expr.name: item.name for item in items if isinstance(item.expr, ex.Column)}
        return {item.name: _weighed(_quantity(item.expr, names), shown) for item in items}
    if isinstance(node, ops.Union):
        alike = map(_alike, zip(*(each.values() for each in below), strict=True))
        return dict(zip((field.name for field in node.fields), alike, strict=True))
    if isinstance(node, ops.Over):
        names |= {each.name: Quantity(Measure.COMPUTED, Combine.ALONE) for each in node.functions}
    return {field.name: names.get(field.name, Quantity()) for field in node.fields}


def _alike(branches: Sequence[Quantity]) -> Quantity:
    """What a column of merged rows is: it stands alone where the branches do not combine it in one way."""
    first, ways = branches[0], {(each.combine, each.weight) for each in branches}
    return first if len(ways) == 1 else replace(first, combine=Combine.ALONE, weight="")


def _aggregated(node: ops.Aggregation, aggregate: ops.Aggregate) -> Quantity:
    """What an aggregate is, by the aggregate that merges parts of it; epochs that overlap share their rows, and so do
    the grouping sets of CUBE."""
    native = aggregate.native
    measure = Measure.COUNT if aggregate.function in ("count", "sum") else Measure.AGGREGATE
    if native is None or any(isinstance(each, ops.Bucket) and each.range > each.slide for each in ops.walk(node.input)):
        return Quantity(measure, Combine.ALONE)
    if isinstance(node.input, ops.Expand) and aggregate.function in ("avg", "count", "sum"):
        return Quantity(measure, Combine.ALONE)
    if aggregate.function == "avg":
        return Quantity(measure, Combine.MEAN, _counted_with(node, aggregate))
    ways = {"sum": Combine.SUM, "max": Combine.LARGEST, "min": Combine.SMALLEST}
    return Quantity(measure, ways.get(native.superaggregate, Combine.ALONE))


def _counted_with(node: ops.Aggregation, mean: ops.Aggregate) -> str:
    """Returns the aggregate that counts the values of a mean: it has the same argument, or counts rows of which each
    has a value. Empty if there is none."""
    records = isinstance(node.input, ops.Source) and node.input.kind == "pcap"
    sure = {field.name for field in schemas.RECORD if not field.nullable} | {"time"}
    # An expression over such columns may fail, and is NULL then (SEMANTICS V2).
    each_has = records and isinstance(mean.argument, ex.Column) and mean.argument.name in sure
    counts = [each for each in node.aggregates if each.function == "count"]
    found = [each.name for each in counts if each.argument == mean.argument or (each.argument is None and each_has)]
    return found[0] if found else ""


def _weighed(quantity: Quantity, shown: Mapping[str, str]) -> Quantity:
    """Names the weight of a mean as the query shows it; a mean without a weight stands alone."""
    if quantity.combine is not Combine.MEAN:
        return quantity
    weight = shown.get(quantity.weight, "")
    return replace(quantity, weight=weight, combine=Combine.MEAN if weight else Combine.ALONE)


def _quantity(expr: ex.Expr, names: Mapping[str, Quantity]) -> Quantity:
    if isinstance(expr, ex.Column):
        return names.get(expr.name, Quantity())
    used = [names.get(name, Quantity()) for name in ex.columns_of(expr)]
    if not used:
        return Quantity()
    least = min(each.measure for each in used)
    measure = Measure.AGGREGATE if least < Measure.COMPUTED else Measure.COMPUTED
    return Quantity(measure, Combine.SUM if _added(expr, names) else Combine.ALONE)


def _added(expr: ex.Expr, names: Mapping[str, Quantity]) -> bool:
    """Whether the values of an expression over several rows are its value over the sums: sums, and multiples of them.
    A field of a record is added as it is; a quotient is not, as a rate or a number of an epoch."""
    if isinstance(expr, ex.Column):
        return names.get(expr.name, Quantity()).combine is Combine.SUM
    if isinstance(expr, ex.Binary) and expr.op in ("+", "-"):
        return _added(expr.left, names) and _added(expr.right, names)
    if isinstance(expr, ex.Binary) and expr.op == "*":
        sides = (expr.left, expr.right), (expr.right, expr.left)
        return any(isinstance(one, ex.Const) and _added(other, names) for one, other in sides)
    return False


# Cost. An expression is LFTA-safe if all its functions are LFTA-legal and cheaper than the threshold (004, Splitting
# Selection and Aggregation Queries). The default threshold keeps functions of cost HIGH at the high level.

PREFILTER_LIMIT = 10
"""A conjunct that costs less may go into the prefilter (shared rules of GSQL, section 6)."""

WIDE_COST = 10
"""Cost of comparing two strings or addresses; comparing two numbers costs 1."""


def cost(expr: ex.Expr) -> int:
    """Returns the number of operations of one evaluation.

    Example:
        >>> from lowwater.catalog.expr import Binary, Column, Const, Type
        >>> cost(Binary(Type.BOOL, "=", Column(Type.INT, "protocol"), Const(Type.INT, 6)))
        1
    """
    total = 0
    for node in ex.walk(expr):
        if isinstance(node, ex.Call):
            total += node.function.cost
        elif isinstance(node, ex.Binary):
            wide = node.op in ex.COMPARISON and node.left.type in (ex.Type.STRING, ex.Type.IP)
            # The link is the same for all packets of a pass.
            total += WIDE_COST if wide and not (_is_link(node.left) or _is_link(node.right)) else 1
        elif isinstance(node, ex.OneOf):
            total += WIDE_COST
        elif isinstance(node, ex.Case | ex.StateCall | ex.Unary):
            total += 1
    return total


def _is_link(expr: ex.Expr) -> bool:
    return isinstance(expr, ex.Column) and expr.name == "interface"


def unsafe(expr: ex.Expr, threshold: int = functions.Cost.HIGH) -> str:
    """Returns why the low level may not evaluate an expression; empty if it may. `threshold`: the cost from which a
    function stays at the high level."""
    for node in ex.walk(expr):
        if isinstance(node, ex.StateCall):
            return f"{node.function.name} has a state, which needs rows in canonical order in one process"
        if isinstance(node, ex.Call):
            if schemas.SAMPLING_RATE in ex.columns_of(node):
                return f"{node.function.name} reads {schemas.SAMPLING_RATE}, so the high level computes it"
            if not node.function.lfta:
                return f"{node.function.name} is not LFTA-legal"
            if node.function.cost >= threshold:
                cheap = functions.Cost(threshold).name if threshold in list(functions.Cost) else str(threshold)
                cost = functions.Cost(node.function.cost).name
                return f"{node.function.name} costs {cost}, the low level runs only functions below {cheap}"
    return ""


def safe(expr: ex.Expr, threshold: int = functions.Cost.HIGH) -> bool:
    """Whether the low level may evaluate an expression; `threshold` as of `unsafe`."""
    return not unsafe(expr, threshold)


def unkeepable(expr: ex.Expr) -> str:
    """Returns why the low level's group table cannot keep a minimum or maximum; empty if it can."""
    if expr.type is ex.Type.STRING and not _is_link(expr):
        return "the group table stores strings as numbers, which have another order"
    return ""


def cheap(expr: ex.Expr) -> bool:
    """Whether a conjunct may go into the prefilter: it is cheap, and the same in every run."""
    moving = any(isinstance(node, ex.Param) or (isinstance(node, ex.Const) and node.param) for node in ex.walk(expr))
    return cost(expr) < PREFILTER_LIMIT and safe(expr) and not moving


# The prefilter. Each conjunct is a bit. A packet goes on to an LFTA only if it has all bits of the LFTA's signature.
# The conjuncts of the signature leave the predicate of the LFTA (004, Prefilters). The kernel reads temporal values
# before the prefilter drops a packet, so a dropped packet never delays a promise (000, section 4.2).

MAX_BITS = 64


@dataclass(frozen=True)
class PrefilterSignature:
    """The prefilter bits of one LFTA."""

    lfta: str
    bits: tuple[int, ...]  # positions of its conjuncts in the prefilter
    rest: ex.Expr | None  # the rest of its predicate; None for nothing

    @property
    def mask(self) -> int:
        return sum(1 << bit for bit in self.bits)


@dataclass(frozen=True)
class Prefilter:
    """The prefilter of links that the same LFTAs read."""

    links: tuple[str, ...]
    # a conjunct per bit, over stored columns: those of several LFTAs first, then the cheap ones
    bits: tuple[ex.Expr, ...]
    shared: tuple[int, ...]  # the number of LFTAs that use each bit
    signatures: tuple[PrefilterSignature, ...]


def choose_prefilters(lftas: Sequence[ops.Lfta]) -> tuple[Prefilter, ...]:
    """Returns the prefilters of all links; links with the same LFTAs share one."""
    readers: dict[str, tuple[int, ...]] = {}
    for link in sorted({link for lfta in lftas for link in lfta.links}):
        readers[link] = tuple(at for at, lfta in enumerate(lftas) if link in lfta.links or ops.ANY_LINK in lfta.links)
    prefilters = []
    for group in dict.fromkeys(readers.values()):
        links = tuple(link for link, reading in readers.items() if reading == group)
        prefilters.append(_prefilter(links, [lftas[at] for at in group]))
    return tuple(prefilters)


def _prefilter(links: tuple[str, ...], lftas: Sequence[ops.Lfta]) -> Prefilter:
    users: dict[ex.Expr, int] = {}
    for lfta in lftas:
        candidates = [part for part in _conjuncts_of(lfta) if cheap(part) and _of_packet(ex.columns_of(part))]
        for part in dict.fromkeys(candidates):
            users[part] = users.get(part, 0) + 1
    order = {part: at for at, part in enumerate(users)}
    bits = sorted(users, key=lambda part: (-users[part], cost(part), order[part]))[:MAX_BITS]
    at = {part: bit for bit, part in enumerate(bits)}
    signatures = tuple(
        PrefilterSignature(
            lfta.name,
            tuple(sorted({at[part] for part in _conjuncts_of(lfta) if part in at})),
            ex.conjunction([part for part in _conjuncts_of(lfta) if part not in at]),
        )
        for lfta in lftas
    )
    return Prefilter(links, tuple(bits), tuple(users[part] for part in bits), signatures)


def _of_packet(columns: list[str]) -> bool:
    """Whether a conjunct depends on the packet alone, so that it is the same for all LFTAs and links."""
    return columns not in ([], ["interface"]) and schemas.SAMPLING_RATE not in columns


def _conjuncts_of(lfta: ops.Lfta) -> list[ex.Expr]:
    return ex.conjuncts(lfta.member) + ex.conjuncts(lfta.predicate)

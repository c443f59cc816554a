"""Operators of a plan: the parts of all, every fact that an operator states about itself, each operator, and walks
over plans, which are graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import gcd
from typing import ClassVar, Self

from lowwater import errors, limits
from lowwater.catalog import native, records
from lowwater.catalog.expr import (
    Binary,
    Case,
    Column,
    Const,
    Expr,
    Type,
    Unary,
    columns_of,
    conjuncts,
    rewrite,
    walk as walk_expr,
    with_children,
)
from lowwater.catalog.functions import AggregateFunction, Native, StateFunction
from lowwater.plan.temporal import Step, Temporal, grid, infer

# Columns and named expressions, the parts of every operator.

Place = tuple[int, int]
"""Line and column of the text, for the message of an engine that cannot run an operator."""

ROWS = "rows"
"""Origin of temporal attributes that count rows instead of time."""


@dataclass(frozen=True)
class Field:
    """A column of a stream."""

    name: str  # the name of the column
    type: Type
    temporal: Temporal | None = None  # its progress; None for a column without progress
    declared: str = ""  # the type in GSQL, if the query asks for the semantics of the old compilers; else empty


@dataclass(frozen=True)
class Item:
    """A named expression: a select item or a group-by variable."""

    name: str
    expr: Expr


def exprs_of(items: Iterable[Item]) -> tuple[Expr, ...]:
    """Returns the expressions of items."""
    return tuple([item.expr for item in items])


def written(*exprs: Expr | None) -> tuple[Expr, ...]:
    """Returns the expressions that are not None."""
    return tuple([expr for expr in exprs if expr is not None])


def computed(exprs: Iterable[Expr]) -> list[Expr]:
    """Returns the expressions that are no column."""
    return [expr for expr in exprs if not isinstance(expr, Column)]


def temporal_names(fields: Sequence[Field]) -> tuple[str, ...]:
    """Returns the names of the temporal columns."""
    return tuple([field.name for field in fields if field.temporal])


def temporals(fields: Sequence[Field]) -> dict[str, Temporal]:
    """Column name -> temporal property, for the columns that make progress."""
    return {field.name: field.temporal for field in fields if field.temporal}


def make_fields(items: Sequence[Item], columns: Mapping[str, Temporal]) -> tuple[Field, ...]:
    """The output fields of items over input columns, by the temporal properties of these columns."""
    return tuple([Field(item.name, item.expr.type, infer(item.expr, dict(columns))) for item in items])


def clocks(fields: Sequence[Field]) -> list[Temporal]:
    """Returns the temporal properties of the columns that are functions of the packet clock."""
    return [field.temporal for field in fields if field.temporal and not field.temporal.origin]


def off_clock(fields: Sequence[Field]) -> str:
    """Returns the origin of the temporal columns if none is a function of the packet clock; else an empty text."""
    return one_origin([field.temporal.origin for field in fields if field.temporal])


def one_origin(origins: Sequence[str]) -> str:
    """Returns the first origin if no attribute has the packet clock, an empty origin; else an empty text."""
    return origins[0] if origins and all(origins) else ""


@dataclass
class UniqueNames:
    """Names of columns that differ in any case: a name that is taken gets 1, 2, ... appended."""

    taken: set[str] = field(default_factory=set)  # names in use, in lower case
    # Of a name that thousands of columns ask for, each number is tried once.
    _tried: dict[str, int] = field(default_factory=dict)

    def unique(self, name: str) -> str:
        """Returns the name, or the first one with a number that is free, and takes it."""
        free, count = name, self._tried.get(name, 0)
        while free.lower() in self.taken:
            count += 1
            free = f"{name}{count}"
        self._tried[name] = count
        self.taken.add(free.lower())
        return free


# Base of operators: every fact that an operator states about itself. The planner, EXPLAIN and the scheduler of
# intervals walk plans and ask the operators. Only the engines and the printer of GSQL distinguish kinds of operators,
# with one table per caller. Spark's Python workers load this module, so it imports nothing from the planner.

Key = tuple[str, ...] | None
"""Unique key: columns whose values differ between any two rows, in the order of the fields; None if unknown."""

Final = Callable[[int], int]
"""`_last` (ns) of an input row -> the instant (ns) at which the row is final: `_last` of its output row."""


@dataclass(frozen=True)
class Facts:
    """The facts of a kind of operator, the same in every query."""

    label: str
    passes: bool  # whether packets pass through unchanged and in their places (SEMANTICS O1)
    waits: bool  # whether rows or groups wait in the operator for a promise
    # why state lives beyond a slice of time and passes from interval to interval (I4); empty without such state
    outlives: str
    promise: str  # from which promise the operator makes its punctuation


@dataclass(frozen=True)
class Physical:
    """Physical operator: how the high level runs an operator, as EXPLAIN shows it."""

    operator: str  # name of the physical operator, which EXPLAIN shows after `by`
    reason: str
    in_python: bool = False  # whether Python code takes the rows of a slice one by one


@dataclass(frozen=True)
class Punctuation:
    """The promises of one operator."""

    # the promised output columns, in order; empty if only the clock of the operator makes progress
    columns: tuple[str, ...]
    joint: bool  # whether one punctuation row promises all columns; else every column has punctuation rows of its own
    groupwise: tuple[str, ...]  # columns with separate promises for their values; empty if a promise is for all rows
    reason: str


@dataclass(frozen=True)
class Copies:
    """How an operator multiplies rows."""

    times: int  # the number of output rows per input row
    what: str  # name of the copies, in the plural
    less: str  # how to write the query so that it makes fewer copies
    place: Place


@dataclass(frozen=True)
class Node:
    """Base of operators; a concrete subclass states its facts as `facts=Facts(...)`, an abstract one `abstract=True`.

    The facts decide which methods a subclass must define. Every operator defines `inputs`, `exprs`, `over` and
    `physical`. An operator with waiting rows also defines `reads_from`, `ends`, `final`, `origins` and `grain`.
    """

    facts: ClassVar[Facts]

    query: str
    fields: tuple[Field, ...]

    def __init_subclass__(cls, facts: Facts | None = None, abstract: bool = False) -> None:
        if abstract:
            return
        if facts is None:
            raise TypeError(f"{cls.__name__}: an operator states facts=Facts(...)")
        needed = (*_STATED, *(_STATED_BY_WAITING if facts.waits else ()))
        missing = [name for name in needed if getattr(cls, name) is getattr(Node, name)]
        if missing:
            raise TypeError(f"{cls.__name__}: an operator with these facts states {', '.join(missing)}")
        cls.facts = facts

    def inputs(self) -> tuple[Node, ...]:
        raise NotImplementedError

    def over(self, *inputs: Node) -> Self:
        """Returns the operator over other inputs with the same columns."""
        raise NotImplementedError

    def exprs(self) -> tuple[Expr, ...]:
        """Returns the expressions that the operator evaluates, without the expressions of its inputs."""
        raise NotImplementedError

    def physical(self) -> Physical:
        """Returns how the high level runs the operator, in a query that is not evaluated by arrival."""
        raise NotImplementedError

    @property
    def label(self) -> str:
        return self.facts.label

    @property
    def order_dependent(self) -> bool:
        """Whether the rows of the operator depend on the order of its input (SEMANTICS O1)."""
        return bool(self.facts.outlives)

    @property
    def hands_on(self) -> bool:
        """Whether the operator only passes rows of one input on, any number of times, with columns added at the end."""
        return self.facts.passes and not self.facts.waits and not self.facts.outlives and len(self.inputs()) == 1

    # Operators whose rows wait for a promise define the methods below.

    def reads_from(self, start: int) -> tuple[int, ...]:
        """Returns the first timestamp (ns) of every input that rows with `_last` >= `start` (ns) need (I2)."""
        return tuple([start for _ in self.inputs()])

    def ends(self, latest: int) -> list[int]:
        """Returns the largest `_last` (ns) of rows, pairs excluded, if no packet is after `latest` (ns) (I3)."""
        return []

    def final(self, port: int) -> Final | None:
        """Returns when a row of an input is final; None if it does not wait, or waits for no instant of the clock."""
        return None

    def origins(self) -> tuple[str, ...]:
        """Returns the origins of the operator's progress; the clock is the empty string."""
        return ()

    @property
    def origin(self) -> str:
        """The attribute of the operator's progress, if it is no function of the clock; else empty."""
        return one_origin(self.origins())

    def grain(self) -> int:
        """Returns the distance (ns) between useful promises; 0 if the reader decides (002, section 6)."""
        return 0

    # The methods below have defaults that suit most operators.

    def span(self, first: int, latest: int) -> tuple[int, int] | None:
        """Returns the least and the largest `_last` (ns) of rows that packets from `first` to `latest` (ns) make, both
        included; None if the packets do not bound `_last`."""
        return first, max([first, *self.ends(latest)])

    def punctuation(self, reader: Node | None) -> Punctuation:
        """Returns the promises for the operator that reads the rows; None for the output of the query."""
        columns = temporal_names(self.fields)
        if not columns:
            return Punctuation((), False, (), "no output column is temporal: only its clock makes progress")
        return Punctuation(columns, len(columns) > 1, self.groupwise(), self.facts.promise)

    def groupwise(self) -> tuple[str, ...]:
        """Returns the output columns with separate promises for their values (SEMANTICS T8)."""
        return ()

    def looks_at(self, below: Node) -> set[str]:
        """Returns the columns of an input whose progress the operator can use."""
        return {field.name for field in below.fields}

    def key(self, below: Sequence[Key]) -> Key:
        """Returns the columns of a unique key of the operator's rows, given the keys of the inputs; None if the plan
        implies no key."""
        return None

    def copies(self) -> Copies | None:
        """Returns how the operator multiplies rows; None if it outputs at most one row per input row, or aggregates."""
        return None

    def state(self) -> str:
        """Returns why intervals of the query run in order (SEMANTICS I4); empty if they can run in any order."""
        off_clock = self.origin not in ("", ROWS)
        return self.facts.outlives or (f"{self.origin} is no function of the clock" if off_clock else "")


_STATED = ("inputs", "over", "exprs", "physical")
_STATED_BY_WAITING = ("reads_from", "ends", "final", "origins", "grain")


@dataclass(frozen=True)
class Leaf(Node, abstract=True):
    """Base of operators without inputs."""

    def inputs(self) -> tuple[Node, ...]:
        return ()

    def over(self, *inputs: Node) -> Self:
        return self


@dataclass(frozen=True)
class OneInput(Node, abstract=True):
    """Base of operators with one input."""

    input: Node

    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    def over(self, *inputs: Node) -> Self:
        (below,) = inputs
        return replace(self, input=below)

    @property
    def finds_and_drops(self) -> bool:
        """Whether it asks the rows of an outer join for NULL, and for something else."""
        asked: Expr | None = getattr(self, "predicate", None)
        if asked is None or not isinstance(self.input, Join) or not self.input.optional:
            return False
        nulls = any(isinstance(part, Unary) and part.op == "IS NULL" for part in walk_expr(asked))
        return nulls and len(conjuncts(asked)) > 1


@dataclass(frozen=True)
class TwoInputs(Node, abstract=True):
    """Base of joins, whose expressions name an input column `<alias>.<column>`."""

    left: Node
    right: Node
    left_alias: str
    right_alias: str

    @property
    def sides(self) -> tuple[tuple[str, Node], tuple[str, Node]]:
        """The alias of each input, and the input."""
        return (self.left_alias, self.left), (self.right_alias, self.right)

    def inputs(self) -> tuple[Node, ...]:
        return (self.left, self.right)

    def over(self, *inputs: Node) -> Self:
        left, right = inputs
        return replace(self, left=left, right=right)


# Derives which output columns carry a unique key of the input.


def key_through(
    key: Sequence[Collection[str]], items: Sequence[Item], fields: Sequence[Field]
) -> tuple[str, ...] | None:
    """Returns the output columns that carry a key, in order; None if the items do not determine a column of the key.
    `key`: for every column of the key, the columns that are equal to it, itself included."""
    chosen: set[str] = set()
    for equal in key:
        images = [item.name for item, field in zip(items, fields, strict=True) if _image_of(item.expr, field) in equal]
        if not images:
            return None
        chosen.add(images[0])
    return tuple(field.name for field in fields if field.name in chosen)


def _image_of(expr: Expr, field: Field) -> str | None:
    """Returns the column that the value of an expression determines; None if two column values may give one value.
    Overflow is NULL (V2), so sums and products count only where the result is temporal. Then every real instant has its
    own value in 64 bits."""
    if isinstance(expr, Column):
        return expr.name
    if isinstance(expr, Unary) and (expr.op, expr.type) in (("~", Type.INT), ("NOT", Type.BOOL)):
        return _image_of(expr.operand, field)
    if field.temporal is not None and affine(expr):
        return columns_of(expr)[0]
    return None


def affine(expr: Expr) -> bool:
    """Returns whether an expression is a column of integers or instants, negated, shifted or scaled by constants other
    than 0."""
    if isinstance(expr, Column):
        return expr.type in (Type.INT, Type.INSTANT)
    if isinstance(expr, Unary):
        return expr.op == "-" and affine(expr.operand)
    if not isinstance(expr, Binary) or expr.op not in ("+", "-", "*"):
        return False
    sides = (expr.left, expr.right)
    constants = [side.value for side in sides if isinstance(side, Const)]
    return len(constants) == 1 and (expr.op != "*" or constants[0] != 0) and any(affine(side) for side in sides)


# Operators that pass rows on one by one: sources, maps, unions, buckets of time. The lowest operators of a plan.

ANY_LINK = "*"
"""Every link: EXPLAIN uses it when it does not know the links."""


@dataclass(frozen=True)
class Sample:
    """Uniform sampling of packets (SEMANTICS O5): every engine and every division of a run selects the same packets."""

    rate: float  # the share of selected packets, above 0 and at most 1
    seed: int = 0


@dataclass(frozen=True)
class Source(Leaf, facts=Facts("source", passes=False, waits=False, outlives="", promise="clock - skew")):
    """Packets of one protocol on some links, merged in canonical order (O1); `fields` are the stored columns read."""

    alias: str
    links: tuple[str, ...]  # names of the links, sorted
    protocol: str
    member: Expr | None  # condition of the protocol's packets; None for all packets
    kind: str = "pcap"  # the kind of the records: `pcap`, `csv` or `other`
    group: str = ""  # column whose values have skews of their own on these links (SEMANTICS T8); empty for no column
    sample: Sample | None = None  # the sampling of packets; None for all packets
    layout: records.RecordLayout | None = None  # how records that are no packets are read; None for packets
    place: Place = field(default=(0, 0), compare=False)

    def exprs(self) -> tuple[Expr, ...]:
        return ()  # the reader of the source evaluates `member`

    def physical(self) -> Physical:
        return Physical("packets", "read by the reference engine")


# Selection and projection.

CARRIED_THROUGH = "a promise of the input, passed on"


@dataclass(frozen=True)
class Map(OneInput, facts=Facts("selection", passes=True, waits=False, outlives="", promise=CARRIED_THROUGH)):
    """Selection and projection: keeps the rows whose predicate is true and computes the items; `_last` stays."""

    predicate: Expr | None  # condition over the input row; None for all rows
    items: tuple[Item, ...]

    def exprs(self) -> tuple[Expr, ...]:
        return written(self.predicate, *exprs_of(self.items))

    def physical(self) -> Physical:
        return Physical("projection", "stateless, rows and promises pass through")

    def groupwise(self) -> tuple[str, ...]:
        below = self.input.groupwise()
        return tuple([i.name for i in self.items if isinstance(i.expr, Column) and i.expr.name in below])

    def looks_at(self, below: Node) -> set[str]:
        return set(columns_of(*exprs_of(self.items)))

    def key(self, below: Sequence[Key]) -> Key:
        (key,) = below
        return None if key is None else key_through([{name} for name in key], self.items, self.fields)


# Expansion of rows into grouping sets.


@dataclass(frozen=True)
class Expand(OneInput, facts=Facts("grouping sets", passes=True, waits=False, outlives="", promise=CARRIED_THROUGH)):
    """Outputs one row per grouping set: CUBE, ROLLUP and GROUPING_SETS."""

    keys: tuple[str, ...]  # the columns that the sets choose from; a row has NULL in every column that its set omits
    sets: tuple[tuple[str, ...], ...]
    name: str  # output column with the number of the set; the other output columns are the input's
    place: Place = field(default=(0, 0), compare=False)

    def exprs(self) -> tuple[Expr, ...]:
        return ()

    def physical(self) -> Physical:
        return Physical("expansion", "stateless, one output row per grouping set")

    def copies(self) -> Copies:
        return Copies(len(self.sets), "groupings", "write GROUPING_SETS of those you need", self.place)


# Merge of streams.


@dataclass(frozen=True)
class Union(
    Node, facts=Facts("merge", passes=True, waits=False, outlives="", promise="the smallest promise of the inputs")
):
    """Merge of inputs with equal types, by position (P3)."""

    branches: tuple[Node, ...]

    def inputs(self) -> tuple[Node, ...]:
        return self.branches

    def over(self, *inputs: Node) -> Self:
        return replace(self, branches=inputs)

    def exprs(self) -> tuple[Expr, ...]:
        return ()

    def physical(self) -> Physical:
        return Physical("union", "its promise is the smallest promise of the inputs")


# Window assigners: sliding windows of time, and windows of rows.

OPEN_WINDOW = "the first window that is still open"


@dataclass(frozen=True)
class Bucket(OneInput, facts=Facts("windows", passes=True, waits=False, outlives="", promise=OPEN_WINDOW)):
    """Window assigner: outputs one row per window that a row belongs to (WID; 002, Figure A-2). Window w holds the
    values v of the attribute with w*slide <= v < w*slide + range."""

    attribute: Expr  # expression over the input row; for a window of rows the number of the row
    range: int  # length of a window, in units of the attribute
    slide: int  # distance between the starts of two windows, in units of the attribute
    name: str  # output column with the number of the window; the other output columns are the input's
    rows: bool = False  # whether the attribute counts rows
    partition: tuple[Item, ...] = ()  # expressions over the input row; every partition counts its rows separately
    # condition over the input row; only rows for which it is true are counted and are in windows. None for a window of
    # rows counts every record of the links, unless there is a partition.
    counted: Expr | None = None
    place: Place = field(default=(0, 0), compare=False)

    @property
    def every_record(self) -> bool:
        """Whether the windows count every record of the links, also those that the source does not take."""
        return self.rows and not self.partition and self.counted is None

    @property
    def pane(self) -> int:
        """The length of a pane, in units of the attribute; every window consists of whole panes (002, section 4.1)."""
        return gcd(self.range, self.slide)

    def exprs(self) -> tuple[Expr, ...]:
        return written(self.attribute, *exprs_of(self.partition), self.counted)

    def physical(self) -> Physical:
        return Physical("expansion", "stateless, one output row per window")

    def origins(self) -> tuple[str, ...]:
        return (ROWS,) if self.rows else ()

    def state(self) -> str:
        return "row numbers count from the first interval of the chain" if self.rows else ""

    def punctuation(self, reader: Node | None) -> Punctuation:
        """Returns a promise of the window number: its reader groups by this column and only carries the others."""
        if not temporal_names(self.fields):
            return super().punctuation(reader)
        return Punctuation((self.name,), False, self.groupwise(), self.facts.promise)

    def groupwise(self) -> tuple[str, ...]:
        return tuple([item.name for item in self.partition]) if self.rows else self.input.groupwise()

    def looks_at(self, below: Node) -> set[str]:
        return set(columns_of(self.attribute))

    def copies(self) -> Copies:
        times = -(-self.range // self.slide)
        return Copies(times, "overlapping windows", "use a longer SLIDE or a shorter RANGE", self.place)


# Leaf of a plan part that reads the rows of another part.


@dataclass(frozen=True)
class Cut(Leaf, facts=Facts("part", passes=False, waits=False, outlives="", promise="the promise of the part")):
    """Leaf of the high level: the rows of another part of the same query."""

    name: str  # name of the part that writes the rows

    def exprs(self) -> tuple[Expr, ...]:
        return ()

    def physical(self) -> Physical:
        return Physical("files", "rows and promises of another part")


# Aggregation by epochs, and the base class of all aggregations.


@dataclass(frozen=True)
class Aggregate:
    """An aggregate of an aggregation."""

    name: str  # the column by which HAVING and the select items read the aggregate
    # the function of the catalog. Every function but count ignores NULL. Without another value, a built-in function
    # other than count returns NULL.
    function: str
    argument: Expr | None  # expression over the input row; None for count
    type: Type
    more: tuple[Expr, ...] = ()
    udaf: AggregateFunction | None = None  # the catalog's entry of an aggregate that is not native; else None
    place: Place = field(default=(0, 0), compare=False)

    @property
    def native(self) -> Native | None:
        """The native computation; None for an aggregate by user functions, or without Python code."""
        return None if self.udaf is not None else native.NATIVE.get(self.function)

    @property
    def arguments(self) -> tuple[Expr, ...]:
        return written(self.argument, *self.more)

    @property
    def taken(self) -> tuple[Expr, ...]:
        """The arguments that every row supplies; the other arguments are constants."""
        return self.arguments[: self.udaf.taken] if self.udaf is not None else self.arguments

    def over(self, change: Callable[[Expr], Expr]) -> Aggregate:
        argument = None if self.argument is None else change(self.argument)
        return replace(self, argument=argument, more=tuple(change(expr) for expr in self.more))


@dataclass(frozen=True)
class ByEpoch(OneInput, abstract=True):
    """Base of operators that bring the rows of an epoch together: the end of the epoch makes its rows final."""

    keys: tuple[Item, ...]  # over the input row; at least one is temporal. NULL equals NULL.
    key_fields: tuple[Field, ...]  # the columns of the keys, in the same order

    def ends(self, latest: int) -> list[int]:
        times = clocks(self.key_fields)
        return [min(time.last(time.latest(latest)) for time in times)] if times else []

    def span(self, first: int, latest: int) -> tuple[int, int] | None:
        times = clocks(self.key_fields)
        if not times:
            return None
        begin = max(first, min(time.last(time.promise(first)) for time in times))
        return begin, max(begin, *self.ends(latest))

    def final(self, port: int) -> Final | None:
        times = clocks(self.key_fields)
        return (lambda last: min(time.last(time.promise(last)) for time in times)) if times else None

    def origins(self) -> tuple[str, ...]:
        return tuple([key.temporal.origin for key in self.key_fields if key.temporal])

    def grain(self) -> int:
        return grid([key.temporal for key in self.key_fields if key.temporal])

    def looks_at(self, below: Node) -> set[str]:
        return set(columns_of(*exprs_of(self.keys)))


@dataclass(frozen=True)
class Aggregation(ByEpoch, abstract=True):
    """Base of all aggregations: WHERE, GROUP BY, HAVING and select items. The keys are the group-by variables."""

    predicate: Expr | None  # condition over the input row, before grouping; None for all rows
    aggregates: tuple[Aggregate, ...]
    having: Expr | None  # condition over the names of keys and aggregates; None for all groups
    items: tuple[Item, ...]  # the output columns in order, over the names of keys and aggregates

    @property
    def all_aggregates(self) -> tuple[Aggregate, ...]:
        """The aggregates, with those over the rows of a supergroup."""
        return self.aggregates

    def exprs(self) -> tuple[Expr, ...]:
        arguments = [expr for aggregate in self.all_aggregates for expr in aggregate.arguments]
        return written(self.predicate, self.having, *exprs_of(self.keys), *exprs_of(self.items), *arguments)

    @property
    def order_dependent(self) -> bool:
        return super().order_dependent or any(a.udaf is not None and a.udaf.ordered for a in self.aggregates)

    @property
    def in_python(self) -> str:
        """The first aggregate that only Python can compute; empty if every engine can compute all."""
        return next((a.function for a in self.aggregates if a.udaf is not None and a.udaf.make is not None), "")


@dataclass(frozen=True)
class Group(
    Aggregation,
    facts=Facts(
        "aggregation",
        passes=False,
        waits=True,
        outlives="",
        promise="the smaller of the promise of the input and the oldest open epoch",
    ),
):
    """Aggregation by epochs: every group belongs to one epoch, and the end of the epoch closes the group. A group can
    change until `min(last(key))` over its temporal keys. This instant is the `_last` of its row."""

    def physical(self) -> Physical:
        if function := self.in_python:
            reason = f"{function} is a Python function, which takes the rows of a group one by one"
            return Physical("aggregation in slices", reason, in_python=True)
        if origin := off_clock(self.key_fields):
            return Physical("slices in order", f"epochs follow {origin}, not the packet clock")
        return Physical("hash aggregation in slices", "a group closes at the end of its epoch, and no state remains")

    def reads_from(self, start: int) -> tuple[int, ...]:
        return (epoch_start(self.key_fields, start),)

    def groupwise(self) -> tuple[str, ...]:
        below = self.input.groupwise()
        key_exprs = {key.name: key.expr for key in self.keys}
        names = []
        for item in self.items:
            source = key_exprs.get(item.expr.name, item.expr) if isinstance(item.expr, Column) else item.expr
            if isinstance(source, Column) and source.name in below:
                names.append(item.name)
        return tuple(names)

    def key(self, below: Sequence[Key]) -> Key:
        return key_through([{key.name} for key in self.keys], self.items, self.fields)


def epoch_start(keys: Sequence[Field], start: int) -> int:
    """Returns the first instant (ns) of the oldest group that can still change at `start` (ns)."""
    times = clocks(keys)
    return max(0, max(time.first(time.promise(start)) for time in times)) if times else 0


# Groups of epochs without rows.


@dataclass(frozen=True)
class Fill(
    ByEpoch,
    facts=Facts(
        "filling",
        passes=False,
        waits=True,
        outlives="",
        promise="the smaller of the promise of the input and the oldest open epoch",
    ),
):
    """Adds the groups that an aggregation lacks (SEMANTICS O10): of each epoch that all links of the aggregation have
    reported whole, for each combination of listed values, as if it had no rows. The input has a column for each key,
    one of them the epoch, and for each aggregate."""

    links: tuple[str, ...]  # the links of the aggregation; those whose name is listed concern its own groups only
    listed: tuple[tuple[Const, ...], ...]  # the values of each key, in the order of the keys; empty for the epoch
    aggregates: tuple[Aggregate, ...]  # the aggregates of the input
    linked: str = ""  # the key that is the link of the rows; empty if none is
    place: Place = field(default=(0, 0), compare=False)

    def exprs(self) -> tuple[Expr, ...]:
        return exprs_of(self.keys)

    def physical(self) -> Physical:
        return Physical("filling in slices", "epochs without rows follow from the coverage of the links")

    def reads_from(self, start: int) -> tuple[int, ...]:
        return (epoch_start(self.key_fields, start),)

    def key(self, below: Sequence[Key]) -> Key:
        return tuple([key.name for key in self.keys])

    @property
    def epoch(self) -> Field:
        """The key that is the epoch."""
        return next(each for each in self.key_fields if each.temporal)


# The first rows of each epoch.


@dataclass(frozen=True)
class Order:
    """One part of ORDER BY. NaN is above all numbers."""

    expr: Expr  # over the input row
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True)
class Top(
    ByEpoch,
    facts=Facts(
        "top rows",
        passes=False,
        waits=True,
        outlives="",
        promise="the smaller of the promise of the input and the oldest open epoch",
    ),
):
    """The first rows of each epoch, or of each value of PER within it (SEMANTICS O7). `_last` of a row is the end of
    its epoch: until then an earlier one may come."""

    order: tuple[Order, ...]
    count: int
    ties: bool  # whether the rows come too that equal the last one in ORDER BY; else the canonical order decides (O1)
    items: tuple[Item, ...]

    def exprs(self) -> tuple[Expr, ...]:
        return (*exprs_of(self.keys), *(order.expr for order in self.order), *exprs_of(self.items))

    def physical(self) -> Physical:
        if origin := off_clock(self.key_fields):
            return Physical("slices in order", f"epochs follow {origin}, not the packet clock")
        return Physical("top rows in slices", "each block of rows leaves its first ones, and no state remains")

    @property
    def order_dependent(self) -> bool:
        return not self.ties

    def reads_from(self, start: int) -> tuple[int, ...]:
        return (epoch_start(self.key_fields, start),)

    def key(self, below: Sequence[Key]) -> Key:
        """Returns the key of the input, or with one row of each value of PER these, if they are fewer columns."""
        keys = [key for key in below if key is not None]
        if self.count == 1 and not self.ties:
            keys.append(tuple(key.expr.name if isinstance(key.expr, Column) else "" for key in self.keys))
        carried = [key_through([{name} for name in key], self.items, self.fields) for key in keys]
        return min((key for key in carried if key is not None), key=len, default=None)


# Running aggregation, which keeps groups until CLOSING_WHEN holds.

EPOCH_WORKED_ON = "the epoch that is worked on: all before it are out"


@dataclass(frozen=True)
class Running(
    Aggregation,
    facts=Facts(
        "running aggregation",
        passes=False,
        waits=True,
        outlives="CLOSING_WHEN carries groups from epoch to epoch",
        promise=EPOCH_WORKED_ON,
    ),
):
    """Running aggregation: a group lives from epoch to epoch until CLOSING_WHEN holds (SEMANTICS O4, 004)."""

    closing: Expr  # condition over the names of keys and aggregates
    place: Place = field(default=(0, 0), compare=False)

    def exprs(self) -> tuple[Expr, ...]:
        return written(*super().exprs(), self.closing)

    def physical(self) -> Physical:
        return Physical(
            "slices in order", "groups outlive their epoch, so each slice starts with the groups of the slice before"
        )

    def reads_from(self, start: int) -> tuple[int, ...]:
        return (0,)  # the state begins with the chain of intervals


# Sampling operator with supergroups and cleaning.


@dataclass(frozen=True)
class Sampling(
    Aggregation,
    facts=Facts(
        "sampling",
        passes=False,
        waits=True,
        outlives="the sampling operator carries its state into the next epoch",
        promise=EPOCH_WORKED_ON,
    ),
):
    """Sampling operator: WHERE admits rows, CLEANING_WHEN starts a cleaning and CLEANING_BY keeps groups."""

    supergroup: tuple[str, ...]  # names of the keys that share states and superaggregates
    supers: tuple[Aggregate, ...]  # aggregates over the rows of a supergroup
    cleaning_when: Expr | None  # condition over keys, superaggregates and stateful functions; None without cleaning
    # condition over keys, aggregates, superaggregates and stateful functions; None without cleaning
    cleaning_by: Expr | None
    states: tuple[StateFunction, ...]
    place: Place = field(default=(0, 0), compare=False)

    @property
    def all_aggregates(self) -> tuple[Aggregate, ...]:
        return (*self.aggregates, *self.supers)

    def exprs(self) -> tuple[Expr, ...]:
        return written(*super().exprs(), self.cleaning_when, self.cleaning_by)

    def physical(self) -> Physical:
        return Physical("slices in order", "states read rows in canonical order and continue in the next epoch")

    def reads_from(self, start: int) -> tuple[int, ...]:
        return (0,)  # the state begins with the chain of intervals


# Functions of a row and those before it.


@dataclass(frozen=True)
class RowFunction:
    """A function of a row and those before it in its partition. All but `lag` and `first_value` ignore NULL."""

    name: str  # the column with its value
    # avg, count, first_value, lag, max, min, row_number, session, sum, tcp_analysis, tcp_began or tcp_round_trip
    function: str
    argument: Column | None  # column of the input; None for row_number, and for count of rows
    type: Type
    # of lag: how many rows it looks back; of those that end with a gap: the longest one, in units of the order
    reach: int = 0
    default: Column | None = None  # of lag: column with the value where there is no such row; None for NULL
    peers: bool = False  # whether it takes the later rows too that are equal in order, as RANGE of SQL does
    most: int = 0  # of session: the length at which it is cut, in units of the order; 0 for none
    more: tuple[Column, ...] = ()  # of tcp_...: the arguments behind the first one

    @property
    def forgets(self) -> bool:
        """Whether no row matters any more once the gap is over."""
        return self.function in ("session", "tcp_analysis", "tcp_began", "tcp_round_trip")


@dataclass(frozen=True)
class Over(
    OneInput,
    facts=Facts(
        "rows before",
        passes=True,
        waits=True,
        outlives="OVER goes on from the rows before",
        promise="a promise of the input, passed on",
    ),
):
    """Adds columns with functions of each row and those before it in its partition (SEMANTICS O11). The rows are in
    canonical order (O1), of which the order column is a function: `_last` of a row stays what it is."""

    partition: tuple[Column, ...]
    order: Column  # an increasing function of the clock; equal for rows that are peers
    functions: tuple[RowFunction, ...]
    place: Place = field(default=(0, 0), compare=False)

    def exprs(self) -> tuple[Expr, ...]:
        arguments = [(*written(each.argument, each.default), *each.more) for each in self.functions]
        return (*self.partition, self.order, *(expr for pair in arguments for expr in pair))

    def physical(self) -> Physical:
        return Physical("slices in order", "a row needs those before it, so each slice starts with what was before")

    def reads_from(self, start: int) -> tuple[int, ...]:
        return (0,)  # the state begins with the chain of intervals

    def ends(self, latest: int) -> list[int]:
        return [latest]

    def final(self, port: int) -> Final | None:
        return lambda last: last

    def origins(self) -> tuple[str, ...]:
        return ("",)

    def grain(self) -> int:
        return 0

    def key(self, below: Sequence[Key]) -> Key:
        return below[0]

    @property
    def depth(self) -> int:
        """The number of rows of each partition that those after them may look back to."""
        return max([1, *(each.reach for each in self.functions if each.function == "lag")])

    @property
    def time(self) -> Temporal:
        """The temporal property of the order column."""
        return temporals(self.input.fields)[self.order.name]

    def forgets(self, promise: int) -> int | None:
        """Returns the value of the order column below which no row can matter after a promise (ns); None where every
        row may: only where a gap ends what is before."""
        if not all(each.forgets for each in self.functions):
            return None
        return self.time.promise(promise) - max(each.reach for each in self.functions)


# Low-level query nodes (LFTAs), and the leaf of a high plan that reads an LFTA.


@dataclass(frozen=True)
class Partial:
    """Partial aggregate of an LFTA: a native aggregate, or the SUBAGGR of a user's aggregate. A count with an argument
    counts the rows with a value other than NULL (the divisor of avg)."""

    name: str
    function: str
    argument: Expr | None  # expression over stored packet columns; None for count
    type: Type
    udaf: AggregateFunction | None = None  # the catalog's entry of a user's SUBAGGR; None for a native aggregate
    place: Place = field(default=(0, 0), compare=False)

    @property
    def native(self) -> Native | None:
        """The native computation of the low level; None for a user's SUBAGGR, or without Python code."""
        return None if self.udaf is not None else native.NATIVE.get(self.function)


MOST_COLUMNS = 60
"""Largest number of group-by variables, and of partial aggregates: every one takes one bit of the NULL bitmap."""


@dataclass(frozen=True)
class Lfta:
    """Low-level query node: one pass over the packets of every link, with rows and heartbeats as output."""

    name: str  # the query, or `query.alias` if a query has several sources
    links: tuple[str, ...]  # the names of the links; one instance runs per link
    protocol: str
    member: Expr | None  # condition of the protocol's packets; None for all packets
    predicate: Expr | None  # condition over stored packet columns; None for all packets
    keys: tuple[Item, ...]  # output columns over stored packet columns: the group-by variables, else the select items
    partials: tuple[Partial, ...]  # partial aggregates; empty for a selection
    aggregates: bool  # whether the LFTA groups rows
    slots: int  # size of the group table, a power of two
    fields: tuple[Field, ...]  # output columns: the keys, then the partial aggregates
    kind: str = "pcap"  # the kind of the records: `pcap`, `csv` or `other`
    group: str = ""  # column whose values have skews of their own (SEMANTICS T8); empty for no column
    sample: Sample | None = None  # the sampling of packets; None for all packets
    layout: records.RecordLayout | None = None  # how records that are no packets are read; None for packets
    place: Place = field(default=(0, 0), compare=False)
    # whether the LFTA reads by arrival. Then `_last` of a row is its arrival, and no column makes progress. Such an
    # LFTA is a selection.
    arrival: bool = False
    # whether every record of the link becomes a row, because the query counts records. The row of a record that the
    # LFTA does not take is NULL.
    numbered: bool = False
    # whether every record of the link becomes a row with its columns, late ones too, because an attribute that is no
    # function of the clock makes progress with every record (SEMANTICS T8). The high level then tells which records are
    # late. Such an LFTA has no predicate.
    whole: bool = False
    # whether the last column is the number of the record. An order-dependent reader of several LFTAs of one link needs
    # this number.
    placed: bool = False

    @property
    def stored(self) -> tuple[Field, ...]:
        """The columns without the number of the record, which becomes the place of the row."""
        return self.fields[:-1] if self.placed else self.fields

    def promises(self, instant: int) -> tuple[int | None, ...]:
        """Returns the promised value of every field at `instant` (ns) (P2); None for a field that is no function of
        the clock."""
        return tuple(f.temporal.promise(instant) if f.temporal and not f.temporal.origin else None for f in self.fields)

    @property
    def punctuation(self) -> Punctuation:
        """The promises of the LFTA (SEMANTICS P2)."""
        columns = tuple(f.name for f in self.fields if f.temporal and not f.temporal.origin)
        if self.arrival:
            return Punctuation((), False, (), "read by arrival: only its clock makes progress, by that of the link")
        if not columns:
            what = "a function of the clock" if off_clock(self.fields) else "temporal"
            return Punctuation((), False, (), f"no column is {what}: only its clock makes progress")
        if self.aggregates:
            reason = "the smaller of clock - skew and the oldest epoch in the group table"
        else:
            reason = "clock - skew, whether or not records pass the predicate"
        groups = tuple(key.name for key in self.keys if self.group and key.expr == Column(key.expr.type, self.group))
        return Punctuation(columns, len(columns) > 1, groups, reason)


@dataclass(frozen=True)
class LftaInput(Leaf, facts=Facts("lfta", passes=False, waits=False, outlives="", promise="the promise of the LFTA")):
    """Leaf of the high level: the rows of an LFTA, merged over its links.

    For an aggregation `_last` is `min(last(key))` over the row's temporal keys. For a selection it is the timestamp of
    the packet, or its arrival. The fields are the LFTA's. A query that counts rows has the number of the row behind
    them (`properties.ROW`).
    """

    lfta: Lfta

    def exprs(self) -> tuple[Expr, ...]:
        lfta = self.lfta
        return written(lfta.predicate, *exprs_of(lfta.keys), *(partial.argument for partial in lfta.partials))

    def physical(self) -> Physical:
        if len(self.lfta.links) > 1 or ANY_LINK in self.lfta.links:
            return Physical("merge of files", "its promise is the smallest promise of the links")
        return Physical("files", "rows and promises of one link")

    def first_read(self, start: int) -> int:
        """Returns the first timestamp (ns) that the LFTA reads for rows with `_last` >= `start` (ns)."""
        return epoch_start(self.lfta.fields[: len(self.lfta.keys)], start) if self.lfta.aggregates else start

    def punctuation(self, reader: Node | None) -> Punctuation:
        return self.lfta.punctuation

    def groupwise(self) -> tuple[str, ...]:
        return self.lfta.punctuation.groupwise


# Windowed joins of two streams.


class JoinKind(StrEnum):
    """Kinds of joins, by GSQL's keyword before FROM."""

    INNER = "INNER_JOIN"
    LEFT = "LEFT_OUTER_JOIN"
    RIGHT = "RIGHT_OUTER_JOIN"
    OUTER = "OUTER_JOIN"
    ANTI = "ANTI_JOIN"
    SEMI = "SEMI_JOIN"
    ASOF = "ASOF_JOIN"
    ASOF_LEFT = "ASOF_LEFT_JOIN"
    ONCE = "ASOF_ONCE_JOIN"
    ONCE_LEFT = "ASOF_ONCE_LEFT_JOIN"

    @property
    def keeps_left(self) -> bool:
        """Whether left rows that meet nothing are in the result."""
        return self in (JoinKind.LEFT, JoinKind.OUTER, JoinKind.ANTI, JoinKind.ASOF_LEFT, JoinKind.ONCE_LEFT)

    @property
    def keeps_right(self) -> bool:
        return self in (JoinKind.RIGHT, JoinKind.OUTER)

    @property
    def pairs(self) -> bool:
        """Whether rows of both sides are in the result together."""
        return self not in (JoinKind.ANTI, JoinKind.SEMI)

    @property
    def nearest(self) -> bool:
        """Whether a left row is paired with the nearest row that meets it only."""
        return self in (JoinKind.ASOF, JoinKind.ASOF_LEFT) or self.mutual

    @property
    def mutual(self) -> bool:
        """Whether the nearest row counts only if no other left row is nearer to it (O9)."""
        return self in (JoinKind.ONCE, JoinKind.ONCE_LEFT)

    @property
    def once(self) -> bool:
        """Whether a left row is in the result once at most, and comes when its match window ends."""
        return self.nearest or not self.pairs

    @property
    def emits_met(self) -> bool:
        """Whether left rows that meet something come when their match window ends."""
        return self.nearest or self is JoinKind.SEMI

    @property
    def awaits(self) -> bool:
        """Whether some left rows come with the end of their match window."""
        return self.keeps_left or self.once


@dataclass(frozen=True)
class Window:
    """Match window of a join: two rows meet if `left - below <= right <= left + above`."""

    left: Expr
    right: Expr
    left_time: Temporal
    right_time: Temporal  # temporal property of `right`, with the same direction
    below: int  # how far `right` may be below `left`, in units of the expressions
    above: int  # how far `right` may be above `left`, in units of the expressions
    # whether the query writes `left = right`. Then `below` and `above` are 0. A band of width 0 matches the same pairs,
    # but is looked up by order and not by hash.
    equality: bool = False
    # whether a left row waits for the other left rows too that a right row of its window may meet (O9)
    mutual: bool = False

    def present(self, kind: JoinKind) -> tuple[bool, bool]:
        """Returns whether every joined row has a value of `left`, and of `right`; a side with a value is temporal."""
        return not kind.keeps_right, not kind.keeps_left

    def time_of(self, expr: Expr, kind: JoinKind) -> Temporal | None:
        """Returns the progress of an expression over joined rows, from the progress of both sides of the window (P4). A
        side that may be missing is NULL in the unmatched rows of the other side, so it makes no progress there; what an
        equality of the window ties together does, as the first of both sides that is not missing."""
        sign = 1 if self.left_time.increasing else -1
        ahead, behind = (self.above, self.below) if sign > 0 else (self.below, self.above)
        left = self.left_time.joined(self.right_time.then(Step("add", -sign * ahead)))
        if self.mutual:
            left = left.joined(self.left_time.then(Step("add", -self.rivals)))
        right = left if kind.nearest else self.left_time
        times = {"<left>": left, "<right>": self.right_time.joined(right.then(Step("add", -sign * behind)))}
        sides = self.left, self.right
        columns = [Column(side.type, name) for side, name in zip(sides, times, strict=True)]
        parts: dict[Expr, Expr] = dict.fromkeys(either(*sides), columns[0]) if self.equality else {}
        parts |= {side: of for side, of, has in zip(sides, columns, self.present(kind), strict=True) if has}
        return infer(replaced(expr, parts), times)

    def last_left(self, value: int) -> int:
        """Returns the end (ns) of a left row's match window: a matching right row may come until then, or a left row
        that is nearer to it."""
        end = max(self.left_time.last(value), self.right_time.last(value + self._reach(self.above)))
        return max(end, self.last_rival(value)) if self.mutual else end

    def last_rival(self, value: int) -> int:
        """Returns until when (ns) another left row may come that meets a right row of a left row's match window."""
        return self.left_time.last(value + self.rivals)

    def last_right(self, value: int) -> int:
        """Returns the end (ns) of a right row's match window: a matching left row may come until then."""
        return max(self.right_time.last(value), self.left_time.last(value + self._reach(self.below, right=True)))

    def _reach(self, bound: int, right: bool = False) -> int:
        # A decreasing attribute progresses downward, so the far end of the window is the other bound.
        if self.left_time.increasing:
            return bound
        return -self.above if right else -self.below

    @property
    def rivals(self) -> int:
        """How far another left row may be ahead of a left row, and meet a right row of its match window."""
        return self._reach(self.above) + self._reach(self.below, right=True)

    def needed(self, start: int, kind: JoinKind) -> tuple[int, int]:
        """Returns the first timestamp (ns) of both sides that rows with `_last` >= `start` (ns) need."""
        if self.left_time.origin:
            return 0, 0
        if self.equality:
            value = self.left_time.joined(self.right_time).promise(start)
            return max(0, self.left_time.first(value)), max(0, self.right_time.first(value))
        left, right = self._earliest(start, kind)
        return max(0, self.left_time.first(left)), max(0, self.right_time.first(right))

    def _earliest(self, start: int, kind: JoinKind) -> tuple[int, int]:
        """Returns the earliest value of both sides that a row with `_last` >= `start` depends on."""
        # A decreasing attribute mirrors the window: negate the values and exchange the bounds.
        sign = 1 if self.left_time.increasing else -1
        below, above = (self.below, self.above) if sign > 0 else (self.above, self.below)
        left_promise = sign * self.left_time.promise(start)
        right_promise = sign * self.right_time.promise(start)
        left = min(left_promise, right_promise - above)
        if self.mutual:
            left = min(left, left_promise - above - below)
        right = min(right_promise, left_promise - below)
        # An unmatched row, or one that is there once, depends on every row that could have matched it.
        needed_left = min(left, right - above) if kind.keeps_right else left
        needed_right = min(right, left - below) if kind.awaits else right
        if self.mutual:
            needed_left = min(needed_left, left - above - below)
        return sign * needed_left, sign * needed_right


@dataclass(frozen=True)
class Join(
    TwoInputs,
    facts=Facts(
        "join", passes=False, waits=True, outlives="", promise="the clocks of both sides, as the reader uses them"
    ),
):
    """Windowed join of two streams (P4, V1).

    A pair meets if the window and every equality hold (NULL equals NULL) and the residual is true. Its `_last` is the
    larger `_last` of the two rows. The `_last` of an unmatched row, or of one that is there once (O8, O9), is
    `Window.last_left` or `Window.last_right` of its value. Maps below the join already apply the predicates that keep
    rows of one side from it.
    """

    kind: JoinKind
    window: Window
    equalities: tuple[tuple[Expr, Expr], ...]  # (over the left row, over the right row), without that of the window
    residual: Expr | None  # condition over both rows; unmatched rows need not satisfy it
    items: tuple[Item, ...]  # over both rows; in an unmatched row every column of the missing side is NULL

    def exprs(self) -> tuple[Expr, ...]:
        ties = [expr for pair in self.equalities for expr in pair]
        return written(self.window.left, self.window.right, *ties, self.residual, *exprs_of(self.items))

    @property
    def ties(self) -> tuple[tuple[Expr, Expr], ...]:
        """All equalities of the join, (over the left row, over the right row), with that of the window first."""
        return (*(((self.window.left, self.window.right),) if self.window.equality else ()), *self.equalities)

    @property
    def optional(self) -> tuple[str, ...]:
        """The aliases of the sides that are missing in some rows."""
        missing = zip(self.sides, (self.kind.keeps_right, self.kind.keeps_left), strict=True)
        return tuple(alias for (alias, _), gone in missing if gone)

    def untied(self) -> dict[Column, Expr]:
        """Returns the columns of a side that may be missing which the items read as they are and an equality ties ->
        the other side of the first such equality. They are NULL in unmatched rows (V1)."""
        forms = {form: Const(form.type, None) for tie in self.ties for form in either(*tie)}
        read = [part for item in self.items for part in walk_expr(replaced(item.expr, forms))]
        found: dict[Column, Expr] = {}
        for tie in self.ties:
            for own, other in (tie, tie[::-1]):
                places = [part for part in read if part == own and isinstance(part, Column)]
                if places and places[0].name.split(".", 1)[0] in self.optional:
                    found.setdefault(places[0], other)
        return found

    @property
    def label(self) -> str:
        return self.kind.value

    @property
    def by_time_alone(self) -> bool:
        """Whether rows meet within a band, and by no equality."""
        return not self.window.equality and not self.equalities

    def physical(self) -> Physical:
        near = "mutual nearest-row join" if self.kind.mutual else "nearest-row join"
        what = "hash join" if self.window.equality else near if self.kind.nearest else "band join"
        return Physical(f"{what} in slices", "a promise closes the match windows of a slice, and no state remains")

    @property
    def order_dependent(self) -> bool:
        """Whether the order of right rows decides which of those at one distance is the nearest (O1, O9); of a mutual
        join that of left rows, too."""
        return self.kind.nearest

    @property
    def latest(self) -> bool:
        """Whether the last of right rows at one distance is the nearest: all that meet a row lie before it (O9)."""
        return self.kind.nearest and self.window.above <= 0 < self.window.below

    def exchanged(self) -> Join:
        """Returns the join of the exchanged sides, without items: which left row is the nearest of each right row."""
        own = self.window
        window = Window(own.right, own.left, own.right_time, own.left_time, own.above, own.below)
        ties = tuple([(right, left) for left, right in self.equalities])
        sides = self.right, self.left, self.right_alias, self.left_alias
        return Join(self.query, self.fields, *sides, self.kind, window, ties, self.residual, ())

    def reads_from(self, start: int) -> tuple[int, ...]:
        return self.window.needed(start, self.kind)

    def ends(self, latest: int) -> list[int]:
        """Returns the ends (ns) of rows that wait for their match window; another pair ends with its later row."""
        window, ends = self.window, []
        if window.left_time.origin:
            return []
        if self.kind.awaits:
            ends.append(window.last_left(window.left_time.latest(latest)))
        if self.kind.keeps_right:
            ends.append(window.last_right(window.right_time.latest(latest)))
        return ends

    def final(self, port: int) -> Final | None:
        window = self.window
        if window.left_time.origin:
            return None
        if port == 0:
            return lambda last: max(last, window.last_left(window.left_time.latest(last)))
        return lambda last: max(last, window.last_right(window.right_time.latest(last)))

    def origins(self) -> tuple[str, ...]:
        return (self.window.left_time.origin,)

    def grain(self) -> int:
        return grid([self.window.left_time, self.window.right_time])

    def looks_at(self, below: Node) -> set[str]:
        windows = (self.window.left, self.window.right)
        read = [(alias, expr) for (alias, side), expr in zip(self.sides, windows, strict=True) if side is below]
        return {name.removeprefix(f"{alias}.") for alias, expr in read for name in columns_of(expr)}

    def punctuation(self, reader: Node | None) -> Punctuation:
        """Returns the promise of one or both attributes, as the reader uses them (002, sections 5.3, 7.2)."""
        columns = temporal_names(self.fields)
        if not columns:
            return super().punctuation(reader)
        used = reader.looks_at(self) if reader is not None else set(columns)
        chosen = tuple(name for name in columns if name in used) or columns[:1]
        joint, reason = self._chosen(chosen, used, reader)
        return Punctuation(chosen, joint, (), reason)

    def _chosen(self, chosen: Sequence[str], used: set[str], reader: Node | None) -> tuple[bool, str]:
        """Returns whether one punctuation promises all chosen columns together, and why the columns are chosen."""
        if len(chosen) > 1 and isinstance(reader, Aggregation):
            return True, f"{reader.query} groups by both clocks, so a promise on both closes its groups earlier"
        if len(chosen) > 1 and reader is None:
            return True, "no later row is below both of them"
        if len(chosen) > 1:
            return False, "the clock of each side by its own promise: the reader takes either"
        if reader is None:
            return False, "the only clock among the columns of the query"
        if not used.intersection(chosen):
            return False, f"{reader.query} uses none of its clocks"
        return False, f"the clock that {reader.query} uses"

    def key(self, below: Sequence[Key]) -> Key:
        """Returns the key of one side, with the columns of the other side's key that it does not determine."""
        if self.kind.once and below[0] is not None:
            key = key_through([{f"{self.left_alias}.{name}"} for name in below[0]], self.items, self.fields)
            if key is not None or not self.kind.pairs:
                return key
        if None in below:
            return None
        left_key, right_key = (
            tuple(f"{alias}.{name}" for name in key or ()) for (alias, _), key in zip(self.sides, below, strict=True)
        )
        determined = [(_told(a, False), _told(b, False)) for a, b in self.equalities]
        if self.window.equality:
            determined.append((_told(self.window.left, True), _told(self.window.right, True)))
        ties = [(a, b) for a, b in self.ties if isinstance(a, Column) and isinstance(b, Column)]
        images = _images(self.kind, ties)
        tied = {column.name: f"{a.name}={b.name}" for a, b in reversed(ties) for column in (a, b)}
        candidates = [
            *_candidates(left_key, right_key, determined, tied, self.kind.keeps_right),
            *_candidates(right_key, left_key, [(b, a) for a, b in determined], tied, self.kind.keeps_left),
        ]
        whole = {form: Column(a.type, f"{a.name}={b.name}") for a, b in ties for form in either(a, b)}
        items = [replace(item, expr=replaced(item.expr, whole)) for item in self.items]
        carried = [
            key_through([images.get(name, {name}) for name in key], items, self.fields)
            for key in candidates
            if self.kind is not JoinKind.OUTER or _sides_differ(self, key)
        ]
        return min((key for key in carried if key is not None), key=len, default=None)


def merged(first: Expr, second: Expr) -> Expr:
    """Returns the first of two expressions that is not NULL: the merged column of an outer join (V1)."""
    return Case(first.type, ((Unary(Type.BOOL, "NOT", Unary(Type.BOOL, "IS NULL", first)), first),), second)


def either(left: Expr, right: Expr) -> tuple[Expr, ...]:
    """Returns the expressions that are the value of an equality in every row of an outer join, as they may be written:
    that of the side which is not missing."""
    forms = []
    for first, second in ((left, right), (right, left)):
        forms += [merged(first, second), Case(first.type, ((Unary(Type.BOOL, "IS NULL", first), second),), first)]
    return tuple(forms)


_Told = tuple[str | None, str | None]
"""The columns that the value of an equality determines in a pair, of the one side and of the other; None for none."""


def _told(expr: Expr, temporal: bool) -> str | None:
    if isinstance(expr, Column):
        return expr.name
    return columns_of(expr)[0] if temporal and affine(expr) else None


def _candidates(
    base: Sequence[str], other: Sequence[str], ties: Sequence[_Told], tied: Mapping[str, str], keeps_other: bool
) -> Iterator[tuple[str, ...]]:
    """Yields keys of the rows of a join: the key of one side, with the columns of the other side's key that it does not
    determine; by the columns of either side, and by merged columns, which have a value where a side is missing."""
    needed = [name for name in other if not any(mine in base and told == name for mine, told in ties)]
    # In an unmatched row of the other side all columns of this one are NULL, and determine nothing.
    raw = (*base, *(other if keeps_other else needed))
    yield raw
    yield tuple(dict.fromkeys(tied.get(name, name) for name in raw))


def _sides_differ(node: Join, key: Collection[str]) -> bool:
    """Returns whether an unmatched left row and an unmatched right row never have the same key. With equal values of
    all equalities, the two rows would have met if there is no other condition. The keys also differ if the key has a
    clock of one side: the rows of the other side have NULL in this column."""
    if node.residual is None and node.window.equality:
        names = [
            (a.name if isinstance(a, Column) else "", b.name if isinstance(b, Column) else "") for a, b in node.ties
        ]
        if all(f"{a}={b}" in key for a, b in names):
            return True
    clocks = [f"{alias}.{field.name}" for alias, side in node.sides for field in side.fields if field.temporal]
    return any(name in key for name in clocks)


def _images(kind: JoinKind, ties: Sequence[tuple[Column, Column]]) -> dict[str, set[str]]:
    """Returns column, or merged column -> the columns with the same value in every joined row, itself included."""
    equal: dict[str, set[str]] = {}
    for left, right in ties:
        always = {f"{left.name}={right.name}"}
        always |= set() if kind.keeps_right else {left.name}
        always |= set() if kind.keeps_left else {right.name}
        whole = set().union(always, *(equal.get(name, ()) for name in always))
        equal.update(dict.fromkeys(whole, whole))
    return equal


def replaced(expr: Expr, parts: Mapping[Expr, Expr]) -> Expr:
    """Returns the expression with some of its subexpressions replaced."""
    if expr in parts:
        return parts[expr]
    return with_children(expr, [replaced(child, parts) for child in expr.children()])


# Semi join: rows of a source that a matching row of another source precedes.


@dataclass(frozen=True)
class FilterJoin(TwoInputs, facts=Facts("FILTER_JOIN", passes=False, waits=True, outlives="", promise=CARRIED_THROUGH)):
    """Semi join: keeps a left row if a right row with equal keys precedes it by at most `range` (O6).

    Both sides are packets of one link. `_last` of a left row is the last instant at which its match may still come.
    That is the end of the left row's unit of t; for a decreasing t it is the end of the unit t - range.
    """

    keys: tuple[tuple[Expr, Expr], ...]  # pairs of equal expressions (over the left row, over the right row)
    left_time: Expr
    right_time: Expr
    range: int  # the largest distance of two matching rows, in units of the attribute
    items: tuple[Item, ...]
    algorithm: str  # the algorithm that DEFINE asks for, shown by EXPLAIN; it does not change the rows
    place: Place = field(default=(0, 0), compare=False)

    def exprs(self) -> tuple[Expr, ...]:
        ties = [expr for pair in self.keys for expr in pair]
        return written(self.left_time, self.right_time, *ties, *exprs_of(self.items))

    @property
    def computed(self) -> list[Expr]:
        """The keys that are no column."""
        return computed(expr for pair in self.keys for expr in pair)

    def physical(self) -> Physical:
        return Physical("semi join in slices", "rows of a slice wait until a promise passes their window")

    @property
    def time(self) -> Temporal:
        """The temporal property of the attribute t of FILTER_JOIN(t, range)."""
        times = {f"{self.right_alias}.{field.name}": field.temporal for field in self.right.fields if field.temporal}
        time = infer(self.right_time, times)
        assert time is not None
        return time

    def reads_from(self, start: int) -> tuple[int, ...]:
        """Returns the first instants (ns) of the left rows final at `start` and of their possible matches."""
        time = self.time
        if time.origin:
            return 0, 0
        value = time.promise(start)
        left = value if time.increasing else value + self.range
        right = value - self.range if time.increasing else value + self.range
        return max(0, time.first(left)), max(0, time.first(right))

    def ends(self, latest: int) -> list[int]:
        final = self.final(0)
        return [final(latest)] if final else []

    def final(self, port: int) -> Final | None:
        time = self.time
        if port or time.origin:
            return None
        reach = 0 if time.increasing else self.range
        return lambda last: max(last, time.last(time.latest(last) - reach))

    def origins(self) -> tuple[str, ...]:
        """Returns the origin of t where t is a column; else the clock."""
        if not isinstance(self.right_time, Column):
            return ("",)
        name = self.right_time.name.removeprefix(f"{self.right_alias}.")
        return (off_clock([field for field in self.right.fields if field.name == name]),)

    def grain(self) -> int:
        return 0


# Lookup join of a stream with a watch list.


@dataclass(frozen=True)
class WatchJoin(
    OneInput, facts=Facts("WATCHLIST_JOIN", passes=True, waits=False, outlives="", promise=CARRIED_THROUGH)
):
    """Lookup join: pairs a row with the row of a watch list that has its key. The run records the list's hash (S1)."""

    alias: str
    watchlist: str
    watch_alias: str
    file: str
    refresh: int  # period of the old engine's reloads, in seconds
    columns: tuple[Field, ...]  # the columns of the list, as `alias.name`
    keys: tuple[tuple[Expr, str], ...]  # pairs (expression over the input row, column of the list)
    residual: Expr | None  # condition over both rows; None for no condition
    items: tuple[Item, ...]
    place: Place = field(default=(0, 0), compare=False)

    def exprs(self) -> tuple[Expr, ...]:
        return written(*(expr for expr, _ in self.keys), self.residual, *exprs_of(self.items))

    @property
    def computed(self) -> list[Expr]:
        """The keys that are no column."""
        return computed(expr for expr, _ in self.keys)

    def physical(self) -> Physical:
        return Physical("lookup", "each task holds the list in memory, so no row waits")


# Traverses and rebuilds plans, which are graphs because queries share the plans that they read.


def with_inputs(node: Node, inputs: Sequence[Node]) -> Node:
    """Returns the operator over other inputs with the same columns; the operator itself if no input differs."""
    if all(new is old for new, old in zip(inputs, node.inputs(), strict=True)):
        return node
    return node.over(*inputs)


def walk(*roots: Node, done: Container[int] = ()) -> Iterator[Node]:
    """Yields every operator of some plans once, inputs first."""
    seen: set[int] = set()
    stack = [(root, False) for root in reversed(roots)]
    while stack:
        node, ready = stack.pop()
        if ready:
            yield node
        elif id(node) not in seen and id(node) not in done:
            seen.add(id(node))
            stack.append((node, True))
            stack += [(below, False) for below in reversed(node.inputs())]


def outgrows(after: Iterable[Expr], before: Iterable[Expr]) -> bool:
    """Whether expressions are larger than those of which a rule made them, and than EXPRESSION_NODES."""
    nodes = sum(expr.size for expr in after)
    return nodes > limits.EXPRESSION_NODES and nodes > sum(expr.size for expr in before)


def with_columns(expr: Expr, values: Mapping[str, Expr]) -> Expr:
    """Returns the expression with some of its columns replaced by expressions."""
    return rewrite(expr, lambda part: values.get(part.name, part) if isinstance(part, Column) else part)


def substitute(expr: Expr, items: Sequence[Item]) -> Expr:
    """Replaces the columns of an expression by the expressions of a projection's items."""
    return with_columns(expr, {item.name: item.expr for item in items})


def leaves(node: Node) -> list[LftaInput | Cut]:
    """Returns the LFTAs and fragments that a plan reads, without repetition."""
    return [part for part in walk(node) if isinstance(part, LftaInput | Cut)]


def with_leaves(root: Node, others: Mapping[str, Node]) -> Node:
    """Returns a plan with other nodes in place of some leaves, by the names of the leaves."""
    made: dict[int, Node] = {}
    for node in walk(root):
        if isinstance(node, LftaInput | Cut):
            made[id(node)] = others.get(leaf_name(node), node)
        else:
            made[id(node)] = with_inputs(node, [made[id(below)] for below in node.inputs()])
    return made[id(root)]


def leaf_name(node: LftaInput | Cut) -> str:
    """Returns the name of the LFTA or fragment that a leaf reads."""
    return node.lfta.name if isinstance(node, LftaInput) else node.name


def lftas_of(*nodes: Node) -> list[Lfta]:
    """Returns the LFTAs below high plans, without repetition, in order of first use.
    Raises LawError if two LFTAs have the same name."""
    lftas: dict[str, Lfta] = {}
    for node in walk(*nodes):
        if isinstance(node, LftaInput) and lftas.setdefault(node.lfta.name, node.lfta) != node.lfta:
            raise errors.LawError(f"two LFTAs are called {node.lfta.name}")
    return list(lftas.values())

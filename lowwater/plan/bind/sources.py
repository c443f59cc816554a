"""Bound sources of a statement and the names of its output columns; and their windows: RANGE, SLIDE and WA."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from operator import add, mul, sub

from lowwater.catalog import expr as ex, native, protocols, records
from lowwater.errors import QueryError, nearest
from lowwater.gsql import nodes as syntax, words
from lowwater.gsql.printer import print_expression
from lowwater.plan.bind import durations
from lowwater.plan.bind.expressions import Scope
from lowwater.plan.operators import (
    Bucket,
    Field,
    Item,
    Join,
    JoinKind,
    Map,
    Node,
    Source,
    UniqueNames,
    make_fields,
    temporals,
)
from lowwater.plan.properties import ROW
from lowwater.plan.temporal import CLOCK, Step, Temporal, infer
from lowwater.plan.text import Text, place_of, spot


@dataclass(frozen=True)
class BoundSource:
    """One source of a statement: its stream, and the columns that expressions may name."""

    alias: str
    node: Node
    columns: Mapping[str, ex.Expr]  # column name -> expression over the rows of the stream
    window: syntax.Window | None = None  # the window after the source; None if there is none
    # temporal column -> ns per unit, for columns not derived from the clock; None if the unit is unknown
    units: Mapping[str, int | None] = field(default_factory=dict)
    assumed: bool = False  # whether the source counts as a link only because nothing else has its name
    hidden: frozenset[str] = frozenset()  # columns that `*` omits

    @property
    def links(self) -> tuple[str, ...]:
        """The links that the source reads; empty for the stream of a query."""
        return self.node.links if isinstance(self.node, Source) else ()

    def shown(self) -> list[str]:
        return [name for name in self.whole() if name not in self.hidden]

    def whole(self) -> list[str]:
        """Returns all columns, without the aliases of packet columns."""
        # A declared protocol does not name the link, so two such protocols have equal columns only without it.
        unnamed = self.hidden & {protocols.LINK}
        return [name for name in self.columns if self.canonical(name) == name and name not in unnamed]

    def canonical(self, name: str) -> str:
        """Returns the first name of a packet column that has several names; any other name unchanged."""
        other = protocols.ALIASES.get(name, name)
        same = isinstance(self.node, Source) and other in self.columns and self.columns[other] == self.columns[name]
        return other if same else name

    def time_units(self) -> dict[str, Fraction]:
        """Maps each temporal column of the stream to its unit in ns; without columns of unknown unit."""
        return durations.units_of(self.node.fields, self.units)

    def stream(self, query: str, predicate: ex.Expr | None = None, names: Sequence[str] | None = None) -> Node:
        """Builds the stream of the source with a filter and a projection. The rows of a query are only filtered.
        `names`: columns of packets to keep; None keeps those that `*` stands for."""
        if not isinstance(self.node, Source):
            if predicate is None:
                return self.node
            keep = [Item(f.name, ex.Column(f.type, f.name)) for f in self.node.fields]
            return make_map(query, self.node, predicate, keep)
        chosen = self.shown() if names is None else names
        return make_map(query, self.node, predicate, [Item(n, self.columns[n]) for n in chosen])


def source_fields(protocol: protocols.Protocol) -> tuple[Field, ...]:
    """Returns the stored columns of a protocol, with the progress of its temporal attributes (SEMANTICS T8)."""
    times = {attribute.name: _progress(protocol, attribute) for attribute in protocol.attributes}
    declared = protocol.declared
    return tuple(Field(n, t, times.get(n), declared.get(n, "")) for n, t in protocol.stored.items())


def _progress(protocol: protocols.Protocol, attribute: protocols.Attribute) -> Temporal:
    time = CLOCK if attribute.clock else Temporal(((),), f"{protocol.name}.{records.field_name(attribute.name)}")
    if attribute.clock and attribute.unit != 1:
        time = time.then(Step("div", attribute.unit or protocols.SECOND))
    return time.then(Step("neg")) if attribute.decreasing else time


def timeless(node: Node) -> str:
    """Hint for a stream without a temporal column."""
    if isinstance(node, Source):
        return "declare one in its PROTOCOL: uint time get_csv_uint_pos1 (increasing);"
    if isinstance(node, Join):
        return _timeless_join(node)
    return "select one, such as time, in the query that is read"


def _timeless_join(join: Join) -> str:
    sides = zip((join.window.left, join.window.right), join.window.present(join.kind), strict=True)
    if temporal := [side for side, present in sides if present]:
        names = " or ".join(ex.show(side) for side in temporal)
        return f"select {names} in {join.query}: only what a join matches by is temporal, on a side that no row lacks"
    if not join.window.equality:
        return f"match by an equality of times in {join.query}: an {join.kind} by a band has no temporal column"
    left, right = ex.show(join.window.left), ex.show(join.window.right)
    whole = f"CASE WHEN {left} IS NOT NULL THEN {left} ELSE {right} END"
    return f"select {whole} in {join.query}, or the column of USING: either side may be missing"


def make_map(query: str, source: Node, predicate: ex.Expr | None, items: Sequence[Item]) -> Map:
    """Builds the selection and projection of a stream."""
    fields = make_fields(items, temporals(source.fields))
    return Map(query, fields, narrow(source, predicate, *(item.expr for item in items)), predicate, tuple(items))


def narrow(node: Node, *exprs: ex.Expr | None) -> Node:
    """Removes unused columns from a packet source, also below a Bucket. Returns any other stream unchanged."""
    if isinstance(node, Bucket):
        below = narrow(node.input, *exprs, node.attribute, *(item.expr for item in node.partition), node.counted)
        names = {f.name for f in below.fields}
        input_width = len(node.input.fields)
        fields = tuple(f for at, f in enumerate(node.fields) if at >= input_width or f.name in names)
        return replace(node, input=below, fields=fields)
    if not isinstance(node, Source):
        return node
    used = set(ex.columns_of(*exprs))
    return replace(node, fields=tuple(f for f in node.fields if f.name in used))


def name_items(written: Sequence[syntax.SelectItem], bound: Sequence[ex.Expr], text: Text) -> list[Item]:
    """Names the select items: by their alias, else by the rules of GSQL. A name that is taken, in any case, gets 1, 2,
    ... appended."""
    items: list[Item] = []
    names = UniqueNames()
    for position, (item, expr) in enumerate(zip(written, bound, strict=True)):
        name = item.alias or default_name(item.expression, position)
        if name.startswith("_") and not item.hidden:
            raise text.error(place_of(item), f"{name}: names that begin with _ are Lowwater's own")
        items.append(Item(names.unique(name), expr))
    return items


def default_name(node: syntax.Expression, position: int) -> str:
    """Returns the name of a select item without an alias (shared rules of GSQL, section 2)."""
    if isinstance(node, syntax.Over):
        return default_name(node.call, position)
    if isinstance(node, syntax.Name):
        return node.name
    if isinstance(node, syntax.Literal):
        return "Literal"
    if isinstance(node, syntax.Parameter):
        return f"Param_{node.name}"
    if isinstance(node, syntax.Property):
        return f"Iparam_{node.name}"
    if isinstance(node, syntax.Call):
        if node.star:
            return "Cnt"
        argument = node.arguments[0] if node.arguments else None
        name = node.name.upper() if node.name in native.NATIVE else node.name
        return f"{name}_{argument.name if isinstance(argument, syntax.Name) else 'SE'}"
    return f"Field{position}"


def expand_stars(
    items: Sequence[syntax.SelectItem], sources: Sequence[BoundSource], text: Text, using: Sequence[syntax.Name] = ()
) -> list[syntax.SelectItem]:
    """Replaces `*` and `alias.*` by the columns that they stand for, in the order of the source; in `*` the columns of
    USING come once and first.
    Raises QueryError: `alias.*` names no source."""
    expanded: list[syntax.SelectItem] = []
    for item in items:
        star = item.expression
        if not isinstance(star, syntax.Star):
            expanded.append(item)
            continue
        chosen = [source for source in sources if star.qualifier in ("", source.alias)]
        if not chosen:
            raise text.error(star.place, f"no source is called {star.qualifier}")
        merged = [] if star.qualifier else [name.name for name in using]
        expanded += [syntax.SelectItem(syntax.Name(name, "", star.place), "", star.place) for name in merged]
        for source in chosen:
            names = (syntax.Name(name, source.alias, star.place) for name in source.shown() if name not in merged)
            expanded += [syntax.SelectItem(name, "", star.place) for name in names]
    return expanded


# Windows. Window w of an attribute holds the values v with w*SLIDE <= v < w*SLIDE + RANGE, counted from the epoch. If
# RANGE equals SLIDE, the window is a plain epoch (002, sections 4.1, 5.2 and Figure A-2).

NUMBER = "_window"
"""Name of the column with the number of the window."""

ROWS = ("row", "rows", "tuple", "tuples")


@dataclass(frozen=True)
class Windowed:
    """A stream divided into windows."""

    node: Node
    number: Item  # group-by variable with the number of the window, over the rows of `node`
    visible: dict[str, ex.Expr]  # `window_start`, `window_end` and `wid` -> expression over the groups
    partition: tuple[Item, ...] = ()


def bind_window(query: str, window: syntax.Window, source: BoundSource, scope: Scope) -> Windowed:
    """Binds the window of an aggregation over one stream.
    Raises QueryError if a part is missing, the attribute is not temporal, or a duration has no known unit."""
    text = scope.text
    if window.range is None:
        raise text.error(window.place, "a window needs a RANGE", "[RANGE 5 min, SLIDE 1 min, WA time]")
    if window.range.unit.lower() in ROWS:
        return _rows(query, window, source, scope)
    if window.partition:
        raise text.error(window.place, "PARTITION BY goes with windows of rows", "write the columns into GROUP BY")
    if window.counted is not None:
        hint = "write the condition into the WHERE behind FROM"
        raise text.error(place_of(window.counted), "WHERE in a window goes with windows of rows", hint)
    attribute, time = bind_attribute(window, source, scope)
    reach = length(window.range, attribute, time, source, text)
    slide = length(window.slide, attribute, time, source, text) if window.slide else reach
    if not window.range.unit and (note := durations.brief(reach, _unit(attribute, time, source), ex.show(attribute))):
        scope.names.notes[spot(window)] = f"the window is very short: {note}"
    if reach == slide:
        number = ex.Binary(ex.Type.INT, "/", attribute, ex.Const(ex.Type.INT, slide))
        return Windowed(source.node, Item(NUMBER, number), _visible(slide, reach))
    if not time.increasing:
        hint = "select its negative in a query that is read, such as -t AS u, and slide over that"
        raise text.unsupported(window.place, "a sliding window over a decreasing attribute", hint)
    tagged = Field(NUMBER, ex.Type.INT, numbered(time, reach, slide))
    fields = (*source.node.fields, tagged)
    node = Bucket(query, fields, source.node, attribute, reach, slide, NUMBER, place=spot(window))
    return Windowed(node, Item(NUMBER, ex.Column(ex.Type.INT, NUMBER)), _visible(slide, reach))


def numbered(time: Temporal, reach: int, slide: int) -> Temporal:
    """Returns the progress of the window number: the lowest and the highest window that hold a value. Its promise is
    the first open window, its `last` the end of a window, its `first` the start."""
    ahead = -(-reach // slide)
    opens = time.then(Step("add", ahead * slide - reach), Step("div", slide), Step("add", 1 - ahead))
    begins = time.then(Step("div", slide))
    progress = opens.joined(begins) if reach >= slide else opens
    return replace(progress, own=begins.chains)


def _visible(slide: int, reach: int) -> dict[str, ex.Expr]:
    number = ex.Column(ex.Type.INT, NUMBER)
    start = ex.Binary(ex.Type.INT, "*", number, ex.Const(ex.Type.INT, slide))
    end = ex.Binary(ex.Type.INT, "+", start, ex.Const(ex.Type.INT, reach))
    return {"wid": number, "window_start": start, "window_end": end}


def _rows(query: str, window: syntax.Window, source: BoundSource, scope: Scope) -> Windowed:
    text = scope.text
    if not isinstance(source.node, Source):
        message = "rows are counted on links, and this is the stream of a query"
        raise text.error(window.place, message, "put the window into the query that reads the links")
    if window.attribute is not None:
        raise text.error(window.attribute.place, "a window of rows has no WA: it counts the records of its links")
    reach, slide = _count(window.range, text), _count(window.slide or window.range, text)
    node = replace(source.node, fields=(*source.node.fields, Field(ROW, ex.Type.INT, Temporal(((),), "rows"))))
    partition = tuple(Item(name.name, scope.bind(name)) for name in window.partition)
    counted = scope.predicate(window.counted, "WHERE in a window") if window.counted is not None else None
    number = Field(NUMBER, ex.Type.INT, numbered(Temporal(((),), "rows"), reach, slide))
    attribute = ex.Column(ex.Type.INT, ROW)
    fields = (*node.fields, number)
    tagged = Bucket(query, fields, node, attribute, reach, slide, NUMBER, True, partition, counted, spot(window))
    return Windowed(tagged, Item(NUMBER, ex.Column(ex.Type.INT, NUMBER)), _visible(slide, reach), partition)


def _count(extent: syntax.Extent | None, text: Text) -> int:
    assert extent is not None
    if extent.unit.lower() not in ROWS or not isinstance(extent.value, int) or extent.value <= 0:
        raise text.error(extent.place, "RANGE and SLIDE count rows together", "write [RANGE 100 ROWS, SLIDE 10 ROWS]")
    return extent.value


def bind_attribute(window: syntax.Window, source: BoundSource, scope: Scope) -> tuple[ex.Expr, Temporal]:
    """Binds the attribute of a window: WA, else the only temporal column of the source."""
    text, times = scope.text, temporals(source.node.fields)
    if window.attribute is None:
        names = [f.name for f in source.node.fields if f.temporal]
        if len(names) != 1 or names[0] not in source.columns:
            hint = _choice([name for name in names if name in source.columns], source.node)
            raise text.error(window.place, "the window does not say which attribute it slides over", hint)
        attribute = scope.bind(syntax.Name("time" if "time" in source.columns else names[0], source.alias))
    else:
        attribute = scope.bind(window.attribute)
    time = infer(attribute, times)
    if time is None or attribute.type is not ex.Type.INT:
        place = window.attribute.place if window.attribute else window.place
        temporal_names = [
            name if len(scope.sources) == 1 else f"{alias}.{name}"
            for alias, columns in scope.sources.items()
            for name, expr in columns.items()
            if infer(expr, times)
        ]
        hint = nearest(window.attribute.name, temporal_names) if window.attribute else ""
        hint = hint or _choice(temporal_names, source.node)
        raise text.error(place, "the attribute of a window must be temporal", hint)
    return attribute, time


def _choice(temporal_names: Sequence[str], node: Node) -> str:
    """Hint that suggests a temporal column for WA."""
    return f"write WA {'time' if 'time' in temporal_names else temporal_names[0]}" if temporal_names else timeless(node)


def length(extent: syntax.Extent, attribute: ex.Expr, time: Temporal, source: BoundSource, text: Text) -> int:
    """Converts RANGE or SLIDE to units of the attribute. Raises QueryError if the length is not a whole number of units
    above 0, or the unit of the attribute is unknown. `extent`: number and unit as written; without a unit, the number
    counts units of the attribute."""
    unit = extent.unit.lower()
    if not unit:
        value = Fraction(repr(extent.value))
    elif unit not in words.UNITS:
        raise text.error(extent.place, f"{extent.unit} is no unit", nearest(unit, (*words.UNITS, *ROWS)))
    else:
        attribute_unit = _unit(attribute, time, source)
        if attribute_unit is None:
            hint = "write the RANGE as a number in the attribute's own unit, or declare `unit 's'` in its PROTOCOL"
            raise text.error(extent.place, "a duration needs an attribute whose unit is known", hint)
        value = words.nanoseconds(extent.value, unit) / attribute_unit
    if value != int(value) or not 0 < value < 1 << 62:
        raise text.error(extent.place, "RANGE and SLIDE are whole numbers of the attribute's unit, above 0")
    return int(value)


def _unit(attribute: ex.Expr, time: Temporal, source: BoundSource) -> Fraction | None:
    """Returns the unit of the attribute in ns; None if it is unknown."""
    scale = durations.unit_of(time)
    declared = [source.units[name] for name in ex.columns_of(attribute) if name in source.units]
    if None in declared or scale is None or (time.origin and not declared):
        return None
    return scale * (declared[0] or 1) if time.origin else scale


# GROUP BY without an epoch

_FOLDED: dict[str, Callable[[int, int], int]] = {"+": add, "-": sub, "*": mul}


def endless(
    statement: syntax.Select, written: Sequence[syntax.SelectItem], rows: Scope, node: Node, keys: Sequence[Item]
) -> QueryError:
    """Builds the error of an aggregation without a temporal group-by variable."""
    inside = [group for group in statement.group_by if isinstance(group, syntax.Grouping)]
    if inside:
        hint = f"write the epoch beside {inside[0].kind}: GROUP BY time/60 AS tb, {inside[0].kind}(...)"
        message = f"no group-by variable outside {inside[0].kind} is temporal, so no group would ever close"
        return rows.text.error(place_of(statement), message, hint)
    times = temporals(node.fields)
    for item, key in zip(written, keys, strict=False):
        if fault := _no_epoch(key.expr, times):
            message = f"{print_expression(item.expression)} is no epoch, since {fault}: no group would ever close"
            return rows.text.error(place_of(item), message, "divide by a whole number above 0, such as time/60 AS tb")
        if missing := _missing_epoch(key.expr, node) if isinstance(node, Join) else None:
            message = f"{print_expression(item.expression)} is no epoch, since {missing[0]}: no group would ever close"
            return rows.text.error(place_of(item), message, missing[1])
    several = len(rows.sources) > 1
    temporal = [
        f"{alias}.{name}" if several else name
        for alias, source in rows.sources.items()
        for name, expr in source.items()
        if infer(expr, times)
    ]
    if not temporal:
        message = "no column of the source is temporal, so no group would ever close"
        return rows.text.error(place_of(statement), message, timeless(node))
    time = next((name for name in temporal if name.rpartition(".")[2] == "time"), "")
    example = f"{time}/60 AS tb" if time else temporal[0]
    if statement.distinct:
        message = "no column of SELECT DISTINCT is temporal, so no row would ever be final"
        return rows.text.error(place_of(statement), message, f"select an epoch too, such as {example}")
    message = "no group-by variable is temporal, so no group would ever close"
    return rows.text.error(place_of(statement), message, f"add an epoch to GROUP BY, such as {example}, or a window")


def _missing_epoch(key: ex.Expr, join: Join) -> tuple[str, str] | None:
    """Explains why a time of a side that may be missing is no epoch of the joined rows, and what is one; None if the
    key is no such time."""
    window = join.window
    sides = (window.left, window.left_time, window.right), (window.right, window.right_time, window.left)
    for own, time, other in sides:
        names = {item.name for item in join.items if item.expr == own}
        if names and infer(key, dict.fromkeys(names, time)):
            fault = f"{ex.show(own)} is NULL in rows without a match"
            if join.kind is not JoinKind.OUTER:
                return fault, f"take {ex.show(other)} in {join.query}: only a side that no row lacks closes groups"
            if not window.equality:
                return (
                    fault,
                    f"match by an equality of times in {join.query}, and take the column of USING: a band closes none",
                )
            whole = f"CASE WHEN {ex.show(own)} IS NOT NULL THEN {ex.show(own)} ELSE {ex.show(other)} END"
            return fault, f"take {whole} in {join.query}, or the column of USING: either side may be missing"
    return None


def _number(expr: ex.Expr) -> int | None:
    """Computes a sum, difference or product of whole numbers; None for any other expression."""
    if isinstance(expr, ex.Const):
        return expr.value if type(expr.value) is int else None
    parts = [_number(child) for child in expr.children()]
    if isinstance(expr, ex.Unary) and expr.op == "-" and parts[0] is not None:
        return -parts[0]
    if isinstance(expr, ex.Binary) and expr.op in _FOLDED and parts[0] is not None and parts[1] is not None:
        return _FOLDED[expr.op](parts[0], parts[1])
    return None


def _no_epoch(key: ex.Expr, times: dict[str, Temporal]) -> str:
    """Explains why arithmetic on a temporal column yields no epoch; empty if it finds no fault."""
    for part in ex.walk(key):
        if isinstance(part, ex.Binary) and part.op in ("*", "/") and infer(part.left, times):
            if part.right.type is ex.Type.FLOAT:
                return "it is no integer"
            number = _number(part.right)
            if number == 0:
                return "it divides by 0" if part.op == "/" else "it is always 0"
            if number is not None and not isinstance(part.right, ex.Const):
                return f"{ex.show(part.right)} is not written as one number, {number}"
    return ""

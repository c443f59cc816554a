"""A statement of SQL as a standing query of GSQL, where the rows are the same.

`sql` offers the text. A statement is taken only if every construct of it means the same in both: one source of packets,
words of a list, no order of addresses, which are texts in SQL. The planner checks what is left. The rows of a standing
query lack packets that come later than the skew of their link; otherwise they are those of the statement.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa

from lowwater.catalog import expr as ex
from lowwater.catalog.protocols import PROTOCOLS
from lowwater.errors import LowwaterError
from lowwater.gsql import nodes as syntax
from lowwater.gsql.parser import parse
from lowwater.gsql.printer import print_name
from lowwater.instants import SECOND
from lowwater.plan import operators as ops
from lowwater.plan.bind.durations import length_of
from lowwater.plan.context import Context
from lowwater.plan.queryset import Plan, plan_texts
from lowwater.replay import checks

NAME = "kept"
"""Name of the query that is offered."""

_TOKEN = re.compile(
    r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|//|[A-Za-z_]\w*|(?:\d[\d.]*|\.\d+)\w*|\s+|.", re.S
)

_SAME = {
    "abs", "avg", "coalesce", "count", "date_part", "date_trunc", "greatest", "least", "lower", "max", "min", "nullif",
    "quantile_cont", "quantile_of", "stddev_pop", "stddev_samp", "sum", "time_bucket", "upper", "var_pop", "var_samp",
}  # fmt: skip
"""Functions that give the same in both, by their name in GSQL."""

_ORIGIN = 10_959 * 86_400 * SECOND
"""Instant from which DuckDB counts buckets, ns: 2000-01-03. Ours are counted from 1970, so widths must divide it."""

_KINDS = {
    ex.Type.INT: "number", ex.Type.FLOAT: "float", ex.Type.BOOL: "bool", ex.Type.STRING: "text", ex.Type.IP: "text",
    ex.Type.MAC: "text", ex.Type.INSTANT: "instant",
}  # fmt: skip


def standing_query(text: str, schema: pa.Schema, context: Context) -> str:
    """Returns the query of GSQL with the rows of a statement; empty if there is none.

    Args:
        schema: columns of the statement.
        context: names that a query may use; its links are those of the views.
    """
    try:
        written = _translated(text, context)
        if not written:
            return ""
        query = f"DEFINE {{ query_name '{NAME}'; }}\n{written}\n"
        if not _is_plain(query):
            return ""
        plan = plan_texts([("statement.gsql", query)], context.links, None, context)
        checks.require_lowered(plan, "process")
    except (LowwaterError, RecursionError):
        return ""
    return query if _alike(plan, schema) else ""


def _translated(text: str, context: Context) -> str:
    """Writes a statement in the spelling of GSQL; empty if it is none over one view of packets."""
    tokens = [token for token in _TOKEN.findall(text) if not token.startswith(("--", "/*"))]
    while tokens and (tokens[-1].isspace() or tokens[-1] == ";"):
        tokens.pop()
    if [token.upper() for token in tokens].count("SELECT") != 1:
        return ""
    tokens = _unordered(tokens)
    # `/` of whole numbers gives a fraction in SQL, and `//` is what `/` is here.
    spelled = ["/" if token == "//" else "* 1.0 /" if token == "/" else token for token in tokens]
    at = _from(spelled)
    if at < 0:
        return ""
    names = [number for number in range(at + 1, len(spelled)) if not spelled[number].isspace()][:3]
    first, *rest = (spelled[number] for number in names) if names else ("",)
    link = first[1:-1].replace('""', '"') if first.startswith('"') else first
    known = context.links.names or ()
    if link in known:
        spelled[names[0]] = print_name(link) if rest[:1] == ["."] else f"{print_name(link)}.ETH"
    elif link not in PROTOCOLS or rest[:1] == ["."]:
        return ""
    return "".join(spelled).strip()


def _from(tokens: list[str]) -> int:
    """The place of the only FROM outside of parentheses; -1 if there is none, or several."""
    depth, found = 0, []
    for at, token in enumerate(tokens):
        depth += (token == "(") - (token == ")")
        if depth == 0 and token.upper() == "FROM" and "DISTINCT" not in _word_before(tokens, at):
            found.append(at)
    return found[0] if len(found) == 1 else -1


def _word_before(tokens: list[str], at: int) -> str:
    return next((token.upper() for token in reversed(tokens[:at]) if not token.isspace()), "")


def _unordered(tokens: list[str]) -> list[str]:
    """Leaves out the order of all rows, which changes none of them."""
    depth = 0
    for at in reversed(range(len(tokens))):
        depth += (tokens[at] == ")") - (tokens[at] == "(")
        word = tokens[at].upper()
        if depth == 0 and word == "ORDER":
            return tokens[:at]
        if depth == 0 and word in ("LIMIT", "OFFSET", "QUALIFY", "FROM", "WHERE", "GROUP", "HAVING", "WINDOW"):
            break
    return tokens


def _is_plain(query: str) -> bool:
    """Whether a text is one SELECT of one source, of words that mean the same in SQL."""
    (statement,) = parse(query, "statement.gsql").statements
    if not isinstance(statement, syntax.Select) or len(statement.sources) != 1:
        return False
    return all(map(_is_same, _nodes(statement)))


def _nodes(node: object) -> Iterator[object]:
    """Yields a node of the syntax tree and all below it."""
    yield node
    children = node if isinstance(node, tuple) else vars(node).values() if hasattr(node, "__dataclass_fields__") else ()
    for child in children:
        yield from _nodes(child)


def _is_same(node: object) -> bool:
    if isinstance(node, syntax.Call):
        if node.over or node.brackets or node.name.lower() not in _SAME:
            return False
        widths = [length for each in node.arguments if (length := length_of(each)) is not None]
        words = {str(each.value).lower() for each in node.arguments if isinstance(each, syntax.Literal)}
        return all(_ORIGIN % int(width) == 0 for width in widths) and "week" not in words
    never = (syntax.Over, syntax.Star, syntax.Parameter, syntax.Property, syntax.Defined, syntax.Like)
    return not isinstance(node, never)


def _alike(plan: Plan, schema: pa.Schema) -> bool:
    """Whether the rows of a plan have the types of a statement, and nothing depends on an order of addresses."""
    (query,) = plan.queries
    fields = query.logical.fields
    if [_KINDS.get(field.type) for field in fields] != [_kind(each.type) for each in schema]:
        return False
    addresses = (ex.Type.IP, ex.Type.MAC)
    for node in ops.walk(query.logical):
        for part in (part for each in node.exprs() for part in ex.walk(each)):
            if isinstance(part, ex.Binary) and part.op in ("<", ">", "<=", ">=") and part.left.type in addresses:
                return False
        if isinstance(node, ops.Top) and any(order.expr.type in addresses for order in node.order):
            return False
        if isinstance(node, ops.Aggregation) and any(
            each.function in ("min", "max") and each.type in addresses for each in node.all_aggregates
        ):
            return False
    return True


def _kind(kind: pa.DataType) -> str:
    is_whole = pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and kind.scale == 0)
    tests = (
        ("number", is_whole),
        ("float", pa.types.is_floating(kind)),
        ("bool", pa.types.is_boolean(kind)),
        ("text", pa.types.is_string(kind) or pa.types.is_large_string(kind)),
        ("instant", pa.types.is_timestamp(kind)),
    )
    return next((name for name, holds in tests if holds), "")

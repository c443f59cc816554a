"""Contents of EXPLAIN as data: `describe` computes them once; `text` and this module render them.

The operators of a query stand in one list, outputs first, and name their inputs by position. So long chains of queries
do not nest. The JSON omits an attribute with its default value.
"""

from __future__ import annotations

import json
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from inspect import getdoc
from types import NoneType, UnionType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

# Columns, promises and windows


@dataclass(frozen=True)
class Progress:
    """The temporal property of a column."""

    direction: Annotated[str, "`increasing` or `decreasing`."]
    steps: Annotated[
        tuple[str, ...],
        "the computations of the value from the clock (ns) as GSQL, such as `clock/1000000000/60`. The promise is "
        "the least of their results; for a decreasing column the greatest.",
    ]
    origin: Annotated[str, "the attribute at the start of the steps, if it is no function of the clock."] = ""


@dataclass(frozen=True)
class ColumnInfo:
    """A column of a stream."""

    name: Annotated[str, "name of the column."]
    type: Annotated[str, "bool, int, float, ip, mac or string."]
    progress: Annotated[Progress | None, "the temporal property; null for a column without progress."] = None


@dataclass(frozen=True)
class Named:
    """An expression with the name of its output column."""

    name: Annotated[str, "name of the output column."]
    expression: Annotated[str, "the expression as GSQL."]


@dataclass(frozen=True)
class PunctuationInfo:
    """The promises of an operator."""

    columns: Annotated[
        tuple[str, ...], "the promised columns, in order; empty if only the clock of the operator makes progress."
    ]
    joint: Annotated[bool, "whether one punctuation row promises all columns together."]
    reason: Annotated[str, "why the operator promises these columns."]
    groupwise: Annotated[tuple[str, ...], "columns with separate promises for their values."] = ()


@dataclass(frozen=True)
class Match:
    """The match condition of a join."""

    kind: Annotated[str, "`equality` or `band`."]
    condition: Annotated[str, "the condition of the match window as GSQL."]
    left_promise: Annotated[
        str, "the promise of joined rows for the left attribute, computed from the promises of both sides (P4)."
    ]
    right_promise: Annotated[str, "the promise of joined rows for the right attribute (P4)."]
    equalities: Annotated[tuple[str, ...], "the further equalities; NULL equals NULL."] = ()
    residual: Annotated[str, "the further condition over both rows."] = ""


@dataclass(frozen=True)
class Sliding:
    """A sliding window."""

    attribute: Annotated[str, "the attribute that the window slides over."]
    range: Annotated[int, "length of the window, in units of the attribute."]
    slide: Annotated[int, "distance between the starts of two windows, in units of the attribute."]
    rows: Annotated[bool, "whether the attribute counts rows."] = False
    partition: Annotated[tuple[str, ...], "columns of the partition; every partition counts its rows separately."] = ()
    counted: Annotated[str, "condition of the rows that are counted; empty for all rows."] = ""


VERSION = 1


@dataclass(frozen=True)
class OperatorInfo:
    """One operator of the high level, or the stream of another query that it reads."""

    kind: Annotated[
        str,
        "selection, aggregation, running aggregation, sampling, top rows, rows before, filling, windows, grouping "
        "sets, merge, or GSQL's keyword of a join. `lfta` stands for the rows of an LFTA, `stream` for the rows of a "
        "query with its own description.",
    ]
    query: Annotated[str, "name of the query that the operator belongs to."]
    physical: Annotated[str, "the physical operator that runs it."]
    reason: Annotated[str, "why the planner chose the physical operator."]
    inputs: Annotated[tuple[int, ...], "positions of the inputs in the list of operators."]
    columns: Annotated[tuple[ColumnInfo, ...], "the columns of the output rows."]
    punctuation: Annotated[PunctuationInfo, "the promises of the operator."]
    reads: Annotated[str, "name of the LFTA, query or watch list that the operator reads."] = ""
    links: Annotated[tuple[str, ...], "the links of the LFTA; `*` is every link."] = ()
    predicate: Annotated[str, "condition of WHERE over the input rows."] = ""
    items: Annotated[tuple[Named, ...], "the select items."] = ()
    keys: Annotated[tuple[Named, ...], "the group-by variables."] = ()
    aggregates: Annotated[
        tuple[Named, ...], "the aggregates, with the names by which HAVING and the select items read them."
    ] = ()
    having: Annotated[str, "condition of HAVING over the groups."] = ""
    closing: Annotated[str, "condition of CLOSING_WHEN, which ends a running group."] = ""
    supergroup: Annotated[tuple[str, ...], "group-by variables whose groups share states and superaggregates."] = ()
    supers: Annotated[tuple[Named, ...], "the superaggregates."] = ()
    cleaning_when: Annotated[str, "condition that starts a cleaning."] = ""
    cleaning_by: Annotated[str, "condition of the groups that a cleaning keeps."] = ""
    states: Annotated[tuple[str, ...], "the stateful functions."] = ()
    aliases: Annotated[tuple[str, ...], "range variables of the inputs."] = ()
    match: Annotated[Match | None, "the match window of a join."] = None
    lookup: Annotated[str, "keys and further conditions of a lookup join or semi join."] = ""
    window: Annotated[Sliding | None, "the sliding window."] = None
    sets: Annotated[tuple[tuple[str, ...], ...], "the grouping sets."] = ()
    fill: Annotated[str, "which groups an epoch without rows has, as FILL says it."] = ""
    over: Annotated[tuple[str, ...], "columns of the rows before each row, as OVER says them."] = ()
    first: Annotated[str, "which rows of each epoch are kept, as ORDER BY, LIMIT and PER say it."] = ""
    high: Annotated[str, "why the low level does not run the operator, or not all of it."] = ""


@dataclass(frozen=True)
class ReadRange:
    """Read range: how far before an interval that begins on the hour a query reads an LFTA."""

    lfta: Annotated[str, "name of the LFTA."]
    before: Annotated[
        int | None, "ns before the interval; null if the query reads from the beginning of the chain of intervals."
    ]


@dataclass(frozen=True)
class CutInfo:
    """A separate evaluation whose rows are an input of the evaluation of an output."""

    operator: Annotated[str, "kind of the operator whose rows are replayed."]
    of: Annotated[str, "name of the query that the operator belongs to."]
    reader: Annotated[str, "kind of the operator that reads the replayed rows."]
    reason: Annotated[str, "why one evaluation cannot run both operators."]


@dataclass(frozen=True)
class SharesInfo:
    """What divides the rows of an evaluation into parts that run side by side."""

    keys: Annotated[
        tuple[str, ...], "expressions: rows with equal values of all of them are in one part; empty for none."
    ]
    reason: Annotated[str, "what asks for these keys, or why there are none."]
    anywhere: Annotated[bool, "whether any rows may be a part."] = False


@dataclass(frozen=True)
class QueryInfo:
    """A query of the query set."""

    name: Annotated[str, "name of the query."]
    file: Annotated[str, "the file with the text of the query."]
    output: Annotated[bool, "whether the rows of the query are published; else only other queries read them."]
    text: Annotated[str, "canonical GSQL of the query."]
    within: Annotated[str, "name of the query that describes this query in place; else empty."] = ""
    notes: Annotated[tuple[str, ...], "remarks about the text of the query."] = ()
    parameters: Annotated[tuple[str, ...], "the parameters without a value, with their types."] = ()
    operators: Annotated[
        tuple[OperatorInfo, ...],
        "the operators of the high level, output first; empty if another query describes this query in place.",
    ] = ()
    cut: Annotated[str, "the work below and above the cut between the levels."] = ""
    lftas: Annotated[tuple[str, ...], "names of the LFTAs that the query reads."] = ()
    high: Annotated[str, "the high level as GSQL; empty if an LFTA alone computes the query."] = ""
    again: Annotated[
        tuple[str, ...], "queries with their own description that the evaluation of this output computes again."
    ] = ()
    parts: Annotated[
        tuple[CutInfo, ...], "the evaluations that run before the evaluation of the output, in order."
    ] = ()
    shares: Annotated[
        tuple[SharesInfo, ...],
        "what divides a slice of time that has many rows, one step after another; rows are exchanged between two "
        "steps.",
    ] = ()
    state: Annotated[
        tuple[str, ...], "why intervals of the query run in order; empty if they can run in any order."
    ] = ()
    reads: Annotated[tuple[ReadRange, ...], "the read ranges of the LFTAs."] = ()


@dataclass(frozen=True)
class SignatureInfo:
    """Prefilter bits that a packet needs for one LFTA on some links."""

    links: Annotated[tuple[str, ...], "names of the links; `*` is every link."]
    bits: Annotated[tuple[int, ...], "positions of the bits that a packet must have."]
    mask: Annotated[str, "the bits as a hexadecimal number."]
    rest: Annotated[str, "the part of the predicate that the bits do not cover."] = ""


@dataclass(frozen=True)
class LftaInfo:
    """A low-level query node (LFTA)."""

    name: Annotated[str, "name of the LFTA."]
    kind: Annotated[str, "`selection` or `aggregation`."]
    links: Annotated[tuple[str, ...], "names of the links; `*` is every link."]
    protocol: Annotated[str, "name of the protocol."]
    records: Annotated[str, "kind of the records: pcap, csv or other."]
    gsql: Annotated[str, "the LFTA as GSQL."]
    columns: Annotated[tuple[ColumnInfo, ...], "the columns of the output rows."]
    punctuation: Annotated[PunctuationInfo, "the promises of the LFTA."]
    granularity: Annotated[int, "ns of the clock between two punctuations that a reader can use."]
    asked_by: Annotated[str, "the operator or query that needs this granularity."]
    member: Annotated[str, "condition of the protocol's records; empty for all records."] = ""
    predicate: Annotated[str, "condition over stored columns; empty for all records."] = ""
    keys: Annotated[tuple[Named, ...], "output columns over stored columns."] = ()
    partials: Annotated[tuple[Named, ...], "partial aggregates."] = ()
    slots: Annotated[int, "size of the group table; 0 for a selection."] = 0
    flush: Annotated[str, "when groups leave the group table."] = ""
    signatures: Annotated[tuple[SignatureInfo, ...], "signatures of the LFTA in the prefilters of its links."] = ()
    sample: Annotated[str, "rate and seed of packet sampling; empty for all packets."] = ""
    arrival: Annotated[str, "how the LFTA reads by arrival; empty if it reads by timestamp."] = ""
    shares: Annotated[
        tuple[str, ...], "what divides its rows in its files, where an epoch has many of them; empty for nothing."
    ] = ()
    clock: Annotated[str, "the clock of the records: `packet time`, or the field of other records."] = "packet time"


@dataclass(frozen=True)
class BitInfo:
    """One bit of a prefilter."""

    condition: Annotated[str, "the condition that sets the bit."]
    lftas: Annotated[int, "number of LFTAs that test the bit."]


@dataclass(frozen=True)
class PrefilterInfo:
    """A prefilter: the conditions evaluated once per packet for all LFTAs of some links."""

    links: Annotated[tuple[str, ...], "names of the links; `*` is every link, or every other link."]
    lftas: Annotated[tuple[str, ...], "names of the LFTAs that read the links."]
    bits: Annotated[tuple[BitInfo, ...], "the bits in order of their positions."] = ()


@dataclass(frozen=True)
class MemoryInfo:
    """What `[replay] memory`, the one setting of memory, bounds on this machine."""

    setting: Annotated[int, "the setting in bytes; 0 where it is not set."]
    source: Annotated[
        str, "where the bound of a process comes from: the setting, its variable, this machine or its container."
    ]
    process: Annotated[int, "bytes that the threads of a process share."]
    threads: Annotated[int, "their number."]
    rows: Annotated[
        int, "rows that an operator of the high level keeps in memory in each of them; further rows go to files."
    ]
    task: Annotated[int, "bytes of a task of Spark, and so of its Python worker."]
    task_rows: Annotated[
        int, "rows that an operator of the high level keeps in memory in a task; further rows go to files."
    ]


@dataclass(frozen=True)
class Description:
    """The plan of a query set."""

    version: Annotated[int, "version of this format."]
    queries: Annotated[tuple[QueryInfo, ...], "the queries of the query set, outputs first."]
    lftas: Annotated[tuple[LftaInfo, ...], "the LFTAs of the low level."]
    prefilters: Annotated[tuple[PrefilterInfo, ...], "the prefilters of all links."]
    memory: Annotated[MemoryInfo | None, "what bounds the memory of a run; null where only the plan is asked for."] = (
        None
    )


# JSON, and its schema (`docs/explain.schema.json`). The schema comes from the same classes and their docstrings, so
# schema and output cannot differ.

SCHEMA = "https://json-schema.org/draft/2020-12/schema"
WIDTH = 110
_PLAIN = {str: "string", int: "integer", bool: "boolean"}


def render_json(description: Description) -> str:
    """Returns the description as JSON."""
    return laid_out(_value(description)) + "\n"


def laid_out(value: Any, indent: str = "") -> str:
    """Returns a value as JSON; objects and lists that fit stand on one line.

    Example:
        >>> print(laid_out({"a": [1, 2], "b": ["x" * 60, "y" * 60]}))  # doctest: +ELLIPSIS
        {
          "a": [1, 2],
          "b": [
            "xxx...",
            "yyy..."
          ]
        }
    """
    line = json.dumps(value, ensure_ascii=False)
    if len(indent) + len(line) <= WIDTH or not isinstance(value, dict | list):
        return line
    inner = f"{indent}  "
    if isinstance(value, dict):
        parts = [f"{inner}{json.dumps(key)}: {laid_out(part, inner)}" for key, part in value.items()]
        return "{\n" + ",\n".join(parts) + f"\n{indent}}}"
    return "[\n" + ",\n".join(f"{inner}{laid_out(part, inner)}" for part in value) + f"\n{indent}]"


def _value(value: Any) -> Any:
    if is_dataclass(value):
        pairs = ((field, getattr(value, field.name)) for field in fields(value))
        return {field.name: _value(part) for field, part in pairs if _required(field) or part != field.default}
    if isinstance(value, tuple):
        return [_value(part) for part in value]
    return value


def _required(field: Field[Any]) -> bool:
    return field.default is MISSING


def schema() -> dict[str, Any]:
    """Returns the JSON Schema of the output of `render_json`."""
    definitions: dict[str, Any] = {}
    _define(Description, definitions)
    whole = definitions.pop(Description.__name__)
    whole["properties"]["version"] = {"const": VERSION, **whole["properties"]["version"]}
    title = "lowwater explain --format json"
    return {"$schema": SCHEMA, "title": title, **whole, "$defs": dict(sorted(definitions.items()))}


def _define(kind: type, definitions: dict[str, Any]) -> None:
    if kind.__name__ in definitions:
        return
    definition: dict[str, Any] = {"description": (getdoc(kind) or "").replace("\n", " "), "type": "object"}
    definitions[kind.__name__] = definition
    hints = get_type_hints(kind, include_extras=True)
    described = {field.name: get_args(hints[field.name]) for field in fields(kind)}
    definition |= {
        "properties": {
            name: {**_type(hint, definitions), "description": text} for name, (hint, text) in described.items()
        },
        "required": [field.name for field in fields(kind) if _required(field)],
        "additionalProperties": False,
    }


def _type(hint: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    if is_dataclass(hint) and isinstance(hint, type):
        _define(hint, definitions)
        return {"$ref": f"#/$defs/{hint.__name__}"}
    if get_origin(hint) is tuple:
        return {"type": "array", "items": _type(get_args(hint)[0], definitions)}
    if get_origin(hint) is UnionType:
        # None is null in JSON, but the output omits an attribute with its default value.
        (kind,) = [arg for arg in get_args(hint) if arg is not NoneType]
        inner = _type(kind, definitions)
        return {"anyOf": [inner, {"type": "null"}]}
    return {"type": _PLAIN[hint]}

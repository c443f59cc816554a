"""Contents of EXPLAIN as data: `describe` computes them once; `text`, `json` and `mermaid` render them.

The operators of a query stand in one list, outputs first, and name their inputs by position. So long chains of queries
do not nest. The JSON omits an attribute with its default value.
"""

from __future__ import annotations

import json
import re
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from inspect import getdoc
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

# Columns, promises and windows of EXPLAIN: the parts of the classes in `model`. `model` imports this module.


@dataclass(frozen=True)
class Progress:
    """The temporal property of a column.

    Attributes:
        direction: `increasing` or `decreasing`.
        steps: the computations of the value from the clock (ns) as GSQL, such as `clock/1000000000/60`. The promise is
            the least of their results; for a decreasing column the greatest.
        origin: the attribute at the start of the steps, if it is no function of the clock.
    """

    direction: str
    steps: tuple[str, ...]
    origin: str = ""


@dataclass(frozen=True)
class ColumnInfo:
    """A column of a stream.

    Attributes:
        name: name of the column.
        type: bool, int, float, ip, mac or string.
        progress: the temporal property; null for a column without progress.
    """

    name: str
    type: str
    progress: Progress | None = None


@dataclass(frozen=True)
class Named:
    """An expression with the name of its output column.

    Attributes:
        name: name of the output column.
        expression: the expression as GSQL.
    """

    name: str
    expression: str


@dataclass(frozen=True)
class PunctuationInfo:
    """The promises of an operator.

    Attributes:
        columns: the promised columns, in order; empty if only the clock of the operator makes progress.
        joint: whether one punctuation row promises all columns together.
        reason: why the operator promises these columns.
        groupwise: columns with separate promises for their values.
    """

    columns: tuple[str, ...]
    joint: bool
    reason: str
    groupwise: tuple[str, ...] = ()


@dataclass(frozen=True)
class Match:
    """The match condition of a join.

    Attributes:
        kind: `equality` or `band`.
        condition: the condition of the match window as GSQL.
        left_promise: the promise of joined rows for the left attribute, computed from the promises of both sides (P4).
        right_promise: the promise of joined rows for the right attribute (P4).
        equalities: the further equalities; NULL equals NULL.
        residual: the further condition over both rows.
    """

    kind: str
    condition: str
    left_promise: str
    right_promise: str
    equalities: tuple[str, ...] = ()
    residual: str = ""


@dataclass(frozen=True)
class Sliding:
    """A sliding window.

    Attributes:
        attribute: the attribute that the window slides over.
        range: length of the window, in units of the attribute.
        slide: distance between the starts of two windows, in units of the attribute.
        rows: whether the attribute counts rows.
        partition: columns of the partition; every partition counts its rows separately.
        counted: condition of the rows that are counted; empty for all rows.
    """

    attribute: str
    range: int
    slide: int
    rows: bool = False
    partition: tuple[str, ...] = ()
    counted: str = ""


VERSION = 1


@dataclass(frozen=True)
class OperatorInfo:
    """One operator of the high level, or the stream of another query that it reads.

    Attributes:
        kind: selection, aggregation, running aggregation, sampling, windows, grouping sets, merge, or GSQL's keyword of
            a join. `lfta` stands for the rows of an LFTA, `stream` for the rows of a query with its own description.
        query: name of the query that the operator belongs to.
        physical: the physical operator that runs it.
        reason: why the planner chose the physical operator.
        inputs: positions of the inputs in the list of operators.
        columns: the columns of the output rows.
        punctuation: the promises of the operator.
        reads: name of the LFTA, query or watch list that the operator reads.
        links: the links of the LFTA; `*` is every link.
        predicate: condition of WHERE over the input rows.
        items: the select items.
        keys: the group-by variables.
        aggregates: the aggregates, with the names by which HAVING and the select items read them.
        having: condition of HAVING over the groups.
        closing: condition of CLOSING_WHEN, which ends a running group.
        supergroup: group-by variables whose groups share states and superaggregates.
        supers: the superaggregates.
        cleaning_when: condition that starts a cleaning.
        cleaning_by: condition of the groups that a cleaning keeps.
        states: the stateful functions.
        aliases: range variables of the inputs.
        match: the match window of a join.
        lookup: keys and further conditions of a lookup join or semi join.
        window: the sliding window.
        sets: the grouping sets.
        high: why the low level does not run the operator, or not all of it.
    """

    kind: str
    query: str
    physical: str
    reason: str
    inputs: tuple[int, ...]
    columns: tuple[ColumnInfo, ...]
    punctuation: PunctuationInfo
    reads: str = ""
    links: tuple[str, ...] = ()
    predicate: str = ""
    items: tuple[Named, ...] = ()
    keys: tuple[Named, ...] = ()
    aggregates: tuple[Named, ...] = ()
    having: str = ""
    closing: str = ""
    supergroup: tuple[str, ...] = ()
    supers: tuple[Named, ...] = ()
    cleaning_when: str = ""
    cleaning_by: str = ""
    states: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    match: Match | None = None
    lookup: str = ""
    window: Sliding | None = None
    sets: tuple[tuple[str, ...], ...] = ()
    high: str = ""


@dataclass(frozen=True)
class ReadRange:
    """Read range: how far before an interval that begins on the hour a query reads an LFTA.

    Attributes:
        lfta: name of the LFTA.
        before: ns before the interval; null if the query reads from the beginning of the chain of intervals.
    """

    lfta: str
    before: int | None


@dataclass(frozen=True)
class CutInfo:
    """A separate evaluation whose rows are an input of the evaluation of an output.

    Attributes:
        operator: kind of the operator whose rows are replayed.
        of: name of the query that the operator belongs to.
        reader: kind of the operator that reads the replayed rows.
        reason: why one evaluation cannot run both operators.
    """

    operator: str
    of: str
    reader: str
    reason: str


@dataclass(frozen=True)
class SharesInfo:
    """What divides the rows of an evaluation into parts that run side by side.

    Attributes:
        keys: expressions: rows with equal values of all of them are in one part; empty for none.
        reason: what asks for these keys, or why there are none.
        anywhere: whether any rows may be a part.
    """

    keys: tuple[str, ...]
    reason: str
    anywhere: bool = False


@dataclass(frozen=True)
class QueryInfo:
    """A query of the query set.

    Attributes:
        name: name of the query.
        file: the file with the text of the query.
        output: whether the rows of the query are published; else only other queries read them.
        text: canonical GSQL of the query.
        within: name of the query that describes this query in place; else empty.
        notes: remarks about the text of the query.
        parameters: the parameters without a value, with their types.
        operators: the operators of the high level, output first; empty if another query describes this query in place.
        cut: the work below and above the cut between the levels.
        lftas: names of the LFTAs that the query reads.
        high: the high level as GSQL; empty if an LFTA alone computes the query.
        again: queries with their own description that the evaluation of this output computes again.
        parts: the evaluations that run before the evaluation of the output, in order.
        shares: what divides a slice of time that has many rows, one step after another; rows are exchanged between two
            steps.
        state: why intervals of the query run in order; empty if they can run in any order.
        reads: the read ranges of the LFTAs.
    """

    name: str
    file: str
    output: bool
    text: str
    within: str = ""
    notes: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    operators: tuple[OperatorInfo, ...] = ()
    cut: str = ""
    lftas: tuple[str, ...] = ()
    high: str = ""
    again: tuple[str, ...] = ()
    parts: tuple[CutInfo, ...] = ()
    shares: tuple[SharesInfo, ...] = ()
    state: tuple[str, ...] = ()
    reads: tuple[ReadRange, ...] = ()


@dataclass(frozen=True)
class SignatureInfo:
    """Prefilter bits that a packet needs for one LFTA on some links.

    Attributes:
        links: names of the links; `*` is every link.
        bits: positions of the bits that a packet must have.
        mask: the bits as a hexadecimal number.
        rest: the part of the predicate that the bits do not cover.
    """

    links: tuple[str, ...]
    bits: tuple[int, ...]
    mask: str
    rest: str = ""


@dataclass(frozen=True)
class LftaInfo:
    """A low-level query node (LFTA).

    Attributes:
        name: name of the LFTA.
        kind: `selection` or `aggregation`.
        links: names of the links; `*` is every link.
        protocol: name of the protocol.
        records: kind of the records: pcap, csv or other.
        gsql: the LFTA as GSQL.
        columns: the columns of the output rows.
        punctuation: the promises of the LFTA.
        granularity: ns of the clock between two punctuations that a reader can use.
        asked_by: the operator or query that needs this granularity.
        member: condition of the protocol's records; empty for all records.
        predicate: condition over stored columns; empty for all records.
        keys: output columns over stored columns.
        partials: partial aggregates.
        slots: size of the group table; 0 for a selection.
        flush: when groups leave the group table.
        signatures: signatures of the LFTA in the prefilters of its links.
        sample: rate and seed of packet sampling; empty for all packets.
        arrival: how the LFTA reads by arrival; empty if it reads by timestamp.
        shares: what divides its rows in its files, where an epoch has many of them; empty for nothing.
        clock: the clock of the records: `packet time`, or the field of other records.
    """

    name: str
    kind: str
    links: tuple[str, ...]
    protocol: str
    records: str
    gsql: str
    columns: tuple[ColumnInfo, ...]
    punctuation: PunctuationInfo
    granularity: int
    asked_by: str
    member: str = ""
    predicate: str = ""
    keys: tuple[Named, ...] = ()
    partials: tuple[Named, ...] = ()
    slots: int = 0
    flush: str = ""
    signatures: tuple[SignatureInfo, ...] = ()
    sample: str = ""
    arrival: str = ""
    shares: tuple[str, ...] = ()
    clock: str = "packet time"


@dataclass(frozen=True)
class BitInfo:
    """One bit of a prefilter.

    Attributes:
        condition: the condition that sets the bit.
        lftas: number of LFTAs that test the bit.
    """

    condition: str
    lftas: int


@dataclass(frozen=True)
class PrefilterInfo:
    """A prefilter: the conditions evaluated once per packet for all LFTAs of some links.

    Attributes:
        links: names of the links; `*` is every link, or every other link.
        lftas: names of the LFTAs that read the links.
        bits: the bits in order of their positions.
    """

    links: tuple[str, ...]
    lftas: tuple[str, ...]
    bits: tuple[BitInfo, ...] = ()


@dataclass(frozen=True)
class MemoryInfo:
    """What `[replay] memory`, the one setting of memory, bounds on this machine.

    Attributes:
        setting: the setting in bytes; 0 where it is not set.
        source: where the bound of a process comes from: the setting, its variable, this machine or its container.
        process: bytes that the threads of a process share.
        threads: their number.
        rows: rows that an operator of the high level keeps in memory in each of them; further rows go to files.
        task: bytes of a task of Spark, and so of its Python worker.
        task_rows: rows that an operator of the high level keeps in memory in a task; further rows go to files.
    """

    setting: int
    source: str
    process: int
    threads: int
    rows: int
    task: int
    task_rows: int


@dataclass(frozen=True)
class Description:
    """The plan of a query set.

    Attributes:
        version: version of this format.
        queries: the queries of the query set, outputs first.
        lftas: the LFTAs of the low level.
        prefilters: the prefilters of all links.
        memory: what bounds the memory of a run; null where only the plan is asked for.
    """

    version: int
    queries: tuple[QueryInfo, ...]
    lftas: tuple[LftaInfo, ...]
    prefilters: tuple[PrefilterInfo, ...]
    memory: MemoryInfo | None = None


# EXPLAIN as JSON, and its schema (`docs/explain.schema.json`). Renders a Description of `describe`: the classes of
# `model` become objects. The schema comes from the same classes and their docstrings, so schema and output cannot
# differ.

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
    text = getdoc(kind) or ""
    definition: dict[str, Any] = {"description": text.split("\n\n")[0].replace("\n", " "), "type": "object"}
    definitions[kind.__name__] = definition
    descriptions = _attributes(text)
    hints = get_type_hints(kind)
    properties = {
        field.name: {**_type(hints[field.name], definitions), **descriptions[field.name]} for field in fields(kind)
    }
    definition |= {
        "properties": properties,
        "required": [field.name for field in fields(kind) if _required(field)],
        "additionalProperties": False,
    }


def _attributes(text: str) -> dict[str, dict[str, str]]:
    """Returns attribute -> its description in a docstring."""
    block = text.partition("Attributes:\n")[2]
    attributes = re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", block, flags=re.MULTILINE)
    return {name: {"description": re.sub(r"\s+", " ", description)} for name, description in attributes}


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

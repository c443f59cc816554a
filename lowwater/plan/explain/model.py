"""Contents of EXPLAIN as data: `describe` computes them once; `text`, `json` and `mermaid` render them.

The operators of a query stand in one list, outputs first, and name their inputs by position. So long chains of queries
do not nest. The JSON omits an attribute with its default value.
"""

from __future__ import annotations

from dataclasses import dataclass

from lowwater.plan.explain.model_parts import ColumnInfo, Match, Named, PunctuationInfo, Sliding

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
class Description:
    """The plan of a query set.

    Attributes:
        version: version of this format.
        queries: the queries of the query set, outputs first.
        lftas: the LFTAs of the low level.
        prefilters: the prefilters of all links.
    """

    version: int
    queries: tuple[QueryInfo, ...]
    lftas: tuple[LftaInfo, ...]
    prefilters: tuple[PrefilterInfo, ...]

"""What EXPLAIN says of a plan, as data: computed once by `describe`, rendered by `text`, `json` and `mermaid`.

Operators of a query stand in one list, outputs first, and name their inputs by position, so that long chains of queries
nest nowhere. An attribute that is at its default is left out of the JSON.
"""

from __future__ import annotations

from dataclasses import dataclass

from lowwater.plan.explain.model_parts import ColumnInfo, Match, Named, PunctuationInfo, Sliding

VERSION = 1


@dataclass(frozen=True)
class OperatorInfo:
    """One operator of the high level, or the stream that it reads.

    Attributes:
        kind: selection, aggregation, running aggregation, sampling, windows, grouping sets, merge, a join by GSQL's
            keyword, `lfta` for the rows of an LFTA, `stream` for the rows of a query that is shown on its own.
        query: the query that it belongs to.
        physical: what runs it.
        reason: why that.
        inputs: positions of its inputs in the list of operators.
        columns: the columns of its rows.
        punctuation: what it promises.
        reads: name of the LFTA, the query or the watch list that it reads.
        links: the links of the LFTA that it reads; `*` is every link.
        predicate: rows that it takes.
        items: what it selects.
        keys: group-by variables.
        aggregates: by the name that HAVING and the items read them by.
        having: groups that it puts out.
        closing: when a running group ends.
        supergroup: variables whose groups share states and superaggregates.
        supers: superaggregates.
        cleaning_when: when groups are cleaned.
        cleaning_by: groups that a cleaning keeps.
        states: stateful functions.
        aliases: range variables of the inputs.
        match: the match of a join.
        lookup: the lookup of a join that looks rows up: its keys and what else must hold.
        window: of sliding windows.
        sets: grouping sets.
        high: why this is not done, or not done whole, at the low level.
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
    """How far before an interval that begins on the hour an LFTA is read.

    Attributes:
        lfta: its name.
        before: ns; None where it is read from the beginning of the chain of intervals.
    """

    lfta: str
    before: int | None


@dataclass(frozen=True)
class CutInfo:
    """A Spark query of its own below the one of an output.

    Attributes:
        operator: kind of the operator whose rows are replayed.
        of: the query that it belongs to.
        reader: kind of the operator that they are replayed into.
        reason: why one Spark query cannot hold both.
    """

    operator: str
    of: str
    reader: str
    reason: str


@dataclass(frozen=True)
class QueryInfo:
    """A query of the set.

    Attributes:
        name: the name of the query.
        file: that its text stands in.
        output: whether its rows are published; else only other queries read it.
        text: canonical GSQL.
        within: the query that shows it in place, where it is read once and not published.
        notes: what is worth knowing of its text.
        parameters: those without a value, with their types.
        operators: the operators of the high level, its output first; empty where another query shows it in place.
        cut: what is done below and what above the cut between the levels.
        lftas: names of the LFTAs that it reads.
        high: the high level as GSQL; empty where the query is done by an LFTA alone.
        again: queries that are described on their own, and which its Spark query computes again.
        parts: the Spark queries that run before that of the output, in order.
        state: why its intervals follow one another; empty where they can be replayed in any order.
        reads: how far back its packets are read.
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
    """What the prefilter means for an LFTA on some links.

    Attributes:
        links: names; `*` is every link.
        bits: that a packet must have.
        mask: the same as a number, hexadecimal.
        rest: what is left of the predicate.
    """

    links: tuple[str, ...]
    bits: tuple[int, ...]
    mask: str
    rest: str = ""


@dataclass(frozen=True)
class LftaInfo:
    """A low-level query node.

    Attributes:
        name: the name of the LFTA.
        kind: `selection` or `aggregation`.
        links: names; `*` is every link.
        protocol: name.
        records: kind of records: pcap, csv or other.
        gsql: the LFTA as GSQL.
        columns: the columns of its rows.
        punctuation: what it promises.
        granularity: ns of the clock between two punctuations that some reader can use.
        asked_by: who asks for that.
        member: which records belong to the protocol; empty for all.
        predicate: over stored columns.
        keys: output columns over stored columns.
        partials: sub-aggregates.
        slots: size of the group table.
        flush: when groups leave the table.
        signatures: the signatures of the prefilters of its links.
        sample: which share of the packets it takes; empty for all.
        arrival: how it is read by arrival; empty where it is read by timestamp.
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


@dataclass(frozen=True)
class BitInfo:
    """One bit of a prefilter.

    Attributes:
        condition: that it stands for.
        lftas: how many LFTAs ask for it.
    """

    condition: str
    lftas: int


@dataclass(frozen=True)
class PrefilterInfo:
    """What is computed once a packet for all LFTAs of some links.

    Attributes:
        links: names; `*` is every link, or every other link.
        lftas: that read the links.
        bits: in order.
    """

    links: tuple[str, ...]
    lftas: tuple[str, ...]
    bits: tuple[BitInfo, ...] = ()


@dataclass(frozen=True)
class Description:
    """A plan.

    Attributes:
        version: of this format.
        queries: the queries of the set, the outputs first.
        lftas: the low level.
        prefilters: of all links.
    """

    version: int
    queries: tuple[QueryInfo, ...]
    lftas: tuple[LftaInfo, ...]
    prefilters: tuple[PrefilterInfo, ...]

"""Describes the low level: every LFTA and every prefilter.

`describe` calls this module.
"""

from __future__ import annotations

from collections.abc import Sequence

from lowwater.catalog.expr import Expr
from lowwater.catalog.records import field_name
from lowwater.gsql.printer import print_expression
from lowwater.plan.explain import syntax
from lowwater.plan.explain.gsql import low_text
from lowwater.plan.explain.model import BitInfo, LftaInfo, PrefilterInfo, SignatureInfo
from lowwater.plan.explain.model_parts import Named
from lowwater.plan.explain.operators import columns_info, punctuation_info
from lowwater.plan.explain.spell import high, low, spelled
from lowwater.plan.operators import Aggregate, Lfta, Partial
from lowwater.plan.prefilter import Prefilter
from lowwater.plan.properties.state import needed_granularity
from lowwater.plan.queryset import Plan
from lowwater.plan.shares import low_shares


def describe_lftas(plan: Plan) -> tuple[LftaInfo, ...]:
    """Returns the description of every LFTA of the outputs, in order of first use."""
    granularities = needed_granularity(*(query.high for query in plan.queries))
    shares = low_shares([query.high for query in plan.queries])
    return tuple(
        _lfta(lfta, *granularities[lfta.name], plan.prefilters, shares.get(lfta.name, ((),))[0]) for lfta in plan.lftas
    )


def _lfta(
    lfta: Lfta, granularity: int, asked_by: str, prefilters: Sequence[Prefilter], shares: Sequence[Expr]
) -> LftaInfo:
    return LftaInfo(
        lfta.name,
        "aggregation" if lfta.aggregates else "selection",
        lfta.links,
        lfta.protocol,
        lfta.kind,
        low_text(lfta),
        columns_info(lfta.fields),
        punctuation_info(lfta.punctuation),
        granularity,
        asked_by,
        member=low(lfta.member, lfta.kind),
        predicate=low(lfta.predicate, lfta.kind),
        keys=tuple(Named(key.name, low(key.expr, lfta.kind)) for key in lfta.keys),
        partials=tuple(Named(partial.name, _partial(partial, lfta)) for partial in lfta.partials),
        slots=lfta.slots if lfta.aggregates else 0,
        flush="when punctuation closes the epoch; a collision evicts the old group as a partial row"
        if lfta.aggregates
        else "",
        signatures=_signatures(lfta, prefilters),
        sample=f"{lfta.sample.rate!r}, seed {lfta.sample.seed}" if lfta.sample else "",
        arrival=_arrival(lfta),
        shares=tuple(map(high, shares)),
        clock=_clock(lfta),
    )


def _clock(lfta: Lfta) -> str:
    if lfta.kind == "pcap":
        return "packet time"
    return field_name(lfta.layout.clock) if lfta.layout and lfta.layout.clock else "the records' clock"


def _arrival(lfta: Lfta) -> str:
    if not lfta.arrival:
        return ""
    if lfta.whole:
        return "an interval takes the records that arrive in it; every record is a row, since all of them make progress"
    rows = "; a rejected record is a row of NULL, because windows count every record" if lfta.numbered else ""
    return f"an interval takes the records that arrive in it{rows}"


def _partial(partial: Partial, lfta: Lfta) -> str:
    argument = spelled(partial.argument, lfta.kind) if partial.argument is not None else None
    return print_expression(syntax.aggregate_call(Aggregate(partial.name, partial.function, argument, partial.type)))


def _signatures(lfta: Lfta, prefilters: Sequence[Prefilter]) -> tuple[SignatureInfo, ...]:
    return tuple(
        SignatureInfo(prefilter.links, signature.bits, f"{signature.mask:#x}", low(signature.rest, lfta.kind))
        for prefilter in prefilters
        for signature in prefilter.signatures
        if signature.lfta == lfta.name
    )


def describe_prefilters(plan: Plan) -> tuple[PrefilterInfo, ...]:
    """Returns the description of every prefilter, with the number of LFTAs that share a bit."""
    records = {lfta.name: lfta.kind for lfta in plan.lftas}
    return tuple(
        PrefilterInfo(
            prefilter.links,
            tuple(signature.lfta for signature in prefilter.signatures),
            tuple(
                BitInfo(low(bit, records[prefilter.signatures[0].lfta]), count)
                for bit, count in zip(prefilter.bits, prefilter.shared, strict=True)
            ),
        )
        for prefilter in plan.prefilters
    )

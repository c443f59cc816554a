"""What the captures of a query hold that its rows leave out or count otherwise than somebody may expect, without a
mistake of anybody: later fragments, lengths that a header leaves out, packets that two links have, and the begin of the
data, before which nothing is known.

`run`, `ask`, `rows` and `sql` tell it beside the rows, with counts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import combinations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lowwater.capture.headers.undecoded import FRAGMENT, UNSAID, Count, Undecoded
from lowwater.catalog import expr as ex
from lowwater.catalog.schemas import stored
from lowwater.config import Link
from lowwater.instants import SECOND, format_duration, format_instant
from lowwater.lake import layout
from lowwater.lake.keys import dropped_duplicates
from lowwater.lake.ledgers.captures import Capture, Captures
from lowwater.lake.packets import read_packets
from lowwater.low import needed_columns
from lowwater.plan import operators as ops
from lowwater.plan.queryset import QueryPlan
from lowwater.plan.temporal import END_OF_TIME

TOTAL, SAID = "total_length", "unsaid_length"
_PORTS = {"srcPort", "destPort"}


def of_packets(query: QueryPlan, captures: Mapping[str, Captures], start: int = 0, end: int = END_OF_TIME) -> list[str]:
    """Says what a query leaves out of the packets of captures that meet [start, end), ns, and counts as 0."""
    lines: list[str] = []
    for protocol, lftas in _by_protocol(query).items():
        links = sorted({link for lfta in lftas for link in lfta.links})
        rows = [
            rows[at] for link in links if (rows := captures.get(link)) is not None for at in rows.meeting(start, end)
        ]
        types = beside(rows)
        number = number_of(lftas[0].member)
        lines += fragment_words(protocol, number, types)
        if number is None and any(_PORTS & {*ex.columns_of(lfta.predicate)} for lfta in lftas):
            lines += portless_words(types)
        if any(TOTAL in names and SAID not in names for names in (needed_columns([lfta]) for lfta in lftas)):
            lines += unsaid_words(types)
    return list(dict.fromkeys(lines))


def _by_protocol(query: QueryPlan) -> dict[str, list[ops.Lfta]]:
    found: dict[str, list[ops.Lfta]] = defaultdict(list)
    for lfta in query.lftas:
        if lfta.kind == "pcap":
            found[lfta.protocol].append(lfta)
    return found


def beside(rows: Iterable[Capture]) -> Mapping[str, Count]:
    """Returns what the ledger tells of the packets of captures by type, of those of which it tells."""
    total = Undecoded()
    for row in rows:
        if row.undecoded_types:
            total.merge(Undecoded.stored(row.undecoded_types))
    return total.types


def number_of(member: ex.Expr | None) -> int | None:
    """The number above IP that the packets of a protocol have, by its condition; None if that does not say one."""
    for part in ex.walk(member) if member is not None else ():
        match part:
            case ex.Binary(op="=", left=ex.Column(name="protocol"), right=ex.Const(value=value)):
                return int(value or 0)
    return None


def fragment_words(protocol: str, number: int | None, types: Mapping[str, Count]) -> Iterator[str]:
    """Says how many later fragments the rows of a protocol leave out. `number`: of the protocol above IP."""
    if number is not None and (count := types.get(f"{FRAGMENT}{number}")) is not None:
        many = "later fragment has" if count.packets == 1 else "later fragments have"
        yield (
            f"{count.packets:,} {many} no header of {protocol}, and no ports: {count.bytes:,} bytes are not in FROM "
            f"{protocol}. FROM DataProtocol with protocol = {number} has them"
        )


def portless_words(types: Mapping[str, Count]) -> Iterator[str]:
    """Says how many later fragments a condition of ports leaves out, of all protocols."""
    counts = [count for name, count in types.items() if name.startswith(FRAGMENT)]
    if counts:
        packets, lost = sum(count.packets for count in counts), sum(count.bytes for count in counts)
        many = "later fragment has no port and meets" if packets == 1 else "later fragments have no port and meet"
        yield f"{packets:,} {many} no condition of one: {lost:,} bytes are left out"


def unsaid_words(types: Mapping[str, Count]) -> Iterator[str]:
    """Says in how many packets `total_length` is not the length."""
    if (count := types.get(UNSAID)) is not None:
        many = "1 packet has" if count.packets == 1 else f"{count.packets:,} packets have"
        yield f"{many} no length in the header, as where the card segments: total_length is 0 there, ip_length is not"


# The begin of the data: what an ANTI JOIN looks for before it is unknown. A LEFT JOIN whose right side IS NULL is one.


def of_begin(
    query: QueryPlan, captures: Mapping[str, Captures], last: NDArray[np.int64] | None = None, start: int = 0
) -> list[str]:
    """Says which rows of an anti-join that looks back reach behind the begin of the data.

    Args:
        last: the last instants of the rows, ns; None where they are not counted.
        start: first of these instants that is asked about.
    """
    if (node := _anti_join(query)) is None:
        return []
    window, links = node.window, _links_of(node.right)
    smallest = [captures[link].numbers("smallest", END_OF_TIME) for link in links if link in captures]
    begin = min((int(each.min(initial=END_OF_TIME)) for each in smallest), default=END_OF_TIME)
    if window.left_time.origin or not window.left_time.increasing or begin == END_OF_TIME:
        return []
    value = window.left_time.promise(begin)
    back = window.left_time.first(value) - window.right_time.first(value - window.below)
    until = window.last_left(window.left_time.promise(begin + back - 1))
    count = None if last is None else int(np.count_nonzero(last <= until))
    if back <= 0 or until < start or count == 0:
        return []
    many = "rows are" if last is None else f"{count:,} of {len(last):,} rows are"
    return [
        f"{many} of the first {format_duration(back)} of the data, which begin at {format_instant(begin)}: what was "
        "before is unknown, so all may look new there"
    ]


def of_end(query: QueryPlan, captures: Mapping[str, Captures], last: NDArray[np.int64]) -> list[str]:
    """Says which rows of an anti-join that looks ahead reach behind the end of the data. In a lake such rows are of a
    later interval. `last`: the last instants of the rows, ns: until then a match may come."""
    node = _anti_join(query)
    if node is None or node.window.above <= 0:
        return []
    largest = [captures[link].numbers("largest", -1) for link in _links_of(node.right) if link in captures]
    end = max((int(each.max(initial=-1)) for each in largest), default=-1)
    count = int(np.count_nonzero(last > end))
    if end < 0 or not count:
        return []
    return [
        f"{count:,} of {len(last):,} rows may still meet what comes behind the end of the data, "
        f"{format_instant(end // SECOND * SECOND)}: nobody knows that, so all look unanswered there"
    ]


def _anti_join(query: QueryPlan) -> ops.Join | None:
    """The join of a query whose rows are those that meet nothing; None for another query."""
    node, asked = query.logical, list[ex.Expr]()
    while isinstance(node, ops.Map | ops.Top):
        asked += ex.conjuncts(node.predicate) if isinstance(node, ops.Map) else ()
        node = node.input
    anti = isinstance(node, ops.Join) and (node.kind is ops.JoinKind.ANTI or _unmatched(node, asked))
    return node if anti and isinstance(node, ops.Join) else None


def _links_of(node: ops.Node) -> set[str]:
    return {link for each in ops.walk(node) if isinstance(each, ops.Source) for link in each.links}


def _unmatched(join: ops.Join, asked: Iterable[ex.Expr]) -> bool:
    """Whether conditions leave only the left rows of a join that meet nothing, or those whose match lacks a value."""
    missing = f"{join.right_alias}."
    of_right = {item.name for item in join.items if any(name.startswith(missing) for name in ex.columns_of(item.expr))}
    lacking = (part.operand for part in asked if isinstance(part, ex.Unary) and part.op == "IS NULL")
    return join.kind.keeps_left and any(isinstance(each, ex.Column) and each.name in of_right for each in lacking)


# Packets that several links of one source have: two taps of one wire, or of one way.

IDENTIFYING = (
    "srcIP", "destIP", "protocol", "srcPort", "destPort", "id", "sequence_number", "ack_number",
    "total_length", "flags",
)  # fmt: skip
"""Columns that tell one packet of TCP or IPv4 from another."""
COMPARED = 1 << 16
"""Most packets of a link that are compared: of more, those whose hash is divisible by a power of two."""
_LEAST = 0.001
_LOOKED = 100
"""Most of the newest captures that are asked whether another link has records of their time."""


class _Sample:
    """Hashes of the packets of a link, those divisible by `step`."""

    def __init__(self) -> None:
        self.step, self.packets = 1, 0
        self._parts: list[NDArray[np.uint64]] = []
        self._kept = 0

    def add(self, hashes: NDArray[np.uint64]) -> None:
        self.packets += len(hashes)
        chosen = hashes[hashes % np.uint64(self.step) == 0]
        self._parts.append(chosen)
        self._kept += len(chosen)
        while self._kept > COMPARED:
            self.step *= 2
            self._parts = [self.at(self.step)]
            self._kept = len(self._parts[0])

    def at(self, step: int) -> NDArray[np.uint64]:
        hashes = np.concatenate([np.empty(0, np.uint64), *self._parts])
        chosen: NDArray[np.uint64] = hashes[hashes % np.uint64(step) == 0]
        return chosen


Sampler = Callable[[str, int, int, int | None], _Sample]
"""Reads the packets of a link of [from, to), ns, with a number above IP; None for any."""


def of_links(
    query: QueryPlan, lake: layout.Lake, captures: Mapping[str, Captures], settings: Mapping[str, Link]
) -> list[str]:
    """Says which packets a source reads from several links, by what identifies a packet of TCP or IPv4: its addresses,
    ports, numbers and lengths. Rows that have the link tell it themselves.
    Raises LakeError if packets cannot be read."""
    sampled = _sampler(lake, captures, settings)
    return [line for one in _merged(query) for line in _shared(*one, sampled, 0, END_OF_TIME)]


def of_links_lately(
    query: QueryPlan,
    lake: layout.Lake,
    captures: Mapping[str, Captures],
    settings: Mapping[str, Link],
    start: int,
    end: int,
) -> list[str]:
    """As `of_links`, of the rows of [start, end), ns, of a lake: by some packets of the newest time of it of which two
    of the links have captures, since nobody waits for those of a year. Copies that links drop are none.
    Raises LakeError if packets cannot be read."""
    lines, sampled = list[str](), _sampler(lake, captures, settings)
    for protocol, links, number in _merged(query):
        kept = tuple(link for link in links if link in settings and dropped_duplicates(settings[link]) is None)
        if (span := _newest_shared({link: captures.get(link, Captures()) for link in kept}, start, end)) is not None:
            lines += _shared(protocol, kept, number, sampled, *span)
    return lines


def _merged(query: QueryPlan) -> list[tuple[str, tuple[str, ...], int | None]]:
    """The protocols that the query reads from several links, with these and the number above IP, but where its rows
    have the link."""
    return list(
        dict.fromkeys(
            (protocol, lfta.links, number_of(lfta.member))
            for protocol, lftas in _by_protocol(query).items()
            for lfta in lftas
            if len(lfta.links) > 1 and "interface" not in _names(lfta)
        )
    )


def _newest_shared(captures: Mapping[str, Captures], start: int, end: int) -> tuple[int, int] | None:
    """The begin of the newest capture of which another link has records too, for as long as no link has more than
    `COMPARED` packets by its rate there, ns; None without one."""
    met = list[tuple[int, str, int]]()
    for link, rows in captures.items():
        begins = rows.numbers("smallest")
        met += ((int(begins[at]), link, at) for at in rows.meeting(start, end))
    for _, link, at in sorted(met, reverse=True)[:_LOOKED]:
        row = captures[link][at]
        first, last = max((row.smallest or 0) // SECOND * SECOND, start), min((row.largest or 0) + 1, end)
        within = [rows[each] for rows in captures.values() for each in rows.meeting(first, last)]
        if first < last and len({each.link for each in within}) > 1:
            rates = [each.packets / max((each.largest or 0) - (each.smallest or 0), 1) for each in within]
            return first, min(last, first + round(COMPARED / max(rates)) + 1)
    return None


def _shared(
    protocol: str, links: Sequence[str], number: int | None, sampled: Sampler, start: int, end: int
) -> Iterator[str]:
    """Says of a protocol that is read from several links which packets of [start, end) two of them have."""
    samples = {link: sampled(link, start, end, number) for link in links}
    lately = f" of {format_instant(start)} to {format_instant(-(-end // SECOND) * SECOND)}" if end < END_OF_TIME else ""
    for one, other in combinations(links, 2):
        first, second = samples[one], samples[other]
        step = max(first.step, second.step)
        found = int(np.isin(second.at(step), first.at(step)).sum()) * step
        if found > _LEAST * min(first.packets, second.packets):
            yield shared_words(protocol, one, other, found, "about " if step > 1 else "", lately)


def shared_words(protocol: str, one: str, other: str, found: int, about: str = "", lately: str = "") -> str:
    """Says how many packets that a protocol is read of are on two links."""
    packets, are = ("packet", "is") if found == 1 else ("packets", "are")
    return (
        f"FROM {protocol} reads {one} and {other}, and {about}{found:,} {packets}{lately} {are} on both: each "
        f"counts twice. Name one link, as in FROM {one}.{protocol}, or add link to the groups"
    )


def _names(lfta: ops.Lfta) -> set[str]:
    exprs = [*(key.expr for key in lfta.keys), *(part.argument for part in lfta.partials)]
    return {*ex.columns_of(lfta.predicate, *(each for each in exprs if each is not None))}


def _sampler(lake: layout.Lake, captures: Mapping[str, Captures], settings: Mapping[str, Link]) -> Sampler:
    columns = stored([*IDENTIFYING])

    @cache
    def sampled(link: str, start: int, end: int, number: int | None) -> _Sample:
        sample, own = _Sample(), captures.get(link, Captures())
        for batch in read_packets(lake, link, own, settings[link], start, start, end, columns):
            told = pc.or_(pc.is_valid(batch.column("sequence_number")), pc.greater(batch.column("id").fill_null(0), 0))
            above = batch.column("protocol")
            meant = pc.is_valid(above) if number is None else pc.equal(above, number)
            rows = batch.filter(pc.and_(told, meant))
            if rows.num_rows:
                sample.add(_hashes(rows, columns))
        return sample

    return sampled


def _hashes(rows: pa.RecordBatch, columns: Sequence[str]) -> NDArray[np.uint64]:
    mixed: NDArray[np.uint64] = np.zeros(rows.num_rows, np.uint64)
    with np.errstate(over="ignore"):
        for name in columns:
            values = rows.column(name).cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
            mixed = (mixed ^ values.view(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
            mixed ^= mixed >> np.uint64(29)
    return mixed

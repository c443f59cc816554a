"""What became of every record of an interval (A1), as lines of bars: records of a link, its packets in each LFTA."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from lowwater.instants import format_instant
from lowwater.lake.tables import safe_name
from lowwater.plan.queryset import Plan
from lowwater.quality.reports import Key
from lowwater.replay.accounts import OUTCOME_WORDS, RECORD_WORDS, spoken_count
from lowwater.replay.packets import FOUND_AGAIN

from .interval import LinkFacts, LowLevel

WIDTH = 300
"""Width of the bar of all records of a link, in units of the view box."""


@dataclass(frozen=True)
class Portion:
    """Records with one outcome: a part of a bar; `address` leads to them, and is empty where nothing does."""

    count: int
    words: str  # its number, and what became of so many
    kind: str
    x: float
    width: float
    address: str


@dataclass(frozen=True)
class Line:
    """A bar: all records of a link, or those that an LFTA reads; its portions add up to `total`."""

    name: str
    lfta: bool
    total: int
    portions: tuple[Portion, ...]

    @property
    def words(self) -> str:
        """What the bar shows, for who does not see it."""
        return f"{self.name}: {', '.join(each.words for each in self.portions)}"


@dataclass(frozen=True)
class LinkLines:
    """A link: its records, and below them its packets in each LFTA."""

    link: str
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Outcome:
    """The packets of a link in [start, end), ns, with an outcome in an LFTA (A1), as an address asks for them."""

    lfta: str
    link: str
    outcome: str
    start: int
    end: int

    @property
    def address(self) -> str:
        """The query part of the address."""
        span = {"from": format_instant(self.start), "to": format_instant(self.end)}
        return urlencode({"lfta": self.lfta, "link": self.link, "outcome": self.outcome} | span)


def accounting(key: Key, plan: Plan | None, links: Sequence[LinkFacts], low: Sequence[LowLevel]) -> list[LinkLines]:
    """Returns the lines of each link with records. `plan`: that of the set, whose queries lead to packets."""
    facts, found = {link.name: link for link in links}, []
    for name in sorted({*facts, *(each.link for each in low)}):
        own = [each for each in low if each.link == name and each.sane]
        lines, link = [], facts.get(name)
        whole = max([link.account.get("read", 0) if link else 0, *(each.sane for each in own)])
        if link and link.account.get("read"):
            lists = {"malformed": link.damaged, "violating": link.late}
            leads = {kind: f"#{kind}-{safe_name(name)}" for kind, listed in lists.items() if listed}
            counts = {kind: link.account.get(kind, 0) for kind in RECORD_WORDS}
            lines.append(Line(name, False, link.account["read"], _portions(counts, RECORD_WORDS, whole, leads)))
        for each in own:
            leads = _addresses(key, plan, each)
            lines.append(Line(each.lfta, True, each.sane, _portions(each.outcomes, OUTCOME_WORDS, whole, leads)))
        if lines:
            found.append(LinkLines(name, tuple(lines)))
    return found


def _portions(
    counts: Mapping[str, int], words: Mapping[str, str], whole: int, addresses: Mapping[str, str]
) -> tuple[Portion, ...]:
    portions: list[Portion] = []
    x = 0.0
    # What goes on stands first, so that the bars below each other show what is lost from one to the next.
    for name in sorted(words, key=lambda name: name not in ("sane", "accepted")):
        if count := counts.get(name, 0):
            width = WIDTH * count / whole
            # A part that is too small to be seen is drawn one unit wide, inside of the bar.
            portions.append(
                Portion(
                    count,
                    spoken_count(count, words[name]),
                    name.replace("_", "-"),
                    round(min(x, WIDTH - 1.0), 2),
                    round(max(width, 1.0), 2),
                    addresses.get(name, ""),
                )
            )
            x += width
    return tuple(portions)


def _addresses(key: Key, plan: Plan | None, low: LowLevel) -> dict[str, str]:
    """Outcome -> address of its packets below the results, for the first query that reads the LFTA."""
    name, start, end = key
    readers = [query for query in plan.queries if low.lfta in {lfta.name for lfta in query.lftas}] if plan else []
    if not readers or next(lfta for lfta in readers[0].lftas if lfta.name == low.lfta).kind != "pcap":
        return {}
    page = f"results/{safe_name(name)}/{safe_name(readers[0].name)}/packets?"
    return {outcome: page + Outcome(low.lfta, low.link, outcome, start, end).address for outcome in FOUND_AGAIN}

"""The facts that ingest and looks would have written of a history, in memory, and what the lake derives of them: the
captures of each link, which the rules (`tests/model/rules`) must say, too."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import accumulate, count, pairwise
from typing import Any
from zlib import crc32

import pyarrow as pa

from lowwater.capture.content.retention import DECODER_VERSION, ContentOptions
from lowwater.capture.records.drops import DeclaredDrops, Drops
from lowwater.config import Link as LinkSettings
from lowwater.instants import HOUR
from lowwater.lake.files.patterns import naming
from lowwater.lake.layout import CONTENTS
from lowwater.lake.ledgers import statements
from lowwater.lake.ledgers.captures import Captures, captures_of
from lowwater.lake.ledgers.claims import SEEN, Claims, claims, places
from lowwater.lake.ledgers.edges import doubtful_ends
from lowwater.lake.ledgers.files import SeenFile, remembered, table_of
from lowwater.lake.ledgers.overlaps import Rules
from lowwater.lake.ledgers.statements import Statement
from lowwater.lake.ledgers.states import EMPTY, GONE, GROWING, READ, REFUSED, UNCLAIMED
from tests.model.rules import files, records as rec
from tests.model.rules.facts import Aside, Content, Covers, Facts, Link, Place, Settings

Row = dict[str, Any]
ATTEMPTS = count(1)
"""Names of attempts, which caches know over all histories of a process."""


@dataclass
class Product:
    """A lake without a disk. `step` is what `lowwater ingest` does of all that the looks of a history have found."""

    contents: list[Row] = field(default_factory=list)
    seen: list[SeenFile] = field(default_factory=list)
    said: list[Statement] = field(default_factory=list)
    _made: set[str] = field(default_factory=set)  # attempts of this step, which it gives to each place
    _spoken: int = 0  # statements of the history that were taken
    _number: int = 0
    forgotten: set[str] = field(default_factory=set)  # contents that were removed, since something else replaced them
    _views: dict[str, tuple[object, Claims]] = field(default_factory=dict)  # link -> of what, and the view
    _captures: dict[str, tuple[Claims, Captures]] = field(default_factory=dict)

    # What is written.

    def step(self, facts: Facts, settings: Settings, killed: int = 0) -> None:
        """Takes what people said, and what lies there. It is `killed` behind so many writes: contents, sightings."""
        for each in facts.statements[self._spoken :]:
            self._say(each, facts, settings)
        self._spoken = len(facts.statements)
        self._made = set()
        moment = facts.looks[-1].moment if facts.looks else 0
        rows, newest = list[SeenFile](), self._newest()
        histories = files.histories(facts.looks)
        lying = {history.versions[-1].content for history in histories.values() if history.lies}
        for place, history in histories.items():
            if history.versions:
                rows += self._look(place, history, newest.get("/".join(place)), facts, settings, moment, lying)
        if killed != 1:
            self._put(rows)
        if not killed:
            self._clean(settings)

    def _put(self, rows: list[SeenFile]) -> None:
        newest = self._newest()
        for row in rows:
            old = newest.get(row.path)
            if old is None or replace(row, seen_at=old.seen_at) != old:
                self.seen.append(replace(row, seen_at=self.next_number()))

    def next_number(self) -> int:
        """A number, which is larger than all before it."""
        self._number += 1
        return self._number

    def _newest(self) -> dict[str, SeenFile]:
        return {row.path: row for row in self.seen}

    def forget(self) -> None:
        """Writes the table of sightings anew."""
        known = frozenset(row["attempt"] for row in self.contents)
        spoken = {each.file for each in self.said if each.act == statements.COVERS}
        self.seen = [self.seen[at] for at in remembered(table_of(self.seen), known, spoken)]

    def _clean(self, settings: Settings) -> None:
        """Removes the contents that something else has replaced."""
        for link in settings.links.values():
            kept = self.view(link).kept
            left = [row for row in self.contents if row["source"] == link.name and row["attempt"] not in kept]
            self.contents = [row for row in self.contents if row not in left]
            self.forgotten |= {row["content"] for row in left}
        self.forgotten -= {row["content"] for row in self.contents}

    def _look(
        self,
        place: Place,
        history: files.History,
        old: SeenFile | None,
        facts: Facts,
        settings: Settings,
        moment: int,
        lying: Collection[str],
    ) -> Iterator[SeenFile]:
        path, version = "/".join(place), history.versions[-1]
        content = facts.contents[version.content]
        owners = files.owners(place, settings)
        links = [each for each in owners if files.claimed(place[1], each) and place[0] in each.folders]
        links = [each for each in links if not each.removed]
        if not owners:
            return  # nobody looks there
        row = SeenFile(path, READ, "", False, tuple(each.name for each in owners), size_of(place, content), 0)
        names = {each.name for each in owners}
        there = {each["content"] for each in self.contents if each["source"] in names}
        known = content.id in there
        if not history.lies:
            if old is not None and (old.state != GONE or old.unread):
                reason = old.reason if old.state == GONE else old.state
                yield replace(old, state=GONE, reason=reason, unread=old.unread and not (known or content.id in lying))
            return
        sha256 = f"{content.id}{place[1].rpartition('.')[2] if place[1].endswith('.gz') else ''}"
        same = old is not None and old.sha256 == sha256 and old.state != GONE
        if not content.bytes_there:
            yield replace(row, state=EMPTY, unread=bool(links))
        elif not content.readable:
            yield replace(row, state=REFUSED if links else UNCLAIMED, unread=True)
        elif not links:
            unclaimed = replace(row, state=UNCLAIMED, unread=True, **times_of(content, owners[0]))
            unclaimed = unclaimed if content.stamps else replace(row, state=EMPTY)
            begun = any(facts.contents[each].begins_with(content) for each in there & {*lying})
            other = replace(row, state=READ, sha256=sha256) if known or begun else unclaimed
            yield old if same and old is not None and old.attempts else other
        else:
            grows = version.growing or any(_is_written(each, place, moment) for each in links)
            if same and old is not None and old.state == READ:
                grows = False
            own = old.attempts if same and old is not None and not content.stamps else ()
            attempts = tuple(self._attempt(content, each, place, facts, own) for each in links)
            yield replace(row, state=GROWING if grows else READ, attempts=attempts, sha256=sha256)

    def _attempt(
        self, content: Content, link: Link, place: Place, facts: Facts, known: Collection[str] = (), hand: Any = None
    ) -> str:
        """The attempt at a content of a link; it is decoded if there is none. A content without a record has one for
        each coverage; `known` are those of its place."""
        seen = self._made.union(*(row.attempts for row in self.seen))
        declared = hand or (_declared(link, place) or (None,))[0]
        for row in self.contents:
            alike = row["source"] == link.name and row["content"] == content.id and row["attempt"] in seen
            own = content.stamps or (row["attempt"] in known if known else row["declared"] == declared)
            if alike and own and row["jump"] == link.jump:
                return str(row["attempt"])
        row = decoded(content, link, f"attempt {next(ATTEMPTS)}") | {"declared": declared, "jump": link.jump}
        known = {each["content"] for each in self.contents if each["source"] == link.name and each["attempt"] in seen}
        others = [facts.contents[name] for name in sorted(known) if facts.contents[name].stamps]
        parts = [each.id for each in others if content.begins_with(each)]
        wholes = [each.id for each in others if each.begins_with(content)]
        row |= {"begins_with": json.dumps(parts) if parts else None}
        row |= {"begins": json.dumps(wholes) if wholes and content.stamps else None}
        self.contents.append(row)
        self._made.add(row["attempt"])
        return str(row["attempt"])

    # People.

    def refuses(self, path: str) -> bool:
        """Whether nobody can set the file of a path aside: it is not known, or another file has its records."""
        row = self._newest().get(path)
        return row is None or not (row.attempts or row.unread)

    def _say(self, said: object, facts: Facts, settings: Settings) -> None:
        if isinstance(said, Aside):
            path = "/".join(said.place)
            newest = [row for row in self.seen if row.path == path]
            mine = [row for row in newest if (row.sha256 or "").startswith(said.content)] or newest
            size, sha256 = (mine[-1].size, mine[-1].sha256 or "") if mine else (0, "")
            act = statements.ASIDE if said.aside else statements.COUNT
            self.said.append(Statement(self.next_number(), "me", act, "", what=sha256, amount=size, file=path))
        elif isinstance(said, Covers):
            for path, row in self._newest().items():
                if path == "/".join(said.place) and row.state != GONE:
                    about = Statement(self.next_number(), "me", statements.COVERS, "", said.link, file=path)
                    self.said.append(replace(about, start=said.span[0], end=said.span[1]))
                    content, link = facts.contents[said.content], settings.links[said.link]
                    if not content.stamps and row.attempts:
                        own = self._attempt(content, link, said.place, facts, hand=said.span)
                        row = replace(row, attempts=(own,))
                    self.seen.append(replace(row, seen_at=self.next_number()))

    # What is derived.

    def view(self, link: Link) -> Claims:
        """The view of a link; derived again where something of it has changed."""
        mine = [row for row in self.contents if row["source"] == link.name]
        attempts = {row["attempt"] for row in mine}
        paths = {row.path for row in self.seen if not attempts.isdisjoint(row.attempts)}
        seen = [row for row in self.seen if row.path in paths]
        key = link, [row["attempt"] for row in mine], [row.seen_at for row in seen], len(self.said)
        if link.name not in self._views or self._views[link.name][0] != key:
            self._views[link.name] = key, self._view(link, mine, seen, attempts)
        return self._views[link.name][1]

    def _view(self, link: Link, mine: list[Row], seen: list[SeenFile], attempts: set[str]) -> Claims:
        settings = settings_of(link)
        columns = {column.name: [row.get(column.name) for row in mine] for column in CONTENTS}
        placed = places(table_of(self.named(row, link) for row in seen).select(SEEN.names))
        own = pa.array([each in attempts for each in placed.column("attempt").to_pylist()], pa.bool_())
        covers = [each for each in self.said if each.act == statements.COVERS and each.link == link.name]
        asides = statements.Asides(tuple(each for each in self.said if each.act != statements.COVERS))
        contents = pa.table(columns, CONTENTS)
        return claims(contents, placed.filter(own), covers, asides, settings, lambda path, name: path, link.removed)

    def named(self, row: SeenFile, link: Link) -> SeenFile:
        """A row with what the name of its file tells today."""
        declared = _declared(link, _place(row.path))
        span, rotated = declared if declared is not None else ((None, None), False)
        return replace(row, declared_from=span[0], declared_to=span[1], rotated=rotated, named=NAMING)

    def captures(self, link: Link) -> Captures:
        """The captures of a link that are read, in order."""
        view = self.view(link)
        if link.name not in self._captures or self._captures[link.name][0] is not view:
            rules = Rules(link.skew, link.skew, link.jump)
            found = captures_of(view.captures, rules).get(link.name, Captures())
            self._captures[link.name] = view, found
        return self._captures[link.name][1]


@cache
def settings_of(link: Link) -> LinkSettings:
    """The section of a link, as far as a view asks for it."""
    seconds = {"skew": link.skew, "max_jump": link.jump, "gap_tolerance": link.gap_tolerance}
    return LinkSettings.model_validate({name: f"{value}ns" for name, value in seconds.items()})


NAMING = naming(LinkSettings())
"""What tells the coverage of files by their names, which a history does without."""


def _place(path: str) -> Place:
    folder, _, name = path.rpartition("/")
    return folder, name


def size_of(place: Place, content: Content) -> int:
    """Sizes of files: two contents rarely have one."""
    return 1000 + len(content.stamps) + sum(map(ord, content.id)) % 997 + place[1].endswith(".gz")


def _declared(link: Link, place: Place) -> tuple[tuple[int, int], bool] | None:
    """What a name tells, and whether its end is made up."""
    start, end = link.named(place[1])
    if start is None or (end is None and link.rotation is None):
        return None
    return (start, end or start + (link.rotation or 0)), end is None


def _is_written(link: Link, place: Place, moment: int) -> bool:
    declared = _declared(link, place)
    return declared is not None and declared[0][0] <= moment < declared[0][1]


def times_of(content: Content, link: Link) -> dict[str, Any]:
    """What a look finds of the times of a file that nobody ingests."""
    stamps = sorted(content.stamps[at] for at in rec.sane_positions(content.stamps, link.jump))
    silences = [each for pair in pairwise(stamps) if pair[1] - pair[0] >= HOUR for each in pair]
    known = {"first": stamps[0], "last": stamps[-1]} if stamps else {}
    return {**known, "packets": len(stamps), "silences": tuple(silences)}


def decoded(content: Content, link: Link, attempt: str) -> Row:
    """What decoding finds of a content; beside it its `records`, which lie in `packets/`."""
    positions = rec.sane_positions(content.stamps, link.jump)
    stamps = [content.stamps[at] for at in positions]
    clocks = [*accumulate(stamps, max)]
    ordered = sorted(stamps)
    table = pa.table({"position": list(positions), "arrival": clocks, "timestamp": stamps})
    first, last = (stamps[0], stamps[-1]) if stamps else (None, None)
    holes = [[at, 1 << 20, *span, 0, 0] for at, span in enumerate(content.damaged)]
    drops = DeclaredDrops((Drops(None, None, content.drops, ""),)) if content.drops else DeclaredDrops()
    return {
        "link": link.name, "source": link.name, "content": content.id, "attempt": attempt, "decoded_at": 0,
        "sha256": content.id, "bytes": 0, "format": "pcap", "link_type": "", "undecoded": 0,
        "decoder_version": DECODER_VERSION, "kept": str(ContentOptions()), "key": "", "records": table,
        "packets": len(stamps), "malformed": len(content.stamps) - len(stamps), "first": first, "last": last,
        "smallest": min(stamps, default=None), "largest": max(stamps, default=None),
        "median": ordered[(len(ordered) - 1) // 2] if ordered else None, "ended_cleanly": content.whole,
        "lull": max((after - before for before, after in pairwise(clocks)), default=0) if stamps else None,
        "lag": max((clock - stamp for clock, stamp in zip(clocks, stamps, strict=True)), default=None),
        "file_first": first, "file_largest": max(stamps, default=None), "interfaces": 1,
        "record_bytes": crc32(content.shape.encode()) if stamps else 0, "leading": positions[0] if positions else 0,
        "edges": doubtful_ends(table, table, len(stamps), link.jump) if stamps else None,
        "holes": json.dumps(holes) if holes else None, "drops": drops.text() or None,
    }  # fmt: skip


def differences(product: Product, settings: Settings, rules: Mapping[str, Any]) -> Iterator[str]:
    """Yields in what captures and coverage of the links differ from those of the rules (`Claims.links`)."""
    for name, view in rules.items():
        mine = product.captures(settings.links[name])
        columns = (mine.values(of) for of in ("capture", "covers_from", "covers_to", "packets", "malformed"))
        rows = [*zip(*columns, strict=True)]
        found = [row[:3] for row in rows if row[3] or row[4] or row[1] < row[2]]
        there = [each for each in view.captures if each.content.stamps or each.covers[0] < each.covers[1]]
        wanted = [(each.content.id, *each.covers) for each in there]
        if found != wanted:
            yield f"captures of {name}: the lake has {found}, and the rules {wanted}"

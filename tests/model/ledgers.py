"""Facts of a lake of today, from its ledgers `captures` and `files` and the timestamps of its packets: what the model
says of a lake can be compared with what commands say. Of files that were replaced the ledgers know nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from lowwater.config import Config
from lowwater.lake.layout import Lake
from lowwater.lake.ledgers.captures import Capture, ingested_links
from lowwater.lake.ledgers.files import read_seen
from lowwater.lake.ledgers.missing import attempt_paths
from lowwater.lake.ledgers.states import GONE
from lowwater.lake.packets import PacketFiles
from tests.lake.support import known_captures
from tests.model.rules.facts import Content, Covers, Facts, Link, Look, Place, Query, Settings, Sighting, Span


def model_of(lake: Lake, config: Config, moment: int) -> tuple[Facts, Settings]:
    """The facts and the settings of a lake, as a look at a moment (ns) of the host's clock would find it."""
    facts, links, lines = Facts(), dict[str, Link](), list[Sighting]()
    files, seen = PacketFiles.of(lake), read_seen(lake)
    for name in ingested_links(lake):
        settings = config.link(name)
        names, folders = dict[str, tuple[int | None, int | None]](), set[str]()
        for row in known_captures(lake, name, config):
            place = _place(row.path)
            content = _content(files, row)
            facts.contents[content.id] = content
            facts.decoded.add(content.id)
            lines.append(Sighting(place, moment, content.id, bool(row.growing)))
            folders.add(place[0])
            if row.declared is not None and row.by_hand:
                facts.statements.append(Covers(name, content.id, row.declared))
            elif row.declared is not None:
                names[place[1]] = row.declared[0], None if row.rotated else row.declared[1]
        for file in seen.values():
            if name in file.links and file.unread:
                place = _place(file.path)
                stamps = () if file.first is None else (file.first, file.first if file.last is None else file.last)
                facts.contents[file.path] = Content(file.path, stamps, readable=file.first is not None)
                lines.append(Sighting(place, moment, file.path))
                if file.state == GONE:
                    lines.append(Sighting(place, moment, None))
                folders.add(place[0])
        claims = tuple(sorted({place[1] for place in _claimed(facts, lines)}))
        links[name] = Link(name, tuple(sorted(folders)), claims=claims, named=_named(names), **_of(settings))
    facts.looks.append(Look(moment, tuple(lines)))
    return facts, Settings(links, [Query("n")])


def _of(settings: Any) -> dict[str, Any]:
    return {
        "rotation": settings.rotation, "skew": settings.longest_skew, "since": settings.since, "until": settings.until,
        "gap_tolerance": settings.gap_tolerance, "policy": settings.policy, "outside": settings.outside,
        "max_jump": settings.jump, "max_drops": settings.max_drops,
    }  # fmt: skip


def _content(files: PacketFiles, row: Capture) -> Content:
    """A capture of the ledger, with the timestamps of all packets that ingest has stored."""
    rows = []
    for path in attempt_paths(files, row):
        part = pq.read_table(path, columns=["position", "timestamp"], partitioning=None)
        rows += zip(part.column("position").to_pylist(), part.column("timestamp").to_pylist(), strict=True)
    damaged = tuple(_span(hole) for hole in row.damage if hole.before is not None and hole.after is not None)
    return Content(
        row.capture,
        tuple(stamp for _, stamp in sorted(rows)),
        whole=row.ended_cleanly,
        damaged=damaged,
        lacks=frozenset(row.absent_fields),
    )


def _span(hole: Any) -> Span:
    return hole.before, hole.after


def _place(path: str) -> Place:
    folder, _, name = path.rpartition("/")
    return folder, Path(name).name


def _claimed(facts: Facts, lines: list[Sighting]) -> list[Place]:
    return [line.place for line in lines if line.content in facts.decoded]


def _named(names: dict[str, tuple[int | None, int | None]]) -> Any:
    return lambda name: names.get(name, (None, None))

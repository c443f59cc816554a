"""What takes how much room in a lake: by stage, link and day, and when its disk is full."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from lowwater import instants
from lowwater.lake import layout, tables
from lowwater.storage import paths

RATE_DAYS = 7
"""Days whose writes say how fast a lake grows."""
_LINK, _HOUR, _INTERVAL = re.compile(r"link=([^/]+)/"), re.compile(r"hour=(-?\d+)/"), re.compile(r"interval=([^/]+)/")
STAGES = {
    "packets": "packets",
    "records": "packets",
    "malformed": "packets",
    "lfta": "rows of LFTAs",
    "streams": "rows of queries before their audit",
    "state": "states between intervals",
    "tables": "published rows",
    "_work": "staging of runs",
    "reports": "reports",
    "_locks": "room that maintenance keeps",
}
"""Folder of a lake -> what it holds; all others are ledgers."""
LEDGERS, LOGS = "ledgers", "logs of tables"


@dataclass
class Space:
    """Bytes of a lake. A day is that of the rows, ns since the epoch."""

    stages: Counter[str] = field(default_factory=Counter)
    links: Counter[str] = field(default_factory=Counter)  # of packets and records
    days: Counter[int] = field(default_factory=Counter)
    files: int = 0
    grown: int = 0  # bytes that were written in the last `span` and are still there
    span: int = instants.DAY  # the last RATE_DAYS, or the age of the lake, ns
    free: int | None = None  # bytes of its disk; None in a store, which says nothing
    size: int = 0  # bytes of its disk

    @property
    def bytes(self) -> int:
        """The bytes of all files."""
        return self.stages.total()

    @property
    def rate(self) -> int:
        """Bytes that the lake grows by in a day."""
        return self.grown * instants.DAY // self.span

    def full_in(self) -> int | None:
        """The time (ns) until the disk is full at this rate; None if it does not grow, or nobody knows."""
        return None if self.free is None or not self.rate else self.free * instants.DAY // self.rate


def space_of(lake: layout.Lake, now: int) -> Space:
    """Adds up the sizes of all files of a lake at an instant (ns, by the clock of its disk or store)."""
    found, first, written = Space(), now, Counter[int]()
    for each in paths.listed(lake.root):
        where = each.path.relative_to(lake.root).as_posix()
        stage = LOGS if "/_delta_log/" in where else STAGES.get(where.partition("/")[0], LEDGERS)
        found.files += 1
        found.stages[stage] += each.size
        first = min(first, each.at)
        written[each.at] += each.size
        if (link := _LINK.search(where)) and stage == "packets":
            found.links[link[1].replace("@", "/")] += each.size
        if (day := _day(where)) is not None:
            found.days[day] += each.size
    found.span = min(RATE_DAYS * instants.DAY, max(now - first, instants.HOUR))
    found.grown = sum(size for at, size in written.items() if at >= now - found.span)
    if isinstance(lake.root, Path):
        disk = shutil.disk_usage(lake.root)
        found.free, found.size = disk.free, disk.total
    return found


def _day(where: str) -> int | None:
    if hour := _HOUR.search(where):
        return int(hour[1]) * instants.HOUR // instants.DAY * instants.DAY
    if interval := _INTERVAL.search(where):
        bounds = tables.label_bounds(interval[1])
        return None if bounds is None else bounds[0] // instants.DAY * instants.DAY
    return None

"""A process that publishes three tables of a set again and again, and may be killed between two of their commits."""

from __future__ import annotations

import os
import random
import signal
import sys
from pathlib import Path

from lowwater.instants import HOUR
from lowwater.lake.layout import Lake, open_lake
from lowwater.lake.results.pins import pinned, publishing
from tests.lake.support import BASE, FIELDS, audited, publish_interval, put_stream, stream

QUERIES = ("one", "two", "three")
HOURS = 3
PUBLICATIONS = 12


def put(lake: Lake, hour: int, mark: int, dies_after: int | None = None) -> None:
    """Publishes an hour of all tables; the process dies behind this number of commits."""
    begin, end = BASE + hour * HOUR, BASE + (hour + 1) * HOUR
    prints = {}
    for query in QUERIES:
        rows = stream([("10.0.0.1", mark, hour * 3600.0 + second) for second in range(20)])
        put_stream(lake.stream(query), FIELDS, begin, end, rows, "set")
        prints[query] = audited(lake, begin, end, query)
    with publishing(lake, "set", QUERIES) as act:
        for number, query in enumerate(QUERIES):
            if number == dies_after:
                os.kill(os.getpid(), signal.SIGKILL)
            publish_interval(lake, "set", query, FIELDS, begin, end, f"{mark}", prints[query], act)


def main(folder: str, mark: int, deaths: float) -> None:
    """Publishes until it is done, or dies."""
    lake = open_lake(Path(folder))
    pins = pinned(lake, "set")
    hours = [(start - BASE) // HOUR for start, _ in (pins.unfinished if pins else ())]
    chosen = random.Random(mark)
    for number in range(PUBLICATIONS):
        hour = hours.pop() if hours else number % HOURS
        dies = chosen.random() < deaths and number > 2
        put(lake, hour, mark + number, chosen.randrange(1, 3) if dies else None)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))

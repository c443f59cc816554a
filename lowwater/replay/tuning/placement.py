"""Foretells how the low stage divides its links over the executors of a cluster, from the rates in the ledger.

`lowwater explain --executors` prints it. A run places its tasks by the same function (`cluster.place`), with the files
that it finds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lowwater.cluster import place
from lowwater.config import Config
from lowwater.instants import SECOND
from lowwater.lake.layout import Lake
from lowwater.lake.ledgers.captures import Captures, read_captures


@dataclass(frozen=True)
class LinkLoad:
    """The work of a link in an interval.

    Attributes:
        link: name of the link.
        rate: packets or other records per second of its coverage; 0 without captures.
        records: expected records of an interval.
        tasks: number of tasks; more than one for a link that is too large for one core.
    """

    link: str
    rate: float
    records: int
    tasks: int


@dataclass(frozen=True)
class ExecutorLoad:
    """The work of an executor in an interval.

    Attributes:
        number: its number, from 1.
        tasks: its tasks, as link and number of the chunk from 1.
        records: expected records of its tasks.
    """

    number: int
    tasks: tuple[tuple[str, int], ...]
    records: int


@dataclass(frozen=True)
class Placement:
    """A low stage on a cluster.

    Attributes:
        length: length of the interval, ns.
        cores: cores of each executor.
        most: approximate number of records of a task.
        links: links, sorted.
        executors: executors by number.
    """

    length: int
    cores: int
    most: int
    links: tuple[LinkLoad, ...]
    executors: tuple[ExecutorLoad, ...]

    @property
    def records(self) -> int:
        """Expected records of all links."""
        return sum(link.records for link in self.links)

    @property
    def longest(self) -> float:
        """Load of the busiest executor over the average; 1 is the best, and 0 says that there is no work."""
        return max(each.records for each in self.executors) * len(self.executors) / max(1, self.records)


def foretold(lake: Lake, links: Sequence[str], config: Config, executors: int, cores: int) -> Placement:
    """Foretells the tasks of an interval and their executors.

    Args:
        lake: lake with the captures of the links.
        links: links that the queries read.
        config: settings: length of an interval, packets of a task.
        executors: number of executors.
        cores: cores of each executor.
    """
    length, most = config.interval.length, config.replay.task_packets
    captures = read_captures(lake, links)
    loads = tuple(_load(link, captures.get(link, Captures.of(())), length, most) for link in sorted(links))
    tasks = [(load.link, number) for load in loads for number in range(1, load.tasks + 1)]
    sizes = [load.records // load.tasks for load in loads for _ in range(load.tasks)]
    names = {f"{number:06}": cores for number in range(1, executors + 1)}
    named = [(f"{link}\0{number}", size) for (link, number), size in zip(tasks, sizes, strict=True)]
    chosen = place(named, names)
    placed = tuple(
        ExecutorLoad(
            int(name),
            tuple(task for task, host in zip(tasks, chosen, strict=True) if host == name),
            sum(size for size, host in zip(sizes, chosen, strict=True) if host == name),
        )
        for name in names
    )
    return Placement(length, cores, most, loads, placed)


def _load(link: str, captures: Captures, length: int, most: int) -> LinkLoad:
    covered = sum(end - start for start, end in captures.spans)
    rate = int(captures.numbers("packets").sum()) * SECOND / covered if covered else 0.0
    records = round(rate * length / SECOND)
    return LinkLoad(link, rate, records, -(-records // most) if records else 0)

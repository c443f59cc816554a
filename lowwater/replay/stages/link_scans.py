"""Counts the records of links beside the high level; the audit takes the counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType

from lowwater.capture.tables.reader import TaskMap
from lowwater.catalog.time import Skews
from lowwater.lake.packets import LinkRead
from lowwater.quality.links import LinkScan, scan_link

ToScan = tuple[LinkRead, Skews]


class LinkScans:
    """The scans of the links of an interval (A1). As a context manager it waits for those that run.

    Args:
        tasks: runs them.
    """

    def __init__(self, tasks: TaskMap) -> None:
        self._tasks = tasks
        self._scans: dict[str, tuple[Future[list[LinkScan]], int]] = {}
        self._pool = ThreadPoolExecutor(thread_name_prefix="lowwater-scan")

    def begin(self, to_scan: Callable[[str], ToScan], links: Sequence[str]) -> None:
        """Begins the scans that were not begun before.

        Args:
            to_scan: describes the scan of a link; depends on no stage.
            links: names of links.
        """
        if new := [link for link in links if link not in self._scans]:
            scans = self._pool.submit(lambda: [*self._tasks(_scanned, [to_scan(link) for link in new])])
            self._scans |= {link: (scans, at) for at, link in enumerate(new)}

    def results(self, links: Sequence[str]) -> list[LinkScan]:
        """Waits for the scans of links, and returns them in this order.

        Raises:
            LowwaterError: the packets of a link cannot be read, or what runs the scans fails.
        """
        return [scans.result()[at] for scans, at in map(self._scans.__getitem__, links)]

    def __enter__(self) -> LinkScans:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(cancel_futures=True)


def _scanned(to_scan: ToScan) -> LinkScan:
    return scan_link(*to_scan)

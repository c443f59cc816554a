"""Counts the records of links in threads beside the high level; the audit takes the counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType

from lowwater.capture.tables.reader import thread_count
from lowwater.quality.links import LinkScan


class LinkScans:
    """The scans of the links of an interval (A1). As a context manager it ends its threads."""

    def __init__(self) -> None:
        self._scans: dict[str, Future[LinkScan]] = {}
        self._pool = ThreadPoolExecutor(thread_count(), thread_name_prefix="lowwater-scan")

    def begin(self, scan: Callable[[str], LinkScan], links: Sequence[str]) -> None:
        """Begins the scans that were not begun before.

        Args:
            scan: counts the records of a link; depends on no stage.
            links: names of links.
        """
        for link in links:
            if link not in self._scans:
                self._scans[link] = self._pool.submit(scan, link)

    def results(self, links: Sequence[str]) -> list[LinkScan]:
        """Waits for the scans of links, and returns them in this order.

        Raises:
            LakeError: the packets of a link cannot be read.
        """
        return [self._scans[link].result() for link in links]

    def __enter__(self) -> LinkScans:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(cancel_futures=True)

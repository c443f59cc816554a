"""The data-quality report as files: `reports/<query set>/<interval>/<suite>.html`, and the index that leads to them.

Written by the audit and by publish; read by people. Every file appears whole, by a rename within the lake's disk.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from lowwater.errors import BusyError
from lowwater.lake.layout import Lake
from lowwater.lake.ledgers.runs import FAILED, PUBLISH, read_replays
from lowwater.lake.locks import hold
from lowwater.lake.tables import interval_label, lake_errors, safe_name
from lowwater.quality.verdicts import audited

if TYPE_CHECKING:
    from lowwater_expectations import Validation

INDEX = "index.html"
HELD = "held"
"""State of an interval that is audited and not published."""
PATIENCE = 10.0
"""Seconds to wait for another run that writes the index."""


def page_of(query_set: str, start: int, end: int, suite: str) -> str:
    """The address of a page of the audit of [start, end), ns, relative to `reports/`.

    Args:
        query_set: name of the query set.
        start: first instant of the interval, ns since the epoch.
        end: end of the interval, ns since the epoch, exclusive.
        suite: name of the suite.
    """
    return f"{safe_name(query_set)}/{interval_label(start, end)}/{suite}.html"


def write_pages(lake: Lake, pages: Mapping[str, Validation], scratch: Path) -> None:
    """Writes the pages of an audit, and what all pages share where it is not there.

    Args:
        lake: the lake.
        pages: by address, as `page_of` gives it.
        scratch: folder of this run's own, on the lake's disk.

    Raises:
        LakeError: a page cannot be written.
    """
    from lowwater_expectations import assets, render, render_suites

    for address, validation in pages.items():
        _write(lake.reports / address, render(validation).encode(), scratch)
    for name, data in assets().items():
        _write(lake.reports / "assets" / name, data, scratch)
    for name, text in render_suites().items():
        _write(lake.reports / "suites" / name, text.encode(), scratch)


def write_index(lake: Lake, scratch: Path, pause: float = 0.0) -> None:
    """Writes the index anew, from what all audits found and what was published since.

    Args:
        lake: the lake.
        scratch: folder of this run's own, on the lake's disk.
        pause: seconds for which an index is left as it is.

    Raises:
        LakeError: it cannot be written.
    """
    from lowwater_expectations import Report, index

    if pause and time.time() - _written(lake.reports / INDEX) < pause:
        return
    try:
        with hold(lake, "reports", PATIENCE):
            states = _states(lake)
            reports = [
                Report(
                    query_set=each.query_set,
                    interval=each.interval,
                    verdict=each.verdict,
                    state=FAILED if each.verdict == FAILED else states.get(each.key, HELD),
                    messages=each.messages,
                    pages=each.pages,
                )
                for each in audited(lake)
            ]
            _write(lake.reports / INDEX, index(reports).encode(), scratch)
    except BusyError:
        return  # a run waits for no report: whoever writes the index next reads this audit too


def _written(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _states(lake: Lake) -> dict[tuple[str, int, int], str]:
    """(query set, start, end) -> what the interval was last published as."""
    rows = [row for row in read_replays(lake) if row.stage == PUBLISH and row.state != FAILED]
    return {(row.query_set, row.interval_start, row.interval_end): row.state for row in rows}


def _write(path: Path, data: bytes, scratch: Path) -> None:
    with lake_errors(f"{path}: the data-quality report cannot be written"):
        if path.is_file() and path.read_bytes() == data:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch.mkdir(parents=True, exist_ok=True)
        waiting = scratch / path.name
        waiting.write_bytes(data)
        os.replace(waiting, path)

"""Writes the data-quality report: `reports/<query set>/<interval>/<suite>.html`, and the index of all audits.

The stages audit and publish call this module. A page is written beside its place and renamed, so readers see whole
files only.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from lowwater.errors import BusyError
from lowwater.lake.layout import Lake
from lowwater.lake.ledgers.interval_states import DAMAGED, HELD
from lowwater.lake.ledgers.runs import FAILED, PUBLISH, read_replays
from lowwater.lake.locks import hold
from lowwater.lake.results.table_state import all_damages
from lowwater.lake.tables import interval_label, lake_errors, lost, safe_name
from lowwater.quality.verdicts import interval_audits
from lowwater.storage import paths
from lowwater.storage.leases import Fence, LostError
from lowwater.storage.object_paths import ObjectPath
from lowwater.storage.snapshots import look_again

if TYPE_CHECKING:
    from lowwater_expectations import Validation

INDEX = "index.html"
_WRITTEN: dict[PurePath, float] = {}
"""Folder of reports in a store -> when this process last wrote its index, or began to, s of the monotonic clock."""
LOCK_WAIT = 10.0
"""Seconds to wait for the lock of the index."""


def page_of(query_set: str, start: int, end: int, suite: str) -> str:
    """The address of a page of the audit of an interval, relative to `reports/`.

    Args:
        query_set: name of the query set.
        start: first instant of the interval, ns since the epoch.
        end: end of the interval, ns since the epoch, exclusive.
        suite: name of the suite.
    """
    return f"{safe_name(query_set)}/{interval_label(start, end)}/{suite}.html"


def write_pages(lake: Lake, pages: Mapping[str, Validation], scratch: Path) -> None:
    """Writes the pages of an audit, and the assets and suite descriptions that all pages share.

    Args:
        lake: the lake.
        pages: by address, as `page_of` gives it.
        scratch: temporary folder of this run, on the disk of the lake.

    Raises:
        LakeError: a page cannot be written.
    """
    from lowwater_expectations import assets, render, render_suites

    for address, validation in pages.items():
        _write(lake.reports / address, render(validation).encode(), scratch, lake.fence, True)
    shared = {f"assets/{name}": data for name, data in assets().items()}
    shared |= {f"suites/{name}": text.encode() for name, text in render_suites().items()}
    note = lake.reports / "assets" / "version.txt"
    version = sha256(b"".join(shared[name] for name in sorted(shared))).hexdigest().encode()
    if isinstance(note, ObjectPath) and _content(note) == version:
        return  # one request tells that all of them are there
    for name, data in shared.items():
        _write(lake.reports / name, data, scratch)
    if isinstance(note, ObjectPath):
        _write(note, version, scratch)


def _content(path: PurePath) -> bytes | None:
    with suppress(FileNotFoundError):
        return paths.read_lately(path)
    return None


def write_index(lake: Lake, scratch: Path, pause: float = 0.0) -> None:
    """Rewrites the index from the audits and publications of the lake.

    Args:
        lake: the lake.
        scratch: temporary folder of this run, on the disk of the lake.
        pause: age, s, below which the present index is kept.

    Raises:
        LakeError: the index cannot be written.
    """
    from lowwater_expectations import Report, index

    if pause and isinstance(lake.root, ObjectPath):
        # A command that has just begun writes it at its end; to look at it is a request for each interval.
        if time.monotonic() - _WRITTEN.setdefault(lake.reports, time.monotonic()) < pause:
            return
        _WRITTEN[lake.reports] = time.monotonic()
    elif pause and time.time() - paths.written_at(lake.reports / INDEX) < pause:
        return
    page = lake.reports / INDEX

    def written(_: bytes | None) -> bytes:
        look_again(lake.replays, lake.quality)
        states = _states(lake)
        reports = [
            Report(
                query_set=audit.query_set,
                interval=audit.interval,
                verdict=audit.verdict,
                state=FAILED if audit.verdict == FAILED else states.get(audit.key, HELD),
                messages=audit.messages,
                pages=audit.pages,
            )
            for audit in interval_audits(lake)
        ]
        return index(reports).encode()

    # Whoever writes the index next reads this audit too, so a run waits for nobody.
    with lake_errors(f"{page}: the data-quality report cannot be written"), suppress(BusyError, paths.ContestedError):
        if isinstance(page, ObjectPath):
            paths.revise(page, written)  # the ledgers are read after the page, so none is lost that another one added
        else:
            with hold(lake, "reports", LOCK_WAIT):
                _write(page, written(None), scratch)


def _states(lake: Lake) -> dict[tuple[str, int, int], str]:
    """(query set, start, end) -> state of the interval's last publication."""
    rows = [row for row in read_replays(lake) if row.stage == PUBLISH and row.state != FAILED]
    states = {(row.query_set, row.interval_start, row.interval_end): row.state for row in rows}
    return states | {(query_set, start, end): DAMAGED for query_set, _, start, end in all_damages(lake, rows)}


def _write(path: PurePath, data: bytes, scratch: Path, fence: Fence | None = None, new: bool = False) -> None:
    with lake_errors(f"{path}: the data-quality report cannot be written"):
        try:
            # Under a lease it is compared where it is written.
            if fence is not None or not paths.has_file(path) or paths.read(path) != data:
                paths.write(path, data, scratch, fence, new)
        except LostError as error:
            raise lost(path, str(error)) from None

"""Publications that stay what they are under another digest: where the form of keys, or a name in them, has changed and
no row has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lowwater.lake.ledgers import runs
from lowwater.lake.results.streams import state_folder
from lowwater.plan import queryset
from lowwater.replay.job import IntervalInputs
from lowwater.storage import paths


class KeptPublications(runs.Publications):
    """The publications of a query set, with the digests of now where these are known: query, interval and digest of
    before -> digest."""

    def __init__(self, past: runs.Publications, now: Mapping[tuple[str, int, int, str], str]) -> None:
        self._past, self._now, self._coming = past, now, {}

    def meeting(self, start: int, end: int) -> list[runs.ReplayRow]:
        return [self._of_now(row) for row in self._past.meeting(start, end)]

    def _of_now(self, row: runs.ReplayRow) -> runs.ReplayRow:
        digest = self._now.get((row.query, *row.interval, row.digest))
        return row if digest is None else replace(row, digest=digest)


def take_state(inputs: IntervalInputs, query: queryset.QueryPlan, old: str, new: str) -> None:
    """Gives the state that a publication left the digest of now; that of before stays for `maintain`."""
    about = inputs.lake, inputs.query_set, query.name, inputs.start, inputs.end
    source, target = state_folder(*about, old), state_folder(*about, new)
    for file in paths.files_below(source):
        paths.copy(file, target / file.relative_to(source))

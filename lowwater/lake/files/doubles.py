"""Files of several proposed links that have the same records: a query over these links would count them twice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations

from lowwater.capture.identify import digests_of_records, identity_of
from lowwater.errors import CaptureError
from lowwater.lake.files.sample import Sample


def doubles(sample: Sample, links: Mapping[str, Sequence[str]]) -> list[str]:
    """Describes links with files of the same records: a line for each two links that have some.

    Files that begin at the same instant are compared, some of each two links, to their end.

    Args:
        sample: the files.
        links: link -> its files.
    """
    beginning: dict[int, list[tuple[str, str]]] = defaultdict(list)
    for link, names in links.items():
        for name in names:
            if (first := sample.first(name)) is not None:
                beginning[first].append((link, name))
    pairs: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    for files in beginning.values():
        for (link, name), (other, copy) in combinations(files, 2):
            if link != other:
                pairs[link, other].append((name, copy))
    known: dict[str, str] = {}
    lines = []
    for (link, other), candidates in pairs.items():
        compared = [candidates[0], candidates[-1]] if len(candidates) > 1 else candidates
        same = [both for both in compared if _identity(sample, both[0], known) == _identity(sample, both[1], known)]
        if same:
            name, copy = same[0]
            more = f", and {len(candidates) - 1:,} more may" if len(candidates) > 1 else ""
            lines.append(
                f"{link} and {other}: {name} and {copy} have the same records{more}: a query over both links counts "
                "them twice; let it read one of them, or leave one out of the settings"
            )
    return lines


def _identity(sample: Sample, name: str, known: dict[str, str]) -> str:
    """Returns the identity of a file; its name, which no other file has, if it cannot be read."""
    if name not in known:
        sample.progress(name)
        path = sample.folder / name
        try:
            known[name] = digests_of_records(path)[1] if name in sample.records else identity_of(path)
        except (CaptureError, OSError):
            known[name] = name
    return known[name]

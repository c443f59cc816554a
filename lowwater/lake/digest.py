"""The digest of a run's inputs: what its rows are a function of, and nothing else (SEMANTICS S1).

Computed by the replay before a run, kept in `replays`, compared by publish and status. Stale means that it differs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from lowwater.capture.content.retention import Keeping
from lowwater.config import Link
from lowwater.lake.ledgers.captures import Capture, Captures
from lowwater.lake.ledgers.coverage import gaps

POLICIES = {"publish": "exclude"}
"""Policies by another name than digests have for them: what was published under the old one is no less done."""

SEMANTICS_VERSION = 2
"""Raised whenever the same inputs would give other rows."""


def link_inputs(link: str, captures: Sequence[Capture], settings: Link, read_from: int, end: int) -> dict[str, Any]:
    """What a run that reads [read_from, end), ns, depends on of one link.

    Of a capture whose records meet the read range: its file, decoder and records, and the clock at its first record,
    so that captures added before it count only if they move that clock. Of coverage: the gaps, since a run over
    covered time does not depend on how its captures declare it. Of max_jump: whether the ledger's still holds.

    Args:
        link: name of the link.
        captures: all of its captures, in the order of T1.
        settings: the settings of the link.
        read_from: start of the read range.
        end: the end of the interval.
    """
    ordered = Captures.of(captures)
    used = [
        {
            "capture": (each := ordered[at]).capture,
            "decoder": each.decoder_version,
            "records": [each.first, each.last, each.smallest, each.largest, each.packets],
            "flagged": [each.largest_ahead, each.smallest_jump],
            "clock": max(ordered.clocks[at], each.first or 0),
            "kept": each.kept or "",
            "key": each.key or "",
        }
        for at in ordered.meeting(read_from, end)
    ]
    return {
        "link": link,
        "captures": used,
        "gaps": [[gap.since, gap.until] for gap in gaps(link, captures, settings, read_from, end)],
        "skew": settings.skew,
        "life": [settings.since, settings.until],
        "policy": POLICIES.get(settings.policy, settings.policy),
        **({} if settings.shed is None else {"shed": settings.shed}),
        **({} if settings.group_skew is None else {"group_skew": settings.group_skew.model_dump()}),
    }


def inputs_digest(text: str, names: Mapping[str, str], links: Sequence[Mapping[str, Any]]) -> str:
    """The digest of a run's inputs, the same in every process.

    Args:
        text: canonical text of the query and of those it reads.
        names: what the text names, by name: sets, parameters, functions, and the hashes of files.
        links: `link_inputs` of each link it reads.

    Returns:
        64 hex digits.

    Example:
        >>> inputs_digest("q", {"a": "1", "b": "2"}, []) == inputs_digest("q", {"b": "2", "a": "1"}, [])
        True
    """
    inputs = {
        "semantics": SEMANTICS_VERSION,
        "text": text,
        "names": dict(names),
        "links": sorted(links, key=lambda each: str(each["link"])),
    }
    canonical = json.dumps(inputs, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


def outdated(captures: Sequence[Capture], settings: Link, decoder_version: int, read_from: int, end: int) -> list[str]:
    """Why captures that a run reads must be ingested again first (T7): one line each, none if all is well.

    Args:
        captures: ledger rows of the link, in any order.
        settings: settings of the link as they are now.
        decoder_version: `DECODER_VERSION` of the program that runs.
        read_from: first timestamp that the run reads, ns since the epoch.
        end: end of the run's interval, ns since the epoch, exclusive.
    """
    lines = []
    key = Keeping.of(settings).key_digest
    ordered = Captures.of(captures)
    for each in (ordered[at] for at in ordered.meeting(read_from, end)):
        if each.decoder_version != decoder_version:
            lines.append(
                f"{each.path} was decoded by version {each.decoder_version}, now {decoder_version}: ingest it again"
            )
        elif not each.admits(settings):
            lines.append(f"{each.path} was judged by another max_jump: ingest it again")
        elif (each.key or "") != key:
            said = f"by {'another' if key else 'a'} key" if each.key else "under no key"
            lines.append(f"{each.path} was anonymised {said}, and its link now says otherwise: ingest it again")
    return lines

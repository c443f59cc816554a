"""What the rows of a run depend on (SEMANTICS S1): its digest, and the parts that say how it changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

from lowwater.capture.content import retention
from lowwater.capture.tables.options import TableOptions
from lowwater.catalog.protocols import RECORD_KINDS
from lowwater.config import Link
from lowwater.instants import format_duration, format_instant
from lowwater.lake.ledgers.captures import Capture, Captures, short
from lowwater.lake.ledgers.coverage import gaps

# Digest of a run's inputs: its rows depend on these inputs and on nothing else (SEMANTICS S1). The replay computes
# the digest before a run and stores it in `replays`; publish and status compare it. An interval is stale if its
# digest differs.

POLICIES = {"publish": "exclude"}
"""Policies with another name in digests: publications made under the old name stay valid."""

NO_GAP = "fail"
"""What counts as the policy of a link where no gap asks for one."""

OLDER = (1, 2)
"""Older forms of a link's inputs, by how far they are back: with the life as it is set, also with the policy where no
gap asks for it. What was published under them stays valid."""

SEMANTICS_VERSION = 2
"""Raised whenever the same inputs give other rows."""


def link_inputs(
    link: str,
    captures: Sequence[Capture],
    settings: Link,
    read_from: int,
    end: int,
    older: int = 0,
    start: int | None = None,
) -> dict[str, Any]:
    """Collects the inputs of one link for a run of [start, end) that reads [read_from, end), ns, in the form of now or
    an OLDER one; without `start` it is the begin of what is read.

    A capture counts if its records meet the read range, or count in the interval: its file, decoder and records, and
    the clock at its first record. So a capture added before it counts only if it moves that clock. Coverage counts by
    its gaps: over covered time, it does not matter how captures declare it, nor what the policy says of gaps. max_jump
    counts by the records that it flags. The life of the link counts by its bounds within what is read.
    """
    ordered, dropped = Captures.of(captures), dropped_duplicates(settings)
    missing = gaps(link, captures, settings, read_from, end)
    reads, life = (read_from - _reach(settings) if dropped else read_from, end), (settings.since, settings.until)
    begin, skew = read_from if start is None else start, settings.shortest_skew
    used = [
        {
            "capture": (capture := ordered[index]).capture,
            "decoder": capture.decoder_version,
            "records": [capture.first, capture.last, capture.smallest, capture.largest, capture.packets],
            "flagged": [capture.largest_ahead, capture.smallest_jump],
            "clock": max(ordered.clocks[index], capture.first or 0),
            "kept": retention.kept_for_rows(capture.kept),
            "key": capture.key or "",
        }
        for index in sorted({*ordered.meeting(*reads), *ordered.charged(begin, end, skew)})
    ]
    return {
        "link": link,
        "captures": used,
        "gaps": [[gap.since, gap.until] for gap in missing],
        "skew": settings.skew,
        READS: reads,
        "life": list(life if older else _within(life, reads)),
        "policy": POLICIES.get(settings.policy, settings.policy) if missing or older > 1 else NO_GAP,
        **({} if dropped is None else {"duplicates": dropped}),
        **({} if settings.shed is None else {"shed": settings.shed}),
        **({} if settings.group_skew is None else {"group_skew": settings.group_skew.model_dump()}),
    }


READS = "reads"
"""Key of the range that a run reads of a link, ns: it explains other inputs, and is none itself."""


def _within(life: Sequence[int | None], reads: Sequence[int]) -> tuple[int | None, int | None]:
    """The bounds of a life that can change rows of a run that reads [low, end), ns; None for one that lies outside.

    A life that ends with the range is over in it (T5), and one that goes on is not.
    """
    (since, until), (low, end) = life, reads
    born = None if since is None or since <= low else min(since, end)
    return born, None if until is None or until > end else max(until, low)


def dropped_duplicates(settings: Link) -> str | None:
    """Returns which copies of a link's packets are dropped, as a text; None if all are kept (D4)."""
    if settings.duplicates == "keep" or settings.duplicates.action != "drop":
        return None
    return f"drop {format_duration(settings.duplicates.window)} by {settings.duplicate_bytes}"


def _reach(settings: Link) -> int:
    """How far before its read range (ns) a run compares packets with earlier ones (D6)."""
    if settings.duplicates == "keep":
        return 0
    return settings.duplicates.window + settings.longest_skew


def inputs_digest(text: str, names: Mapping[str, str], links: Sequence[Mapping[str, Any]]) -> str:
    """Computes the digest of a run's inputs, 64 hex digits; it is the same in every process.

    Args:
        names: definitions of the names in the text: sets, parameters, functions, and hashes of files.
        links: `link_inputs` of every link that the query reads.

    Example:
        >>> inputs_digest("q", {"a": "1", "b": "2"}, []) == inputs_digest("q", {"b": "2", "a": "1"}, [])
        True
    """
    inputs = {
        "semantics": SEMANTICS_VERSION,
        "text": text,
        "names": dict(names),
        "links": sorted(
            ({key: value for key, value in link.items() if key != READS} for link in links),
            key=lambda link: str(link["link"]),
        ),
    }
    canonical = json.dumps(inputs, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return sha256(canonical.encode("ascii")).hexdigest()


def outdated(
    captures: Sequence[Capture],
    settings: Link,
    decoder_version: int,
    read_from: int,
    end: int,
    records: TableOptions | None = None,
    content: Sequence[str] = (),
) -> list[str]:
    """Lists the captures that must be ingested again before a run (T7): a line for each, with the reason.

    Args:
        decoder_version: current version of the reader of the link's files.
        records: how queries read the records of the link; None for packets.
        content: what queries read of packets beside the headers, as the ledger names it.
    """
    lines = []
    options = retention.ContentOptions.of(settings)
    key = options.key_digest
    ordered = Captures.of(captures)
    for capture in (ordered[index] for index in ordered.meeting(read_from - _reach(settings), end)):
        if capture.decoder_version != decoder_version:
            lines.append(
                f"{capture.path} was decoded by version {capture.decoder_version}, now {decoder_version}: "
                "ingest it again"
            )
        elif capture.renamed and settings.interfaces != "one":
            lines.append(f"{capture.path} was ingested when its interface had another link: ingest it again")
        elif _read_otherwise(capture, records):
            lines.append(f"{capture.path} was read by another kind, protocol or form of text: ingest it again")
        elif not capture.admits(settings):
            lines.append(f"{capture.path} was judged by another max_jump: ingest it again")
        elif capture.format == "pcapng" and retention.has_times_of_file(capture.kept) != (options.untimed is not None):
            lines.append(f"{capture.path} was read by another setting untimed of its link: ingest it again")
        elif (
            capture.format in retention.WITH_RESOLUTION and retention.resolution_of(capture.kept) != options.resolution
        ):
            lines.append(f"{capture.path} was read by another setting resolution of its link: ingest it again")
        elif options.compared and retention.hash_of(capture.kept) != options.compared:
            lines.append(f"{capture.path} has no hashes by which duplicates are found: ingest it again")
        elif lacking := [name for name in content if name not in retention.contents_of(capture.kept)]:
            lines.append(f"{capture.path} was read without {', '.join(lacking)}, which a query reads: ingest it again")
        elif (capture.key or "") != key:
            cause = f"by {'another' if key else 'a'} key" if capture.key else "under no key"
            lines.append(f"{capture.path} was anonymised {cause}, and its link now says otherwise: ingest it again")
    return lines


def _read_otherwise(capture: Capture, records: TableOptions | None) -> bool:
    """Whether a file was read as another kind of records, or by another protocol or form of text, than now."""
    return capture.format in RECORD_KINDS if records is None else capture.kept != str(records)


# A summary of a run's inputs, stored beside their digest, to explain how the inputs changed (S1). `replays` stores the
# parts of every publication; plan and status compare them with the current ones.

InputSummary = dict[str, Any]
"""JSON: `semantics`, `text` (part of the canonical text -> hash), `links` (link -> its inputs, captures hashed)."""

_CAUSES = ("its records", "its decoder", "the clock before it", "what is kept of it", "its key")
"""Changes of a capture, in the order of its stored values."""


def inputs_summary(text: Sequence[tuple[str, str]], links: Iterable[Mapping[str, Any]]) -> InputSummary:
    """Summarises the inputs of a run, the parts (name, text) of its canonical text and `link_inputs` of every link,
    small enough to store with every publication."""
    return {
        "semantics": SEMANTICS_VERSION,
        "text": {name: _hash(part) for name, part in text},
        "links": {link["link"]: _link(link) for link in links},
    }


def _link(inputs: Mapping[str, Any]) -> InputSummary:
    captures = {}
    for capture in inputs["captures"]:
        records = _hash(json.dumps([capture["records"], capture["flagged"]]))
        stored = [records, *(capture[key] for key in ("decoder", "clock", "kept", "key"))]
        captures[short(capture["capture"])] = stored
    values = {key: inputs.get(key) for key in ("skew", "shed", "duplicates", READS, "life", "policy", "gaps")}
    return values | {"captures": captures}


def changes(before: InputSummary, now: InputSummary, captures: Mapping[str, Sequence[Capture]]) -> list[str]:
    """Describes how the inputs differ from those of a publication, a line for every change. What was stored is empty if
    the publication is older than such parts; the captures, by link, have the names of files."""
    if not before:
        return ["its inputs have changed since"]
    lines = [] if before["semantics"] == now["semantics"] else ["the rules of evaluation are another version"]
    old, new = before["text"], now["text"]
    lines += [f"{name} has changed" for name in new if name in old and old[name] != new[name]]
    lines += [f"{name} is new" for name in new if name not in old]
    lines += [f"{name} is no longer there" for name in old if name not in new]
    links = before["links"], now["links"]
    lines += [f"link {name} is read now" for name in sorted(links[1].keys() - links[0].keys())]
    lines += [f"link {name} is no longer read" for name in sorted(links[0].keys() - links[1].keys())]
    for name in sorted(links[0].keys() & links[1].keys()):
        lines += _link_changes(name, links[0][name], links[1][name], captures.get(name, ()))
    return lines or ["its inputs have changed since"]


def _link_changes(name: str, old: InputSummary, new: InputSummary, captures: Sequence[Capture]) -> list[str]:
    reads = new.get(READS)  # not stored by older versions
    (born, over), (born_now, over_now) = _within(old["life"], reads) if reads else old["life"], new["life"]
    values: tuple[tuple[str, Any, Any, Callable[[Any], str]], ...] = (
        ("skew", old["skew"], new["skew"], format_duration),
        ("shed", old.get("shed"), new["shed"], lambda value: "not set" if value is None else str(value)),
        ("duplicates", old.get("duplicates"), new["duplicates"], lambda value: value or "kept"),
        ("since", born, born_now, lambda value: "before what it reads" if value is None else format_instant(value)),
        ("until", over, over_now, lambda value: "after what it reads" if value is None else format_instant(value)),
        ("policy", old["policy"], new["policy"], _policy),
    )
    lines = [f"link {name}: {key} was {say(was)}, is {say(is_)}" for key, was, is_, say in values if was != is_]
    if old["captures"] != new["captures"]:
        lines += _capture_changes(name, old["captures"], new["captures"], captures)
    was, is_ = old["gaps"], new["gaps"]
    lines += [f"link {name}: the gap {_span(gap)} is not as it was" for gap in was if gap not in is_]
    lines += [f"link {name}: there is a gap {_span(gap)}" for gap in is_ if gap not in was]
    return lines


def _capture_changes(
    link: str, old: Mapping[str, Any], new: Mapping[str, Any], captures: Sequence[Capture]
) -> Iterator[str]:
    files = Captures.of(captures).files
    for key in sorted(new.keys() - old.keys(), key=lambda key: files.get(key, key)):
        yield f"link {link}: capture {files.get(key, key)} was added"
    for key in sorted(old.keys() - new.keys()):
        change = f"{files[key]} is no longer read" if key in files else f"{key[:8]} was replaced, or is gone"
        yield f"link {link}: capture {change}"
    for key in sorted(new.keys() & old.keys()):
        causes = [cause for cause, was, is_ in zip(_CAUSES, old[key], new[key], strict=True) if was != is_]
        if causes:
            yield f"link {link}: capture {files.get(key, key)}: {' and '.join(causes)} changed"


def _span(gap: Sequence[int]) -> str:
    return f"from {format_instant(gap[0])} to {format_instant(gap[1])}"


def _policy(value: str) -> str:
    return next((name for name, digest_name in POLICIES.items() if digest_name == value), value)


def _hash(text: str) -> str:
    return short(sha256(text.encode()).hexdigest())

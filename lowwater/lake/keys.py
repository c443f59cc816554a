"""The tree of keys: what everything that is made depends on, and how two of them differ (SEMANTICS S1, T7).

    decode(content)          its identity, what decoding reads of the settings, the version that decoded it
    low(LFTA, link, range)   the contents in the range, with clocks; skews and life of the link; the text of the LFTA,
                             with what that names and the rules that have changed (`lowwater.revisions`)
    high(query, interval)    all links as its lows read them, the text of the query with what it names and its rules,
                             the state of the interval before
    audit(set, interval)     its highs, what people ask of their rows, the limits

Each key is plain values, as JSON has them, and its digest names what it makes: files of an LFTA have that of their low,
the ledger `replays` that of a high, with a summary by which `differences` says later how they changed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from lowwater import __version__
from lowwater.capture.content import retention
from lowwater.capture.tables.options import TableOptions
from lowwater.catalog.protocols import RECORD_KINDS
from lowwater.config import Link
from lowwater.instants import format_duration, format_instant
from lowwater.lake.ingestion.record_options import content_of_file
from lowwater.lake.ledgers.captures import Capture, Captures, short
from lowwater.lake.ledgers.coverage import gaps
from lowwater.lake.ledgers.states import NOWHERE
from lowwater.revisions import revision_of
from lowwater.storage.captures import capture_path

Key = dict[str, Any]
"""Plain values, as JSON has them."""


def digest(key: Any) -> str:
    """Returns the name of a key, 64 hex digits; it is the same in every process.

    Example:
        >>> digest({"a": 1, "b": [2]}) == digest({"b": [2], "a": 1})
        True
    """
    canonical = json.dumps(key, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return sha256(canonical.encode("ascii")).hexdigest()


# What lows and highs read of a link. A capture is in it by the key of its decoding.


def decode_key(capture: Capture) -> Key:
    """Returns the key of the decoded packets or records of a capture."""
    return {
        "capture": capture.capture,
        "decoder": capture.decoded_as(capture.decoder_version),
        "records": [capture.first, capture.last, capture.smallest, capture.largest, capture.packets],
        "flagged": [capture.largest_ahead, capture.smallest_jump],
        "kept": retention.kept_for_rows(capture.kept),
        "key": capture.key or "",
    }


POLICIES = {"publish": "exclude"}
"""Policies with another name in digests: publications made under the old name stay valid."""

NO_GAP = "fail"
"""What counts as the policy of a link where no gap asks for one."""

SEMANTICS_VERSION = 2
"""That of the rules which have no version of their own. A rule that is mended is a revision of its operator, and not
a raise of this, by which everything would be stale."""


def link_key(
    link: str,
    captures: Sequence[Capture],
    settings: Link,
    read_from: int,
    end: int,
    start: int | None = None,
) -> Key:
    """Collects what a run of [start, end) that reads [read_from, end), ns, depends on of one link; without `start`
    it is the begin of what is read.

    A capture counts if its records meet the read range, or count in the interval: its file, decoder and records, and
    the clock at its first record. So a capture added before it counts only if it moves that clock. Coverage counts by
    its gaps: over covered time, it does not matter how captures declare it, nor what the policy says of gaps. max_jump
    counts by the records that it flags. The life of the link counts by its bounds within what is read.
    """
    settings = settings.judging(read_from, read_from if start is None else start, end)
    ordered, dropped = Captures.of(captures), dropped_duplicates(settings)
    missing = gaps(link, captures, settings, read_from, end)
    reads, life = (read_from - _reach(settings) if dropped else read_from, end), (settings.since, settings.until)
    begin, skew = read_from if start is None else start, settings.shortest_skew
    used = [
        decode_key(ordered[index]) | {"clock": max(ordered.clocks[index], ordered[index].first or 0)}
        for index in sorted({*ordered.meeting(*reads), *ordered.charged(begin, end, skew)})
    ]
    return {
        "link": link,
        "captures": used,
        "gaps": [[gap.since, gap.until] for gap in missing],
        "skew": settings.skew,
        READS: reads,
        "life": list(_within(life, reads)),
        "policy": POLICIES.get(settings.policy, settings.policy) if missing else NO_GAP,
        **({} if dropped is None else {"duplicates": dropped}),
        **({} if settings.shed is None else {"shed": settings.shed}),
        **({} if settings.group_skew is None else {"group_skew": settings.group_skew.model_dump()}),
        **({"skews": settings.skews} if settings.skews else {}),
        **({TURNS: [list(turn) for turn in settings.turns]} if settings.turns else {}),
    }


TURNS = "turns"
"""Key of the instants within what a run reads at which the skew is another one: (instant, skew from it on), ns."""

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


# Lows and highs.

FORM = 1
"""Form of the files of LFTAs: no file of another one is used again."""


def low_key(text: str, names: Mapping[str, str], link: Key) -> Key:
    """Returns the key of the rows of an LFTA on one link, over a range.

    Args:
        text: the LFTA, with what its readers make of its files.
        names: definitions of the names in it, and the rules that have changed.
        link: `link_key` of the link over the range. Its gaps change no row of an LFTA.
    """
    read = {name: value for name, value in link.items() if name not in ("gaps", "policy")}
    return {"lfta": text, "names": dict(names), "link": read, "form": FORM, "release": __version__}


@dataclass(frozen=True)
class HighKey:
    """The key of the rows of a query over an interval.

    Attributes:
        parts: the parts (name, text) of its canonical text, with the rules that have changed.
        text: its canonical text.
        names: definitions of the names in it: sets, parameters, functions, hashes of files; the state before.
        links: `link_key` of every link that it reads.
    """

    text: str
    names: Mapping[str, str]
    links: Sequence[Key]
    parts: Sequence[tuple[str, str]] = field(default=())

    @property
    def digest(self) -> str:
        """The digest of the inputs of the query (S1). Its form is that of every release, so that what was published
        before is not stale."""
        return digest(
            {
                "semantics": SEMANTICS_VERSION,
                "text": self.text,
                "names": dict(self.names),
                "links": sorted(
                    ({key: value for key, value in link.items() if key != READS} for link in self.links),
                    key=lambda link: str(link["link"]),
                ),
            }
        )

    @property
    def summary(self) -> Summary:
        """The key in short, small enough to store with every publication."""
        return {
            "semantics": SEMANTICS_VERSION,
            "text": {name: _hash(part) for name, part in self.parts},
            "links": {link["link"]: _link(link) for link in self.links},
        }


def audit_key(high: str, suite: str, limits: str) -> Key:
    """Returns the key of what an audit says of a query.

    Args:
        high: digest of the rows (`HighKey.digest`).
        suite: digest of what people ask of them.
        limits: of the measures, and of their comparison with earlier intervals, as a text.
    """
    return {"high": high, "suite": suite, "limits": short(digest(limits))}


def is_judged_otherwise(before: Mapping[str, Any], now: Key) -> bool:
    """Whether the same rows would be judged by another suite or by other limits than those of an audit; of its limits
    older releases say nothing."""
    had = before.get("suite", ""), before.get("limits", now["limits"])
    return had != (now["suite"], now["limits"])


# Captures whose decoding is of other settings or versions.


def outdated(
    captures: Sequence[Capture],
    settings: Link,
    decoder_version: int,
    read_from: int,
    end: int,
    records: TableOptions | None = None,
    content: Sequence[str] = (),
    otherwise: bool = False,
    lies: Callable[[Capture], bool] = lambda capture: True,
) -> list[str]:
    """Lists the captures that must be ingested again before a run (T7): a line for each, with the reason.

    Args:
        decoder_version: current version of the reader of the link's files.
        records: how queries read the records of the link; None for packets.
        content: what queries read of packets beside the headers, as the ledger names it.
        otherwise: whether the settings do not tell any more how each file was read (`config.Ended`).
        lies: whether the file of a capture lies anywhere; the line of one that does not ends with NOWHERE.
    """
    found: list[tuple[Capture, str]] = []
    of_link = retention.ContentOptions.of(settings)
    key = of_link.key_digest
    ordered, of_records = Captures.of(captures), records
    for capture in (ordered[index] for index in ordered.meeting(read_from - _reach(settings), end)):
        again = capture.erased is None  # else it is never read again (T11)
        options = of_link
        if settings.read_by:
            read = content_of_file(of_records or of_link, settings, capture_path(capture.path))
            options, records = (of_link, read) if isinstance(read, TableOptions) else (read, None)
        if again and capture.decoded_as(capture.decoder_version) != capture.decoded_as(decoder_version):
            what = capture.decoding(decoder_version)
            which = f"version {capture.decoder_version}, now {decoder_version}{f' ({what})' if what else ''}"
            found.append((capture, f"was decoded by {which}"))
        elif not otherwise and _read_otherwise(capture, records):
            found.append((capture, "was read by another kind, protocol or form of text"))
        elif not capture.admits(settings):
            found.append((capture, "was judged by another max_jump"))
        elif (
            not otherwise
            and capture.format == "pcapng"
            and retention.has_times_of_file(capture.kept) != (options.untimed is not None)
        ):
            found.append((capture, "was read by another setting untimed of its link"))
        elif (
            not otherwise
            and capture.format in retention.WITH_RESOLUTION
            and retention.resolution_of(capture.kept) != options.resolution
        ):
            found.append((capture, "was read by another setting resolution of its link"))
        elif options.compared and retention.hash_of(capture.kept) != options.compared:
            found.append((capture, "has no hashes by which duplicates are found"))
        elif lacking := [name for name in content if name not in retention.contents_of(capture.kept)]:
            found.append((capture, f"was read without {', '.join(lacking)}, which a query reads"))
        elif (capture.key or "") != key:
            cause = f"by {'another' if key else 'a'} key" if capture.key else "under no key"
            found.append((capture, f"was anonymised {cause}, and its link now says otherwise"))
    return [f"{each.path} {what}{': ingest it again' if lies(each) else NOWHERE}" for each, what in found]


def _read_otherwise(capture: Capture, records: TableOptions | None) -> bool:
    """Whether a file was read as another kind of records, or by another protocol or form of text, than now."""
    return capture.format in RECORD_KINDS if records is None else capture.kept != str(records)


# A summary of the key of a high, stored beside its digest, says later how the inputs changed (S1). `replays` has that
# of every publication; plan and status compare it with the current one.

Summary = dict[str, Any]
"""JSON: `semantics`, `text` (part of the canonical text -> hash), `links` (link -> its key, captures hashed)."""

_CAUSES = ("its records", "its decoder", "the clock before it", "what is kept of it", "its key")
"""Changes of a capture, in the order of its stored values."""


def _link(inputs: Key) -> Summary:
    captures = {}
    for capture in inputs["captures"]:
        records = _hash(json.dumps([capture["records"], capture["flagged"]]))
        stored = [records, *(capture[key] for key in ("decoder", "clock", "kept", "key"))]
        captures[short(capture["capture"])] = stored
    names = ("skew", TURNS, "skews", "shed", "duplicates", READS, "life", "policy", "gaps")
    values = {key: inputs.get(key) for key in names}
    return values | {"captures": captures}


def differences(before: Summary, now: Summary, captures: Mapping[str, Sequence[Capture]]) -> list[str]:
    """Says how two keys of a high differ, a line for each part that does: its rules, text, links, and of a link its
    skew, life, captures, what decoding made of each, and gaps. What was stored is empty if the publication is older
    than summaries; the captures, by link, have the names of files."""
    if not before:
        return ["its inputs have changed since"]
    lines = [] if before["semantics"] == now["semantics"] else ["the rules of evaluation are another version"]
    old, new = before["text"], now["text"]
    lines += [f"{name} has changed" for name in new if name in old and old[name] != new[name]]
    lines += [_part_words(name, "is new") for name in new if name not in old]
    lines += [f"{name} is no longer there" for name in old if name not in new]
    links = before["links"], now["links"]
    lines += [f"link {name} is read now" for name in sorted(links[1].keys() - links[0].keys())]
    lines += [f"link {name} is no longer read" for name in sorted(links[0].keys() - links[1].keys())]
    for name in sorted(links[0].keys() & links[1].keys()):
        lines += _link_changes(name, links[0][name], links[1][name], captures.get(name, ()))
    return lines or ["its inputs have changed since"]


def _part_words(name: str, change: str) -> str:
    """What a change of a part of the text is; of a rule, which version it is now and what it says."""
    revision = revision_of(name)
    return f"{name} {change}" if revision is None else revision.words


def _link_changes(name: str, old: Summary, new: Summary, captures: Sequence[Capture]) -> list[str]:
    reads = new.get(READS)  # not stored by older versions
    (born, over), (born_now, over_now) = _within(old["life"], reads) if reads else old["life"], new["life"]
    values: tuple[tuple[str, Any, Any, Callable[[Any], str]], ...] = (
        ("skew", (old["skew"], old.get(TURNS)), (new["skew"], new.get(TURNS)), _skew),
        ("skews", old.get("skews"), new["skews"], _attribute_skews),
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


def _skew(value: tuple[int, Sequence[Sequence[int]] | None]) -> str:
    first, turns = value
    later = "".join(f", from {format_instant(at)} on {format_duration(skew)}" for at, skew in turns or ())
    return f"{format_duration(first)}{later}"


def _attribute_skews(skews: Mapping[str, int] | None) -> str:
    return ", ".join(f"{name} {skew}" for name, skew in sorted((skews or {}).items())) or "not set"


def _policy(value: str) -> str:
    return next((name for name, digest_name in POLICIES.items() if digest_name == value), value)


def _hash(text: str) -> str:
    return short(sha256(text.encode()).hexdigest())


_VARYING = (
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z"), "..."),
    (
        re.compile(r"(?<=: capture )\S.*?(?= (?:was added|was replaced|is no longer read)|: its )"),
        "*",
    ),
    (re.compile(r"^.*(?= (?:was|has) (?:decoded|ingested|read|judged|anonymised|no hashes)\b)"), "a capture"),
)
"""What of a line differs between intervals of one cause: instants, and names of captures."""


def kind(line: str) -> str:
    """Returns a line of `differences` or `outdated` without what differs between intervals of one cause.

    Example:
        >>> kind("link a: capture a-01.pcap was added"), kind("link a: skew was 1s, is 2s")
        ('link a: capture * was added', 'link a: skew was 1s, is 2s')
        >>> kind("/data/a 1.pcap was decoded by version 14, now 15: ingest it again")
        'a capture was decoded by version 14, now 15: ingest it again'
    """
    for pattern, word in _VARYING:
        line = pattern.sub(word, line)
    return line

"""Parts of a run's inputs, stored beside their digest, to explain how the inputs changed (S1).

`replays` stores the parts of every publication; plan and status compare them with the current ones.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

from lowwater.instants import format_duration, format_instant
from lowwater.lake.digest import POLICIES, SEMANTICS_VERSION
from lowwater.lake.ledgers.captures import Capture, Captures, short

Parts = dict[str, Any]
"""JSON: `semantics`, `text` (part of the canonical text -> hash), `links` (link -> its inputs, captures hashed)."""

_CAUSES = ("its records", "its decoder", "the clock before it", "what is kept of it", "its key")
"""Changes of a capture, in the order of its stored values."""


def inputs_parts(text: Sequence[tuple[str, str]], links: Iterable[Mapping[str, Any]]) -> Parts:
    """Summarises the inputs of a run, small enough to store with every publication.

    Args:
        text: (name, text) of the parts of the canonical text.
        links: `digest.link_inputs` of every link.
    """
    return {
        "semantics": SEMANTICS_VERSION,
        "text": {name: _hash(part) for name, part in text},
        "links": {link["link"]: _link(link) for link in links},
    }


def _link(inputs: Mapping[str, Any]) -> Parts:
    captures = {}
    for capture in inputs["captures"]:
        records = _hash(json.dumps([capture["records"], capture["flagged"]]))
        stored = [records, *(capture[key] for key in ("decoder", "clock", "kept", "key"))]
        captures[short(capture["capture"])] = stored
    values = {key: inputs.get(key) for key in ("skew", "shed", "duplicates", "life", "policy", "gaps")}
    return values | {"captures": captures}


def changes(before: Parts, now: Parts, captures: Mapping[str, Sequence[Capture]]) -> list[str]:
    """Describes how the inputs differ from those of a publication, a line for every change.

    Args:
        before: stored parts; empty if the publication is older than the parts.
        now: current parts of the same query and interval.
        captures: link -> ledger rows, for the names of files.
    """
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


def _link_changes(name: str, old: Parts, new: Parts, captures: Sequence[Capture]) -> list[str]:
    lines = []
    values: tuple[tuple[str, Any, Any, Callable[[Any], str]], ...] = (
        ("skew", old["skew"], new["skew"], format_duration),
        ("shed", old.get("shed"), new["shed"], lambda value: "not set" if value is None else str(value)),
        ("duplicates", old.get("duplicates"), new["duplicates"], lambda value: value or "kept"),
        ("since", old["life"][0], new["life"][0], _instant),
        ("until", old["life"][1], new["life"][1], _instant),
        ("policy", old["policy"], new["policy"], _policy),
    )
    for key, was, is_, say in values:
        if was != is_:
            lines.append(f"link {name}: {key} was {say(was)}, is {say(is_)}")
    if old["captures"] != new["captures"]:
        lines += _capture_changes(name, old["captures"], new["captures"], captures)
    for gap in _only(old["gaps"], new["gaps"]):
        lines.append(f"link {name}: the gap {_span(gap)} is not as it was")
    for gap in _only(new["gaps"], old["gaps"]):
        lines.append(f"link {name}: there is a gap {_span(gap)}")
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
        if causes := _causes(old[key], new[key]):
            yield f"link {link}: capture {files.get(key, key)}: {causes} changed"


def _causes(old: Sequence[Any], new: Sequence[Any]) -> str:
    return " and ".join(cause for cause, was, is_ in zip(_CAUSES, old, new, strict=True) if was != is_)


def _only(some: Sequence[Sequence[int]], others: Sequence[Sequence[int]]) -> list[Sequence[int]]:
    return [gap for gap in some if gap not in others]


def _span(gap: Sequence[int]) -> str:
    return f"from {format_instant(gap[0])} to {format_instant(gap[1])}"


def _policy(value: str) -> str:
    return next((name for name, digest_name in POLICIES.items() if digest_name == value), value)


def _instant(value: int | None) -> str:
    return "not set" if value is None else format_instant(value)


def _hash(text: str) -> str:
    return short(sha256(text.encode()).hexdigest())

"""What `lowwater init` does: the settings of a new lake, proposed from a folder of captures, each line explained."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from os.path import relpath
from pathlib import Path

from lowwater.config import FILE_NAME, HOUR, format_duration, format_instant, load_config
from lowwater.errors import ConfigError
from lowwater.lake.naming import Named
from lowwater.lake.proposal import Proposal, Proposed, propose
from lowwater.terminal import Terminal, say, shown

HEAD = """\
# The settings of this lake, proposed from {folder}: read them through. docs/settings.md describes every one.
# Durations are texts such as "500ms", "1s", "15 min", "1h"; instants are ISO 8601, UTC.

[interval]
length = "{interval}"                        # of a run's data interval: results are published and replaced by it
"""

QUANTILES = (0.5, 0.99, 0.999)

QUERIES = """
# A query set is a section [query_sets.NAME] with its files, relative to this file:
#
#     [query_sets.flows]
#     files = ["../queries/flows.gsql"]
#
# FROM reads one link, a list, or a set of links by its name in brackets:
#
#     [sets]
#     all = {links}
"""


def init_lake(folder: Path, lake: Path, queries: Sequence[Path], sample: int) -> None:
    """Writes the settings of a lake and says what was found.

    Raises:
        ConfigError: there are settings already, or no captures.
    """
    target = lake / FILE_NAME
    if target.exists():
        raise ConfigError(f"{target}: is there already", "change it, or remove it and run init again")
    with Terminal(stderr=True).working("looking") as working:
        proposal = propose(folder, sample, lambda name: working(f"reading {name}"))
    text = settings(proposal, folder, lake, queries)
    lake.mkdir(parents=True, exist_ok=True)
    scratch = target.with_suffix(".tmp")
    scratch.write_text(text, encoding="utf-8")
    load_config(lake, scratch)  # what is written can be read
    os.rename(scratch, target)
    for each in proposal.links:
        packets = sum(i.packets for i in each.interfaces)
        read = f"{len(each.facts)} of {len(each.named.names)} files read, {packets:,} packets"
        say(f"{each.named.link}: {each.named.pattern}, skew {format_duration(each.skew)}; {read}")
    for name, why in proposal.skipped.items():
        say(f"left out: {name}: {why}", err=True)
    say(f"wrote {target}: read it, then lowwater ingest --lake {lake}")


def settings(proposal: Proposal, folder: Path, lake: Path, queries: Sequence[Path]) -> str:
    """The text of `lowwater.toml`."""
    parts = [HEAD.format(folder=_comment(str(folder)), interval=format_duration(proposal.interval))]
    parts += [_link(each, relpath(folder, lake)) for each in proposal.links]
    names = [each.named.link for each in proposal.links]
    if queries:
        parts += [f"\n[query_sets.{_key(path.stem)}]\nfiles = [{_text(relpath(path, lake))}]\n" for path in queries]
    else:
        parts.append(QUERIES.format(links=json.dumps(names)))
    return "".join(parts)


def _link(each: Proposed, folder: str) -> str:
    name = each.named.link
    packets = sum(i.packets for i in each.interfaces)
    lines = ["", f"[links.{_key(name)}]"]
    lines.append(f"# {_files(each.named)}, of which {len(each.facts)} were read: {packets:,} packets")
    if any(len(capture.interfaces) > 1 for capture in each.facts):
        inside = sorted({i.interface.name for i in each.interfaces if i.interface.name})
        lines.append(f"# its captures have several interfaces, each a link {name}/NAME: {_comment(', '.join(inside))}")
    lines.append(f"captures = {_text(_joined(folder, each.named.pattern))}")
    lines += [*_rotation(each), *_skew(each), *_life(each)]
    lines.append(_said('policy = "fail"', "what a gap in its captures does to a run: fail, wait or exclude"))
    return "\n".join(lines) + "\n"


def _said(setting: str, comment: str) -> str:
    return f"{setting:<36} # {comment}"


def _rotation(each: Proposed) -> list[str]:
    if each.rotation is None:
        why = "begin at no regular distance" if each.named.dated else "have no date in their names"
        return [
            f"# the files {why}: each covers from its first record to its last, and between two is a gap;",
            '# a pattern with the begin of a file in it, as %Y%m%dT%H, and rotation = "1h" say more',
        ]
    said = "a guess: there is one file" if each.guessed else "how long a file covers from the instant in its name"
    lines = [_said(f'rotation = "{format_duration(each.rotation)}"', said)]
    if each.ahead:
        hours, rest = divmod(abs(each.ahead), HOUR)
        side = "ahead of" if each.ahead > 0 else "behind"
        lines.append(f"# the names are {format_duration(abs(each.ahead))} {side} the records: is it their time zone?")
        zone = "..." if rest else f"Etc/GMT{'-' if each.ahead > 0 else '+'}{hours}"
        lines.append(_said(f'{"# " if rest else ""}timezone = "{zone}"', 'better by its name, as "Europe/Berlin"'))
    return lines


def _skew(each: Proposed) -> list[str]:
    worst = max(each.interfaces, key=lambda i: i.lateness.largest).lateness
    shares = ", ".join(f"{100 * share:g} % {_late(worst.quantile(share) or 0)}" for share in QUANTILES)
    lines = [f"# how late its records are: {shares}, at most {_late(each.latest)}"]
    if each.latest > each.skew:
        lines.append(f'# some are later than the skew and will be refused: "{_late(each.latest)}" would admit all')
    return [*lines, _said(f'skew = "{format_duration(each.skew)}"', "what is later is refused and recorded")]


def _life(each: Proposed) -> list[str]:
    """When the link begins and ends; nothing where it is not known. Without a rotation whole hours are wide enough."""
    if each.since is None or each.until is None:
        return []
    whole = 1 if each.rotation else HOUR
    since, until = each.since // whole * whole, -(-each.until // whole) * whole
    return [
        _said(f'since = "{format_instant(since)}"', "nothing is missing before it"),
        _said(f'# until = "{format_instant(until)}"', "nor after this, once no more captures come"),
    ]


def _late(lateness: int) -> str:
    """A duration rounded up to what is worth reading: three digits."""
    unit = max(10 ** (len(str(lateness)) - 3), 1)
    return format_duration(-(-lateness // unit) * unit)


def _files(named: Named) -> str:
    count = len(named.names)
    return f"{count:,} files, {_comment(named.names[0])} to {_comment(named.names[-1])}" if count > 1 else "one file"


def _joined(folder: str, pattern: str) -> str:
    return f"{folder.replace('%', '%%')}/{pattern}" if folder != "." else pattern


def _text(value: str) -> str:
    """A basic string of TOML; JSON's escapes are among TOML's."""
    return json.dumps(value, ensure_ascii=True)


def _key(name: str) -> str:
    return name if all(char.isalnum() or char in "-_" for char in name) else _text(name)


def _comment(text: str) -> str:
    return shown(text).replace("\n", " ")

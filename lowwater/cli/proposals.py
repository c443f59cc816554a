"""What `lowwater init` does: the settings of a new lake, proposed from a folder of captures, each line explained."""

from __future__ import annotations

import json
import os
import shlex
from collections import defaultdict
from collections.abc import Iterator, Sequence
from os.path import relpath
from pathlib import Path

from lowwater.config import FILE_NAME, load_config, section_of
from lowwater.errors import ConfigError
from lowwater.instants import HOUR, format_duration, format_instant
from lowwater.lake.files.names import LinkFiles
from lowwater.lake.files.proposal import LinkProposal, Proposal, propose
from lowwater.terminal import Terminal, say, shown

HEAD = """\
# The settings of this lake, proposed from {folder}: read them through. docs/settings.md describes every one.
# Durations are texts such as "500ms", "1s", "15 min", "1h"; instants are ISO 8601, UTC.

[interval]
length = "{interval}"                        # of a run's data interval: results are published and replaced by it
"""

MIXED = "its files overlap in time, and their names do not tell of which links they are"

QUANTILES = (0.5, 0.99, 0.999)

QUERIES = """
# A query set is a section [query_sets.NAME] with its files, relative to this file:
#
#     [query_sets.NAME]
#     files = ["../queries/flows.gsql"]
#
# FROM reads one link, a list, or a set of links by its name in brackets.
"""


def init_lake(folder: Path, lake: Path, queries: Sequence[Path], sample: int) -> None:
    """Writes the settings of a lake and says what was found.

    Args:
        folder: folder that holds the captures, at any depth.
        lake: folder of the lake, made where it is absent.
        queries: query files, each a query set.
        sample: how many captures of each link are read whole.

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
    for line in _several(proposal.links):
        say(line)
    for each in proposal.links:
        packets = sum(i.packets for i in each.interfaces)
        read = f"{len(each.facts)} of {len(each.named.names)} files read, {packets:,} packets"
        say(f"{each.named.link}: {each.named.pattern}, skew {format_duration(each.skew)}; {read}")
    for name, why in proposal.skipped.items():
        say(f"left out: {name}: {why}", err=True)
    say(f"wrote {target}: read it, then lowwater ingest --lake {shlex.quote(str(lake))}")


def settings(proposal: Proposal, folder: Path, lake: Path, queries: Sequence[Path]) -> str:
    """The text of `lowwater.toml`.

    Args:
        proposal: what was found.
        folder: folder of the captures.
        lake: folder of the lake, from which paths are relative.
        queries: query files, each a query set.
    """
    parts = [HEAD.format(folder=_comment(str(folder)), interval=format_duration(proposal.interval))]
    parts += [_link(each, relpath(folder, lake)) for each in proposal.links]
    names = [each.named.link for each in proposal.links]
    if len(names) > 1:
        parts.append(f"\n[sets]\nall = {json.dumps(names)}\n")
    if queries:
        headers = [section_of(path.stem, of="query_sets") for path in queries]
        files = [_text(relpath(path, lake)) for path in queries]
        parts += [f"\n{header}\nfiles = [{file}]\n" for header, file in zip(headers, files, strict=True)]
    else:
        parts.append(QUERIES)
    return "".join(parts)


def _several(links: Sequence[LinkProposal]) -> Iterator[str]:
    """What was taken for several links, and by which rule; what names do not tell apart."""
    together: dict[str, list[LinkProposal]] = defaultdict(list)
    for each in links:
        if each.of:
            together[each.of].append(each)
        if each.mixed:
            yield f"{each.named.link}: {MIXED}: put the files of each link in a folder of its own, and run init again"
    for pattern, found in together.items():
        names = ", ".join(each.named.link for each in found)
        yield f"{pattern}: files that overlap in time, so of {len(found)} links, told apart by their names: {names}"


def _link(each: LinkProposal, folder: str) -> str:
    name = each.named.link
    packets = sum(i.packets for i in each.interfaces)
    lines = ["", section_of(name)]
    lines.append(f"# {_files(each.named)}, of which {len(each.facts)} were read: {packets:,} packets")
    if each.of:
        lines.append(f"# one of the links of {_comment(each.of)}: files that overlap in time are of several links")
    elif len(each.named.names) > 1:
        rule = MIXED if each.mixed else "one link: its files follow one another in time, and differ in a date or number"
        lines.append(f"# {rule}")
    if any(len(capture.interfaces) > 1 for capture in each.facts):
        inside = sorted({i.interface.name for i in each.interfaces if i.interface.name})
        lines.append(f"# its captures have several interfaces, each a link {name}/NAME: {_comment(', '.join(inside))}")
    lines.append(f"captures = {_text(_joined(folder, each.named.pattern))}")
    lines += [*_rotation(each), *_skew(each), *_life(each)]
    if each.tolerance:
        tolerance = f'gap_tolerance = "{format_duration(each.tolerance)}"'
        lines.append(_said(tolerance, "pauses between its files: silences inside of them are as long"))
    lines.append(_said('policy = "fail"', "what a gap in its captures does to a run: fail, wait or publish"))
    return "\n".join(lines) + "\n"


def _said(setting: str, comment: str) -> str:
    return f"{setting:<36} # {comment}"


def _rotation(each: LinkProposal) -> list[str]:
    found = each.dates
    if found.rotation is None:
        lines = [f"# {_comment(found.why)}", "# so each covers from its first record to its last"]
        if not each.named.dated:
            lines[-1] += "; docs/captures.md, Files without dates, says what follows"
        return lines
    said = "how long a file covers from the instant in its name"
    said = "a guess: there is one file, which fills it" if found.guessed else said
    lines = [_said(f'rotation = "{format_duration(found.rotation)}"', said)]
    if found.ahead:
        hours, rest = divmod(abs(found.ahead), HOUR)
        side = "ahead of" if found.ahead > 0 else "behind"
        lines.append(f"# the names are {format_duration(abs(found.ahead))} {side} the records: is it their time zone?")
        zone = "..." if rest else f"Etc/GMT{'-' if found.ahead > 0 else '+'}{hours}"
        lines.append(_said(f'{"# " if rest else ""}timezone = "{zone}"', 'better by its name, as "Europe/Berlin"'))
    return lines


def _skew(each: LinkProposal) -> list[str]:
    worst = max(each.interfaces, key=lambda i: i.lateness.largest).lateness
    shares = ", ".join(f"{100 * share:g} % {_late(worst.quantile(share) or 0)}" for share in QUANTILES)
    lines = [f"# how late its records are: {shares}, at most {_late(each.latest)}"]
    if each.latest > each.skew:
        lines.append(f'# some are later than the skew and will be refused: "{_late(each.latest)}" would admit all')
    return [*lines, _said(f'skew = "{format_duration(each.skew)}"', "what is later is refused and recorded")]


def _life(each: LinkProposal) -> list[str]:
    """When the link begins and ends, which no record contradicts; nothing where it is not known."""
    if each.since is None or each.until is None:
        return []
    return [
        _said(f'since = "{format_instant(each.since)}"', "nothing is missing before it"),
        _said(f'# until = "{format_instant(each.until)}"', "nor after this, once no more captures come"),
    ]


def _late(lateness: int) -> str:
    """A duration rounded up to what is worth reading: three digits."""
    unit = max(10 ** (len(str(lateness)) - 3), 1)
    return format_duration(-(-lateness // unit) * unit)


def _files(named: LinkFiles) -> str:
    count = len(named.names)
    return f"{count:,} files, {_comment(named.names[0])} to {_comment(named.names[-1])}" if count > 1 else "one file"


def _joined(folder: str, pattern: str) -> str:
    return f"{folder.replace('%', '%%')}/{pattern}" if folder != "." else pattern


def _text(value: str) -> str:
    """A basic string of TOML; JSON's escapes are among TOML's."""
    return json.dumps(value, ensure_ascii=True)


def _comment(text: str) -> str:
    return shown(text).replace("\n", " ")

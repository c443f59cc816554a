"""Implements `init`: proposes the settings of a new lake from captures and files of other records, with comments."""

from __future__ import annotations

import json
import os
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import takewhile
from os.path import relpath
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from types import MappingProxyType

from lowwater import documents, terminal
from lowwater.capture.headers.undecoded import NOTHING
from lowwater.capture.inspect import doubts
from lowwater.capture.tables.options import TextOptions
from lowwater.catalog.values import Type
from lowwater.config import Config, load_config, section_of
from lowwater.errors import ConfigError, LakeError, LowwaterError, QueryErrors
from lowwater.instants import format_duration, format_instant
from lowwater.lake.files.names import LinkFiles
from lowwater.lake.files.patterns import literal
from lowwater.lake.files.proposal import LinkProposal, Proposal, files_below, propose
from lowwater.lake.files.sample import LogProposal, RecordProposal
from lowwater.lake.ingestion.record_options import record_options
from lowwater.lake.ledgers.captures import few
from lowwater.plan import definitions, queryset
from lowwater.replay.checks import lines_to_add
from lowwater.replay.names import config_links
from lowwater.storage import failures, objects, paths
from lowwater.storage.captures import StoredCapture
from lowwater.storage.object_paths import ObjectPath

# Links of records that are no packets

SCHEMA = ".schema"
"""Suffix of a file with the PROTOCOL block of a link."""

SCHEMA_HEAD = """\
// How the records of this link are read, proposed from a sample of its files: read it through.
// docs/language/protocols.md describes every word. After a change, ingest the files again.
"""


def commented(setting: str, comment: str) -> str:
    """Returns a line of settings with a comment."""
    return f"{setting:<36} # {comment}"


def toml_text(value: str) -> str:
    """Returns a TOML string; the escapes of JSON are valid in TOML."""
    return json.dumps(value, ensure_ascii=True)


def record_settings(link: LinkProposal, schema: str) -> list[str]:
    """Returns the lines of settings that say how the records of a link are read. `schema`: file of its PROTOCOL block,
    relative to the settings."""
    assert link.records is not None
    malformed = [f"# {line}" for line in _malformed(link)]
    if isinstance(link.records, LogProposal):
        return [
            f'kind = "{link.records.log.kind}"',
            commented(f'protocol = "{link.records.protocol}"', "its columns: docs/logs.md"),
            *(f"# {line}" for line in undecided(link.records)),
            *malformed,
        ]
    plain, text = TextOptions(), link.records.text
    lines = [
        f'kind = "{link.records.options.kind}"',
        commented(f"schemas = {toml_text(schema)}", f"its clock is {link.records.clock}, in {link.records.table.unit}"),
    ]
    if text.separator != plain.separator:
        lines.append(f"separator = {toml_text(text.separator)}")
    if text.quote != plain.quote:
        lines.append(commented(f"quote = {toml_text(text.quote)}", "" if text.quote else "values are never quoted"))
    if text.header is not None:
        lines.append(f"header = {str(text.header).lower()}")
    if text.null != plain.null:
        lines.append(commented(f"null = {json.dumps(text.null)}", "texts that stand for no value"))
    if text.decimal != plain.decimal:
        lines.append(
            commented(f"decimal = {toml_text(text.decimal)}", f"in numbers such as {_commas(link.records)[1]}")
        )
    return [*lines, *malformed]


def _commas(records: RecordProposal) -> tuple[str, str]:
    """Returns the fields whose numbers have a decimal comma, and one of the numbers; empty texts for none."""
    if records.text.decimal == ".":
        return "", ""
    fields = [each for each in records.fields if each.column.kind.comma and each.column.kind.type is not Type.STRING]
    return few([each.name for each in fields]), next((terminal.shown(each.column.kind.comma) for each in fields), "")


def _malformed(link: LinkProposal) -> Iterator[str]:
    counts: Counter[str] = Counter()
    for interface in link.interfaces:
        counts.update(interface.malformed)
    if counts:
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in sorted(counts.items()))
        yield _comment(f"{counts.total():,} of its records are malformed: {reasons}")


def undecided(records: RecordProposal | LogProposal) -> Iterator[str]:
    """Says what init could not decide about the records of a link, a line for each question."""
    if isinstance(records, LogProposal):
        if records.log.others:
            others = ", ".join(records.log.others)
            yield f"its files hold records of {others} as well: another link with the same captures reads them"
        return
    table = records.table
    if table.guessed:
        yield f"the unit of {records.clock} is a guess: its values are near no instant of today"
    fields, example = _commas(records)
    if fields:
        yield f"numbers of {fields}, such as {example}, have a decimal comma, as the settings say"
    empty = [proposed.name for proposed in records.fields if proposed.column.kind.empty]
    if empty:
        yield f"no value in the sample tells the type of {', '.join(empty)}"
    for name, why in list(table.left_out.items())[:10]:
        yield f"left out: {terminal.shown(name)}: {why}"
    if len(table.left_out) > 10:
        yield f"and {len(table.left_out) - 10:,} more columns"
    for name, count in records.refused.items():
        yield f"{count:,} values of {name} are of another type: their records are malformed"


HEAD = """\
# The settings of this lake, proposed from {folder}: read them through. docs/settings.md describes every one.
# Durations are texts such as "500ms", "1s", "15 min", "1h"; instants are ISO 8601, UTC.

[interval]
length = "{interval}"                        # of a run's data interval: results are published and replaced by it
"""

MIXED = "its files overlap in time, but their names do not show which links they belong to"

LEFT_OUT = 20
"""Files that are left out, of which the settings name so many; the command names all."""

MANY = 20
"""Links of one file each, beyond which they are hardly links."""

MOST_DOUBTS = 4
"""Most lines about the times of the files of a link."""

QUANTILES = (0.5, 0.99, 0.999)

QUERIES = """
# A query set is a section [query_sets.NAME] with its files, relative to this file:
#
#     [query_sets.NAME]
#     files = ["../queries/flows.gsql"]
#
# FROM reads one link, a list, or a set of links by its name in brackets.
"""


def init_lake(given: Sequence[Path], lake: PurePath, queries: Sequence[Path], sample: int) -> None:
    """Writes the settings of a lake, and the protocols of its links, and prints the links that it found.
    Raises ConfigError if the lake has settings already, or there are no captures, and LakeError if the lake cannot be
    written."""
    target = lake / documents.FILE_NAME
    with _made(lake):
        if paths.exists(target):
            raise ConfigError(f"{target}: already exists", "change it, or remove it and run init again")
        paths.require_writable(lake)  # before a long look at captures
    folder, names = _folder(given)
    with terminal.Terminal(stderr=True).working("looking") as working:
        proposal = propose(folder, sample, lambda name: working(f"reading {name}"), names)
    text = settings(proposal, folder, lake, queries)
    schemas = _schemas(proposal, paths.settings_folder(target))
    for path, data in schemas.items():
        if paths.exists(path) and paths.read(path) != data:
            raise ConfigError(f"{path}: already exists", "remove it or give it another name, and run init again")
        with _made(lake):
            paths.write(path, data)
    with TemporaryDirectory() as scratch:
        proposed = Path(scratch, documents.FILE_NAME)
        proposed.write_text(text, encoding="utf-8")
        for path, data in schemas.items():
            Path(scratch, path.name).write_bytes(data)
        config = load_config(lake, proposed)  # fails before the lake has it if the proposal is not valid
        for link in proposal.links:
            record_options(config, link.named.link)
        kept, refused = _kept(queries, config)
    text = settings(proposal, folder, lake, queries, kept) if kept else text
    with _made(lake):
        paths.write(target, text.encode())
    objects.look_again(lake)  # the settings were proven while there was no lake yet
    for line in (*_several(proposal.links), *proposal.doubles):
        terminal.say(line)
    for link in proposal.links:
        read = f"{len(link.facts)} of {len(link.named.names)} files read, {_count(link)}"
        terminal.say(f"{link.named.link}: {link.named.pattern}, skew {format_duration(link.skew)}; {read}")
        for line in (*(undecided(link.records) if link.records else ()), *link.notes, *_dates_doubted(link)):
            terminal.say(f"  {line}")
        for line in _doubts(link):
            terminal.say(f"  {line}")
    for line in refused:
        terminal.say(f"note: {line}", err=True)
    for name, why in proposal.skipped.items():
        terminal.say(f"left out: {name}: {why}", err=True)
    terminal.say(f"wrote {target}: read it, then lowwater ingest --lake {shlex.quote(str(lake))}")


@contextmanager
def _made(lake: PurePath) -> Iterator[None]:
    """Words the errors of what is written to the folder of a lake."""
    try:
        yield
    except OSError as error:
        hint = failures.hint_of(error, "name a folder that you may write, or a new one in such a folder")
        raise LakeError(f"{lake}: no lake can be made there: {error.strerror}", hint) from error


def _kept(queries: Sequence[Path], config: Config) -> tuple[dict[str, list[str]], list[str]]:
    """Finds the lines by which links keep what queries read, by link, and says which queries do not fit the links."""
    plans, refused = [], []
    links = config_links(config, sorted(config.links))
    for path in queries:
        try:
            context = definitions.make_context(links, config.link_schemas, folders=config.files.folders)
            plans.append(queryset.plan_files([path], links, context=context))
        except LowwaterError as error:
            errors = error.errors if isinstance(error, QueryErrors) else (error,)
            for each in errors:
                hint = f"\n  hint: {each.hint}" if each.hint else ""
                refused.append(f"{str(each).splitlines()[0]}: nothing of {path} is due until it fits these links{hint}")
    return lines_to_add(plans, config), refused


def _folder(given: Sequence[Path]) -> tuple[Path, list[str] | None]:
    """Returns the folder of all files, and their names relative to it; None for all files of a single folder."""
    if len(given) == 1 and given[0].is_dir():
        return given[0], None
    places = [path.absolute() for path in given]
    folder = _common([path if path.is_dir() else path.parent for path in places])
    files = [place / name for place in places if place.is_dir() for name in files_below(place)]
    files += [place for place in places if not place.is_dir()]
    return folder, sorted({path.relative_to(folder).as_posix() for path in files})


def _common(folders: Sequence[Path]) -> Path:
    if not any(isinstance(path, StoredCapture) for path in folders):
        return Path(os.path.commonpath(folders))
    levels = zip(*(folder.parts for folder in folders), strict=False)
    common = [names[0] for names in takewhile(lambda names: len(set(names)) == 1, levels)]
    if len(common) < 2:
        raise ConfigError("the captures are in several buckets, or on this machine too", "name those of one bucket")
    return StoredCapture(*common)


def _schemas(proposal: Proposal, folder: Path) -> dict[Path, bytes]:
    """Returns the file of the PROTOCOL block of each link of records, in the folder from which settings name files."""
    return {
        folder / f"{link.named.link}{SCHEMA}": (SCHEMA_HEAD + link.records.block).encode()
        for link in proposal.links
        if isinstance(link.records, RecordProposal)
    }


def _count(link: LinkProposal) -> str:
    count = sum(interface.packets for interface in link.interfaces)
    return f"{count:,} {'packets' if link.records is None else 'records'}"


def _from(path: Path, lake: PurePath) -> str:
    """The path of a file as the settings of a lake name it: of a local one from their folder, if they are in one."""
    if isinstance(path, StoredCapture):
        return str(path)
    return str(path.absolute()) if isinstance(lake, ObjectPath) else relpath(path, lake)


def settings(
    proposal: Proposal,
    folder: Path,
    lake: PurePath,
    queries: Sequence[Path],
    kept: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> str:
    """Returns the text of `lowwater.toml`. `lake`: its folder; paths are relative to it. `kept`: link -> lines by which
    it keeps what the queries read."""
    parts = [HEAD.format(folder=_comment(str(folder)), interval=format_duration(proposal.interval))]
    # Of a lake in an object store, settings name local files by their whole paths.
    schemas = f"{paths.settings_folder(lake / documents.FILE_NAME)}/" if isinstance(lake, ObjectPath) else ""
    parts += [_link(link, _from(folder, lake), schemas, kept.get(link.named.link, ())) for link in proposal.links]
    left_out = [f"# left out: {_comment(name)}: {_comment(why)}" for name, why in proposal.skipped.items()]
    if left_out:
        more = [f"# and {len(left_out) - LEFT_OUT:,} more files"] if len(left_out) > LEFT_OUT else []
        parts.append("\n".join(["", *left_out[:LEFT_OUT], *more, ""]))
    names = [link.named.link for link in proposal.links]
    parts += [f"\n# {_comment(line)}\n" for line in proposal.doubles]
    if len(names) > 1:
        parts.append(f"\n[sets]\nall = {json.dumps(names)}\n")
    if queries:
        for path in queries:
            parts.append(f"\n{section_of(path.stem, of='query_sets')}\nfiles = [{toml_text(_from(path, lake))}]\n")
    else:
        parts.append(QUERIES)
    return "".join(parts)


def _several(links: Sequence[LinkProposal]) -> Iterator[str]:
    """Explains which files were divided into several links, and which links could not be told apart by names."""
    together: dict[str, list[LinkProposal]] = defaultdict(list)
    for link in links:
        if link.of:
            together[link.of].append(link)
        if link.mixed:
            yield f"{link.named.link}: {MIXED}: put the files of each link in a folder of its own, and run init again"
    single = sum(len(link.named.names) == 1 for link in links)
    if single > MANY:
        yield (
            f"{single:,} links have one file each: a recorder that writes a file for each call or flow makes such "
            "files; if so, merge them by mergecap, and run init again"
        )
    for pattern, members in together.items():
        names = ", ".join(link.named.link for link in members)
        several = f"its files overlap in time, so they belong to {len(members)} links"
        yield f"{pattern}: {several}, told apart by name: {names}"


def _link(link: LinkProposal, folder: str, schemas: str, kept: Sequence[str] = ()) -> str:
    name = link.named.link
    lines = ["", section_of(name)]
    lines.append(f"# {_files(link.named)}, of which {len(link.facts)} were read: {_count(link)}")
    if link.of:
        lines.append(f"# one of the links of {_comment(link.of)}: files that overlap in time belong to several links")
    elif len(link.named.names) > 1:
        rule = MIXED if link.mixed else "one link: its files follow one another in time, and differ in a date or number"
        lines.append(f"# {rule}")
    inside = sorted({interface.interface.name for interface in link.interfaces if interface.interface.name})
    if link.records is None and inside:
        lines.append(f"# its interfaces are links {name}/NAME: {_comment(', '.join(inside))}")
    lines += record_settings(link, f"{schemas}{name}{SCHEMA}") if link.records else []
    patterns = [toml_text(_joined(folder, pattern)) for pattern in link.named.patterns]
    lines += [f"# {_comment(note)}" for note in link.notes]
    if any("%c" in pattern for pattern in link.named.patterns):
        lines.append("# %c is the count that tcpdump -C appends where a file is full too early: none, or digits")
    listed = f"[{', '.join(patterns)}]"
    lines.append(f"captures = {patterns[0] if len(patterns) == 1 else listed}")
    lines += [commented(line, "what the queries read of its packets beside the headers") for line in kept]
    lines += [*_resolution(link), *_rotation(link), *_skew(link), *_life(link)]
    if link.tolerance:
        tolerance = f'gap_tolerance = "{format_duration(link.tolerance)}"'
        lines.append(commented(tolerance, "pauses between its files: silences inside the files are as long"))
    lines.append(commented('policy = "fail"', "what a gap in its captures does to a run: fail, wait or publish"))
    return "\n".join(lines) + "\n"


def _doubts(link: LinkProposal) -> list[str]:
    lines = [f"{facts.path.name}: {facts.doubted}" for facts in link.facts if facts.doubted]
    lines += [f"{facts.path.name}: {doubt.words}" for facts in link.facts for doubt in doubts(facts)]
    beginnings = NOTHING
    for facts in link.facts:
        beginnings = beginnings.plus(facts.beginning)
    if beginnings.words:
        lines.insert(0, f"of the first packets of its files, {beginnings.words}")
    if len(lines) > MOST_DOUBTS:
        lines[MOST_DOUBTS - 1 :] = [f"{len(lines) - MOST_DOUBTS + 1} more such lines"]
    if len({facts.read_as for facts in link.facts if facts.summary.packets}) > 1:
        lines.append("its files have times in different units: a link has one, so make two links of them")
    return lines


def _resolution(link: LinkProposal) -> list[str]:
    """Returns the line `resolution`, where all files say a wrong unit, with what is doubtful about its times."""
    lines = [f"# {_comment(line)}" for line in _doubts(link)]
    units = {facts.read_as for facts in link.facts if facts.summary.packets}
    if len(units) == 1 and units != {"file"}:
        lines.append(commented(f'resolution = "{units.pop()}"', "of the times, whatever the files say"))
    return lines


def _rotation(link: LinkProposal) -> list[str]:
    dates = link.dates
    if not dates.declared:
        lines = [f"# {_comment(dates.why)}", "# so each covers from its first record to its last"]
        if not link.named.dated:
            lines[-1] += "; docs/captures.md, Files without dates, says what follows"
        return lines
    lines = [f"# each covers from the begin to the end in its name{_inclusive(link)}"] if dates.ends else []
    if dates.rotation is not None:
        known = "how long a file covers from the instant in its name"
        comment = "a guess: there is one file, which fills it" if dates.guessed else known
        lines.append(commented(f'rotation = "{format_duration(dates.rotation)}"', comment))
    if dates.late:
        lines.append(
            "# the names lead by a rotation: they are in another zone, or say when files end; here it is the same"
        )
    if dates.zone != "UTC":
        lines.append(commented(f'timezone = "{dates.zone}"', 'of the names; better by its name, as "Europe/Berlin"'))
    return lines


def _inclusive(link: LinkProposal) -> str:
    """Says of names with an inclusive end that they have one."""
    inclusive = any("%L" in pattern for pattern in link.named.patterns)
    return ", with the last second (or minute, day) that it says: %L" if inclusive else ""


def _skew(link: LinkProposal) -> list[str]:
    worst = max(link.interfaces, key=lambda interface: interface.lateness.largest).lateness
    shares = ", ".join(f"{100 * share:g} % {_late(worst.quantile(share) or 0)}" for share in QUANTILES)
    lines = [f"# how late its records are: {shares}, at most {_late(link.latest)}"]
    if link.latest > link.skew:
        lines.append(f'# some are later than the skew and will be refused: "{_late(link.latest)}" would admit all')
    return [*lines, commented(f'skew = "{format_duration(link.skew)}"', "what is later is refused and recorded")]


def _life(link: LinkProposal) -> list[str]:
    if link.since is None or link.until is None:
        return []
    return [
        commented(f'since = "{format_instant(link.since)}"', "nothing is missing before it"),
        commented(f'# until = "{format_instant(link.until)}"', "nor after this, once no more captures come"),
    ]


def _late(lateness: int) -> str:
    """Formats a duration (ns), rounded up to three digits."""
    unit = max(10 ** (len(str(lateness)) - 3), 1)
    return format_duration(-(-lateness // unit) * unit)


def _dates_doubted(link: LinkProposal) -> Iterator[str]:
    """Says why the dates in the names of a link are not used, or by which zone they are read."""
    if link.named.dated and link.dates.why:
        yield f"{link.dates.why}; so each file covers from its first record to its last"
    if link.dates.zone != "UTC":
        late = ", or say when files end, which is the same here" if link.dates.late else ""
        yield f"its names are read as times of {link.dates.zone}{late}"


def _files(named: LinkFiles) -> str:
    count = len(named.names)
    return f"{count:,} files, {_comment(named.names[0])} to {_comment(named.names[-1])}" if count > 1 else "one file"


def _joined(folder: str, pattern: str) -> str:
    return f"{literal(folder)}/{pattern}" if folder != "." else pattern


def _comment(text: str) -> str:
    return terminal.shown(text).replace("\n", " ")

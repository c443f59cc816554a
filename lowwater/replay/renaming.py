"""Links, queries and query sets that get another name, and queries that get another query set: nothing of what is
published is computed again.

A change is a statement (`lowwater log`). What it does is noted in the lake (`layout.RENAMING`) before anything changes:
as long as the note is there nobody else opens the lake, and whoever is killed goes on from it. Each step may be done
twice. The note has the settings and query files before and after, and which publications have the rows of their
present inputs: these get the digest of the same inputs under the new names.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from functools import reduce
from operator import or_
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from lowwater import documents, limits, link_names
from lowwater.config import SECTIONS, Config, kept_sections, load_config, section_of
from lowwater.documents import FILE_NAME, stored_object, toml_table
from lowwater.errors import ConfigError, LakeError, LowwaterError, nearest
from lowwater.lake import layout, locks, open_tables, query_sets, tables, words
from lowwater.lake.ledgers import runs, statements
from lowwater.lake.ledgers.captures import ingested_links
from lowwater.lake.ledgers.statements import LINK, MOVE, QUERY, RENAME, SET, Statement, link_called
from lowwater.lake.packets import HORIZONS, horizons_of
from lowwater.lake.results.pins import pin, pins_file, stored_pins
from lowwater.lake.results.publish import description
from lowwater.lake.results.published import JOINED
from lowwater.lake.results.subscription import consumers_folder, consumers_of
from lowwater.lake.tables import safe_name
from lowwater.plan.renaming import with_link_called, with_query_called
from lowwater.quality.suites import FOLDER as SUITES
from lowwater.replay.job import Job
from lowwater.replay.kept_digests import KeptPublications, take_state
from lowwater.replay.retirement import EVER
from lowwater.replay.schedule.links import known_sets, set_names
from lowwater.storage import objects, paths
from lowwater.storage.object_paths import ObjectPath

Kept = tuple[str, str, int, int, str]
"""Query set, query, interval (ns) and digest of a publication."""


@dataclass
class Change:
    """What gets another name, or another query set: the note in the lake.

    Attributes:
        act: `statements.RENAME` or `MOVE`.
        kind: link, query or query set.
        query_set: of a query.
        new: the new name; of a query that is moved its new query set.
        queries: folder of query sets.
        texts: path, content before, content after, of the settings and of query files.
        said: whether the statement is made.
        kept: publications with the rows of their present inputs; None until they are known.
    """

    act: str
    kind: str
    old: str
    new: str
    query_set: str = ""
    queries: str = ""
    texts: list[tuple[str, str, str]] = field(default_factory=list)
    person: str = ""
    why: str = ""
    said: bool = False
    kept: list[Kept] | None = None

    def name(self, link: str) -> str:
        """The name of a link afterwards."""
        return link_called(link, self.old, self.new) if self.kind == LINK else link

    def query_set_of(self, query_set: str, query: str = "") -> str:
        """The name of a query set, or of that of a query, afterwards."""
        if self.act == MOVE:
            return self.new if (query_set, query) == (self.query_set, self.old) else query_set
        return self.new if self.kind == SET and query_set == self.old else query_set

    def query(self, query_set: str, query: str) -> str:
        """The name of a query afterwards."""
        mine = self.act == RENAME and self.kind == QUERY and (query_set, query) == (self.query_set, self.old)
        return self.new if mine else query

    def lfta(self, query_set: str, name: str) -> str:
        """The name of an LFTA, or of its folder, afterwards: its parts are names of queries and aliases."""
        if self.act == MOVE or self.kind != QUERY or query_set != self.query_set:
            return name
        first, *others = re.split(r"([.-])", name)
        return "".join(self.new if part == self.old else part for part in (first, *others))

    def words(self) -> str:
        """What is changed."""
        if self.act == MOVE:
            return f"query {self.old} of query set {self.query_set} is one of {self.new}"
        of = f" of query set {self.query_set}" if self.query_set else ""
        return f"{self.kind} {self.old}{of} is called {self.new}"

    def subscribers(self, lake: layout.Lake) -> list[str]:
        """Names the subscribers that the lake knows of a query that gets another name."""
        named = self.act == RENAME and self.kind == QUERY
        return [each.name for each in consumers_of(lake, self.old)] if named else []

    def files(self) -> list[str]:
        """Names the settings and query files that are written."""
        return [path for path, _, after in self.texts if _content(path) != after]

    def statement(self) -> Statement:
        about: dict[str, Any] = {"link": self.old} if self.kind == LINK else {"query_set": self.query_set or self.old}
        if self.kind == QUERY:
            about["query"] = self.old
        return Statement(0, self.person, self.act, self.why, what=self.new, **about)


# What a change is about. Nothing is written.


def pending(root: PurePath) -> Change | None:
    """Returns the change at which a command was ended; None without one."""
    try:
        values = documents.json_value(paths.read(paths.lake_path(root) / layout.RENAMING))
    except FileNotFoundError:
        return None
    kept = values.pop("kept")
    values["texts"] = [tuple(each) for each in values["texts"]]
    return Change(**values, kept=None if kept is None else [(*map(str, each[:2]), *each[2:]) for each in kept])


def proposed(root: PurePath, queries: Path, kind: str, old: str, new: str) -> Change:
    """Finds what it is to give a link, query or query set another name. Settings and query files may have the new one
    already.
    Raises LakeError if there is none of that name, or the new one is in use, and ConfigError if it is no name."""
    lake, config = layout.lake_to_read(root), load_config(root)
    if old == new:
        raise ConfigError(f"{old} is its name already", "give another one")
    if kind == LINK:
        return _of_link(lake, config, queries, old, new)
    if kind == SET:
        return _of_set(lake, config, queries, old, new)
    return _of_query(lake, config, queries, old, new)


def _of_link(lake: layout.Lake, config: Config, queries: Path, old: str, new: str) -> Change:
    there = {link_names.family_of(link) for link in ingested_links(lake)}
    if not re.fullmatch(link_names.FAMILY, new):
        raise ConfigError(f"{new!r} is not a valid name of a link", f"write {link_names.FORM}, and no /")
    if old not in there | config.links.keys():
        raise LakeError(f"there is no link {old!r}", nearest(old, there | config.links.keys()))
    live = config.links.keys() - config.ended.keys()
    if new in there or (new in live and old in live):
        raise LakeError(
            f"there is a link {new!r}, which has captures or a section of its own", "two links do not become one"
        )
    change = Change(RENAME, LINK, old, new, queries=str(queries))
    return replace(change, texts=_texts(lake, config, queries, change, set_names(lake.root, queries)))


def _of_set(lake: layout.Lake, config: Config, queries: Path, old: str, new: str) -> Change:
    known, retired = known_sets(lake.root, queries)
    ran = runs.replayed_sets(lake)
    if old not in known | retired:
        raise LakeError(f"there is no query set {old!r}", nearest(old, known | retired))
    if new in ran or (new in config.query_sets and old in config.query_sets):
        raise LakeError(f"there is a query set {new!r}", "two query sets do not become one: `lowwater move query`")
    by_hand = new in config.query_sets or (queries / f"{new}.gsql").is_file()
    if old not in config.query_sets and not by_hand:
        raise LakeError(
            f"query set {old} is the file {old}.gsql of a folder", f"call it {new}.gsql first, and run this again"
        )
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*", new):
        raise ConfigError(
            f"{new!r} is not a valid name of a query set", "write letters, digits, _ and -, no digit first"
        )
    change = Change(RENAME, SET, old, new, queries=str(queries))
    return replace(change, texts=_texts(lake, config, queries, change, ()))


def _of_query(lake: layout.Lake, config: Config, queries: Path, old: str, new: str) -> Change:
    owners = {}
    for name in set_names(lake.root, queries):
        for query in Job.open(lake.root, name, queries).plan.queries:
            owners[query.name] = name
    ran = {(row.query_set, row.query) for row in runs.read_replays(lake) if row.query}
    owner = owners.get(old) or next((name for name, query in ran if query == old), None)
    if owner is None:
        raise LakeError(f"there is no query {old!r}", nearest(old, owners) or "`lowwater streams` lists the queries")
    if new in {query for _, query in ran} or (new in owners and (old in owners or owners[new] != owner)):
        raise LakeError(f"there is a query {new!r}", "two queries do not become one: give it another name")
    if not re.fullmatch("[A-Za-z][A-Za-z0-9_]*", new):
        raise ConfigError(f"{new!r} is not a valid name of a query", "write letters, digits and _, a letter first")
    change = Change(RENAME, QUERY, old, new, owner, str(queries))
    if old not in owners and new not in owners:  # it is retired, and no text has it
        return change
    return replace(change, texts=_texts(lake, config, queries, change, (owner,)))


def moved(root: PurePath, queries: Path, query: str, target: str) -> Change:
    """Finds what it is to move a query, whose text is in the files of the query set `target` already.
    Raises LakeError if its text or its table is not so, or the intervals of the two differ."""
    lake, config = layout.lake_to_read(root), load_config(root)
    table = tables.open_table(lake.table(query))
    owner = None if table is None else table.metadata().configuration.get(tables.OWNER)
    if owner is None:
        raise LakeError(f"query {query!r} has no published table", "`lowwater streams` lists what is published")
    if owner == target:
        raise LakeError(f"query {query} is of query set {target} already", "`lowwater streams` lists whose queries are")
    job = Job.open(root, target, queries)
    known, _ = known_sets(root, queries)
    had = {each.name for each in Job.open(root, owner, queries).plan.queries} if owner in known else set()
    if query not in {each.name for each in job.plan.queries} or query in had:
        raise LakeError(
            f"query {query} stands in the files of query set {owner}, and it is to be one of {target}",
            f"move its text to a file of {target} first: until this has run, nothing of {target} runs",
        )
    if config.length(owner) != config.length(target):
        raise LakeError(
            f"the intervals of {owner} and of {target} have not the same length",
            f"give both the same: interval in {section_of(target, of='query_sets')}",
        )
    return Change(MOVE, QUERY, query, target, owner, str(queries))


def _texts(
    lake: layout.Lake, config: Config, queries: Path, change: Change, sets: Sequence[str]
) -> list[tuple[str, str, str]]:
    """Finds what settings and query files say before and after, whichever of the two they say now.
    Raises ConfigError if one that must be written cannot be."""
    back = replace(change, old=change.new, new=change.old)
    found = dict[str, tuple[str, str]]()
    if change.kind != QUERY and (text := _content(str(lake.root / FILE_NAME))) is not None:
        found[str(lake.root / FILE_NAME)] = settings_called(text, back), settings_called(text, change)
    for name in sets:
        job = Job.open(lake.root, name, queries)
        libraries = (Path(each.file) for each in (*job.plan.queries, *job.plan.internal))
        for file in sorted({*job.files, *(libraries if change.kind == LINK else ())}):
            text = file.read_bytes().decode()
            found[str(file)] = _called(str(file), text, back), _called(str(file), text, change)
    texts = []
    for path, (before, after) in found.items():
        if before == after:
            continue
        _require_own(path, before, after, change)
        if not isinstance(paths.lake_path(path), ObjectPath) and not os.access(path, os.W_OK):
            raise ConfigError(
                f"{path}: cannot be written, and it says {change.old}", "run this as a user who may write it"
            )
        texts.append((path, before, after))
    return texts


def _called(path: str, text: str, change: Change) -> str:
    """Returns the text of settings or of a query file with the new name."""
    if PurePath(path).name == FILE_NAME:
        return settings_called(text, change)
    rename = with_link_called if change.kind == LINK else with_query_called
    return rename(text, path, change.old, change.new)


def _require_own(path: str, before: str, after: str, change: Change) -> None:
    """Checks that a file has one of two texts, of which one is the other with another name: nothing else is written,
    whatever a note in the lake says. Raises ConfigError if not."""
    back = replace(change, old=change.new, new=change.old)
    if after not in (_called(path, before, change), before) and before != _called(path, after, back):
        raise ConfigError(
            f"{path}: it was to get another text than one with another name",
            f"another program changed {layout.RENAMING} of the lake",
        )
    if _content(path) not in (before, after):
        raise ConfigError(
            f"{path}: it has {change.old} and {change.new}, or was changed meanwhile",
            f"call it {change.new}, or {change.old}, in all places",
        )


def _content(path: str) -> str | None:
    try:
        return paths.read(paths.lake_path(path), limits.SETTINGS_BYTES + limits.QUERY_BYTES).decode()
    except FileNotFoundError:
        return None


def settings_called(text: str, change: Change) -> str:
    """Returns the text of settings with another name of a link or a query set.
    Raises ConfigError if the name stands where only a person finds it; names the line to write."""
    part = "links" if change.kind == LINK else "query_sets"
    head = re.compile(
        rf"""(?m)^([ \t]*\[\[?[ \t]*{part}[ \t]*\.[ \t]*)(["']?){re.escape(change.old)}\2(?=[ \t]*[.\]])"""
    )
    called = re.fullmatch("[A-Za-z0-9_-]+", change.new)
    changed = head.sub(lambda found: found[1] + (change.new if called else f'"{change.new}"'), text)
    if change.kind == LINK:  # members of sets of links
        pattern = re.compile(rf"""(["']){re.escape(change.old)}((?:/[^"'\n]*)?)\1""")
        lines, inside = changed.splitlines(keepends=True), False
        for at, line in enumerate(lines):
            if line.lstrip().startswith("["):
                inside = line.strip().startswith("[sets]")
            elif inside:
                lines[at] = pattern.sub(lambda found: f"{found[1]}{change.new}{found[2]}{found[1]}", line)
        changed = "".join(lines)
    wanted = toml_table(text)
    if change.old in (sections := wanted.get(part, {})):
        sections[change.new] = sections.pop(change.old)
    if change.kind == LINK and "sets" in wanted:
        wanted["sets"] = {name: [*map(change.name, links)] for name, links in wanted["sets"].items()}
    if _parsed(changed) != wanted:
        raise ConfigError(
            f"{FILE_NAME} has {part}.{change.old} in a form that is not changed by this command",
            f"write {section_of(change.new, of=part)} in its place yourself, then run this again",
        )
    return changed


def _parsed(text: str) -> dict[str, Any]:
    try:
        return toml_table(text)
    except ValueError:
        return {}


# The change itself.


def rename(root: PurePath, change: Change) -> None:
    """Changes names as a proposed change, or one that was ended, says.
    Raises BusyError if something runs in the lake, and LowwaterError if it cannot be planned under the old names or the
    new ones: then nothing is changed."""
    root = paths.lake_path(root)
    with layout.renaming(root), ExitStack() as stack:
        for path, before, after in change.texts:
            _require_own(path, before, after, change)
        lake = layout.open_lake(root, make=False)
        lake = replace(lake, fence=stack.enter_context(locks.hold(lake, "maintenance")))
        tables.fence_off(_touched(lake), lake.fence)
        for name in _sets(lake, change):
            stack.enter_context(locks.hold_range(lake, name, *EVER))
            stack.enter_context(locks.hold(lake, f"publication of {name}", 60.0))
        if change.kind == LINK:
            for name in (change.old, change.new):
                stack.enter_context(locks.hold(lake, f"ingest of {name}"))
        _prepare(lake, change)
        _move(lake, change)
        _keep(lake, change)
        paths.remove(root / layout.RENAMING)
        objects.look_again(root)


def _touched(lake: layout.Lake) -> list[PurePath]:
    return [path for path in lake.all_tables() if open_tables.has_table(path)]


def _sets(lake: layout.Lake, change: Change) -> list[str]:
    """The query sets that must not run meanwhile."""
    if change.kind == LINK:
        return sorted({*runs.replayed_sets(lake), *set_names(lake.root, Path(change.queries))})
    return sorted({change.query_set, change.new} if change.act == MOVE else {change.query_set or change.old})


def _note(lake: layout.Lake, change: Change) -> None:
    paths.write(lake.root / layout.RENAMING, json.dumps(asdict(change)).encode(), fence=lake.fence)


def _write_texts(change: Change, after: bool) -> None:
    for path, *said in change.texts:
        _write_text(path, said[after])


def _write_text(path: str, text: str) -> None:
    """Writes a file anew where it has another text. Readers see the old or the new one, and its rights stay."""
    if _content(path) == text:
        return
    place = paths.lake_path(path)
    if isinstance(place, ObjectPath):
        paths.write(place, text.encode())
        return
    file = Path(place).resolve()
    handle, waiting = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    with open(handle, "wb") as content:
        content.write(text.encode())
    shutil.copymode(file, waiting)
    os.replace(waiting, file)


def _prepare(lake: layout.Lake, change: Change) -> None:
    """Notes the change, finds what is published from its present inputs, and writes the texts of afterwards."""
    now = [(path, _content(path)) for path, *_ in change.texts]
    _note(lake, change)
    try:
        if change.kept is None:
            if change.kind != SET and change.act == RENAME:
                _write_texts(change, after=False)
                change.kept = [*_as_wanted(lake, change)]
            else:
                change.kept = []
            _write_texts(change, after=True)
            for name in _opened(lake, change):
                Job.open(lake.root, change.query_set_of(name), Path(change.queries))
            _note(lake, change)
    except LowwaterError:
        for path, text in now:
            if text is not None:
                _write_text(path, text)
        paths.remove(lake.root / layout.RENAMING)
        raise
    _write_texts(change, after=True)
    if not change.said:
        statements.state(lake, [change.statement()])
        change.said = True
        _note(lake, change)


def _opened(lake: layout.Lake, change: Change) -> list[str]:
    """The query sets whose digests have the name in them."""
    if change.kind == LINK:
        return set_names(lake.root, Path(change.queries))
    known, _ = known_sets(lake.root, Path(change.queries))
    return [change.query_set] if change.act == RENAME and change.query_set in known else []


def _as_wanted(lake: layout.Lake, change: Change) -> Iterator[Kept]:
    """Yields the publications that have the rows of their present inputs."""
    for name in _opened(lake, change):
        job = Job.open(lake.root, name, Path(change.queries))
        past, captures = runs.Publications(lake, name), job.captures()
        known = job.known_missing(captures)
        for start, end in _intervals(lake, name):
            inputs = job.inputs(start, end, captures, known, past)
            for query in job.plan.queries:
                last = past.last(query.name, start, end)
                if last is not None and last.digest and last.digest == inputs.digest(query):
                    yield name, query.name, start, end, last.digest


def _intervals(lake: layout.Lake, query_set: str) -> list[runs.Range]:
    rows = runs.read_replays(lake, query_set, stage=runs.PUBLISH)
    return sorted({row.interval for row in rows if row.state != words.FAILED})


def _keep(lake: layout.Lake, change: Change) -> None:
    """Gives these publications the digest of the same inputs under the new names, and what explains it."""
    wanted = tables.grouped((each[0], each) for each in change.kept or ())
    now, told = dict[Kept, str](), dict[Kept, Mapping[str, Any]]()
    for name, kept in wanted.items():
        job = Job.open(lake.root, change.query_set_of(name), Path(change.queries))
        plans, found = {query.name: query for query in job.plan.queries}, dict[tuple[str, int, int, str], str]()
        past = KeptPublications(runs.Publications(lake, job.query_set), found)
        captures = job.captures()
        known = job.known_missing(captures)
        for _, query, start, end, digest in sorted(kept, key=lambda each: each[2:4]):
            plan = plans[change.query(name, query)]
            inputs = job.inputs(start, end, captures, known, past)
            key = inputs.key(plan)
            found[plan.name, start, end, digest] = key.digest
            about = job.query_set, plan.name, start, end, digest
            now[about], told[about] = key.digest, key.summary
            if digest != key.digest:
                take_state(inputs, plan, digest, key.digest)
    rows = tables.read_rows(lake.replays, layout.REPLAYS).to_pylist()
    changed = False
    for row in rows:
        about = row["query_set"], row["query"], row["interval_start"], row["interval_end"], row["digest"]
        account = _account(change, stored_object(row["accounting"]))
        if about in now:
            row["digest"] = now[about]
            if "inputs" in account:
                account["inputs"] = told[about]
        text = json.dumps(account)
        changed |= text != row["accounting"] or about[-1] != row["digest"]
        row["accounting"] = text
    if changed:
        tables.replace_rows(lake.replays, pa.Table.from_pylist(rows, layout.REPLAYS), None, lake.fence)


def _account(change: Change, value: Any, key: str = "") -> Any:
    """Returns the account of a run with the new name."""
    if isinstance(value, dict):
        if change.kind == LINK and key == "links":
            return {change.name(name): _account(change, each) for name, each in value.items()}
        if change.kind == QUERY and change.act == RENAME and key == "text":
            return {re.sub(rf"^query {change.old}$", f"query {change.new}", name): each for name, each in value.items()}
        return {name: _account(change, each, name) for name, each in value.items()}
    if isinstance(value, list):
        return [_account(change, each, key) for each in value]
    return change.name(value) if key in ("link", "links") and isinstance(value, str) else value


def _move(lake: layout.Lake, change: Change) -> None:
    if change.kind == LINK:
        _move_link(lake, change)
    elif change.kind == SET:
        _move_set(lake, change)
    elif change.act == MOVE:
        _move_to_set(lake, change)
    else:
        _move_query(lake, change)


def _move_link(lake: layout.Lake, change: Change) -> None:
    for link in (change.old, *ingested_links(lake)):
        _move_folder(lake.records(link), lake.records(change.name(link)))
    for path in (lake.packets, *lake.record_tables()):
        _move_files(lake, path, change)
        _move_horizons(lake, path, change)
    for path in (lake.contents, lake.malformed, *lake.run_ledgers()):
        _call(lake, path, {"link": change.name, "source": change.name})
    _call(lake, lake.metrics, {"subject": change.name}, {"kind": "link"})
    _call(lake, lake.quarantine, {"subject": lambda text: " on ".join(map(change.name, text.split(" on ")))})
    seen = tables.read_rows(lake.sightings, layout.SIGHTINGS)
    links = [[change.name(link) for link in each] for each in seen.column("links").to_pylist()]
    if links != seen.column("links").to_pylist():
        at = seen.schema.get_field_index("links")
        seen = seen.set_column(at, layout.SIGHTINGS.field("links"), pa.array(links, pa.list_(pa.string())))
        tables.replace_rows(lake.sightings, seen, None, lake.fence)
    sections = kept_sections(lake.root)
    if change.old in sections:
        sections[change.new] = sections.pop(change.old)
        paths.write(lake.root / SECTIONS, json.dumps(sections, indent=1).encode())


def _move_files(lake: layout.Lake, path: PurePath, change: Change) -> None:
    """Moves the files of a link, and says in the log of their table where they lie."""
    table = tables.open_table(path)
    if table is None:
        return
    rows = [row for row in tables.live_files(table) if change.name(row["partition.link"]) != row["partition.link"]]
    for link, name in sorted({(row["partition.link"], _folder_of(row)) for row in rows}):
        _move_folder(path / name, path / _renamed(name, link, change))
    for at in range(0, len(rows), MOVED_TOGETHER):
        some = rows[at : at + MOVED_TOGETHER]
        names = {row["path"] for row in some}

        def old(table: Any, names: set[str] = names) -> list[dict[str, Any]]:
            return [row for row in tables.live_files(table) if row["path"] in names]

        moved = [_moved(row, change) for row in some]
        tables.swap_files(path, moved, old, fence=lake.fence, rows_change=False, moved=True)


def _move_horizons(lake: layout.Lake, path: PurePath, change: Change) -> None:
    """Gives the instants before which packets were removed the new names of their links."""
    table = tables.open_table(path)
    said = horizons_of(table)
    if table is not None and said:
        moved = {change.name(link): at for link, at in said.items()}
        tables.with_properties(path, table, {HORIZONS: json.dumps(moved)}, lake.fence)


MOVED_TOGETHER = 10_000
"""Files whose new places one commit says."""


def _folder(link: str) -> str:
    return f"link={safe_name(link)}"


def _folder_of(row: Mapping[str, Any]) -> str:
    """The folder of a file of packets: that of the link for which it was read, also where they are of an interface."""
    return unquote(row["path"]).partition("/")[0]


def _renamed(folder: str, link: str, change: Change) -> str:
    return _folder(change.new if folder == _folder(change.old) else change.name(link))


def _moved(row: Mapping[str, Any], change: Change) -> tables.DataFile:
    link = change.name(row["partition.link"])
    bounds = {
        kind: {
            name.removeprefix(kind): each for name, each in row.items() if name.startswith(kind) and each is not None
        }
        for kind in ("min.", "max.", "null_count.")
    }
    return tables.DataFile(
        f"{_renamed(_folder_of(row), row['partition.link'], change)}/{unquote(row['path']).partition('/')[2]}",
        row["size_bytes"],
        row["num_records"],
        {**tables.partition_of(row), "link": link},
        bounds["min."],
        bounds["max."],
        bounds["null_count."],
    )


def _move_query(lake: layout.Lake, change: Change) -> None:
    old, new, owner = change.old, change.new, change.query_set
    places = (
        lake.table,
        lake.stream,
        lambda name: consumers_folder(lake, name),
        lambda name: lake.states / safe_name(owner) / safe_name(name),
    )
    for place in places:
        _move_folder(place(old), place(new))
    for folder in paths.folders(lake.root / "lfta" / safe_name(owner)):
        _move_folder(folder, folder.parent / change.lfta(owner, folder.name))
    suites = lake.root / SUITES / safe_name(owner)
    _move_file(suites / f"{safe_name(old)}.json", suites / f"{safe_name(new)}.json")
    mine = {"query_set": owner}
    for path in lake.run_ledgers():
        called = {"query": lambda name: change.query(owner, name), "lfta": lambda name: change.lfta(owner, name)}
        _call(lake, path, called, mine)
    named = {"subject": lambda name: change.query(owner, name)}
    _call(lake, lake.metrics, named, {**mine, "kind": "query"})
    _call(lake, lake.quarantine, named, mine)
    _describe(lake, new, owner)
    _pin(lake, owner, change)


def _describe(lake: layout.Lake, query: str, query_set: str) -> None:
    """Says in a published table whose rows it has."""
    path, text = lake.table(query), description(query, query_set)
    table = tables.open_table(path)
    if table is not None and table.metadata().description != text:
        tables.commit(path, lambda newest, options: newest.alter.set_table_description(text, **options), lake.fence)


def _move_set(lake: layout.Lake, change: Change) -> None:
    old, new = safe_name(change.old), safe_name(change.new)
    for path in lake.all_tables():
        _own(lake, path, change.old, change.new)
    for query in {row.query for row in runs.read_replays(lake) if row.query_set in (change.old, change.new)} - {""}:
        _describe(lake, query, change.new)
    for folder in (lake.root / "lfta", lake.states, lake.reports, lake.root / SUITES):
        _move_folder(folder / old, folder / new)
    for path in lake.run_ledgers():
        _call(lake, path, {"query_set": lambda name: change.query_set_of(name)})
    _call(lake, lake.quality, {"page": lambda page: re.sub(f"^{re.escape(old)}/", f"{new}/", page)})
    for place in (query_sets.marker, query_sets.look_file):
        _move_file(place(lake.root, change.old), place(lake.root, change.new))
    _pin(lake, change.old, change)


def _move_to_set(lake: layout.Lake, change: Change) -> None:
    query, owner = change.old, change.query_set
    for path in (lake.table(query), lake.stream(query)):
        table = open_tables.existing(path)
        if table.metadata().configuration.get(tables.OWNER) == owner:
            # What was published until now was published together with tables of the set that it leaves.
            more = {tables.OWNER: change.new, JOINED: str(table.version())}
            tables.with_properties(path, table, more, lake.fence)
    _describe(lake, query, change.new)
    old, new = (lake.states / safe_name(name) / safe_name(query) for name in (owner, change.new))
    _move_folder(old, new)
    suites = [lake.root / SUITES / safe_name(name) / f"{safe_name(query)}.json" for name in (owner, change.new)]
    _move_file(*suites)
    mine, named = {"query_set": owner}, {"query_set": lambda name: change.new if name == owner else name}
    for path in lake.run_ledgers():
        _call(lake, path, named, {**mine, "query": query})
    _call(lake, lake.metrics, named, {**mine, "kind": "query", "subject": query})
    _call(lake, lake.quarantine, named, {**mine, "subject": query})
    for name in (owner, change.new):
        paths.remove(pins_file(lake, name))
        pin(lake, name)


def _own(lake: layout.Lake, path: PurePath, old: str, new: str) -> None:
    """Gives a table another owner (S3), if it has that one."""
    table = tables.open_table(path)
    if table is not None and table.metadata().configuration.get(tables.OWNER) == old:
        tables.with_properties(path, table, {tables.OWNER: new}, lake.fence)


def _pin(lake: layout.Lake, query_set: str, change: Change) -> None:
    """Gives the pins of a query set the new name: they name the versions that they named."""
    pins = stored_pins(lake, query_set)
    if pins is None:
        return
    new = change.query_set_of(query_set)
    called = replace(
        pins,
        query_set=new,
        tables={change.query(query_set, name): each for name, each in pins.tables.items()},
        digests={change.query(query_set, name): each for name, each in pins.digests.items()},
    )
    paths.write(pins_file(lake, new), called.text().encode())
    if new != query_set:
        paths.remove(pins_file(lake, query_set))


def _move_folder(source: PurePath, target: PurePath) -> None:
    """Moves a folder; in a store file by file, the rest of them where an earlier command was ended."""
    if source == target:
        return
    open_tables.forget(source)
    open_tables.forget(target)
    if not isinstance(source, ObjectPath):
        if Path(source).is_dir():
            paths.take(source, target)
            paths.flush(source.parent, target.parent)
        return
    for file in [*paths.files_below(source)]:
        paths.take(file, target / file.relative_to(source))


def _move_file(source: PurePath, target: PurePath) -> None:
    if paths.has_file(source):
        paths.take(source, target)


def _call(
    lake: layout.Lake, path: PurePath, called: Mapping[str, Callable[[str], str]], mine: Mapping[str, str] | None = None
) -> None:
    """Gives names in columns of a ledger their new form, in rows that have these values, in one commit. A ledger
    without one of these columns stays as it is."""
    table = tables.open_table(path)
    if table is None:
        return
    schema = pa.schema(pa.schema(table.schema().to_arrow()))
    changes = {name: each for name, each in called.items() if name in schema.names}
    if not changes or not set(mine or ()) <= {*schema.names}:
        return
    rows_of_mine = tables.all_of(pc.field(name) == value for name, value in (mine or {}).items())
    columns = tables.read_rows(path, pa.schema([schema.field(name) for name in changes]), rows_of_mine)
    olds = {
        name: [old for old in columns.column(name).unique().to_pylist() if old is not None and each(old) != old]
        for name, each in changes.items()
    }
    conditions = [pc.field(name).isin(pa.array(values, pa.string())) for name, values in olds.items() if values]
    if not conditions:
        return
    chosen = reduce(or_, conditions)
    chosen = chosen if rows_of_mine is None else chosen & rows_of_mine
    rows = tables.read_rows(path, schema, chosen)
    for name, each in changes.items():
        values = [None if value is None else each(value) for value in rows.column(name).to_pylist()]
        at = rows.schema.get_field_index(name)
        rows = rows.set_column(at, rows.schema.field(name), pa.array(values, rows.schema.field(name).type))
    tables.replace_rows(path, rows, chosen, lake.fence)

"""A query set over a lake: settings, plan, the inputs of each interval, and changes that are tried before they are
published.
"""

from __future__ import annotations

import json
import shlex
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa

from lowwater import __version__, documents, link_names, revisions
from lowwater.capture.content.retention import ContentOptions
from lowwater.capture.tables.options import TableOptions
from lowwater.catalog.user_functions import module_files
from lowwater.catalog.watchlists import file_digest
from lowwater.config import LONGEST_SKEW, Config, Link, load_config, section_of
from lowwater.errors import ConfigError, GapError, LakeError, nearest
from lowwater.extras import absent
from lowwater.gsql.declarations import parse_declarations
from lowwater.instants import format_duration, format_instant
from lowwater.lake import answers, keys, layout, query_sets, words
from lowwater.lake.ingestion import known_files, record_options
from lowwater.lake.keys import outdated
from lowwater.lake.ledgers import runs, statements
from lowwater.lake.ledgers.captures import (
    Capture,
    Captures,
    life_of,
    read_captures,
)
from lowwater.lake.ledgers.coverage import Gap, at_edge, check, gap_error, gap_texts, unsettled
from lowwater.lake.ledgers.files import seen_by_attempt
from lowwater.lake.ledgers.missing import KnownMissing, Missing, fields_read, lacking_fields, missing_texts
from lowwater.lake.ledgers.states import GONE
from lowwater.lake.packets import removed_words
from lowwater.lake.results.streams import FORM, state_folder
from lowwater.lake.tables import check_owner
from lowwater.low import Policy
from lowwater.low.settings import Flush, LowSettings
from lowwater.plan import operators as ops, properties, queryset, shares, temporal
from lowwater.plan.identity import plain
from lowwater.plan.properties import hands_over
from lowwater.quality.modules import Modules, modules_of, require_trusted, require_trusted_files
from lowwater.quality.suites import LATE, Suites, read_suites, require_able, suite_digest
from lowwater.replay import checks, tuning
from lowwater.replay.names import lake_links, set_context
from lowwater.replay.stages.inputs import LowInputs
from lowwater.storage import paths

# Changes that are tried before they are published: other query files, other skews.


@dataclass(frozen=True)
class TrialChanges:
    """Query files and skews in place of those of a lake."""

    files: tuple[Path, ...] = ()  # query files; each replaces the file with its name in a query set
    skews: Mapping[str, int] = field(default_factory=dict)  # link -> skew, ns

    def __bool__(self) -> bool:
        return bool(self.files or self.skews)

    def config(self, config: Config, links: Sequence[str]) -> Config:
        """Returns settings with these skews. Raises ConfigError if there is no such link, or a skew is too long."""
        changed: dict[str, Link] = {}
        for name, skew in self.skews.items():
            if name not in links:
                raise ConfigError(f"--skew {name}: the lake has no link {name!r}", nearest(name, links))
            if skew < 0:
                raise ConfigError(f"--skew {name}: {skew} ns is below 0", "a skew is a duration, such as 5s")
            if skew >= LONGEST_SKEW:
                hint = f"a skew is below {format_duration(LONGEST_SKEW)}"
                raise ConfigError(f"--skew {name}: {format_duration(skew)} is too long", hint)
            changed[name] = config.link(name).with_skew(skew)
        known = config.links or {name: config.link(name) for name in links}  # no link is configured: all have defaults
        return config.model_copy(update={"links": {**known, **changed}})

    def files_of(self, files: Sequence[Path]) -> list[Path]:
        """Returns the files of a query set with these in place of those of the same name."""
        named = {file.name: file for file in self.files}
        return [named.get(file.name, file) for file in files]

    def require_used(self, files: Sequence[Path]) -> None:
        """Checks that each file replaces one. Raises ConfigError if no query set has a file with such a name."""
        names = {file.name for file in files}
        for file in self.files:
            if file.name not in names:
                hint = nearest(file.name, names) or "give it the name of the file that it replaces"
                raise ConfigError(f"--with {file}: no query set has a file {file.name!r}", hint)


# The command line and the tasks of Airflow open a job; `interval` runs it.


@dataclass(frozen=True)
class Job:
    """A query set over a lake."""

    lake: layout.Lake
    config: Config
    query_set: str  # name of the set, owner of its tables (S3)
    plan: queryset.Plan
    length: int  # length of an interval, ns
    suites: Suites = field(default_factory=dict)  # output query -> custom expectations about its rows
    # why nothing of it runs: its suites cannot be read, or the Python of its functions may not run on this machine
    unread: ConfigError | None = None
    modules: Modules | None = None  # what people's own expectations are in
    # whether an interval runs that captures cover only from the first or to the last record of a link (T6)
    through_end: bool = False
    files: tuple[Path, ...] = ()
    renames: int = 0  # changes of names in the lake when it was opened
    by: str = ""  # address of what runs it, below that of its Airflow, for the ledger; empty for a command
    passed: int = 0  # instant, ns, up to which the schedule has seen time pass; intervals until then are expected

    @staticmethod
    def open(root: PurePath, query_set: str, queries: Path, changes: TrialChanges | None = None) -> Job:
        """Opens a query set, a section of the settings or a file of its name in a folder, with `changes` to try.
        Nothing is written: who runs intervals calls `prepare`.
        A suite that cannot be read, or functions whose Python may not run, are errors of who runs it
        (`require_suites`): a lake of somebody else is looked at without running what it names.
        Raises ConfigError if there is no such query set, or a query reads a link by another protocol than the lake
        keeps, LakeError if there is no such lake, and QueryError if a query is wrong, or reads a
        column that a link does not keep."""
        config = load_config(root)
        lake = layout.lake_to_read(root)
        files = query_files(config, query_set, queries)
        links = lake_links(config, lake)
        if changes is not None:
            config, files = changes.config(config, links.names or ()), changes.files_of(files)
        unread = _untrusted(config, query_set)
        plan = queryset.plan_files(files, links, context=set_context(config, query_set, python=unread is None))
        if unread is None:  # without the Python of its functions nothing of it runs
            checks.require_lowered(plan)
        checks.require_affordable(plan, config.replay.copies)
        checks.require_marked(plan, config)
        checks.require_kept(plan, config)
        _require_protocols(config, plan)
        suites: Suites = {}
        try:
            suites = read_suites(root, query_set, _schemas(plan), config.suites.code == "allowed")
        except ConfigError as error:
            unread = unread or error
        # Within the patience its links may still report: nobody is told that it cannot start.
        passed = max(0, query_sets.last_look(root, query_set).at - config.replay.patience)
        about = lake, config, query_set, plan, config.length(query_set), suites, unread
        modules, renames = modules_of(config.suites.modules), len(statements.renames(lake))
        return Job(*about, modules, files=tuple(files), renames=renames, passed=passed)

    def require_suites(self) -> None:
        """Checks that its Python may run and its rows can be judged: who only looks at it needs neither.
        Raises ConfigError, of one line, if a suite cannot be read or judged, or a module of it or of its functions may
        not run or cannot be loaded."""
        if self.unread is not None:
            raise self.unread
        if any(self.suites.values()):
            if self.modules is not None:
                require_trusted(self.modules, self.lake.root)
            require_able(self.lake.root, self.query_set, self.suites, _schemas(self.plan), self.modules)

    def suite_digest(self, query: str) -> str:
        """The digest of what is asked of the rows of a query, and of late records; empty where nothing is."""
        mine, late = (suite_digest(self.suites.get(name, ()), self.modules) for name in (query, LATE))
        return f"{mine} {LATE} {late}" if late else mine

    def audit_key(self, query: str, high: str) -> keys.Key:
        """The key of what an audit says of a query whose rows have a digest. Limits count that the settings set."""
        limits = [each.model_dump_json(exclude_defaults=True) for each in (self.config.thresholds, self.config.history)]
        return keys.audit_key(high, self.suite_digest(query), " ".join(limits))

    def prepare(self) -> None:
        """Makes what the lake lacks for a run, and stores for DAG files whether the set is chained.
        Raises LakeError if the lake cannot be written."""
        answers.make_ledgers(self.lake)
        query_sets.store_chained(self.lake.root, self.query_set, self.chained)

    def intervals(self, start: int, end: int) -> list[tuple[int, int]]:
        """The intervals of [start, end), ns, aligned to the epoch (I3); raises as `require_bounds`."""
        self.require_bounds(start, end)
        return [(at, at + self.length) for at in range(start, end, self.length)]

    def require_bounds(self, start: int, end: int) -> None:
        """Checks that [start, end), ns, is made of whole intervals.
        Raises ConfigError if a bound is no bound of an interval, or the range is empty."""
        if start >= end:
            message = f"--from {format_instant(start)} is not before --to {format_instant(end)}"
            raise ConfigError(message, "--to is the end of the last interval: give a later one, or exchange the two")
        if start % self.length or end % self.length:
            unit, whole = format_duration(self.length), (start - start % self.length, end + -end % self.length)
            raise ConfigError(
                f"{format_instant(start)} to {format_instant(end)} is not made of whole intervals of {unit}",
                "give --from {} --to {}".format(*map(format_instant, whole)),
            )

    @property
    def chained(self) -> bool:
        """Whether its intervals run in order (I4): `chain_start` is set, or a query hands a state to the next one."""
        section = self.config.query_sets.get(self.query_set)
        configured = section is not None and section.chain_start is not None
        return configured or any(hands_over(query.high) for query in self.plan.queries)

    @property
    def approval(self) -> bool:
        """Whether a person must approve what the schedule publishes, where the audit warns."""
        return self.config.asks(self.query_set)

    @property
    def named_files(self) -> set[Path]:
        """The files whose content its rows depend on: of queries, functions and watch lists."""
        named = {Path(file) for query in self.plan.queries for file in query.files}
        nodes = (node for query in self.plan.queries for node in ops.walk(query.high))
        return {*self.files, *named, *(Path(node.file) for node in nodes if isinstance(node, ops.WatchJoin))}

    def tunings(self) -> dict[str, tuning.Tuning]:
        """The recommendations of the last runs for the LFTAs, if the settings turn tuning on."""
        return tuning.recommended(self.lake, self.plan, self.config)[1] if self.config.replay.tuned else {}

    def low_settings(self, tunings: Mapping[str, tuning.Tuning] = MappingProxyType({})) -> LowSettings:
        """The settings of the kernels; the skew is set for each link later."""
        replay, section = self.config.replay, self.config.query_sets.get(self.query_set)
        beat = section.heartbeat if section and section.heartbeat is not None else replay.heartbeat
        settings = LowSettings(
            0,
            chunk_rows=replay.chunk,
            task_packets=replay.task_packets,
            flush=Flush.parse(replay.flush),
            adjacent=replay.table == "adjacent",
        )
        if not isinstance(beat, int):
            return replace(settings, policy=Policy(beat))
        return replace(settings, period=tuning.shortest_period(tunings) or beat)

    def attempted(self, tried: Mapping[str, str]) -> str:
        """A digest of all that an attempt at an interval may have failed for, given `IntervalInputs.tried`. Suites,
        limits of the audit, versions of Lowwater and its extras are no inputs, but another one may not fail."""
        said = [dict(tried), *self._said, __version__, absent("quality"), absent("spark")]
        return sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()

    @property
    def edition(self) -> str:
        """A digest of the queries, suites and settings by which intervals run. An edit makes another one."""
        said = {query.name: query.text for query in self.plan.queries}, *self._said
        return sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()

    @property
    def footing(self) -> str:
        """What the states of its intervals depend on beside the files of the lake (`lake.answers`)."""
        ends = [life_of(self.config.link(link))[1] for link in self.plan.links]
        # Nothing is expected of links that have ended.
        passed = min(self.passed // self.length, -(-max(ends, default=0) // self.length))
        texts = [(query.name, query.text, query.parts) for query in (*self.plan.queries, *self.plan.internal)]
        files = {str(file): file_digest(str(file)) for file in sorted(self.named_files)}
        settings = self.config, self.config.ended, self.through_end
        readings = [Reading.of(self.config, self.plan, link) for link in self.plan.links]
        rules = (
            keys.SEMANTICS_VERSION,
            revisions.DECODINGS,
            revisions.READINGS,
            [(each.version, str(each.records)) for each in readings],
        )
        return repr((self.query_set, texts, files, settings, rules, self.length, passed, self.lake.shared))

    @property
    def _said(self) -> tuple[dict[str, str], str]:
        suites = {query: suite_digest(suite, self.modules) for query, suite in self.suites.items()}
        if self.unread is not None:
            suites[""] = self.unread.message
        config, links = self.config, self.plan.links
        # Not the whole settings: the process of a task is told its Spark, and that of a look is not.
        return suites, repr((config.thresholds, config.history, config.suites, [config.link(x) for x in links]))

    def captures(self) -> dict[str, Captures]:
        return read_captures(self.lake, self.plan.links, self.config)

    def known_missing(self, captures: Mapping[str, Sequence[Capture]]) -> KnownMissing:
        """What the ledgers know to be missing now, given the captures of the links."""
        return KnownMissing(self.lake, self.config, captures)

    def inputs(
        self,
        start: int,
        end: int,
        captures: Mapping[str, Sequence[Capture]],
        known: KnownMissing | None = None,
        past: runs.Publications | None = None,
    ) -> IntervalInputs:
        """The inputs of an interval as they are now. For many intervals `known` is what `known_missing` has said of
        them, and `past` what was published; None to ask the ledgers for this one."""
        return IntervalInputs(
            self.lake,
            self.plan,
            self.config,
            start,
            end,
            captures,
            self._ends(end, captures),
            handed=True,
            query_set=self.query_set,
            length=self.length,
            through_end=self.through_end,
            known=known or self.known_missing(captures),
            past=past,
            readings=self._readings,
        )

    @cached_property
    def _readings(self) -> dict[str, Reading]:
        return {}

    def _ends(self, end: int, captures: Mapping[str, Sequence[Capture]]) -> dict[str, int]:
        """The end of each link that has one, ns: `until`, otherwise the end of coverage before `end` (T5)."""
        ends = {}
        for link in self.plan.links:
            until = self.config.link(link).until
            last = Captures.of(captures.get(link, ())).end
            covered = end if last is None else last
            if until is not None or covered < end:
                ends[link] = covered if until is None else until
        return ends


def _schemas(plan: queryset.Plan) -> dict[str, pa.Schema]:
    """The columns that suites may name: of the published rows of each query, and of late records."""
    return {LATE: layout.VIOLATIONS, **{query.name: layout.row_schema(query.high.fields) for query in plan.queries}}


def _with_records(links: Sequence[str], loud: Collection[str]) -> list[str]:
    """The links with records, and those of which no interface has any."""
    heard = {link_names.family_of(link) for link in links if link in loud}
    silent = {link_names.family_of(link) for link in links} - heard
    return sorted({*(link for link in links if link in loud), *silent})


def _untrusted(config: Config, query_set: str) -> ConfigError | None:
    """Returns why the Python of the functions of a query set may not run on this machine; None where it may."""
    section = config.query_sets.get(query_set)
    try:
        if section is not None:
            require_trusted_files(query_set, module_files(section.functions, parse_declarations))
    except ConfigError as error:
        return error
    return None


def _require_protocols(config: Config, plan: queryset.Plan) -> None:
    """Checks that queries read the records of links by the protocols by which ingest reads them."""
    for link in plan.links:
        record_options.planned_skews(config, plan, link)  # its errors come before anything starts
        stored, planned = (
            record_options.record_options(config, link),
            record_options.planned_options(config, plan, link),
        )
        if stored is not None and planned is not None and str(stored) != str(planned):
            raise ConfigError(
                f"the PROTOCOL block {planned.layout.protocol} of a query has other fields than that of link {link} in "
                "the settings, by which the lake keeps its records",
                f"leave it out of the query file: queries know the protocols of schemas in {section_of(link)}",
            )


def require_owned(job: Job) -> None:
    """Checks that no table of a query set belongs to another one (S3), as after a set has got another name: each of its
    runs would fail. Raises OwnerError if one does."""
    for query in job.plan.queries:
        check_owner(job.lake.stream(query.name), job.query_set, follow=False)  # each commit looks once more
        check_owner(job.lake.table(query.name), job.query_set)


def query_files(config: Config, query_set: str, folder: Path) -> list[Path]:
    """The files of a query set.
    Raises ConfigError if the query set is neither in the settings nor in the folder, or a file of it is not there."""
    if query_set in config.query_sets and config.query_sets[query_set].files:
        files = [Path(file) for file in config.query_sets[query_set].files]
        for file in files:
            if not file.exists():
                raise ConfigError(
                    f"the query file {file} is not there",
                    "put it there, as after a move of the lake, or write where it lies now: files = [...] in "
                    f"{section_of(query_set, of='query_sets')} of {documents.FILE_NAME}",
                )
        return files
    path = folder / f"{query_set}.gsql"
    if Path(query_set).name == query_set and path.is_file():
        return [path]
    if config.lake is not None:
        now, called = statements.new_name(layout.Lake(paths.lake_path(config.lake)), statements.SET, query_set)
        if now:
            raise ConfigError(called, f"ask for {now}")
    names = {*config.query_sets, *(path.stem for path in folder.glob("*.gsql"))}
    raise ConfigError(f"there is no query set {query_set!r}", nearest(query_set, names))


class Reading(NamedTuple):
    """How a plan wants a link to be read: the arguments of `keys.outdated`."""

    version: int
    records: TableOptions | None
    content: Sequence[str]
    otherwise: bool

    @classmethod
    def of(cls, config: Config, plan: queryset.Plan, link: str) -> Reading:
        records = record_options.planned_options(config, plan, link)
        content = checks.content_of(checks.optional_columns([lfta for lfta in plan.read_lftas if link in lfta.links]))
        ended = config.ended.get(link_names.family_of(link))
        version = known_files.version_of(records or ContentOptions())
        return cls(version, records, content, ended is not None and ended.otherwise)


@dataclass(frozen=True, kw_only=True)
class IntervalInputs(LowInputs):
    """The inputs of one interval, with their coverage and digest."""

    query_set: str
    length: int  # length of the intervals of the set, ns; a stretch without records is a multiple of it
    through_end: bool  # whether a gap before the first capture of a link, or after its last, is accepted
    known: KnownMissing = field(compare=False, repr=False)  # no row and no digest depends on it
    past: runs.Publications | None = field(compare=False, repr=False)  # what is published; None to read the ledger
    readings: dict[str, Reading] = field(compare=False, repr=False)  # by link, which all intervals of a job share

    def takes_up(self, query: queryset.QueryPlan) -> bool:
        """Whether a query continues the state of the interval before (I4)."""
        return hands_over(query.high) and self.start > self.chain_start(query)

    def before(self, query: queryset.QueryPlan) -> str | None:
        """The digest of the publication whose state a query continues (I4); "" for none, None where it is missing."""
        if not self.takes_up(query):
            return ""
        last = self._last(query)
        return last.digest if last is not None else None

    def _last(self, query: queryset.QueryPlan) -> runs.ReplayRow | None:
        """The publication up to the begin of the interval; None if there is none."""
        if self.past is not None:
            return self.past.until(query.name, self.start)
        return runs.published_until(self.lake, self.query_set, query.name, self.start)

    def chain_start(self, query: queryset.QueryPlan) -> int:
        """The start of a query's chain, ns: the setting, otherwise the first coverage of its links. As long as there is
        none, no interval has a state to continue: each is a start (I4)."""
        section = self.config.query_sets.get(self.query_set)
        if section is not None and section.chain_start is not None:
            return section.chain_start
        begins = [Captures.of(self.captures.get(link, ())).begin for link in query.links]
        first = min((begin for begin in begins if begin is not None), default=self.start)
        return first // self.length * self.length

    def held(self) -> dict[str, PurePath]:
        """Query -> folder of the lake with the state of the interval before."""
        folders = {}
        for query in self.plan.queries:
            last = self._last(query) if self.takes_up(query) else None
            if last is not None and last.digest:
                bounds = last.interval_start, last.interval_end
                folders[query.name] = state_folder(self.lake, self.query_set, query.name, *bounds, last.digest)
        return folders

    def digest(self, query: queryset.QueryPlan) -> str:
        """The digest of a query's inputs (S1)."""
        return self.key(query).digest

    def key(self, query: queryset.QueryPlan) -> keys.HighKey:
        """The key of the rows of a query."""
        links, named = self._links(query), self._named(query)
        loud = {entry["link"] for entry in links if entry["captures"]}
        later = self._later({link for lfta in query.lftas for link in lfta.links} - loud)
        part = {lfta.name: [link for link in lfta.links if link not in later] for lfta in query.lftas}
        sources = {f"links of {name}": " ".join(_with_records(each, loud)) for name, each in part.items()}
        return keys.HighKey(query.text, {**sources, **named}, links, (*query.parts, *named.items()))

    def low_keys(self) -> dict[str, str]:
        """LFTA -> the digest of the keys of its rows, of every link; empty for one that has no plain values, whose rows
        are made anew each time."""
        owners = {query.name: query for query in (*self.plan.queries, *self.plan.internal)}
        highs = [query.high for query in self.plan.queries]
        grains, found = properties.needed_granularity(*highs), dict[str, str]()
        # The promises that stay are those for which a reader of several LFTAs waits (SEMANTICS T2).
        together: dict[str, set[tuple[str, ...]]] = defaultdict(set)
        for query in self.plan.queries:
            for lfta in query.lftas:
                together[lfta.name].add(tuple(sorted(each.name for each in query.lftas)))
        # Rows of one instant are read in the order of the file, which shares divide.
        placed = {name for high in highs for name in properties.placed_leaves(high)}
        divided = shares.low_shares(highs) if placed else {}
        for leaf in (node for node in ops.walk(*highs) if isinstance(node, ops.LftaInput)):
            lfta, owner = leaf.lfta, owners[leaf.query]
            names = {label: text for label, text in owner.parts if not label.startswith("query ")}
            # A condition of a reader may have moved into it (`plan.rules.push_filter`), with what that reads.
            names |= {f"file {path}": file_digest(path) for path in queryset.files_read(leaf.exprs())}
            names |= queryset.zones_read(leaf.exprs())
            start = self.lfta_starts[lfta.name]
            try:
                about: list[Any] = [plain(lfta), grains[lfta.name][0], sorted(together[lfta.name]), start, self.start]
                if lfta.name in placed:
                    about.append([shares.texts(keys) for keys in divided.get(lfta.name, ())])
            except TypeError:
                found[lfta.name] = ""
                continue
            read = (
                keys.link_key(link, self.captures.get(link, ()), self.config.link(link), start, self.end, self.start)
                for link in sorted(lfta.links)
            )
            text = json.dumps(about, sort_keys=True)
            found[lfta.name] = keys.digest([keys.low_key(text, names, link) for link in read])[:32]
        return found

    def tried(self, digests: Mapping[str, str]) -> dict[str, str]:
        """Returns what an attempt is made on: the digests of its inputs, by query, and what people accept of it."""
        stated = self.known.statements(self.plan.links, self.start, self.end)
        said = "; ".join(f"{each.link} {each.cause} {each.what} {each.amount}" for each in stated)
        return {**digests, **({"what is accepted": said} if said else {})}

    def publication(self, query: queryset.QueryPlan) -> runs.ReplayRow | None:
        """The publication of the visible rows of a query; None if there is none, or several made them."""
        if self.past is not None:
            return self.past.last(query.name, self.start, self.end)
        return runs.last_published(self.lake, self.query_set, query.name, self.start, self.end)

    def published(self, query: queryset.QueryPlan) -> bool:
        """Whether the newest publication of a query has these inputs."""
        last = self.publication(query)
        return last is not None and last.digest == self.digest(query)

    def lost(self, query: queryset.QueryPlan) -> str:
        """Why a published interval must run again: its state is missing; empty otherwise."""
        if not hands_over(query.high):
            return ""
        folder = state_folder(self.lake, self.query_set, query.name, self.start, self.end, self.digest(query))
        return "" if paths.has_folder(folder) else "the state that it left is not in the lake"

    def _links(self, query: queryset.QueryPlan) -> list[dict[str, Any]]:
        """The inputs of the links of a query. An interface without records in the read range adds nothing, so that one
        that some capture declares later leaves the intervals before as they are. So does a link that joins after the
        read range (T5)."""
        inputs = [
            keys.link_key(link, self.captures.get(link, ()), self.config.link(link), read_from, self.end, self.start)
            for link, read_from in self.link_starts([query]).items()
        ]
        told = [entry for entry in inputs if entry["captures"]]
        later = self._later({entry["link"] for entry in inputs if not entry["captures"]})
        heard = {link_names.family_of(entry["link"]) for entry in told}
        for entry in (entry for entry in inputs if not entry["captures"] and entry["link"] not in later):
            family = link_names.family_of(entry["link"])
            named = entry if family in heard else {**entry, "link": family}
            if all(link_names.family_of(each["link"]) != family or each["gaps"] != entry["gaps"] for each in told):
                told.append(named)
        return told

    def _later(self, links: Collection[str]) -> set[str]:
        """Which of some links begin to live at the end of the interval or later."""
        return {link for link in links if life_of(self.config.link(link))[0] >= self.end}

    def _named(self, query: queryset.QueryPlan) -> dict[str, str]:
        """Further inputs of a query, by name: watch lists, tables of functions, the format of states, the earlier
        state."""
        lists = (node for node in ops.walk(query.high) if isinstance(node, ops.WatchJoin))
        inputs = {f"watch list {node.watchlist}": file_digest(node.file) for node in lists}
        inputs |= {f"file {path}": file_digest(path) for path in query.files}
        if hands_over(query.high):  # of another form no state is read, so the intervals that left it are stale
            inputs["the form of states"] = str(FORM)
            if over := self._coverage_over(query):
                inputs["the end of the life of its links"] = over
        before = self.before(query)
        return inputs if before == "" else {**inputs, "the state of the interval before": before or "missing"}

    def _coverage_over(self, query: queryset.QueryPlan) -> str:
        """The end of the life of the last link of a query, where coverage has ended it before the interval's end (T5);
        empty where a link goes on, or the settings say when it ends."""
        over = max((self.ends.get(link, temporal.END_OF_TIME) for link in query.links), default=temporal.END_OF_TIME)
        declared = {self.config.link(link).until for link in query.links}
        return "" if over >= self.end or over in declared else format_instant(over)

    def gaps(self) -> list[Gap]:
        """The gaps in the coverage of the links over the read range (T5), without damage that people accept."""
        return self.known.unaccepted(check(self.captures, self.config, self.link_starts(self.plan.queries), self.end))

    def why_needed(self, gap: Gap) -> str:
        """Says which query looks back into a gap that begins before the interval; empty for another gap."""
        if gap.since >= self.start:
            return ""
        starts = {query.name: self.link_starts([query]).get(gap.link, self.start) for query in self.plan.queries}
        name = min(starts, key=lambda query: (starts[query], query))
        back, since = format_duration(self.start - starts[name]), format_instant(starts[name])
        return f"query {name} looks back {back}, to {since}"

    def gap_texts(self, gaps: Sequence[Gap]) -> list[str]:
        """Describes gaps of the links, and which files of their time are not read."""
        return gap_texts(gaps, self.captures, self.why_needed, self.known.unread_in)

    def gap_error(self, gap: Gap) -> GapError:
        """The error of a gap for this interval."""
        parts = ((part, words) for part, words in self.known.unread_in(gap) if words)
        part, unread = next(parts, (gap, ""))
        return gap_error(part, self.start, self.end, self.captures.get(gap.link, ()), self.why_needed(gap), unread)

    def all_missing(self) -> list[Missing]:
        """What is known to be missing of the interval, beside gaps, accepted or not."""
        begins = self.link_starts(self.plan.queries)
        found = [*self.known.of(begins, self.start, self.end)]
        for link, start in begins.items():  # files that lack columns which queries read, beside those no field reads
            fields = fields_read(self.plan.read_lftas, link)
            found += lacking_fields(link, self.captures.get(link, ()), fields, start, self.end)
        return found

    def missing(self) -> list[Missing]:
        """What is known to be missing of the interval, beside gaps, and nobody has accepted (T6)."""
        return [found for found in self.all_missing() if not self.known.accepted(found)]

    def missing_texts(self) -> list[str]:
        """Describes what is missing, and how a person accepts what nothing may mend."""
        found = self.missing()
        return [*missing_texts(found), *self.to_accept(found)]

    def to_accept(self, found: Sequence[Missing]) -> list[str]:
        """Says how a person accepts what nothing may mend."""
        lost = dict.fromkeys((each.link, each.cause) for each in found if each.cause in query_sets.LOST)
        return [
            f"to accept that for good: lowwater accept {self.query_set} --lake {shlex.quote(str(self.lake.root))} "
            f"--interval {format_instant(self.start)} --link {shlex.quote(link)} --cause {cause} --why TEXT"
            for link, cause in lost
        ]

    def accepted_texts(self) -> list[str]:
        """Describes what is missing and accepted, with who accepted it and why."""
        if not self.known.accepts:
            return []
        texts = []
        for found in self.all_missing():
            if said := self.known.accepted(found):
                newest = max(said, key=lambda statement: statement.at)
                texts.append(f"accepted: {found.reason}, by {newest.person}: {newest.why.replace('; ', ', ')}")
        return list(dict.fromkeys(texts))

    def passes(self, gap: Gap) -> bool:
        """Whether a run accepts this gap of a link and becomes `incomplete` (T6)."""
        return self.config.link(gap.link).policy == "publish" or (self.through_end and self.at_edge(gap))

    def at_edge(self, gap: Gap) -> bool:
        """Whether a gap is before the first capture of a link, or after its last."""
        return at_edge(gap, self.captures.get(gap.link, ()))

    def require(self) -> list[Gap]:
        """Checks coverage and states; returns the gaps that policy `publish` or `through_end` accepts.
        Raises GapError if a link with another policy has a gap (T6), and LakeError if a capture must be ingested again
        first (T7), packets of it were removed (S11), or an interval of another length is rolled back (S7)."""
        for reason in self.removed():
            raise LakeError(f"{reason}; what is published of the interval stays")
        gaps = self.gaps()
        for gap in gaps:
            if not self.passes(gap):
                raise self.gap_error(gap)
        for reason in self._lost_states():
            raise LakeError(reason)
        self.require_states()
        for reason in self.outdated():
            raise LakeError(reason, "run `lowwater ingest` on the file: it replaces its packets")
        for reason in self.rolled_back():
            raise LakeError(reason)
        return gaps

    def require_states(self) -> None:
        """Checks that the states are there which the interval continues from.
        Raises LakeError if the interval before is not published, or its state is gone."""
        states = self.held()
        for query in self.plan.queries:
            folder = states.get(query.name)
            if self.past is not None and self.past.expects(query.name, self.start):
                continue  # its state is there by the time that it is read
            if self.before(query) is None or (folder is not None and not paths.has_folder(folder)):
                last = self._last(query)
                before = self.start - self.length if last is None else last.interval_start
                raise LakeError(
                    f"query {query.name}: the interval of {format_instant(self.start)} continues from the state of the "
                    f"interval of {format_instant(before)}, which is not published",
                    f"replay in order, from {format_instant(self.chain_start(query))}: `lowwater backfill` does so, "
                    "and a backfill of Airflow that begins with the oldest; `chain_start` of "
                    f"{section_of(self.query_set, of='query_sets')} sets where the chain begins",
                )

    def outdated(self) -> list[str]:
        """The reasons why captures must be ingested again before the interval can run."""
        reasons = []
        for link, start in self.link_starts(self.plan.queries).items():
            if (reading := self.readings.get(link)) is None:
                reading = self.readings[link] = Reading.of(self.config, self.plan, link)
            captures, settings = self.captures.get(link, ()), self.config.link(link)
            reasons += outdated(captures, settings, reading.version, start, self.end, *reading[1:], lies=self._lies)
        return reasons

    def _lies(self, capture: Capture) -> bool:
        """Whether a capture lay somewhere when somebody looked last."""
        seen = seen_by_attempt(self.lake).get(capture.attempt, ())
        return not seen or any(row.state != GONE for row in seen)

    def rolled_back(self) -> list[str]:
        """Intervals of another length that meet this one and are rolled back, on inputs that are still theirs: a run
        would publish what a person has refused (S7)."""
        queries = {query.name: query for query in self.plan.queries}
        if self.past is None:
            rows = runs.interval_replays(self.lake, self.query_set, self.start, self.end)
        else:
            rows = tuple(self.past.meeting(self.start, self.end))
        reasons = []
        for row in rows:
            if row.state == words.ROLLED_BACK and row.query in queries and row.interval != (self.start, self.end):
                query, theirs = queries[row.query], replace(self, start=row.interval_start, end=row.interval_end)
                if theirs.publication(query) == row and row.digest == theirs.digest(query):
                    at, until = map(format_instant, row.interval)
                    reasons.append(
                        f"query {row.query} is rolled back from {at} to {until}, {row.reason}; to publish over it, "
                        f"lift that: lowwater rollback {row.query} --at {at} --lift --because TEXT"
                    )
        return reasons

    def refused(self, damaged: Collection[str]) -> str:
        """Why no run makes the rows of damaged queries again: a person chose them, for the inputs of today (S7, S9);
        empty where nobody did."""
        for query in (each for each in self.plan.queries if each.name in damaged):
            last = self.publication(query)
            if last is not None and last.state == words.ROLLED_BACK and last.digest == self.digest(query):
                return (
                    f"query {query.name}: its rows are damaged, and a person chose them: roll it back again, or lift "
                    f"that: lowwater rollback {query.name} --at {format_instant(self.start)} --lift --because TEXT"
                )
        return ""

    def removed(self) -> list[str]:
        """Says of which links packets that a run of the interval reads were removed by age or size (S11)."""
        if not (horizons := self.known.horizons):
            return []
        begins = self.link_starts(self.plan.queries)
        links = [self.config.link(link).judging(begin, self.start, self.end) for link, begin in begins.items()]
        rules = [(link.duplicates, link.longest_skew) for link in links]
        # Copies are looked for among the packets of all links (D6).
        back = max((rule.window for rule, _ in rules if rule != "keep"), default=0)
        back += max((skew for rule, skew in rules if rule != "keep"), default=0)
        return [
            removed_words(link, horizons[link])
            for link, begin in begins.items()
            if min(begin, self.start) - back < horizons.get(link, 0)
        ]

    def lacking(self) -> list[str]:
        """The reasons why the interval cannot start: packets that were removed, gaps that are not accepted, captures
        that must be ingested again, roll backs of another length, states that no run makes any more."""
        if removed := self.removed():
            return removed
        gaps = [gap for gap in self.gaps() if not self.passes(gap)]
        texts = [*self.gap_texts(gaps), *self._absent_folders(gaps)]
        if self.known.beside_damage(gaps) != gaps:
            texts += self.to_accept([found for found in self.missing() if found.cause == query_sets.DAMAGE])
        return [*texts, *self.outdated(), *self.rolled_back(), *self._lost_states()]

    def _lost_states(self) -> list[str]:
        """Says which states the interval continues from that are of another text, or of no publication, and that no run
        makes again, since packets of the interval before were removed."""
        found = []
        for query in (each for each in self.plan.queries if self.takes_up(each)):
            last = self._last(query)
            start, end = (self.start - self.length, self.start) if last is None else last.interval
            removed = replace(self, start=start, end=end).removed()
            if not removed:
                continue
            before = {} if last is None else documents.stored_object(last.accounting).get("inputs", {})
            had, now = before.get("text", {}), self.key(query).summary["text"]
            if any(had.get(name) != now[name] for name, _ in query.parts):
                found.append(
                    f"query {query.name} continues from the state of the interval of {format_instant(start)}, which is "
                    f"{'not published' if last is None else 'of another text'}, and {removed[0]}: write chain_start = "
                    f'"{format_instant(self.start)}" in {section_of(self.query_set, of="query_sets")}'
                )
        return found

    def _absent_folders(self, gaps: Sequence[Gap]) -> list[str]:
        """Names the folders that are not there for files that would go on behind the last capture of a link."""
        ends = {gap.link: Captures.of(self.captures.get(gap.link, ())).end for gap in gaps}
        open_links = sorted({link_names.family_of(gap.link) for gap in gaps if gap.until > (ends[gap.link] or 0)})
        absent = self.known.absent_folders if open_links else {}
        return [f"link {link!r}: {absent[link]}" for link in open_links if link in absent]

    def state(self, excluded: Sequence[Gap]) -> tuple[str, str]:
        """The state of a publication now, and its reason: done, provisional or incomplete (T6)."""
        beside = self.known.beside_damage(excluded)
        if reasons := [*gap_texts(beside, self.captures, self.why_needed), *self.missing_texts()]:
            return words.INCOMPLETE, "; ".join(reasons)
        if reason := self.open():
            return words.PROVISIONAL, reason
        return words.DONE, "; ".join(self.accepted_texts())

    def open(self) -> str:
        """Says which links have not reported to the end of the interval and their skew; empty where all have (T6)."""
        begins = dict.fromkeys(self.plan.links, self.start)
        behind = self.known.unaccepted(unsettled(self.captures, self.config, begins, self.end))
        names = ", ".join(sorted({gap.link for gap in behind}))
        return names and f"late packets may come until these links have reported to its end plus their skew: {names}"

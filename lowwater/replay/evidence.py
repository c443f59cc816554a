"""Evidence for a published row: one archive with what a third person needs to derive the row again.

It has the query with its plan, the row, the digests of the captures, the accounts of the interval, the packets that the
row follows from, and a script that derives the row from them: by tshark and DuckDB where SQL says what the plan says
(`plan.duckdb_sql`), else by the reference engine.

The packets are not only those that a row counted (`packets.row_packets`): a row of ASOF JOIN, OVER or QUALIFY follows
also from packets that are not in it. Of each source they are all packets that the row could depend on, without those
that certainly change nothing: of another group, partition or side of an equality. Before the archive is written the
reference engine derives the row from exactly these packets.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from itertools import product
from pathlib import Path, PurePath
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc

from lowwater import __version__, errors, limits
from lowwater.catalog import expr as ex
from lowwater.catalog.time import link_skews
from lowwater.catalog.values import format_ip
from lowwater.config import section_of, toml_key
from lowwater.instants import SECOND, format_duration, format_instant
from lowwater.lake import tables
from lowwater.lake.layout import lake_to_read
from lowwater.lake.ledgers.captures import read_captures
from lowwater.lake.ledgers.runs import ReplayRow, interval_replays, last_published
from lowwater.lake.packets import PacketFiles, packet_files
from lowwater.lake.results.exploring import LAST, LATEST, Filter, RowQuery, result_table
from lowwater.low.predicate import Predicate
from lowwater.plan import duckdb_sql, operators as ops, properties
from lowwater.plan.explain import explain
from lowwater.plan.queryset import QueryPlan
from lowwater.plan.temporal import END_OF_TIME
from lowwater.reference.engine import evaluate
from lowwater.replay.job import IntervalInputs, Job
from lowwater.replay.packets import (
    FoundPackets,
    RowPackets,
    SourceCondition,
    equals,
    find_packets,
    select,
    substituted,
    together,
    value_of_row,
    with_values,
    within,
    write_selection,
)
from lowwater.replay.row_files import with_texts
from lowwater.replay.stages.engines import source_columns
from lowwater.replay.stages.inputs import disorder_of
from lowwater.stream.fill import next_epochs, reported_of
from lowwater.stream.records import packet_samplings

SCRIPT = Path(__file__).with_name("evidence_check.py")
VERSION = 1
_DATE = (1980, 1, 1, 0, 0, 0)
"""Of every file of an archive, so that equal evidence is equal bytes."""
_MOST = 3
"""Rows that are shown where a condition selects several."""

README = """\
Evidence for one row of {query}, made by Lowwater {release}
{line}

row.json        the row, its time (_last) and the interval that published it
query.gsql      the query, with all queries that it reads
plan.txt        its plan
evidence.json   what check.py reads: the row, the captures with their SHA-256, how the row is derived
accounts.json   the interval: its inputs, and how many records of each link are in which account
packets/        of each link the packets that the row follows from
{derive}
check.py        derives the row from the packets again, and compares
manifest.json   the SHA-256 of each of these files

To check it: python3 check.py
To see that the packets are those of the captures: python3 check.py --captures FOLDER

{how}
"""


@dataclass(frozen=True)
class EvidenceRow:
    """A published row, and where it is from."""

    job: Job
    query: QueryPlan
    row: dict[str, Any]  # as `rows` prints it
    values: dict[str, Any]  # as plans have it
    last: int  # `_last`, ns
    times: int  # how many equal rows of this `_last` are published
    version: int  # of the table


def owner_of(root: PurePath, queries: Path, query: str) -> tuple[Job, QueryPlan]:
    """Finds the query set that published a query, and its plan.
    Raises LakeError if nothing of it is published, or the set has no such query any more."""
    table = result_table(lake_to_read(root), query)
    job = Job.open(root, table.opened().metadata().configuration.get(tables.OWNER) or "", queries)
    plan = next((each for each in job.plan.queries if each.name == query), None)
    if plan is None:
        raise errors.LakeError(f"query set {job.query_set} has no query {query!r} any more", "add the query again")
    return job, plan


def find_row(job: Job, query: QueryPlan, asked: Mapping[str, Any]) -> EvidenceRow:
    """Finds the one published row of a query that has some values, as `rows` prints them; of equal rows the first.
    Raises LakeError if there is no such row or column, or rows that differ have the values."""
    table = result_table(job.lake, query.name)
    items = {each.name: each for each in query.logical.fields}
    for name in asked:
        table.require(name)
    wanted = {name: value_of_row(query, items[name], value) for name, value in asked.items()}
    found: dict[str, tuple[dict[str, Any], dict[str, Any], int, int]] = {}
    for batch in table.batches(RowQuery(0, LATEST, tuple(_filters(items, wanted)))):
        lasts = batch.column(LAST).to_pylist()
        for row, at in zip(with_texts(batch.select([*items])).to_pylist(), lasts, strict=True):
            values = {name: value_of_row(query, item, row[name]) for name, item in items.items()}
            if all(values[name] == value for name, value in wanted.items()) and len(found) <= _MOST:
                key = repr([values, at])
                found[key] = row, values, at, found[key][3] + 1 if key in found else 1
    if not found:
        raise errors.LakeError(
            f"query {query.name}: no published row has {json.dumps(asked, default=str)}",
            f"`lowwater rows {query.name} --lake {job.lake.root} --format json` prints rows as they are written here",
        )
    if len({repr(values) for _, values, *_ in found.values()}) > 1:
        some = "; ".join(json.dumps(row, default=str) for row, *_ in list(found.values())[:_MOST])
        raise errors.LakeError(
            f"query {query.name}: several rows have these values: {some}", "give more columns of the row"
        )
    row, values, at, times = min(found.values(), key=lambda each: each[2])
    return EvidenceRow(job, query, row, values, at, times, table.version)


def _filters(items: Mapping[str, ops.Field], wanted: Mapping[str, Any]) -> Iterator[Filter]:
    """Yields what the table can be asked for; the other columns are compared row by row."""
    for name, value in wanted.items():
        if value is None:
            yield Filter(name, "is null", "")
        elif items[name].type is ex.Type.IP:
            yield Filter(name, "=", format_ip(value))
        elif items[name].type in (ex.Type.INT, ex.Type.STRING):
            yield Filter(name, "=", str(value))


def enough_packets(found: EvidenceRow, inputs: IntervalInputs) -> RowPackets:
    """Returns conditions of packets from which the row follows: all that it could depend on, without those of other
    groups, partitions and sides of equalities.
    Raises LakeError if a source is of other records than packets."""
    query, last = found.query, found.last
    starts = properties.read_from(query.logical, last)
    if properties.carried_state(query.logical):  # the chain has a beginning, before which nothing counts (I4)
        starts = {name: max(start, inputs.chain_start(query)) for name, start in starts.items()}
    parts = [equals(each, found.values[each.name]) for each in query.logical.fields]
    conditions = [_in_time(each, starts, last) for each in _enough(query, query.logical, parts)]
    return RowPackets(together(conditions), min(starts.values()), last + 1)


def _in_time(condition: SourceCondition, starts: Mapping[str, int], last: int) -> SourceCondition:
    source, stamp = condition.source, ex.Column(ex.Type.INT, "timestamp")
    start = ex.Const(ex.Type.INT, starts[f"{source.query}.{source.alias}"])
    bounds = (
        ex.Binary(ex.Type.BOOL, ">=", stamp, start),
        ex.Binary(ex.Type.BOOL, "<=", stamp, ex.Const(ex.Type.INT, last)),
    )
    known = {each.name for each in source.fields}
    parts = [part for part in condition.parts if set(ex.columns_of(part)) <= known - {properties.ROW}]
    return replace(condition, parts=(*parts, *bounds))


def _enough(query: QueryPlan, node: ops.Node, parts: Sequence[ex.Expr]) -> Iterator[SourceCondition]:
    """Moves conditions over the columns of a node down to its sources, as far as no other row of it takes part."""
    if isinstance(node, ops.Source):
        if node.kind != "pcap":
            raise errors.LakeError(
                f"query {query.name}: it reads {node.kind} records, which are no packets",
                "`lowwater export` writes the records of a link",
            )
        yield SourceCondition(node, tuple(parts))
        return
    for below, kept in zip(node.inputs(), _kept(node, parts), strict=True):
        yield from _enough(query, below, kept)


def _kept(node: ops.Node, parts: Sequence[ex.Expr]) -> list[list[ex.Expr]]:
    """The conditions that rows of each input of a node must meet, else the rows that meet `parts` do not change."""
    if isinstance(node, ops.Union):
        renamed = [
            [
                ops.Item(item.name, ex.Column(own.type, own.name))
                for item, own in zip(node.fields, branch.fields, strict=True)
            ]
            for branch in node.branches
        ]
        return [substituted(parts, items) for items in renamed]
    if isinstance(node, ops.Map):
        return [[*substituted(parts, node.items), *ex.conjuncts(node.predicate)]]
    if isinstance(node, ops.Group):
        keys = {key.name for key in node.keys}
        moved = _over(substituted(parts, node.items), keys)
        return [[*substituted(moved, node.keys), *ex.conjuncts(node.predicate)]]
    if isinstance(node, ops.Fill):
        return [_over(parts, {key.name for key in node.keys})]
    if isinstance(node, ops.Top):
        return [_over(substituted(parts, node.items), set(ex.columns_of(*ops.exprs_of(node.keys))))]
    if isinstance(node, ops.Over):
        return [_over(parts, {column.name for column in node.partition})]
    if isinstance(node, ops.Bucket) and not node.rows:
        return [_over(parts, {each.name for each in node.input.fields} - {node.name})]
    if isinstance(node, ops.Expand):
        return [_over(parts, {each.name for each in node.input.fields} - {*node.keys, node.name})]
    if isinstance(node, ops.Join):
        return _sides(node, parts)
    return [[] for _ in node.inputs()]


def _over(parts: Sequence[ex.Expr], names: set[str]) -> list[ex.Expr]:
    """The conditions over some columns only."""
    return [part for part in parts if (read := set(ex.columns_of(part))) and read <= names]


def _sides(node: ops.Join, parts: Sequence[ex.Expr]) -> list[list[ex.Expr]]:
    """Of a side that is in every joined row the values of the row hold; of the other one what equalities, the window
    and ON tell of rows that meet it. Where either side may be missing, nothing is told."""
    aliases = [alias for alias, _ in node.sides]
    names = [{f"{alias}.{each.name}" for each in side.fields} for alias, side in node.sides]
    optional = set(node.optional) if node.kind.pairs else {node.right_alias}
    if node.kind.nearest:  # which right row is the nearest depends on all that meet the left one
        optional.add(node.right_alias)
    if optional == set(aliases):
        return [[], []]
    moved = substituted(parts, node.items)
    given = [
        _over(moved, columns) if alias not in optional else [] for alias, columns in zip(aliases, names, strict=True)
    ]
    told: list[ex.Expr] = [ex.Binary(ex.Type.BOOL, "=", left, right) for left, right in node.ties]
    told += [*within(node.window), *ex.conjuncts(node.residual)]
    if not optional:
        told += [part for part in moved if not any(part in each for each in given)]
    left = with_values([*(part for each in given for part in each), *told])
    if node.kind.mutual:  # of the left rows that are rivals only the keys are known
        given[0] = _over(given[0], {ours.name for ours, _ in node.equalities if isinstance(ours, ex.Column)})
    kept = []
    for (alias, side), columns, own in zip(node.sides, names, given, strict=True):
        mine = _over(left, columns) if alias in optional or not optional else own
        items = [ops.Item(f"{alias}.{each.name}", ex.Column(each.type, each.name)) for each in side.fields]
        kept.append(substituted(mine, items))
    return kept


@dataclass(frozen=True)
class Evidence:
    """What an archive is made of."""

    row: EvidenceRow
    inputs: IntervalInputs
    wanted: RowPackets
    packets: FoundPackets
    replay: ReplayRow | None
    sql: str  # empty where the reference engine derives the row
    columns: tuple[str, ...]  # columns of packets that the SQL reads
    why: str  # why there is no SQL; else empty


def gather(
    row: EvidenceRow, most: int = limits.ROW_PACKETS, watch: Callable[[int], None] = lambda files: None
) -> Evidence:
    """Finds the interval of a row and its packets, at most so many, and derives the row from them. `watch` as of
    `find_packets`.
    Raises LakeError if packets of it are gone or too many, or they do not give the row."""
    job, query = row.job, row.query.name
    span = row.last // job.length * job.length
    rows = interval_replays(job.lake, job.query_set, row.last, row.last + 1)
    mine = [each for each in rows if each.query == query and each.is_published]
    start, end = mine[-1].interval if mine else (span, span + job.length)
    inputs = job.inputs(start, end, job.captures())
    wanted = enough_packets(row, inputs)
    found = find_packets(job.lake, job.config, wanted, 0, watch)
    if found.count > most:
        raise errors.LakeError(
            f"query {query}: the row follows from {found.count:,} packets, and a page gives at most {most:,}",
            "`lowwater evidence` has no such limit",
        )
    _require_derived(row, inputs, wanted, found)
    rendering = duckdb_sql.Rendering(partial(_slots, row, inputs, wanted))
    try:
        sql, why = rendering.of(row.query.logical), ""
    except duckdb_sql.NoSqlError as error:
        sql, why = "", str(error)
        _require_alone(row)
        if not found.count:
            raise errors.LakeError(
                f"query {query}: no packet is behind the row, and SQL cannot derive it: {why}",
                f"`lowwater why {job.query_set} {format_instant(start)} --lake {job.lake.root}` has its accounts",
            ) from None
    return Evidence(
        row,
        inputs,
        wanted,
        found,
        last_published(job.lake, job.query_set, query, start, end),
        sql,
        tuple(rendering.columns),
        why,
    )


MOST_SLOTS = 100_000
"""Most groups of FILL that are written into SQL."""


def _slots(row: EvidenceRow, inputs: IntervalInputs, wanted: RowPackets, node: ops.Fill) -> list[tuple[Any, ...]]:
    """The keys of the groups that FILL has of the time of a row: of epochs that are covered whole (O10)."""
    links = _own(row, inputs).reported()
    time, epoch = ops.clocks(node.key_fields)[0], node.epoch.name
    found: list[tuple[Any, ...]] = []
    for values in product(*node.listed):
        others = iter(value.value for value in values)
        named = {each.name: None if each.temporal else next(others) for each in node.key_fields}
        known = reported_of(node, named, links)
        lives = [each for each in known if each.life[0] < each.life[1]]
        start = max(wanted.start, min((each.begins for each in lives), default=wanted.end))
        for at in next_epochs(time, time.promise(start), wanted.end):
            begin, end = (time.begins or time).first(at), time.last(at) + 1
            if any(each.lives(begin, end) for each in known) and all(each.whole(begin, end) for each in known):
                found.append(tuple((named | {epoch: at}).values()))
            if len(found) > MOST_SLOTS:
                raise duckdb_sql.NoSqlError(f"FILL has more than {MOST_SLOTS:,} groups")
    return found


def _own(row: EvidenceRow, inputs: IntervalInputs) -> IntervalInputs:
    """The inputs of an interval that has the instant of the row alone."""
    return replace(inputs, start=row.last, end=row.last + 1)


def _require_alone(row: EvidenceRow) -> None:
    """Refuses a query that the reference engine cannot run with what an archive has."""
    section = row.job.config.query_sets.get(row.job.query_set)
    watched = [each.file for each in ops.walk(row.query.logical) if isinstance(each, ops.WatchJoin)]
    files = [*row.query.files, *watched, *((*section.schemas, *section.functions) if section is not None else ())]
    if files:
        raise errors.LakeError(
            f"query {row.query.name}: it is not derived without files that evidence does not have: {', '.join(files)}",
            "send these files, and the packets of the row, which the pages download",
        )


def _require_derived(row: EvidenceRow, inputs: IntervalInputs, wanted: RowPackets, found: FoundPackets) -> None:
    """Checks that the reference engine gives the row from the packets alone."""
    query, job = row.query, row.job
    columns = source_columns(query.logical)
    chosen = {link: _packets(job, link, columns, wanted, found) for link in query.links}
    result = evaluate(
        query.logical,
        chosen,
        {link: disorder_of(job.config, link, query.lftas) for link in query.links},
        row.last,
        row.last + 1,
        dict.fromkeys(properties.read_from(query.logical, row.last), wanted.start),
        SECOND,
        over=max((inputs.ends.get(link, END_OF_TIME) for link in query.links), default=END_OF_TIME),
        packet_samplings=packet_samplings(query.logical, chosen, {}, {}),
        reported=_own(row, inputs).reported(),
    )
    values = tuple(row.values.values())
    times = sum(_same(each, values) for each in result.rows)
    if times != row.times:
        raise errors.LakeError(
            f"query {query.name}: the packets of the lake give the row {times} times, and it is published {row.times} "
            f"times: {json.dumps(row.row, default=str)}",
            f"`lowwater why {job.query_set} {format_instant(inputs.start)} --lake {job.lake.root}` says what changed",
        )


def _same(row: Sequence[Any], wanted: Sequence[Any]) -> bool:
    return all(
        abs(a - b) <= 1e-9 * max(abs(a), abs(b)) if isinstance(a, float) and isinstance(b, float) else a == b
        for a, b in zip(row, wanted, strict=True)
    )


def _packets(
    job: Job, link: str, columns: Sequence[str], wanted: RowPackets, found: FoundPackets
) -> Iterator[pa.RecordBatch]:
    """Yields the found packets of a link."""
    captures, settings = read_captures(job.lake, [link])[link], job.config.link(link)
    read = packet_files(PacketFiles.of(job.lake), link, captures, settings, wanted.start, wanted.start, wanted.end)
    names = dict.fromkeys([*columns, *link_skews(job.config, link).columns])
    for batch in read.batches([name for name in names if name not in ("arrival", "timestamp", "position", "capture")]):
        capture = str(batch.column("capture")[0].as_py())
        positions = pa.chunked_array(found.admitted.get((link, capture), []), pa.int64()).combine_chunks()
        rows = batch.filter(pc.is_in(batch.column("position"), positions))
        if rows.num_rows:
            yield rows


def write(evidence: Evidence, out: IO[bytes]) -> str:
    """Writes the archive, a zip without compression: equal evidence is equal bytes. Returns the SHA-256 of its
    manifest, which says that of every file.
    Raises LakeError if the bytes of packets are gone; the message names the captures with their digests."""
    digests: dict[str, str] = {}
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for link, name in _packet_names(evidence).items():
            digests[name] = _write_packets(evidence, link, name, archive)
        for name, text in _texts(evidence).items():
            digests[name] = sha256(text.encode()).hexdigest()
            archive.writestr(_entry(name), text.encode())
        manifest = _json({"version": VERSION, "sha256": dict(sorted(digests.items()))})
        archive.writestr(_entry("manifest.json"), manifest.encode())
    return sha256(manifest.encode()).hexdigest()


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, _DATE)
    entry.create_system, entry.external_attr = 3, 0o644 << 16
    return entry


def _packet_names(evidence: Evidence) -> dict[str, str]:
    """Link -> its file of packets."""
    return {link: f"packets/{tables.safe_name(link)}.pcapng" for link in sorted(evidence.packets.links)}


def _write_packets(evidence: Evidence, link: str, name: str, archive: zipfile.ZipFile) -> str:
    job, wanted = evidence.row.job, evidence.wanted
    everything = Predicate(None, None)
    try:
        selection = select(
            job.lake, job.config, [link], everything, wanted.start, wanted.end, admitted=evidence.packets.admitted
        )
    except errors.LakeError as error:
        captures = [each for each in _captures(evidence, link) if each["read"]]
        told = ", ".join(f"{each['path']} (SHA-256 {each['sha256']})" for each in captures)
        raise errors.LakeError(f"{error.message}; the row is of packets of {told}", error.hint) from error
    digest = sha256()
    with archive.open(_entry(name), "w", force_zip64=True) as file:

        def add(data: bytes) -> None:
            digest.update(data)
            file.write(data)

        write_selection(selection, "pcapng", add)
    return digest.hexdigest()


def _captures(evidence: Evidence, link: str) -> list[dict[str, Any]]:
    """The captures of a link whose packets could be behind the row; `read`: packets of it are."""
    admitted = {capture for name, capture in evidence.packets.admitted if name == link}
    start, end = evidence.wanted.start, evidence.wanted.end
    captures = [each for each in evidence.inputs.captures.get(link, ()) if each.smallest is not None]
    return [
        {
            "path": each.path,
            "sha256": each.file_digest,
            "identity": each.capture,
            "packets": each.packets,
            "malformed": each.malformed,
            "covers": [format_instant(each.covers_from), format_instant(each.covers_to)],
            "read": each.capture in admitted,
        }
        for each in captures
        if each.capture in admitted or ((each.smallest or 0) < end and (each.largest or 0) >= start)
    ]


def _texts(evidence: Evidence) -> dict[str, str]:
    row, inputs = evidence.row, evidence.inputs
    query, job = row.query, row.job
    captures = {link: _captures(evidence, link) for link in query.links}
    about = {
        "version": VERSION,
        "query": query.name,
        "query_set": job.query_set,
        "row": row.row,
        "times": row.times,
        "values": [value.hex() if isinstance(value, bytes) else value for value in row.values.values()],
        "derive": "duckdb" if evidence.sql else "reference",
        "columns": list(evidence.columns),
        "packets": _packet_names(evidence),
        "parameters": [f"{name}={value}" for name, value in _parameters(job)],
        "captures": {link: [each for each in found if each["read"]] for link, found in captures.items()},
    }
    interval = [format_instant(inputs.start), format_instant(inputs.end)]
    shown = {"row": row.row, LAST: row.last, "interval": interval, "table": query.name, "version": row.version}
    how = "tshark reads the packets, DuckDB evaluates derive.sql: this needs no program of Lowwater."
    if not evidence.sql:
        how = f"The reference engine derives the row: {evidence.why}."
    head = f"Evidence for one row of {query.name}, made by Lowwater {__version__}"
    texts = {
        "README.txt": README.format(
            query=query.name,
            release=__version__,
            line="=" * len(head),
            derive="derive.sql      the query as SQL of DuckDB over what tshark reads"
            if evidence.sql
            else "lowwater.toml   the settings of the links",
            how=how,
        ),
        "row.json": _json(shown),
        "query.gsql": query_text(query),
        "plan.txt": explain(job.plan.only(query.name)),
        "evidence.json": _json(about),
        "accounts.json": _json(_accounts(evidence, captures)),
        "check.py": SCRIPT.read_text(encoding="utf-8"),
    }
    if evidence.sql:
        return {**texts, "derive.sql": evidence.sql + "\n"}
    return {**texts, "lowwater.toml": _settings(job, query)}


def query_text(query: QueryPlan) -> str:
    """The canonical text of a query, and of the queries that it reads."""
    return ";\n\n".join(text for label, text in query.parts if label.startswith("query ")) + ";\n"


def _parameters(job: Job) -> list[tuple[str, Any]]:
    section = job.config.query_sets.get(job.query_set)
    return sorted(section.params.items()) if section is not None else []


def _settings(job: Job, query: QueryPlan) -> str:
    """The settings that the reference engine needs: late packets are not among those of the evidence, so the longest
    skew of a link is enough."""
    lines = [
        f'{section_of(link)}\nskew = "{format_duration(job.config.link(link).longest_skew)}"\n' for link in query.links
    ]
    sets = {name: [link for link in links if link in query.links] for name, links in sorted(job.config.sets.items())}
    lines += ["[sets]", *(f"{toml_key(name)} = {json.dumps(links)}" for name, links in sets.items() if links)]
    return "\n".join(lines) + "\n"


def _accounts(evidence: Evidence, captures: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """What the ledgers have of the interval."""
    inputs, replay = evidence.inputs, evidence.replay
    stages = interval_replays(inputs.lake, inputs.query_set, inputs.start, inputs.end)
    low = [each for each in stages if each.interval == (inputs.start, inputs.end) and each.accounting != "{}"]
    reported = inputs.reported()
    return {
        "interval": [format_instant(inputs.start), format_instant(inputs.end)],
        "state": replay.state if replay is not None else "",
        "reason": replay.reason if replay is not None else "",
        "inputs": replay.digest if replay is not None else "",
        "rows": replay.rows if replay is not None else None,
        "records": json.loads(low[-1].accounting) if low else {},
        "captures": {link: list(found) for link, found in captures.items()},
        "gaps": {
            link: [[format_instant(since), format_instant(until)] for since, until in each.gaps]
            for link, each in sorted(reported.items())
        },
        "packets": dict(sorted(evidence.packets.links.items())),
    }


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str) + "\n"

"""The law over links of records: the case of a number, and a case on the engines beside the oracles."""

from __future__ import annotations

import hashlib
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.ingestion.record_options import planned_options
from lowwater.lake.layout import Lake
from lowwater.plan.context import Context
from lowwater.plan.operators import Bucket, Running, Sampling, walk
from lowwater.plan.properties import by_arrival
from lowwater.plan.queryset import Plan, plan_texts
from lowwater.replay.accounts import LinkCounts
from lowwater.replay.checks import require_lowered
from lowwater.replay.progress import Progress
from lowwater.replay.run_command import RunResults, run_intervals
from tests.law.compare import REFERENCE, Difference, Rows, compare_engines, request_of, rows_of, value
from tests.law.drawn import drawn
from tests.law.lakes import LastLake
from tests.law.questions import Question
from tests.law.record_questions import question
from tests.law.records import PACKETS, RECORD_LINKS, RecordWorld, record_world
from tests.law.reduce import PLAIN
from tests.law.settings import SECOND, Choice, choices
from tests.plan.batch import evaluate as batch_rows
from tests.plan.batch_plans import bound_plans

if TYPE_CHECKING:
    from lowwater.high.runner import Runner

FOLDER = Path(__file__).resolve().parent
GRAMMAR = ("record_cases.py", "record_questions.py", "records.py", "drawn.py", "settings.py")
VERSION = hashlib.sha256(b"".join((FOLDER / name).read_bytes() for name in GRAMMAR)).hexdigest()[:12]
"""Of the grammar: a case is its number and this."""

SHARED = 4
"""Cases of one world, whose files are ingested once."""


@dataclass(frozen=True)
class RecordCase:
    """What is evaluated: files of records, a set of queries, settings."""

    world: RecordWorld
    asked: tuple[Question, ...]
    choice: Choice


def record_case(seed: int) -> RecordCase:
    """The case of a number."""
    world, random = record_world(seed // SHARED), Random(f"questions {seed}")
    span = max(world.stamps, default=0) - min(world.stamps, default=0)
    rare = Random(f"rare {seed}")
    asked = tuple(question(random, f"q{number}", rare.random() < 0.1) for number in range(random.randint(1, 3)))
    return RecordCase(world, asked, drawn(choices(span), seed))


def plan_of(world: RecordWorld, asked: Sequence[Question], slots: int = 1) -> Plan:
    """The plan of some questions."""
    texts = [("log.gsql", world.protocol + asked[0].text), *((f"{each.name}.gsql", each.text) for each in asked[1:])]
    return plan_texts(texts, world.known, slots)


def _fill(world: RecordWorld, lake: Lake, folder: Path) -> None:
    config, written = world.config, world.write(folder)
    every = Question("q", "DEFINE { query_name 'q'; } SELECT port FROM [a, b].LOG", "")
    plan = plan_of(world, [every])
    for link in (*RECORD_LINKS, PACKETS):
        files = [path for name, path in written if name == link]
        ingest(lake, link, files, config, records=planned_options(config, plan, link))


LAKES = LastLake((*RECORD_LINKS, PACKETS), _fill)


def evaluated(case: RecordCase, engine: str, runner: Runner | None = None) -> RunResults:
    """What an engine makes of a case; the records of every link that is read are accounted for."""
    plan = plan_of(case.world, case.asked, case.choice.slots)
    require_lowered(plan, engine)
    lake, captures = LAKES.of(case.world)
    with tempfile.TemporaryDirectory() as folder:
        request = request_of(plan, case.world.config, case.choice, engine, Path(folder))
        progress = Progress(quiet=True)
        gathered = run_intervals(request, lake, captures, Path(folder), progress, runner)
    for link in plan.links:
        account = gathered.accounts.links.get(link, LinkCounts())
        count = len(case.world.packets) if link == PACKETS else len(case.world.sane(link))
        assert account.violating == case.world.violations(link)
        assert account.sane + account.violating == count
        if link != PACKETS:
            assert sum(each.malformed for each in captures[link]) == case.world.malformed(link)
    return gathered


def expected(case: RecordCase, asked: Question) -> Rows:
    """The rows of a question by SQL, else by the batch evaluator, else by the reference engine in one interval."""
    if asked.sql:
        with case.world.oracle() as oracle:
            return Counter(tuple(value(each) for each in row) for row in oracle.execute(asked.sql).fetchall())
    node = bound_plans(case.world.protocol + asked.text, case.world.known, Context())[asked.name]
    if by_arrival(node) or any(isinstance(each, Sampling | Bucket) for each in walk(node)):
        choice = replace(case.choice, interval=None, long=None)
        return rows_of(evaluated(replace(case, asked=(asked,), choice=choice), REFERENCE), asked.name)
    assert any(isinstance(each, Running) for each in walk(node))
    links = plan_of(case.world, [asked]).links
    rows = batch_rows(node, case.world.batch(links))
    return Counter(tuple(value(row.values[f.name]) for f in node.fields) for row in rows)


def check(case: RecordCase, engine: str, runner: Runner | None = None) -> int:
    """Holds an engine against the oracles, and Spark against the reference engine too; how many rows there were."""
    ours = evaluated(case, engine, runner)
    for asked in case.asked:
        found, theirs = rows_of(ours, asked.name), expected(case, asked)
        if found != theirs:
            pair = f"{engine} beside {'SQL' if asked.sql else 'the batch evaluator'}"
            raise Difference(pair, asked.name, theirs - found, found - theirs)
    if engine != REFERENCE:
        same = replace(case, choice=replace(case.choice, interval=case.choice.long))
        compare_engines(ours, evaluated(same, REFERENCE))
    return sum(table.num_rows for tables in ours.rows.values() for table in tables)


def described(case: RecordCase) -> str:
    """A case to read: queries, settings, records."""
    lines = [
        case.world.protocol,
        *(f"-- {each.family}\n{each.text}\n-- SQL: {each.sql or '(none)'}" for each in case.asked),
    ]
    lines += ["", *(f"{name}: {value}" for name, value in vars(case.choice).items()), ""]
    begin = min(case.world.stamps, default=0)
    for link in RECORD_LINKS:
        world = case.world
        lines.append(
            f"{link}: {world.kinds[link]}, skew {world.skews[link]} ns, bands {world.bands[link]}, "
            f"split at {world.splits[link]}{', cut' if link in world.cuts else ''}"
        )
        lines += [f"  {row}" for row in world.records[link]]
    lines += [
        f"  {(packet.stamp - begin) / SECOND:14.9f} {packet.kind} {packet.dport}" for packet in case.world.packets
    ]
    return "\n".join(lines)


def smaller(case: RecordCase) -> Iterator[RecordCase]:
    """Cases with less: fewer questions, plainer settings, fewer records."""
    if len(case.asked) > 1:
        yield from (replace(case, asked=(asked,)) for asked in case.asked)
    yield replace(case, choice=PLAIN)
    for name in vars(PLAIN):
        yield replace(case, choice=replace(case.choice, **{name: getattr(PLAIN, name)}))
    yield replace(case, world=replace(case.world, cuts=(), packets=()))
    size = max(map(len, case.world.records.values()))
    while size:
        for link, rows in case.world.records.items():
            for at in range(0, len(rows), size):
                records = {**case.world.records, link: rows[:at] + rows[at + size :]}
                splits = {**case.world.splits, link: 0}
                yield replace(case, world=replace(case.world, records=records, splits=splits))
        size //= 2

"""A case on the engines, beside the oracles (SQL, else the batch evaluator) and beside one another."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from lowwater.catalog.values import format_ip
from lowwater.config import Config, Link
from lowwater.errors import QueryError, UnsupportedError, flatten_errors
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import Lake
from lowwater.low import Flush, Policy
from lowwater.plan.operators import Bucket, Running, Sampling, walk
from lowwater.plan.queryset import Plan, plan_texts
from lowwater.replay.accounts import LinkCounts
from lowwater.replay.checks import require_lowered
from lowwater.replay.progress import Progress
from lowwater.replay.run_command import RunRequest, RunResults, run_intervals
from tests.law.cases import Case, whole
from tests.law.lakes import LastLake
from tests.law.questions import Question
from tests.law.settings import Choice
from tests.law.worlds import LINKS, SETS, WATCH, World
from tests.plan.batch import evaluate as batch_rows
from tests.plan.batch_plans import bound_plans
from tests.plan.batch_pools import CONTEXT, KNOWN
from tests.plan.batch_rows import rounded

if TYPE_CHECKING:
    from lowwater.high.runner import Runner

Row = tuple[Any, ...]
Rows = Counter[Row]
REFERENCE, PROCESS, SPARK = "reference", "process", "spark"


class Difference(AssertionError):
    """Rows that should be equal are not."""

    def __init__(self, pair: str, query: str, missing: Rows, extra: Rows) -> None:
        self.pair, self.query, self.missing, self.extra = pair, query, missing, extra
        shown = [
            f"{word} {count} x {row}"
            for word, rows in (("missing", missing), ("extra", extra))
            for row, count in rows.items()
        ]
        super().__init__("\n  ".join([f"{pair}, query {query}:", *shown[:8]]))


def plan_of(asked: Sequence[Question], slots: int, folder: Path) -> Plan:
    """The plan of some questions; their watch lists are in a folder."""
    listed = folder / "w.csv"
    listed.write_text("".join(f"{address},{number},{name}\n" for address, number, name in WATCH), encoding="utf-8")
    texts = [(f"{each.name}.gsql", each.text.replace("'w.csv'", f"'{listed}'")) for each in asked]
    return plan_texts(texts, KNOWN, slots, replace(CONTEXT, folders=(folder,)))


def refused(asked: Sequence[Question], engine: str) -> str:
    """Why an engine does not run some questions, in the product's words; empty where it does."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            require_lowered(plan_of(asked, 1, Path(folder)), engine)
        except QueryError as error:
            every = flatten_errors([error])
            if not all(isinstance(each, UnsupportedError) for each in every):
                raise
            return "; ".join(str(each.message) for each in every)
    return ""


def evaluated(case: Case, engine: str, runner: Runner | None = None) -> RunResults:
    """What an engine makes of a case; the records of every link that is read are accounted for."""
    lake, captures = LAKES.of(case.world)
    with tempfile.TemporaryDirectory() as folder:
        plan = plan_of(case.asked, case.choice.slots, Path(folder))
        request = request_of(plan, config_of(case.world), case.choice, engine, Path(folder))
        progress = Progress(quiet=True)
        gathered = run_intervals(request, lake, captures, Path(folder), progress, runner)
    for error in gathered.failures.values():
        raise error
    for link in request.plan.links:
        packets, account = case.world.packets[link], gathered.accounts.links.get(link, LinkCounts())
        assert account.violating == case.world.violations(link)
        assert account.sane + account.violating + account.duplicates == len(packets)
        assert sum(each.malformed for each in captures[link]) == (link in case.world.cuts and bool(packets))
    return gathered


def _fill(world: World, lake: Lake, folder: Path) -> None:
    config, written = config_of(world), world.write(folder)
    for link in LINKS:
        ingest(lake, link, [path for name, path in written if name == link], config)


LAKES = LastLake(LINKS, _fill)


def request_of(plan: Plan, config: Config, choice: Choice, engine: str, folder: Path) -> RunRequest:
    """A run of a plan with the settings of a case."""
    return RunRequest(
        plan=plan,
        config=config,
        captures=[],
        out=folder / "out",
        period=choice.period,
        policy=Policy(choice.policy),
        engine=engine,
        interval=choice.interval if engine == REFERENCE else choice.long,
        order=choice.order,
        low=low_settings(choice),
        high=choice.high,
    )


def config_of(world: World) -> Config:
    """The settings of the links of a world."""
    own = {"max_jump": 10**15, "payload": "all"}
    return Config(
        links={name: Link().model_copy(update={"skew": skew, **own}) for name, skew in world.skews.items()}, sets=SETS
    )


def low_settings(choice: Choice) -> dict[str, Any]:
    """What a choice says of the low level; the kernels are not compiled, which takes seconds for each new set."""
    flush = Flush.parse(choice.flush)
    sizes = {name: getattr(choice, name) for name in ("chunk_rows", "task_packets", "shared_rows")}
    return {**sizes, "compiled": False, "adjacent": choice.adjacent, "flush": flush}


def value(found: Any) -> Any:
    """A value that is compared: addresses as text, floats to nine digits."""
    if isinstance(found, bytes):
        return format_ip(found)
    return found.lstrip("~") if isinstance(found, str) else rounded(found)


def rows_of(gathered: RunResults, query: str, *more: str, cell: Callable[[Any], Any] = value) -> Rows:
    """The rows of a query, with `_last` where it is asked for."""
    found: Rows = Counter()
    for table in gathered.rows[query]:
        names = [name for name in table.column_names if name not in ("_last", "_tick") or name in more]
        columns = [table.column(name).to_pylist() for name in names]
        found.update(tuple(cell(each) for each in row) for row in zip(*columns, strict=True))
    return found


def expected(case: Case, question: Question, oracle: duckdb.DuckDBPyConnection) -> Rows:
    """The rows of a question by SQL, else by the batch evaluator, else by the reference engine in one interval."""
    if question.sql:
        # DuckDB has faults of its own in chains of anti-joins, of which it says that they are.
        with suppress(duckdb.InternalException):
            return Counter(tuple(value(each) for each in row) for row in oracle.execute(question.sql).fetchall())
    node = bound_plans(question.text, KNOWN, CONTEXT)[question.name]
    counted = any(isinstance(below, Bucket) and below.rows for below in walk(node))
    chained = Running if counted else Sampling
    if any(isinstance(below, Sampling | chained) for below in walk(node)):
        return rows_of(evaluated(replace(whole(case), asked=(question,)), REFERENCE), question.name)
    with tempfile.TemporaryDirectory() as folder:
        links = plan_of([question], 1, Path(folder)).links
    rows = batch_rows(node, case.world.batch(links))
    return Counter(tuple(value(row.values[f.name]) for f in node.fields) for row in rows)


def compare_oracle(case: Case, gathered: RunResults, engine: str) -> None:
    """Holds every question of a case against its oracle."""
    with case.world.oracle() as oracle:
        for question in case.asked:
            ours, theirs = rows_of(gathered, question.name), expected(case, question, oracle)
            if ours != theirs:
                pair = f"{engine} beside {'SQL' if question.sql else 'the batch evaluator'}"
                raise Difference(pair, question.name, theirs - ours, ours - theirs)


def compare_ticks(case: Case, runner: RunResults, reference: RunResults) -> None:
    """Holds the ticks of Spark's rows against those of the reference engine, of which none may be much later."""
    choice = case.choice
    if choice.policy != Policy.PERIODIC or choice.flush != "immediate":
        return
    skew = max(case.world.skews.values())
    for query in reference.rows:
        ours, theirs = ticks_of(runner, query), ticks_of(reference, query)
        for row, ticks in theirs.items():
            for mine, own in zip(sorted(ours[row]), sorted(ticks), strict=True):
                # Rows of an earlier interval go at once in the reference engine; here they wait for their promise (P5).
                latest = max(own, row[-1] + skew + choice.period) + choice.pace[0]
                assert mine <= latest, f"query {query}: {row} at {mine} ns, the reference engine's at {own} ns"


def ticks_of(gathered: RunResults, query: str) -> dict[Row, list[int]]:
    """The ticks of equal rows, `_last` at their end."""
    found: dict[Row, list[int]] = {}
    for table in gathered.rows[query]:
        names = [name for name in table.column_names if name not in ("_last", "_tick")]
        columns = [table.column(name).to_pylist() for name in (*names, "_last", "_tick")]
        for *row, tick in zip(*columns, strict=True):
            found.setdefault(tuple(value(each) for each in row), []).append(tick)
    return found


def compare_engines(runner: RunResults, reference: RunResults) -> None:
    """Holds Spark against the reference engine over the same intervals: rows with their last instants."""
    for query in reference.rows:
        ours, theirs = rows_of(runner, query, "_last"), rows_of(reference, query, "_last")
        if ours != theirs:
            raise Difference("spark beside reference", query, theirs - ours, ours - theirs)

"""The law at scale: `python -m tests.law.fuzz --reference 3000 --spark 300`, case by case, from a ledger of seeds.

A run goes on behind the last seed that the ledger, or what was kept of earlier ones, has of this grammar, and ends with
1 where a difference was found. `--keep` turns a ledger without differences into one line of `kept.csv`, which belongs
to the project, so that every machine goes on from there. `--seed N` runs one case again and prints the whole of it,
made small; what it prints belongs in `found`. `--again` runs every case that was kept once more, from a ledger of its
own: what an engine is held to that was made anew. `--records` runs the cases over links of records (`record_cases`),
which have a ledger and a grammar of their own. So have those of one family of questions: `--family asof`.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from lowwater.high.process import InProcess
from tests.law import questions, record_cases
from tests.law.cases import SHARED, VERSION, Case, case, named
from tests.law.compare import (
    PROCESS,
    REFERENCE,
    SPARK,
    compare_engines,
    compare_oracle,
    compare_ticks,
    evaluated,
    refused,
)
from tests.law.drawn import drawn as drawn_of
from tests.law.joined import ALL, ANTI, ASOF, ASOF_LEFT, MUTUAL, MUTUAL_LEFT, SEMI, SHAPES, Grammar as Joins
from tests.law.killed import compare_published
from tests.law.questions import Question
from tests.law.reduce import reduced, smaller
from tests.law.settings import choices
from tests.law.worlds import world

if TYPE_CHECKING:
    from lowwater.high.runner import Runner

LEDGER = Path(__file__).resolve().parents[2] / "var" / "fuzz" / "ledger.jsonl"
KEPT = Path(__file__).with_name("kept.csv")
SAME, DIFFERENT, REFUSED = "same", "different", "refused"
BUDGET = {REFERENCE: 300, PROCESS: 300, SPARK: 60}
ENGINES = {REFERENCE: "SQL and the batch evaluator", PROCESS: "these and the reference engine", SPARK: "the same"}
"""Engine -> what its rows are compared with."""
"""Most runs while a case is made small."""


@dataclass
class Outcome:
    """What became of a case on an engine.

    Attributes:
        outcome: same, different, or refused where the engine runs none of its queries.
        why: the difference or error.
        beside: what its rows were compared with, and how often; `batch` is the reference engine over one interval where
            the batch evaluator has no such state (`compare.expected`).
        refused: family -> why the engine does not run it, in the product's words.
        rows: how many were compared.
    """

    seed: int
    engine: str
    outcome: str = SAME
    why: str = ""
    beside: dict[str, int] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    families: tuple[str, ...] = ()
    rows: int = 0
    seconds: float = 0.0
    version: str = VERSION


@dataclass(frozen=True)
class Grammar:
    """What cases are drawn from: packets, or links of records too.

    Attributes:
        version: of the grammar; a ledger and what was kept name it.
        draw: the case of a number as an engine runs it, and why it does not run some of its queries.
        check: holds an engine against the oracles; how many rows there were.
        described: a case to read.
        smaller: cases with less.
        option: what the command line says for it.
    """

    version: str
    draw: Callable[[int, str], tuple[Any, dict[str, str]]]
    check: Callable[[Any, str, Runner | None], int]
    described: Callable[[Any], str]
    smaller: Callable[[Any], Iterator[Any]]
    option: str = ""


def run_case(seed: int, engine: str, runner: Runner | None = None, grammar: Grammar | None = None) -> Outcome:
    """Runs the case of a number; never raises what the case is to blame for."""
    grammar = grammar or PACKETS
    run, why = grammar.draw(seed, engine)
    found = Outcome(seed, engine, refused=why, version=grammar.version)
    if not run.asked:
        return replace(found, outcome=REFUSED)
    began, found.families = time.monotonic(), tuple(question.family for question in run.asked)
    try:
        found.rows = grammar.check(run, engine, runner)
        found.beside = dict(Counter("SQL" if question.sql else "batch" for question in run.asked))
    except Exception as error:  # noqa: BLE001 - whatever a case does is its outcome
        found.outcome, found.why = DIFFERENT, f"{type(error).__name__}: {error}"
    found.seconds = round(time.monotonic() - began, 2)
    return found


def accepted(drawn: Case, engine: str) -> tuple[Case, dict[str, str]]:
    """The case with the queries that an engine runs, and why it does not run the others."""
    if not refused(drawn.asked, engine):
        return drawn, {}
    why = {question.name: refused([question], engine) for question in drawn.asked}
    run = tuple(question for question in drawn.asked if not why[question.name])
    return replace(drawn, asked=run), {each.family: why[each.name] for each in drawn.asked if why[each.name]}


def check(run: Case, engine: str, runner: Runner | None = None, batches: bool = False) -> int:
    """Holds an engine against the oracles, and Spark against the reference engine too; how many rows there were.

    Where the settings kill processes, so does a lake whose intervals are replayed; with `batches` also where they only
    say how many of them run together.

    Raises:
        AssertionError: they are not equal, or a record is in no account.
    """
    ours = evaluated(run, engine, runner)
    compare_oracle(run, ours, engine)
    if engine != REFERENCE:
        same = replace(run, choice=replace(run.choice, interval=run.choice.long))
        reference = evaluated(same, REFERENCE)
        compare_engines(ours, reference)
        compare_ticks(same, ours, reference)
        if (run.choice.kills or (batches and run.choice.together)) and runner is not None:
            compare_published(run, runner)
    return sum(table.num_rows for tables in ours.rows.values() for table in tables)


def described(run: Case) -> str:
    """A case to read: queries, settings, packets."""
    lines = [f"-- {each.family}\n{each.text}\n-- SQL: {each.sql or '(none)'}" for each in run.asked]
    lines += ["", *(f"{name}: {value}" for name, value in vars(run.choice).items()), ""]
    world, begins = run.world, min((p.stamp for each in run.world.packets.values() for p in each), default=0)
    for link, packets in world.packets.items():
        cut = ", its last capture is cut" if link in world.cuts else ""
        lines.append(f"{link}: skew {world.skews[link]} ns, captures split at {world.splits[link]}{cut}")
        lines += [
            f"  {(each.stamp - begins) / 1e9:14.9f} {each.kind} {each.src}:{each.sport} > {each.dest}:{each.dport} "
            f"flags={each.flags} ttl={each.ttl} {each.data!r}{' beyond' if each.beyond else ''}"
            for each in packets
        ]
    return "\n".join(lines)


PACKETS = Grammar(VERSION, lambda seed, engine: accepted(case(seed), engine), check, described, smaller)
RECORDS = Grammar(
    record_cases.VERSION,
    lambda seed, engine: (record_cases.record_case(seed), {}),
    record_cases.check,
    record_cases.described,
    record_cases.smaller,
    " --records",
)


def _joins(*kinds: str) -> st.SearchStrategy[Question]:
    """One join of some kinds, or such a join over joins of any kind."""

    def question(number: int) -> Question:
        random = Random(number)
        grammar, kind = Joins(random, kinds=ALL), random.choice(kinds)
        if random.random() < 0.6:
            return grammar.output(grammar.leaf(), grammar.leaf(), kind)
        return grammar.chain(random.choice(SHAPES), kind)

    return st.integers(0, 1 << 30).map(question)


FAMILIES = {
    "tops": questions.tops,
    "once": lambda: _joins(ANTI, SEMI),
    "asof": lambda: _joins(ASOF, ASOF_LEFT),
    "mutual": lambda: _joins(MUTUAL, MUTUAL_LEFT),
    "rows_before": questions.rows_before,
    "fills": questions.fills,
}
"""Families of questions that are run by themselves too: as the first question of a case in twenty they are rare."""
ASKED = 8
"""Questions of such a case: what a run, its captures and the oracle take is the same for one and for many."""


def family_case(name: str, seed: int) -> Case:
    """ASKED questions of a family over the world of a number, all with the settings of that number."""
    made = world(seed // SHARED)
    stamps = [packet.stamp for packets in made.packets.values() for packet in packets]
    several = st.lists(FAMILIES[name](), min_size=ASKED, max_size=ASKED)
    found, choice = drawn_of(st.tuples(several, choices(max(stamps, default=0) - min(stamps, default=0))), seed)
    asked = (Question(f"q{at}", named(each.text, f"q{at}"), each.sql, name) for at, each in enumerate(found))
    return Case(made, tuple(asked), choice)


def family(name: str) -> Grammar:
    """The cases of one family."""
    return Grammar(
        f"{VERSION} {ASKED} {name}",
        lambda seed, engine: accepted(family_case(name, seed), engine),
        check,
        described,
        smaller,
        f" --family {name}",
    )


def following(cases: int, engine: str, ledger: Path, least: int = 0, grammar: Grammar = PACKETS) -> range:
    """So many seeds behind those that a ledger has, or else those that were kept, from `least` on."""
    seeds = [row["seed"] for row in rows_of(ledger, grammar) if row["engine"] == engine]
    kept = [int(row["last"]) for row in kept_rows(grammar) if row["engine"] == engine and int(row["last"]) >= least]
    first = max(seeds or kept, default=least - 1) + 1
    return range(first, first + cases)


def again(of: str, engine: str, ledger: Path, least: int = 0, grammar: Grammar = PACKETS) -> list[int]:
    """The seeds that were kept of an engine and that the ledger does not have of the second one, from `least` on."""
    known = {row["seed"] for row in rows_of(ledger, grammar) if row["engine"] == engine}
    kept = [range(int(row["first"]), int(row["last"]) + 1) for row in kept_rows(grammar) if row["engine"] == of]
    return [seed for part in kept for seed in part if seed >= least and seed not in known]


def fuzz(
    seeds: Sequence[int],
    engine: str,
    ledger: Path,
    runner: Runner | None = None,
    seconds: float = float("inf"),
    grammar: Grammar = PACKETS,
) -> None:
    """Runs cases on an engine, for at most so many seconds, and adds them to a ledger.

    Args:
        seeds: of the cases.
        ledger: file of outcomes, a line of JSON each; made where it is absent.
        seconds: after which no case begins.
        grammar: what the cases are drawn from.
    """
    ledger.parent.mkdir(parents=True, exist_ok=True)
    ends = time.monotonic() + seconds
    for seed in seeds:
        if time.monotonic() > ends:
            break
        found = run_case(seed, engine, runner, grammar)
        with ledger.open("a", encoding="utf-8") as file:
            file.write(json.dumps(vars(found)) + "\n")
        if found.outcome == DIFFERENT:
            print(f"seed {seed} on {engine}: {found.why}", flush=True)


def rows_of(ledger: Path, grammar: Grammar = PACKETS) -> list[dict[str, Any]]:
    """What the ledger has of this grammar."""
    if not ledger.exists():
        return []
    rows = [json.loads(line) for line in ledger.read_text(encoding="utf-8").splitlines()]
    return [row for row in rows if row["version"] == grammar.version]


def kept_rows(grammar: Grammar = PACKETS) -> list[dict[str, str]]:
    """What was kept of earlier ledgers of this grammar."""
    if not KEPT.exists():
        return []
    with KEPT.open(newline="", encoding="utf-8") as file:
        return [row for row in csv.DictReader(file) if row["version"] == grammar.version]


def keep(ledger: Path, grammar: Grammar = PACKETS) -> int:
    """Adds a ledger to what is kept, one line an engine, and removes it; 1 where it has differences and stays."""
    rows = rows_of(ledger, grammar)
    if any(row["outcome"] == DIFFERENT for row in rows):
        print(f"{ledger} has differences, so it is not kept")
        return 1
    new = not KEPT.exists()
    with KEPT.open("a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        if new:
            writer.writerow(("version", "engine", "first", "last", "cases", "beside_sql", "beside_batch", "rows"))
        for engine in ENGINES:
            mine = [row for row in rows if row["engine"] == engine]
            ran = [row for row in mine if row["outcome"] != REFUSED]
            beside = sum((Counter(row["beside"]) for row in ran), Counter[str]())
            if mine:
                seeds = [row["seed"] for row in mine]
                counts = (len(ran), beside["SQL"], beside["batch"], sum(row["rows"] for row in ran))
                writer.writerow((grammar.version, engine, min(seeds), max(seeds), *counts))
    ledger.unlink(missing_ok=True)
    return 0


def summary(ledger: Path, grammar: Grammar = PACKETS) -> int:
    """Prints what the ledger has; how many differences."""
    rows = rows_of(ledger, grammar)
    for engine, other in ENGINES.items():
        mine = [row for row in rows if row["engine"] == engine and row["outcome"] != REFUSED]
        beside = sum((Counter(row["beside"]) for row in mine), Counter[str]())
        compared = ", ".join(f"{count} queries beside {name}" for name, count in sorted(beside.items()))
        print(f"{len(mine)} cases on {engine} beside {other}: {compared}; {sum(row['rows'] for row in mine)} rows")
        reasons = (text for row in rows if row["engine"] == engine for text in row["refused"].values())
        why = Counter(text.partition(": ")[2] for text in reasons)
        for text, count in why.most_common():
            print(f"  refused {count}: {text}")
    for row in kept_rows(grammar):
        cases = f"{row['cases']} cases on {row['engine']}, seeds {row['first']} to {row['last']}"
        beside = f"{row['beside_sql']} queries beside SQL, {row['beside_batch']} beside the batch evaluator"
        print(f"kept: {cases}: {beside}; {row['rows']} rows")
    different = [row for row in rows if row["outcome"] == DIFFERENT]
    print(f"{len(different)} differences, grammar {grammar.version}")
    for row in different:
        print(f"  python -m tests.law.fuzz --seed {row['seed']} --engine {row['engine']}{grammar.option}")
    return len(different)


def show(seed: int, engine: str, runner: Runner | None, grammar: Grammar = PACKETS) -> int:
    """Prints the case of a number, and where it differs a smaller one that does too."""

    def failure(run: Any) -> str:
        try:
            grammar.check(run, engine, runner)
        except Exception as error:  # noqa: BLE001 - whatever a case does is its outcome
            return f"{type(error).__name__}: {error}"
        return ""

    run, why = grammar.draw(seed, engine)
    for family, text in why.items():
        print(f"{family} is refused: {text}")
    print(grammar.described(run))
    first = failure(run)
    if not first:
        print("no difference")
        return 0
    print(f"\n{first}\n\nmade small:\n")
    kind = first.partition(":")[0]
    small = reduced(run, grammar.smaller, lambda each: failure(each).startswith(kind), BUDGET[engine])
    print(grammar.described(small), failure(small), repr(small), sep="\n\n")
    return 1


def main() -> int:
    """Runs what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reference", type=int, default=0, help="more cases on the reference engine")
    parser.add_argument("--spark", type=int, default=0, help="more cases on Spark")
    parser.add_argument("--process", type=int, default=0, help="more cases in this process")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="most seconds for either")
    parser.add_argument("--ledger", type=Path, default=LEDGER)
    parser.add_argument("--begin", type=int, default=0, help="least seed, for several runs at once, each with a ledger")
    parser.add_argument("--again", action="store_true", help="run what was kept on Spark once more, by --engine")
    parser.add_argument("--keep", action="store_true", help="turn the ledger into lines of kept.csv")
    parser.add_argument("--seed", type=int, help="show one case")
    parser.add_argument("--engine", choices=list(ENGINES), default=REFERENCE)
    parser.add_argument("--records", action="store_true", help="cases over links of records")
    parser.add_argument("--family", choices=list(FAMILIES), help="cases of one family of questions")
    options = parser.parse_args()
    grammar = family(options.family) if options.family else PACKETS
    grammar = RECORDS if options.records else replace(grammar, check=partial(check, batches=True))
    if options.keep:
        return keep(options.ledger, grammar)
    if options.again and options.ledger == LEDGER:
        options.ledger = LEDGER.with_name("again.jsonl")
    runners: dict[str, Runner | None] = {REFERENCE: None, PROCESS: InProcess()}
    if options.spark or options.engine == SPARK:
        from lowwater.spark.session import build_session
        from tests.runners import spark_runner

        runners[SPARK] = spark_runner(build_session("lowwater fuzz"))
    if options.seed is not None:
        return show(options.seed, options.engine, runners[options.engine], grammar)
    ledger, seconds, least = options.ledger, options.seconds, options.begin
    if options.again:
        engine = options.engine if options.engine != REFERENCE else PROCESS
        fuzz(again(SPARK, engine, ledger, least, grammar), engine, ledger, runners[engine], seconds, grammar)
    else:
        for engine, cases in ((REFERENCE, options.reference), (PROCESS, options.process), (SPARK, options.spark)):
            fuzz(
                following(cases, engine, ledger, least, grammar), engine, ledger, runners.get(engine), seconds, grammar
            )
    return 1 if summary(ledger, grammar) else 0


if __name__ == "__main__":
    sys.exit(main())

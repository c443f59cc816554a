"""Running a question through Lowwater and through SQL, and comparing what comes out."""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import duckdb

from lowwater.config import Config, Link
from lowwater.plan.context import Links
from lowwater.plan.queryset import plan_texts
from lowwater.replay.scratch import Request
from tests.law.questions import Question
from tests.law.settings import Choice
from tests.law.worlds import LINKS, World

SETS = {"pair": ("main1", "main2")}
Rows = Counter[tuple[str, ...]]


def request_of(
    world: World,
    asked: Sequence[Question],
    folder: Path,
    out: Path,
    choice: Choice,
    engine: str,
    compiled: bool = False,
) -> Request:
    """A run of questions over the captures of a world."""
    captures = world.write(folder)
    high = {"tick": choice.tick, "max_batches": choice.batches, "partitions": choice.partitions}
    if not choice.few:
        high |= {"batch_rows": 1, "interpreted_rows": 0}
    texts = [(f"{question.name}.gsql", question.text) for question in asked]
    plan = plan_texts(texts, Links(LINKS, SETS), choice.slots)
    links = {name: Link().model_copy(update={"skew": skew, "max_jump": 10**15}) for name, skew in world.skews.items()}
    return Request(
        plan=plan,
        config=Config(links=links, sets=SETS),
        captures=captures,
        out=out,
        period=choice.period,
        policy=choice.policy,
        engine=engine,
        interval=choice.interval,
        low={
            "chunk_rows": choice.chunk_rows,
            "task_packets": choice.task_packets,
            "compiled": compiled,
            "adjacent": choice.adjacent,
            "flush": choice.flush,
        },
        high=high,
    )


def rows_of(out: Path, question: Question) -> Rows:
    """The rows that a run wrote."""
    with (out / f"{question.name}.csv").open(newline="") as file:
        reader = csv.reader(file)
        next(reader)
        return Counter(tuple(_normal(value) for value in row) for row in reader)


def sql_rows(oracle: duckdb.DuckDBPyConnection, question: Question) -> Rows:
    """The rows that SQL gives, as `run` would write them."""
    return Counter(tuple(_text(value) for value in row) for row in oracle.execute(question.sql).fetchall())


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return _normal(repr(value)) if isinstance(value, float) else str(value)


def _normal(text: str) -> str:
    """Floats to nine digits: their sums are equal up to rounding only."""
    if ("." in text and text.count(".") == 1) or ("e" in text and ":" not in text):
        try:
            number = float(text)
        except ValueError:
            return text
        return text if math.isnan(number) else f"{number:.9g}"
    return text


def same_rows(ours: Rows, oracle: Rows) -> bool:
    """Whether the rows are equal as multisets; says which differ."""
    if ours != oracle:
        missing, extra = oracle - ours, ours - oracle
        raise AssertionError(f"missing {dict(list(missing.items())[:5])}, not in SQL {dict(list(extra.items())[:5])}")
    return True

"""The case of a number: queries of the grammars of this folder and of the batch evaluator, a world, settings."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from hypothesis import strategies as st

from tests.law import questions
from tests.law.drawn import drawn
from tests.law.joined import joined
from tests.law.questions import Question
from tests.law.settings import Choice, choices
from tests.law.worlds import World, world
from tests.plan import batch_join_questions, batch_questions

TESTS = Path(__file__).resolve().parents[1]
GRAMMAR = ("law/cases.py", "law/drawn.py", "law/questions.py", "law/settings.py", "law/worlds.py")
GRAMMAR += (
    "law/joined.py",
    "plan/batch_chains.py",
    "plan/batch_join_questions.py",
    "plan/batch_pools.py",
    "plan/batch_questions.py",
)
VERSION = hashlib.sha256(b"".join((TESTS / name).read_bytes() for name in GRAMMAR)).hexdigest()[:12]
"""Of the grammars: a case is its number and this."""

SHARED = 4
_NAME = re.compile(r"query_name '(\w+)'")
FAMILIES: dict[str, Callable[[], st.SearchStrategy[Question | batch_questions.Question]]] = {
    **{f"law.{family.__name__}": family for family in (*questions.FAMILIES, joined)},
    **{f"batch.{name}": family for name, family in {**batch_questions.FAMILIES, **batch_join_questions.CHAINS}.items()},
}


@dataclass(frozen=True)
class Case:
    """What is evaluated: packets, a set of queries whose names differ, settings."""

    world: World
    asked: tuple[Question, ...]
    choice: Choice


def named(text: str, name: str) -> str:
    """The statements of a question whose output is `q`, with `q` as `name` and its other queries after it."""
    if "query_name" not in text:
        text = f"DEFINE{{query_name 'q';}} {text}"
    names = {found: name if found == "q" else f"{name}_{found}" for found in _NAME.findall(text)}
    return re.sub(r"\b\w+\b", lambda word: names.get(word[0], word[0]), text)


@st.composite
def asked(draw: st.DrawFn, name: str) -> Question:
    """A question of any family; aggregates of users sometimes all at the high level."""
    family = draw(st.sampled_from(list(FAMILIES)))
    found = draw(FAMILIES[family]())
    text = named(found.text, name)
    if ("squares(" in text or "sum_modulo(" in text) and draw(st.booleans()):
        text = text.replace("DEFINE{", "DEFINE{select_lfta 'yes'; ", 1)
    return Question(name, text, found.sql, family)


@st.composite
def queries(draw: st.DrawFn, span: int) -> tuple[tuple[Question, ...], Choice]:
    """What is asked of packets over `span` ns, and with what settings."""
    count = draw(st.integers(1, 3))
    return tuple(draw(asked(f"q{number}")) for number in range(count)), draw(choices(span))


def case(seed: int) -> Case:
    """The case of a number; the same world for SHARED of them, since its captures are ingested once."""
    made = world(seed // SHARED)
    stamps = [packet.stamp for packets in made.packets.values() for packet in packets]
    span = max(stamps, default=0) - min(stamps, default=0)
    return Case(made, *drawn(queries(span), seed))


def case_of(seed: int, question: Question) -> Case:
    """A question over the world of a number, with settings of that number and no kills."""
    made = world(seed)
    stamps = [packet.stamp for packets in made.packets.values() for packet in packets]
    choice = drawn(choices(max(stamps, default=0) - min(stamps, default=0)), seed)
    return Case(made, (question,), replace(choice, kills=()))


def whole(case: Case) -> Case:
    """The case in one interval."""
    return replace(case, choice=replace(case.choice, interval=None, long=None))

"""Declared functions: the checks, the Python files, the catalog that comes of them."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from lowwater.catalog.functions import AggregateFunction, Catalog, Cost
from lowwater.catalog.user_functions import functions_digest, load_functions, python_function
from lowwater.catalog.values import Type
from lowwater.errors import QueryError
from lowwater.gsql.declarations import parse_declarations

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "functions" / "duplicates.fun"

PYTHON = """
from dataclasses import dataclass

@dataclass
class Sum:
    value: int = 0

class total:
    def initialize(self): return Sum()
    def iterate(self, state, value): return Sum(state.value + value)
    def merge(self, state, other): return Sum(state.value + other.value)
    def reinit(self, state): return state
    def output(self, state): return state.value
    def destroy(self, state): pass

class lower(total): pass
class upper(total): pass

class last:
    def initialize(self): return None
    def iterate(self, state, value): return value
    def output(self, state): return state
    def destroy(self, state): pass

class half:
    def initialize(self): return None

def twice(x): return 2 * x
def is_web(port): return port in (80, 443)
def scaled(x, factor): return x * factor
CONSTANT = 7
"""


def load(folder: Path, declarations: str, python: str = PYTHON) -> Catalog:
    (folder / "mine.py").write_text(python, encoding="utf-8")
    file = folder / "mine.fun"
    file.write_text(declarations, encoding="utf-8")
    return load_functions([file], parse_declarations)


def only(catalog: Catalog, name: str) -> Any:
    (found,) = catalog.named(name)
    return found


def run(made: Any, epochs: list[list[int]]) -> list[int]:
    state, results = made.initialize(), []
    for at, epoch in enumerate(epochs):
        state = made.reinit(state) if at else state
        for value in epoch:
            state = made.iterate(state, value)
        results.append(made.output(state))
    return results


def test_the_example() -> None:
    catalog = load_functions([EXAMPLE], parse_declarations)
    (found,) = catalog.aggregates
    assert (found.name, found.parameters, found.returns) == ("sum_of_dups", (Type.INT,), Type.INT)
    assert (found.running, found.ordered, found.origin) == (False, False, str(EXAMPLE))
    made = pickle.loads(pickle.dumps(found)).make()
    assert run(made, [[1, 2, 1, 1], [2, 3], [], [3, 3]]) == [2, 1, 0, 2]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9))))
def test_the_example_merges(rows: list[tuple[int, int]]) -> None:
    made = only(load_functions([EXAMPLE], parse_declarations), "sum_of_dups").make()
    merged = made.initialize()
    for part in range(3):
        state = made.initialize()
        for where, value in rows:
            state = made.iterate(state, value) if where == part else state
        merged = made.merge(merged, state)
    assert made.output(merged) == sum(count - 1 for count in Counter(value for _, value in rows).values())


def test_functions_and_predicates(tmp_path: Path) -> None:
    text = """MODULE 'mine.py';
    llong (increasing) FUN [LFTA_LEGAL, COST FREE] twice(llong (increasing));
    PRED [LFTA_LEGAL] is_web[uint];
    float FUN [PARTIAL, COST HIGH] scaled(float, float CONST);"""
    catalog = load(tmp_path, text)
    twice, web, scaled = (only(catalog, name) for name in ("twice", "is_web", "scaled"))
    assert twice.value(4) == 8
    assert (twice.parameters, twice.returns, twice.cost, twice.lfta) == ((Type.INT,), Type.INT, Cost.FREE, True)
    assert (twice.monotone, scaled.monotone) == (True, False)
    assert (web.predicate, web.returns, web.value(443)) == (True, Type.BOOL, True)
    assert (scaled.partial, scaled.constant, scaled.cost, scaled.lfta) == (True, (1,), Cost.HIGH, False)
    assert twice.origin == str(tmp_path / "mine.fun")


SPLIT = """MODULE 'mine.py';
int UDAF [SUBAGGR lower, SUPERAGGR upper] total fstring8 (uint);
int UDAF lower fstring8 (uint);
int UDAF upper fstring8 (int);
int UDAF last int (int);
"""


def test_split_aggregates(tmp_path: Path) -> None:
    catalog = load(tmp_path, SPLIT)
    total, lower, last = (only(catalog, name) for name in ("total", "lower", "last"))
    assert (total.sub, total.sup, total.taken, total.ordered) == ("lower", "upper", 1, False)
    assert (lower.lfta, total.lfta) == (True, False)
    # Without merge and without a split an aggregate may depend on the order.
    assert (last.ordered, lower.ordered) == (True, False)


def test_extraction(tmp_path: Path) -> None:
    text = SPLIT + "float EXTR share total scaled (uint, float); float FUN scaled(int, float);"
    catalog = load(tmp_path, text)
    share: AggregateFunction = only(catalog, "share")
    assert (share.parameters, share.taken, share.returns) == ((Type.INT, Type.FLOAT), 1, Type.FLOAT)
    assert share.make is not None
    made: Any = pickle.loads(pickle.dumps(share)).make()
    state = made.iterate(made.iterate(made.initialize(), 4), 6)
    assert made.output(state, 0.5) == 5.0
    assert made.output(made.merge(state, state), 0.5) == 10.0
    upper = only(catalog, share.sup)
    assert (share.sub, upper.parameters, upper.taken) == ("lower", (Type.INT, Type.FLOAT), 1)


def test_states(tmp_path: Path) -> None:
    catalog = load(tmp_path, "MODULE 'mine.py'; fstring20 STATE s; BOOL SFUN keep s (UINT, float);")
    (keep,) = catalog.states
    assert (keep.name, keep.state, keep.parameters, keep.returns) == ("keep", "s", (Type.INT, Type.FLOAT), Type.BOOL)


def test_what_nobody_ships_plans_and_has_no_python(tmp_path: Path) -> None:
    found = load(
        tmp_path, "int FUN [COST HIGH] mine(int); PRED near[IP, IP]; float UDAF [RUNNING] drift fstring8 (float);"
    )
    assert [(each.name, each.value, each.predicate) for each in found.functions] == [
        ("mine", None, False),
        ("near", None, True),
    ]
    (drift,) = found.aggregates
    assert drift.make is None and drift.running and drift.origin.endswith("mine.fun")


def test_changed_modules_are_loaded_again(tmp_path: Path) -> None:
    text = "MODULE 'mine.py'; int FUN f();"
    assert only(load(tmp_path, text, "def f(): return 1"), "f").value() == 1
    assert only(load(tmp_path, text, "def f(): return 2"), "f").value() == 2
    assert not (tmp_path / "__pycache__").exists()


def test_the_digest_is_that_of_the_contents(tmp_path: Path) -> None:
    def digest(folder: Path, text: str, python: str) -> str:
        folder.mkdir(exist_ok=True)
        (folder / "mine.py").write_text(python, encoding="utf-8")
        (folder / "mine.fun").write_text(text, encoding="utf-8")
        return functions_digest([folder / "mine.fun"], parse_declarations)

    text, python = "MODULE 'mine.py'; int FUN f();", "def f(): return 1"
    first = digest(tmp_path / "a", text, python)
    assert first == digest(tmp_path / "b", text, python)
    others = {digest(tmp_path / "a", text, python + " "), digest(tmp_path / "a", text + " ", python)}
    assert len(others | {first}) == 3
    assert re.fullmatch("[0-9a-f]{64}", first)
    with pytest.raises(QueryError, match=r"none\.py: cannot be read"):
        digest(tmp_path / "a", "MODULE 'none.py'; int FUN f();", python)


@pytest.mark.slow
def test_a_function_runs_on_a_machine_that_has_no_file_of_it(tmp_path: Path) -> None:
    """The tasks of a cluster share no disk with the driver; they run what the driver has read."""
    file = tmp_path / "functions.py"
    file.write_text("BASE = 40\n\ndef more(value):\n    return BASE + value\n", encoding="utf-8")
    sent = tmp_path / "function.pickle"
    sent.write_bytes(pickle.dumps(python_function(file, "more")))
    file.unlink()
    program = "import pickle, sys; print(pickle.load(open(sys.argv[1], 'rb'))(2))"
    done = subprocess.run([sys.executable, "-c", program, str(sent)], capture_output=True, text=True, check=False)
    assert done.stdout == "42\n", done.stderr

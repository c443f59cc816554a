"""Public functions of four parameters or more say what each is: unit, shape, range."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = [path for folder in ("lowwater", "plugins") for path in sorted((ROOT / folder).rglob("*.py"))]
MANY = 4
ELSEWHERE = re.compile(r"[Aa]rguments as of `(\w+)`")
"""How a docstring names the function that says what its arguments are."""

GRAMMAR = "called by the parser: the arguments are the parts of a rule of the grammar"
LEFT = {
    "lowwater/gsql/build.py::TreeBuilder.declared": GRAMMAR,
    "lowwater/gsql/build_expressions.py::ExpressionBuilder.is_null": GRAMMAR,
    "lowwater/gsql/build_expressions.py::ExpressionBuilder.when": GRAMMAR,
    "lowwater/gsql/build_sources.py::SourceBuilder.protocol_field": GRAMMAR,
    "lowwater/gsql/build_sources.py::SourceBuilder.watch_field": GRAMMAR,
    "lowwater/low/runtime/arithmetic.py::put_address": "its source, docstring included, is part of every kernel",
}
"""Functions without a section, each with the reason."""


@dataclass(frozen=True)
class Public:
    """A public function or method.

    Attributes:
        where: its file, and its name with that of its class.
        parameters: names, without self and cls.
        says: its docstring; empty for none.
        command: whether click calls it: what its options are is said to users.
        of_protocol: whether its class is a protocol, so that its docstring is that of all that implement it.
    """

    where: str
    parameters: tuple[str, ...]
    says: str
    command: bool
    of_protocol: bool

    @property
    def name(self) -> str:
        return re.split(r"::|\.", self.where)[-1]

    @property
    def section(self) -> str:
        """The text of its section Args; empty for none."""
        found = re.search(r"^Args:\n(.*?)(?=^\w|\Z)", self.says, flags=re.MULTILINE | re.DOTALL)
        return found[1] if found else ""


def public(body: list[ast.stmt], where: str, inside: str = "", of_protocol: bool = False) -> Iterator[Public]:
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            protocol = any(ast.unparse(base).startswith("Protocol") for base in node.bases)
            yield from public(node.body, where, f"{inside}{node.name}.", protocol)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            given = node.args
            each = [*given.posonlyargs, *given.args, *given.kwonlyargs, *filter(None, (given.vararg, given.kwarg))]
            names = [arg.arg for arg in each if arg.arg not in ("self", "cls")]
            command = any(re.search(r"\bcommand\(", ast.unparse(decorator)) for decorator in node.decorator_list)
            says = ast.get_docstring(node) or ""
            yield Public(f"{where}::{inside}{node.name}", tuple(names), says, command, of_protocol)


def functions(paths: list[Path]) -> Iterator[Public]:
    for path in paths:
        yield from public(ast.parse(path.read_text(encoding="utf-8")).body, str(path.relative_to(ROOT)))


@cache
def all_functions() -> tuple[Public, ...]:
    """Those of the code; read once a test asks for them: every worker imports this module."""
    return tuple(functions(SOURCES))


@cache
def with_section() -> frozenset[str]:
    return frozenset(each.name for each in all_functions() if each.section)


@cache
def of_protocols() -> frozenset[str]:
    return frozenset(each.name for each in all_functions() if each.section and each.of_protocol)


def explained(each: Public) -> bool:
    """Whether its arguments are: by itself, by the function that it names, by its protocol, or by its options."""
    named = ELSEWHERE.search(" ".join(each.says.split()))
    by_protocol = not each.says and each.name in of_protocols()
    return bool(each.section or (named and named[1] in with_section()) or each.command or by_protocol)


def test_many_parameters_are_explained() -> None:
    many = [each for each in all_functions() if len(each.parameters) >= MANY]
    assert len(many) > 150
    assert [each.where for each in many if not explained(each) and each.where not in LEFT] == []
    assert set(LEFT) <= {each.where for each in many if not explained(each)}


def test_a_section_names_parameters_that_are_there() -> None:
    wrong = []
    for each in all_functions():
        named = re.findall(r"^    (\w+): ", each.section, flags=re.MULTILINE)
        wrong += [f"{each.where}: {name}" for name in named if name not in each.parameters]
    assert wrong == []


def test_a_section_leaves_none_out() -> None:
    """A name anywhere in the section is enough: `end` may be told with `start`."""
    left_out = []
    for each in all_functions():
        if each.section and len(each.parameters) >= MANY:
            told = set(re.findall(r"\w+", each.section))
            left_out += [f"{each.where}: {name}" for name in each.parameters if name not in told]
    assert left_out == []


def test_the_checks_see_what_is_missing() -> None:
    text = "def many(a, b, c, d): 'Nothing.'\ndef named(a, b, c, d): 'Arguments as of `nobody`.'\n"
    text += "def told(a, b, c, d):\n    '''It.\n\n    Args:\n        a: one.\n    '''\n"
    found = list(public(ast.parse(text).body, "x"))
    assert [explained(each) for each in found] == [False, False, True]
    assert found[2].section == "    a: one."

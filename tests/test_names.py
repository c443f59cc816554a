"""Names in docstrings and comments of the package are those of the code: a module, function, class or field that one
names in backticks is there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest

from tests.test_layout import ROOT

PACKAGES = {
    "lowwater": "lowwater",
    "editor": "lowwater_editor",
    "generator": "lowwater_generator",
    "notebook": "lowwater_notebook",
    "expectations": "lowwater_expectations",
    "review": "lowwater_review",
    "plugins/lowwater_airflow": "lowwater_airflow",
    "experiments": "experiments",
}
NAME = re.compile(r"`([A-Za-z_]\w*(?:\.\w+)*)(?:\(\))?`")
FILES = ("toml", "txt", "lark", "json", "yml", "html", "parquet", "py", "1")
"""Ends of names of files."""

LIBRARIES = ("DeltaTable", "Path", "http", "json", "math", "numba", "pyarrow", "spark", "sys")
"""Beginnings of names of other software."""

EXAMPLES = {
    *("A.time", "alias.name", "ip.src", "main1.DataProtocol", "main1.TCP", "qualifier.name", "query.alias"),
    *("range_variable.column", "partition.X", "min.X", "max.X"),
    *("measures.NAME", "ledgers.NAME", "ledgers.contents", "streams.QUERY", "tables.QUERY"),
    "skew_violations.QUERY_SET",
    # Fields, files, options and functions of other software, and names that users give.
    *("if_name", "unknown_transport", "val", "conn_long", "tcp_analyze_sequence_number", "timeval", "mv", "trace1"),
    *("get_srcIP", "get_tcp_ack_number", "expect_column_values_to_be_between", "task_queued_timeout"),
    *("LOWWATER_SECTION__KEY", "MAIN1_ETH0", "_2026", "_0000_0059", "a_sum", "a_1"),
    *("lowwater_digest", "lowwater_maintain", "lowwater_verify"),  # DAGs
}


@cache
def sources() -> dict[str, str]:
    """Every module of the product by its dotted name."""
    found = {}
    for folder, package in PACKAGES.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = [package, *path.relative_to(ROOT / folder).with_suffix("").parts]
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path.read_text(encoding="utf-8")
    return found


@cache
def modules() -> dict[str, ast.Module]:
    return {name: ast.parse(text) for name, text in sources().items()}


def comments(module: str) -> list[str]:
    """The comment of each line, or an empty text."""
    return [line.partition(" #")[2] if not line.startswith("#") else line for line in sources()[module].splitlines()]


def names_in(tree: ast.AST) -> Iterator[str]:
    """Names that a module or class defines or imports, and attributes that it sets."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.id if isinstance(node, ast.Name) else node.attr


@cache
def defined() -> dict[str, list[frozenset[str]]]:
    """What each module has, by each end of its dotted name: `operators` and `plan.operators` are modules too."""
    found: dict[str, list[frozenset[str]]] = {}
    for module, tree in modules().items():
        names, parts = frozenset(names_in(tree)), module.split(".")
        for at in range(len(parts)):
            found.setdefault(".".join(parts[at:]), []).append(names)
    return found


@cache
def classes() -> dict[str, list[ast.ClassDef]]:
    found: dict[str, list[ast.ClassDef]] = {}
    for tree in modules().values():
        for node in [each for each in ast.walk(tree) if isinstance(each, ast.ClassDef)]:
            found.setdefault(node.name, []).append(node)
    return found


@cache
def members(name: str) -> frozenset[str]:
    """What the classes of a name have, and their bases in the product."""
    bases = {ast.unparse(base).split(".")[-1] for node in classes().get(name, ()) for base in node.bases}
    own = {each for node in classes().get(name, ()) for each in names_in(node)}
    return frozenset(own.union(*(members(base) for base in bases - {name})))


@cache
def words() -> frozenset[str]:
    """Every name in the code, and every word in its texts."""
    found = set[str]()
    for name, tree in modules().items():
        found.update(name.split("."))
        documents = {id(text) for text in docstrings(tree)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and id(node) not in documents:
                text = node.value.decode("latin-1") if isinstance(node.value, bytes) else str(node.value)
                found.update(re.findall(r"\w+", text))
            for field in ("id", "attr", "name", "arg", "asname"):
                found.update(str(getattr(node, field, "")).split("."))
    for grammar in (ROOT / "lowwater").rglob("*.lark"):
        found.update(re.findall(r"\w+", grammar.read_text(encoding="utf-8")))
    return frozenset(found)


def docstrings(tree: ast.AST) -> list[ast.Constant]:
    """The texts that stand alone: docstrings, and those of constants and fields."""
    alone = (node.value for node in ast.walk(tree) if isinstance(node, ast.Expr))
    return [value for value in alone if isinstance(value, ast.Constant) and isinstance(value.value, str)]


def resolves(name: str) -> bool:
    """Whether a name is the end of a module's name, something in a module or class, or, alone, a word of the code."""
    if "." not in name:
        return name in words()
    if name in EXAMPLES or name.rpartition(".")[2] in FILES or name.partition(".")[0] in LIBRARIES:
        return True
    parts = name.split(".")
    if parts[0] in classes():
        return members(parts[0]).issuperset(parts[1:])
    return any(
        names.issuperset(parts[at:])
        for at in range(1, len(parts) + 1)
        for names in defined().get(".".join(parts[:at]), ())
    )


def gone(module: str) -> Iterator[str]:
    """Names in the docstrings and comments of a module that are nowhere in the code."""
    said = [(node.lineno, str(node.value)) for node in docstrings(modules()[module])]
    said += [(line, comment) for line, comment in enumerate(comments(module), 1) if comment]
    for line, text in sorted(said):
        for name in NAME.findall(text):
            if name not in EXAMPLES and not resolves(name):
                yield f"{module}:{line}: {name}"


@pytest.mark.slow
def test_names_in_docstrings_and_comments_are_in_the_code() -> None:
    assert [name for module in modules() if module.split(".")[0] == "lowwater" for name in gone(module)] == []


def test_a_name_that_is_gone_is_found() -> None:
    assert resolves("plan.bind.queries") and resolves("queries.WORKS") and resolves("Binder")
    assert not resolves("plan.bind.no_such_module") and not resolves("Binder.no_such_field")

"""The package keeps its layout: imports go down the folder order, modules stay small, engines load lazily."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "lowwater"
MODULES = sorted(PACKAGE.rglob("*.py"))
BELOW_ALL = [
    "",
    "limits",
    "errors",
    "precedence",
    "caches",
    "documents",
    "hosts",
    "instants",
    "terminal",
    "processes",
    "threads",
]
BELOW_ALL += ["revisions", "storage", "refused", "link_names", "machine_code", "config", "extras", "cluster"]
SPARK = {"pyspark", "delta", "py4j"}
# "knows nothing of", where the order of the folders alone would allow it
BLIND = {
    "gsql": {"catalog"},
    "catalog": {"gsql"},
    "capture": {"plan"},
    "stream": {"low", "high"},
    "reference": {"low", "high", "lake"},
    "low": {"lake"},
    "high": {"lake"},
    "spark": {"lake"},
}
MACHINE_PATH = re.compile(r"(?<![\w.$}/])/(?:home|root|Users|work|mnt)/[\w.]+")


def folder_order() -> list[str]:
    """The areas of the package from the bottom up, as ARCHITECTURE.md's table lists them."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    return BELOW_ALL + re.findall(r"^\| `(\w+)/` \|", text, flags=re.MULTILINE)


def area(module: str) -> str:
    """`plan` of `lowwater.plan.operators`, `errors` of `lowwater.errors`, "" of `lowwater`."""
    return [*module.split("."), ""][1]


def module_name(path: Path) -> str:
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def facts(path: Path) -> tuple[frozenset[str], tuple[str, ...]]:
    """Every module that a file imports, at its top or inside a function; and where it would print text past
    `lowwater.terminal`: prints, markup, the standard streams."""
    imported, printed = set[str](), []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            module = node.module or ""
            # `from lowwater import errors` imports lowwater.errors
            names = {f"lowwater.{alias.name}" for alias in node.names} if module == "lowwater" else {module}
            imported.update(names - {"lowwater.__version__"})
        elif isinstance(node, ast.Call):
            called = dotted(node.func)
            texts = called == "sys.exit" and "str(" in ast.unparse(node.args[0])
            if called in ("print", "click.echo", "click.secho", "echo") or texts:
                printed.append(f"line {node.lineno}: {called}")
            if called == "TextColumn" and not any(each.arg == "markup" for each in node.keywords):
                printed.append(f"line {node.lineno}: {called} with markup")
        # Bytes that another program reads go through `sys.stdout.buffer`.
        elif isinstance(node, ast.Attribute) and dotted(node) in ("sys.stdout.write", "sys.stderr.write"):
            printed.append(f"line {node.lineno}: {dotted(node)}")
    return frozenset(imported), tuple(printed)


def dotted(node: ast.expr) -> str:
    """`a.b` of a name with attributes, else an empty text."""
    if isinstance(node, ast.Attribute):
        before = dotted(node.value)
        return f"{before}.{node.attr}" if before else ""
    return node.id if isinstance(node, ast.Name) else ""


def imports(path: Path) -> frozenset[str]:
    return facts(path)[0]


def upward(order: list[str]) -> Iterator[str]:
    for path in MODULES:
        if path == PACKAGE / "__init__.py":
            continue  # the door of the package hands out `subscribe` and `Lake`, and imports each when somebody asks
        here = area(module_name(path))
        for target in sorted(imports(path)):
            if target.split(".")[0] != "lowwater":
                continue
            there = area(target)
            if order.index(there) > order.index(here) or there in BLIND.get(here, ()):
                yield f"{path.relative_to(ROOT)} imports {target}"


def test_every_folder_stands_in_the_order() -> None:
    assert {area(module_name(path)) for path in MODULES} <= set(folder_order())


@pytest.mark.slow
def test_imports_go_down_the_order() -> None:
    assert list(upward(folder_order())) == []


def test_only_the_folder_of_spark_imports_it() -> None:
    others = [path for path in MODULES if area(module_name(path)) != "spark"]
    guilty = [path for path in others if SPARK & {name.split(".")[0] for name in imports(path)}]
    assert guilty == []


def test_no_module_imports_airflow_or_great_expectations() -> None:
    banned = {"airflow", "great_expectations"}
    assert [path for path in MODULES if banned & {name.split(".")[0] for name in imports(path)}] == []


def printed_around_the_door(path: Path) -> list[str]:
    """What of a module would print text past `lowwater.terminal`: consoles, markup, prints, the standard streams."""
    modules = {"rich", "rich.console", "rich.text", "rich.markup", "rich.status", "rich.live", "rich.panel"}
    return [*sorted(modules & imports(path)), *facts(path)[1]]


def test_text_goes_to_a_terminal_through_one_door() -> None:
    door = PACKAGE / "terminal.py"
    script = PACKAGE / "replay" / "evidence_check.py"  # runs where there is no package
    found = {str(path.relative_to(ROOT)): printed_around_the_door(path) for path in {*MODULES} - {door, script}}
    assert {path: lines for path, lines in found.items() if lines} == {}
    assert len(printed_around_the_door(door)) >= 3


PRODUCT = ("lowwater", "editor", "expectations", "generator", "notebook", "plugins", "review", "spark_apps", "dags")


def starts_of_python(path: Path) -> list[str]:
    """Lists that begin with the interpreter: commands that no module but `processes` writes."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    lists = (node for node in ast.walk(tree) if isinstance(node, ast.List | ast.Tuple) and node.elts)
    return [f"{path.relative_to(ROOT)}:{each.lineno}" for each in lists if dotted(each.elts[0]) == "sys.executable"]


def test_every_python_is_started_through_one_door() -> None:
    """Else one would import what lies in the folder in which it is started."""
    places = [
        at for folder in PRODUCT for path in sorted((ROOT / folder).rglob("*.py")) for at in starts_of_python(path)
    ]
    assert [place for place in places if not place.startswith("lowwater/processes.py:")] == []
    assert len(places) == 1, "the test knows what a start looks like"
    forking = [path for path in MODULES if {"multiprocessing", "concurrent.futures.process"} & imports(path)]
    assert forking == [], "its children would import from that folder, too"


@pytest.mark.parametrize("module", ["lowwater", "lowwater.cli.main"])
def test_import_loads_no_engine(module: str) -> None:
    assert loaded(module, {"pyspark", "airflow", "great_expectations"}) == []


@pytest.mark.slow
def test_what_python_workers_import_knows_nothing_of_planning() -> None:
    """Spark's executors start processes for the slices of large intervals, and those import the module of the task."""
    assert loaded("lowwater.high.part", {"lowwater.plan.bind", "lowwater.plan.rules", "lowwater.config"}) == []


def test_what_status_plan_and_rows_import_compiles_nothing() -> None:
    modules = "lowwater.cli.plans, lowwater.lake.results.published_rows, lowwater.replay.row_files"
    assert loaded(modules, {"numba", "scipy", "yaml"}) == []


def loaded(module: str, unwanted: set[str]) -> list[str]:
    """Which unwanted modules are there once one is imported."""
    code = f"import sys, {module}; print(*sorted({unwanted!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def tracked_files() -> list[Path]:
    """Files under version control; outside a checkout, every file that a commit would take."""
    done = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if done.returncode == 0:
        return [ROOT / name for name in done.stdout.split("\0") if name]
    skipped = {".venv", "var", ".git"}
    return [path for path in ROOT.rglob("*") if not skipped & set(path.relative_to(ROOT).parts)]


@pytest.mark.slow
def test_no_machine_paths() -> None:
    found = []
    for path in tracked_files():
        if not path.is_file():
            continue
        data = path.read_bytes()
        if b"\0" in data or path == Path(__file__).resolve():
            continue
        text = data.decode("utf-8", errors="replace")
        found += [f"{path.relative_to(ROOT)}: {match.group()}" for match in MACHINE_PATH.finditer(text)]
    assert found == []


def test_files_that_begin_first_are_there() -> None:
    """What tests/conftest.py sorts the files of several workers by."""
    lines = [line.split() for line in (ROOT / "tests" / "seconds.txt").read_text(encoding="utf-8").splitlines()]
    assert [path for _, path in lines if not (ROOT / path).is_file()] == []
    assert [int(taken) for taken, _ in lines] == sorted((int(taken) for taken, _ in lines), reverse=True)
    assert len({path for _, path in lines}) == len(lines)


def left_out_of_fuzz(path: Path) -> Iterator[str]:
    """Tests with a random test inside that `make fuzz` does not find, which chooses by the mark `hypothesis`."""
    text = path.read_text(encoding="utf-8")
    if re.search(r"^ +@given\b", text, re.MULTILINE):
        for test in [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]:
            inside = [node for node in ast.walk(test) if isinstance(node, ast.FunctionDef) and node is not test]
            drawn = any(ast.unparse(mark).startswith("given(") for node in inside for mark in node.decorator_list)
            if drawn and "pytest.mark.hypothesis" not in map(ast.unparse, test.decorator_list):
                yield f"{path.relative_to(ROOT)}::{test.name}"


def test_random_tests_inside_of_others_run_in_fuzz() -> None:
    assert [name for path in sorted((ROOT / "tests").rglob("test_*.py")) for name in left_out_of_fuzz(path)] == []

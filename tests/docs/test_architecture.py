"""ARCHITECTURE.md beside the code: what it names exists, and the doors of which it tells are the only ones."""

from __future__ import annotations

import ast
import re

import pytest

from lowwater.lake.backup import _LEFT_OUT
from lowwater.lake.layout import Lake, _Folder
from tests.docs.book import ROOT
from tests.test_layout import MODULES, imports, module_name

PAGE = ROOT / "ARCHITECTURE.md"
TEXT = PAGE.read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`((?:[a-z]\w*\.)+(?!json|toml)\w+)`", TEXT)))
FOLDERS = sorted(set(re.findall(r"`([\w/]+/)`", TEXT)))


def lake_names() -> set[str]:
    """The first names of the places in "What lies in a lake"."""
    section = TEXT.split("## What lies in a lake")[1].split("\n## ")[0]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| ")]
    ledgers = next(line.split("|")[3] for line in section.splitlines() if line.startswith("| ledgers"))
    return {name.split("/")[0] for name in re.findall(r"`([^`]+)`", " ".join([*cells, ledgers]))}


def exists(name: str) -> bool:
    """Whether a dotted name is the end of a module's name, or of a name that a module defines."""
    parts = name.split(".")
    for path in MODULES:
        module = module_name(path).split(".")
        if module[-len(parts) :] == parts:
            return True
        if module[-len(parts) + 1 :] == parts[:-1] and re.search(
            rf"^(?:class |def |\s+def )?{parts[-1]}\b", path.read_text(encoding="utf-8"), re.MULTILINE
        ):
            return True
    return False


@pytest.mark.parametrize("name", NAMED)
def test_a_module_that_is_named_exists(name: str) -> None:
    assert exists(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in FOLDERS if name != "var/" and name.rstrip("/") not in lake_names()])
def test_a_folder_that_is_named_exists(name: str) -> None:
    folders = [path for path in ROOT.glob("*/") if not path.name.startswith((".", "var"))]
    assert any((folder / name).is_dir() for folder in (ROOT, *folders, *(ROOT / "lowwater").rglob("*/")))


def constants(tree: ast.Module) -> dict[str, str]:
    """Names of a module for texts, also for paths of texts."""
    found = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            texts = [each.value for each in ast.walk(node.value) if isinstance(each, ast.Constant)]
            if texts and isinstance(texts[0], str) and isinstance(node.value, ast.Constant | ast.Call | ast.Tuple):
                found[node.targets[0].id] = texts[0]
    return found


ROOTS = ("lake.root", "self.root", "root", "lake.source", "self.source", "self.lake.root", "job.lake.root")
NO_LAKE = {"dags", "pyproject.toml"}  # in a checkout


def joined_to_a_root() -> dict[str, str]:
    """What the product joins to the folder of a lake, and a file that does."""
    trees = {
        path: ast.parse(path.read_text(encoding="utf-8"))
        for folder in ("lowwater", "expectations", "review", "notebook", "plugins")
        for path in sorted((ROOT / folder).rglob("*.py"))
    }
    known = {path: constants(tree) for path, tree in trees.items()}
    everywhere = {name: text for names in known.values() for name, text in names.items()}
    found = {}
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and ast.unparse(node.left) in ROOTS:
                if isinstance(node.right, ast.Constant):
                    found[str(node.right.value)] = path.name
                elif (name := ast.unparse(node.right).split(".")[-1]) in everywhere:
                    found[known[path].get(name, everywhere[name])] = path.name
    return found


@pytest.mark.slow
def test_every_place_that_the_code_has_in_a_lake_is_named() -> None:
    folders = {each._name for each in vars(Lake).values() if isinstance(each, _Folder)}
    places = dict.fromkeys(folders, "layout.py") | dict.fromkeys(_LEFT_OUT, "backup.py") | joined_to_a_root()
    assert {"lowwater.toml", "pins", "consumers", "_links", "renaming.json"} <= places.keys(), "the test finds places"
    named = lake_names() | NO_LAKE
    assert {name: file for name, file in places.items() if name.split("/")[0] not in named} == {}


def test_query_texts_get_their_meaning_through_one_door() -> None:
    """Whoever takes another module of `bind/` takes what this page lists."""
    taken = {"queries", "names", "durations", "over"}
    outside = [path for path in MODULES if "plan/bind" not in path.as_posix()]
    found = {name for path in outside for name in imports(path) if name.startswith("lowwater.plan.bind.")}
    assert {name.split(".")[3] for name in found} <= taken
    binding = [path.name for path in outside if re.search(r"\bbind_texts\b", path.read_text(encoding="utf-8"))]
    assert binding == ["queryset.py"]


def calls(call: str) -> set[str]:
    """Modules with a call that begins so."""
    pattern = re.compile(rf"^[^#\"']*\b{call}", re.MULTILINE)
    return {module_name(path) for path in MODULES if pattern.search(path.read_text(encoding="utf-8"))}


def test_commits_are_made_in_one_place() -> None:
    assert calls(r"create_write_transaction\(") == {"lowwater.lake.tables"}
    assert calls(r"DeltaTable\.create\(") == {"lowwater.lake.open_tables"}, "which `tables.create` calls"
    assert calls(r"write_deltalake\(") == set()


def test_folders_of_a_lake_are_opened_by_storage_only() -> None:
    """A `PurePath` opens nothing, so whoever opens a path of a lake by itself makes a `Path` of it."""
    opened = calls(r"Path\((str\()?lake\b") | calls(r"Path\((str\()?(self|job)\.lake\b")
    assert {name for name in opened if not name.startswith("lowwater.storage.")} == {
        "lowwater.quality.gx_project",
        "lowwater.spark.jars",
    }


BESIDE = {"editor", "generator", "notebook", "expectations", "review"}


def test_the_package_loads_no_folder_beside_it() -> None:
    """It imports them inside functions only."""
    beside = {f"lowwater_{name}" for name in (*BESIDE, "airflow")}
    found = []
    for path in MODULES:
        top = ast.parse(path.read_text(encoding="utf-8")).body
        names = {name for node in top if isinstance(node, ast.Import) for name in (each.name for each in node.names)}
        names |= {node.module or "" for node in top if isinstance(node, ast.ImportFrom)}
        found += [f"{path.name}: {name}" for name in names if name.split(".")[0] in beside]
    assert found == []


@pytest.mark.parametrize(
    ("library", "folders"), [("great_expectations", {"expectations"}), ("airflow", {"plugins", "dags"})]
)
def test_a_library_is_imported_by_its_folder_only(library: str, folders: set[str]) -> None:
    others = {"lowwater", "spark_apps", "plugins", "dags", *BESIDE} - folders
    paths = [path for folder in others for path in sorted((ROOT / folder).rglob("*.py"))]
    importing = re.compile(rf"^ *(?:from|import) {library}\b", re.MULTILINE)
    assert [path for path in paths if importing.search(path.read_text(encoding="utf-8"))] == []


def test_every_bound_has_its_reason() -> None:
    text = (ROOT / "lowwater" / "limits.py").read_text(encoding="utf-8")
    body, lines = ast.parse(text).body, text.splitlines()
    bounds = [
        (node, after) for node, after in zip(body, [*body[1:], None], strict=True) if isinstance(node, ast.Assign)
    ]
    told = [isinstance(after, ast.Expr) or "#" in lines[node.lineno - 1] for node, after in bounds]
    assert len(bounds) > 50
    assert [lines[node.lineno - 1] for (node, _), each in zip(bounds, told, strict=True) if not each] == []

"""A lake that somebody hands over may hold code of any kind: no command that opens it runs any of it."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from lowwater_review import Ledgers
from lowwater_review.app import create

from lowwater.processes import python
from tests.breadth import each_push
from tests.cli.hostile import clean, everything
from tests.hostile.test_baits import driven
from tests.lake.test_foreign_lake import HOUR, commands
from tests.replay.support import lowwater
from tests.review.asgi import ask
from tests.review.resultlake import make_results

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("honest")
    make_results(folder)
    return folder


class Runs:
    """A pickle of it runs a command."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str]]:
        return os.system, (self.text,)


def goes_off(lake: Path) -> str:
    return f"from pathlib import Path\nPath({str(lake.parent / 'ran')!r}).touch()\n"


def functions(lake: Path) -> None:
    """The settings name declarations, and these a module."""
    (lake / "mine.py").write_text(goes_off(lake) + "def mine(x):\n    return x\n")
    (lake / "mine.fun").write_text("MODULE 'mine.py';\nint FUN [COST LOW] mine (int);\n")
    settings = lake / "lowwater.toml"
    settings.write_text(settings.read_text().replace("[query_sets.q]\n", '[query_sets.q]\nfunctions = ["mine.fun"]\n'))


def planted(lake: Path) -> None:
    """Files by every name that a library might load, beside all that a command reads."""
    for folder in [lake, *(path for path in lake.rglob("*") if path.is_dir())]:
        for name in ("sitecustomize.py", "conftest.py", "lowwater.py", "great_expectations.py", "custom.py"):
            (folder / name).write_text(goes_off(lake))
        for name in ("kernel.nbi", "plan.pickle", "state.pkl", "cache.pickle"):
            (folder / name).write_bytes(pickle.dumps(Runs(f"touch {lake.parent}/ran")))


def project(lake: Path) -> None:
    """A project of Great Expectations as `lowwater gx` makes one, with code in each place that GX has for it."""
    assert lowwater("gx", "--lake", lake).code == 0
    for name in ("plugins/custom.py", "plugins/__init__.py", "plugins/custom_data_docs/renderers/custom.py"):
        (lake / "gx" / name).parent.mkdir(parents=True, exist_ok=True)
        (lake / "gx" / name).write_text(goes_off(lake))
    for path in (lake / "gx").rglob("*.html"):
        path.write_text("{{ self.__init__.__globals__.__builtins__.open('" + f"{lake.parent}/ran" + "', 'w') }}")


def tags(lake: Path) -> None:
    """Tags by which an unsafe reader of YAML makes objects."""
    assert lowwater("gx", "--lake", lake).code == 0
    config = lake / "gx" / "great_expectations.yml"
    config.write_text(config.read_text() + f"more: !!python/object/apply:os.system ['touch {lake.parent}/ran']\n")


def templates(lake: Path) -> None:
    """Suites whose texts are templates of Jinja, and name classes by their paths."""
    text = "{{ cycler.__init__.__globals__.os.popen('touch " + str(lake.parent / "ran") + "').read() }}"
    rule = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "cnt"}, "meta": {"notes": text}}
    folder = lake / "expectations" / "q"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "flows.json").write_text(json.dumps({"name": text, "expectations": [rule], "meta": {"notes": text}}))
    rule = {**rule, "type": "custom.Custom", "class_name": "Custom", "module_name": "custom"}
    (folder / "ports.json").write_text(json.dumps({"name": "ports", "expectations": [rule], "meta": {}}))


def modules(lake: Path) -> None:
    """The settings name expectations in the lake."""
    (lake / "modules").mkdir()
    (lake / "modules" / "mine.py").write_text(goes_off(lake))
    settings = lake / "lowwater.toml"
    settings.write_text('[suites]\nmodules = "modules"\n' + settings.read_text())
    folder = lake / "expectations" / "q"
    folder.mkdir(parents=True)
    rule = {"type": "expect_mine", "kwargs": {}, "meta": {}}
    (folder / "flows.json").write_text(json.dumps({"name": "flows", "expectations": [rule], "meta": {}}))


CASES = {each.__name__: each for each in (functions, planted, project, tags, templates, modules)}


@pytest.mark.parametrize("name", each_push(sorted(CASES), 5))
def test_no_command_runs_code_of_a_lake(name: str, made: Path, tmp_path: Path) -> None:
    for each in ("lake", "queries", "captures"):
        shutil.copytree(made / each, tmp_path / each)
    CASES[name](tmp_path / "lake")
    stands = tmp_path / "elsewhere"
    stands.mkdir()
    driven(stands, *commands(tmp_path / "lake"))
    code = f"import lowwater; lake = lowwater.Lake({str(tmp_path / 'lake')!r})\n"
    code += "for name in lake.tables: lake.table(name).arrow(); lake.packets('main1').count(); repr(lake)"
    subprocess.run(python("-c", code), cwd=stands, check=True)
    assert not (tmp_path / "ran").exists()


def test_functions_that_a_lake_names_run_where_the_machine_allows_it(made: Path, tmp_path: Path) -> None:
    """Whoever only looks needs none of them, and is told why nothing runs."""
    for each in ("lake", "queries", "captures"):
        shutil.copytree(made / each, tmp_path / each)
    lake = tmp_path / "lake"
    functions(lake)
    query = "SELECT tb, sum(mine(len)) AS bytes FROM main1.IPV4 GROUP BY time/60 AS tb"
    (tmp_path / "queries" / "q.gsql").write_text(f"DEFINE {{ query_name 'own'; }} {query};\n")
    given = ["--lake", lake, "--queries", tmp_path / "queries"]
    span = ["--from", HOUR, "--to", "2026-01-01T01:00Z"]
    assert "nobodyhasallowedtorun" in everything(clean("plan", *given))
    settings = lake / "lowwater.toml"
    text = f'[query_sets.q]\nfiles = ["{tmp_path / "queries" / "q.gsql"}"]\n'
    settings.write_text(settings.read_text().replace("[query_sets.q]\n", text))
    said = clean("check", tmp_path / "queries" / "q.gsql", "--lake", lake, code=1)
    assert "nobodyhasallowedtorun" in everything(said) and not (tmp_path / "ran").exists()
    said = clean("replay", "q", *given, *span, code=1)
    assert f"export LOWWATER_TRUSTED_MODULES={lake}" in said.err and not (tmp_path / "ran").exists()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOWWATER_TRUSTED_MODULES", str(lake))
        assert clean("replay", "q", *given, *span).code == 0 and (tmp_path / "ran").exists()
        lake.chmod(0o777)
        assert "other users can write" in clean("replay", "q", *given, *span, code=1).err


def test_the_packets_of_a_row_by_a_function_that_may_not_run_are_refused_in_words(made: Path, tmp_path: Path) -> None:
    for each in ("lake", "queries", "captures"):
        shutil.copytree(made / each, tmp_path / each)
    lake, queries = tmp_path / "lake", tmp_path / "queries"
    functions(lake)
    query = "SELECT tb, count(*) AS n FROM main1.IPV4 WHERE mine(len) > 0 GROUP BY time/60 AS tb"
    (queries / "q.gsql").write_text(f"DEFINE {{ query_name 'own'; }} {query};\n")
    span = ["--from", HOUR, "--to", "2026-01-01T01:00Z"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOWWATER_TRUSTED_MODULES", str(lake))
        assert clean("replay", "q", "--lake", lake, "--queries", queries, *span).code == 0
    (tmp_path / "ran").unlink()
    app, row = create(Ledgers(lake, queries)), quote(json.dumps({"tb": 29453760, "n": 1}))
    assert ask(app, "/results/q/own/rows.csv", query=f"start={HOUR}&end=2026-01-01T01:00:00Z").status == 200
    answer = ask(app, "/results/q/own/packets", query=f"row={row}")
    assert "the Python of the function mine does not run here" in answer.text and answer.status < 500
    assert not (tmp_path / "ran").exists()

"""What a forge and pre-commit read: it parses, and it runs the programs that the Makefile and .ci/run do."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from lowwater.cli.main import cli
from tests.docs.book import make_targets
from tests.replay.support import ROOT

FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
FIELDS = {"markdown", "textarea", "dropdown", "input", "checkboxes"}


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def made_by(target: str) -> list[str]:
    """The commands of a target of the Makefile, with its variables written out."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    found = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", text, flags=re.MULTILINE)
    assert found, target
    return [line.strip().replace("$(BIN)", ".venv/bin") for line in found[1].splitlines()]


def test_hooks_run_what_ci_runs_before_the_tests() -> None:
    (repository,) = read(ROOT / ".pre-commit-config.yaml")["repos"]
    hooks = repository["hooks"]
    assert repository["repo"] == "local"
    assert [hook["entry"] for hook in hooks] == [*made_by("lint"), *made_by("types")]
    # With names of files behind it, mypy would check other modules than its settings name.
    assert all(hook["language"] == "system" and hook["pass_filenames"] is False for hook in hooks)
    command = "make --jobs=2 --output-sync=target setup .venv/.s3 .venv/.chart lint types\n"
    assert command in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_the_workflow_calls_the_whole_check() -> None:
    workflow = read(ROOT / ".github" / "workflows" / "ci.yml")
    # YAML 1.1 reads the key `on` as true.
    assert set(workflow[True]) == {"push", "pull_request"}
    (job,) = workflow["jobs"].values()
    assert [step["run"] for step in job["steps"] if "run" in step][-1] == ".ci/run"
    assert job["container"].startswith("python:3.11-")
    assert any("openjdk-17-" in step.get("run", "") for step in job["steps"])
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111


def test_the_matrix_can_be_called_for_one_python_and_lengthens_no_pull_request() -> None:
    workflow = read(ROOT / ".github" / "workflows" / "matrix.yml")
    assert set(workflow[True]) == {"workflow_dispatch", "schedule"}
    inputs = workflow[True]["workflow_dispatch"]["inputs"]
    (job,) = workflow["jobs"].values()
    last = job["steps"][-1]
    # Inputs reach the shell as variables, since a text within `run` would be a part of the program.
    assert last["run"] == '.ci/matrix "$PYTHON" "$EXTRAS"'
    assert last["env"] == {name.upper(): f"${{{{ inputs.{name} }}}}" for name in inputs}
    assert job["container"] == read(ROOT / ".github" / "workflows" / "ci.yml")["jobs"]["check"]["container"]
    refused = subprocess.run([ROOT / ".ci" / "matrix", "2.7", "core"], capture_output=True, text=True, check=False)
    assert refused.returncode == 2 and "3.11 3.12 3.13" in refused.stderr


def test_there_is_a_form_for_each_kind_of_issue() -> None:
    assert [path.stem for path in FORMS] == ["refused-capture", "wish", "wrong-row"]


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_a_form_parses_and_asks_for_something(path: Path) -> None:
    form = read(path)
    assert form["name"] and form["description"]
    asked = [field for field in form["body"] if field["type"] != "markdown"]
    assert {field["type"] for field in form["body"]} <= FIELDS
    names = [field["id"] for field in asked]
    assert len(set(names)) == len(names)
    assert all(field["attributes"]["label"] for field in asked)
    assert any(field.get("validations", {}).get("required") for field in asked)


def test_forms_name_commands_options_and_files_that_are_there() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in (ROOT / ".github").rglob("*.*"))
    named = [line.split() for line in re.findall(r"`lowwater ([^`]+)`", text)]
    for name, *words in named:
        command = cli if name.startswith("--") else cli.commands[name]
        options = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= options | {"--version"}, (name, words)
    assert {name for name, *_ in named} >= {"inspect", "check", "doctor"}
    files = set(re.findall(r"`(\w[\w./]*\.(?:md|toml))`", text)) - {"lowwater.toml"}
    assert files >= {"docs/semantics.md", "CHANGELOG.md"}
    assert [name for name in files if not (ROOT / name).is_file()] == []
    targets = {target for line in re.findall(r"`make ([^`]+)`", text) for target in line.split()}
    assert targets >= {"lint", "types", "goldens"}
    assert targets <= make_targets()

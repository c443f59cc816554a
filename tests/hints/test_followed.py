"""Hints are followed: a message is provoked, and what it says to do is done, and helps."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.hints import table, texts
from tests.hints.sites import Site, recorded, sites

pytestmark = pytest.mark.slow
TEXTS = texts.rows()
_FOLLOWED: dict[str, set[Site]] = {}


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hints")
    table.settle(folder)
    return folder


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    texts.settle(folder)
    return folder


@pytest.mark.parametrize("case", table.CASES, ids=[f"{case.section}: {case.name}" for case in table.CASES])
def test_what_a_hint_says_helps(case: table.Case, given: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(given / "files", tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    with recorded() as seen:
        said = table.take(case, case.wrong, given / "states", first=True)
    assert said.code > 0 and case.hint in " ".join((said.out + said.err).split()), said
    _FOLLOWED[f"{case.section}: {case.name}"] = seen
    said = table.take(case, case.right, given / "states", first=False)
    assert said.code == 0, said


@pytest.mark.parametrize("name, wrong, hint, right", TEXTS, ids=[row[0][:30] for row in TEXTS])
def test_what_a_hint_asks_for_is_a_text_that_is_right(
    name: str, wrong: str, hint: str, right: str, beside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(beside)
    with recorded() as seen:
        said = texts.check(wrong)
    assert said.code > 0 and hint in " ".join((said.out + said.err).split()), said
    _FOLLOWED[name] = seen
    said = texts.check(right)
    assert said.code == 0, said


def test_no_hint_is_left_out() -> None:
    met = set().union(*_FOLLOWED.values())
    known = sites()
    left = {site: known[site] for site in known if site not in met}
    import json
    Path("/tmp/tests/left.json").write_text(json.dumps([[*s, h] for s, h in left.items()], indent=1))
    assert left == {}

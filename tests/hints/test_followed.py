"""Hints are followed: a message is provoked, and what it says to do is done, and helps."""

from __future__ import annotations

import importlib
import shutil
from collections import Counter
from pathlib import Path

import pytest

from lowwater.errors import LowwaterError
from tests.breadth import each_push
from tests.hints import table, texts
from tests.hints.setup import Case, Setup, captured
from tests.hints.sites import Site, recorded, sites

pytestmark = pytest.mark.slow
TEXTS = texts.rows()
MODULES = sorted(path.stem for path in Path(__file__).parent.glob("cases_*.py"))
CASES: list[Case] = [case for name in MODULES for case in importlib.import_module(f"tests.hints.{name}").CASES]
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


@pytest.mark.parametrize(
    "case", each_push(table.CASES, 3), ids=[f"{case.section}: {case.name}" for case in table.CASES]
)
def test_what_a_hint_says_helps(case: table.Case, given: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(given / "files", tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    with recorded() as seen:
        said = table.take(case, case.wrong, given / "states", first=True)
    assert said.code > 0 and case.hint in " ".join((said.out + said.err).split()), said
    _FOLLOWED[f"{case.section}: {case.name}"] = seen
    said = table.take(case, case.right, given / "states", first=False)
    assert said.code == 0, said


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return captured(tmp_path_factory.mktemp("capture"))


@pytest.mark.parametrize("case", each_push(CASES, 3), ids=[case.name for case in CASES])
def test_what_the_hint_of_a_call_says_helps(
    case: Case, capture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    setup = Setup(tmp_path, capture)
    with recorded() as seen:
        try:
            said = case.wrong(setup)
        except LowwaterError as error:
            assert case.hint in error.hint, error
        else:
            assert said is not None and said.code > 0, said
            assert case.hint in " ".join((said.out + said.err).split()), said
    _FOLLOWED[f"call: {case.name}"] = seen
    after = case.follow(setup)
    assert after is None or after.code == 0, after


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


@pytest.mark.nightly
def test_no_hint_is_left_out() -> None:
    """Where errors with hints are made, by function: each is met by a case, or left with a reason (left.txt)."""
    if len(_FOLLOWED) < len(CASES) + len(table.CASES) + len(TEXTS):
        pytest.skip("only some of the cases ran")
    met = set().union(*_FOLLOWED.values())
    missed = {site: hints for site, hints in sites().items() if site not in met}
    lines = Path(__file__).with_name("left.txt").read_text(encoding="utf-8").splitlines()
    left = Counter(name for line in lines if " || " in line for name in line.split(" || ")[1].split())
    found = Counter(name for _, name in missed)
    assert left - found == Counter(), "what is left is followed, or is no site any more"
    new = found - left
    assert {site: hints for site, hints in missed.items() if site[1] in new} == {}

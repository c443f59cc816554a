"""Hints of errors are followed: the message is provoked by a command, and what it says to do is done.

A case lies in the module of its commands (`cases_*`). Hints that nobody can follow in a test are listed with their
reasons (`LEFT`).
"""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from lowwater.errors import LowwaterError
from tests.hints.desk import Case, Desk, Site, captured, recorded, sites

MODULES = sorted(path.stem for path in Path(__file__).parent.glob("cases_*.py"))
pytestmark = pytest.mark.slow
LOADED = [importlib.import_module(f"tests.hints.{name}") for name in MODULES]
CASES: list[Case] = [case for module in LOADED for case in module.CASES]
LEFT: dict[Site, str] = {site: reason for module in LOADED for site, reason in module.LEFT.items()}
_FOLLOWED: dict[str, set[Site]] = {}


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return captured(tmp_path_factory.mktemp("hints"))


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_what_a_hint_says_helps(case: Case, capture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    desk = Desk(tmp_path, capture)
    with recorded() as seen:
        try:
            said = case.wrong(desk)
        except LowwaterError as error:
            assert case.hint in error.hint, error
        else:
            assert said is not None and said.code > 0, said
            assert case.hint in " ".join((said.out + said.err).split()), said
    assert any(case.hint in " ".join(hint.split()) for hint in seen.hints), seen.hints
    _FOLLOWED[case.name] = seen.sites
    after = case.follow(desk)
    assert after is None or after.code == 0, after


def test_no_hint_is_left_out() -> None:
    """Where errors with hints are made, by function: each is met by a case, or left with a reason."""
    if len(_FOLLOWED) < len(CASES):
        pytest.skip("only some of the cases ran")
    met = set().union(*_FOLLOWED.values())
    known = sites()
    assert set(LEFT) <= set(known), "what is left is no site any more"
    assert sorted(set(LEFT) & met) == [], "what is left is followed"
    assert {site: known[site] for site in known if site not in met and site not in LEFT} == {}

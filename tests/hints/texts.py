"""Query texts that are wrong, each with the text that its hint asks for: both are checked by the command."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.gsql.gsql_cases import GOLDEN
from tests.hints.desk import Case, Desk
from tests.replay.support import Said

LINKS = """
[links.control]
payload = "all"
sampling = true
[links.main1]
payload = "all"
sampling = true
properties = { site = "berlin" }
[links.main2]
payload = "all"
sampling = true
properties = { site = "oslo" }
[links.web]
kind = "csv"
[sets]
backbone = ["main1", "main2"]
"""


@dataclass(frozen=True)
class Text:
    """A text with what stands beside it.

    Attributes:
        text: of the query file `queries/q.gsql`.
        files: name -> content of other files in the working folder.
        options: more of the command.
        links: the settings that --links names; empty for none.
    """

    text: str
    files: Mapping[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    links: str = LINKS


def check(desk: Desk, given: str | Text) -> Said:
    """What `check` says of a text."""
    text = Text(given) if isinstance(given, str) else given
    for name, content in text.files.items():
        desk.write(name, content)
    desk.write("queries/q.gsql", text.text)
    links = ("--links", desk.write("links.toml", text.links)) if text.links else ()
    return desk.run("check", "queries/q.gsql", *links, *text.options)


def case(name: str, wrong: str | Text, hint: str, right: str | Text) -> Case:
    """A case of two texts."""
    return Case(name, lambda desk: check(desk, wrong), hint, lambda desk: check(desk, right))


def cases(wrong: Mapping[str, str], right: Mapping[str, str | Text], golden: str) -> list[Case]:
    """A case for every wrong text whose golden has a hint; the texts that are right have their names.

    Args:
        wrong: name -> text.
        right: name -> what the hint asks for; none for a text without a hint.
        golden: what the names of the goldens begin with.
    """
    hints = {name: _hint(f"{golden}{name}") for name in wrong}
    hinted = {name for name, hint in hints.items() if hint}
    assert set(right) == hinted, sorted(set(right) ^ hinted)
    return [case(f"{golden}{name}", wrong[name], hints[name], right[name]) for name in wrong if name in hinted]


def _hint(name: str) -> str:
    """The first hint of a golden, in one line."""
    lines = (GOLDEN / "errors" / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return next((line.removeprefix("  hint: ") for line in lines if line.startswith("  hint: ")), "")

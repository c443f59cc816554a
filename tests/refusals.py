"""Query texts that are refused, kept as one text, `tests/golden/refusals.txt`, in the way of sqllogictest: of each its
name, the text, its error word by word (or the hint of `check` alone) and, where there is a hint, the text that it asks
for, behind `;;` with options of the command. `python -m tests.refusals` writes the errors anew.

`parser_` and `planner_` say which of the two refuses; `check_` is refused by the command with what stands beside it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from lowwater.errors import QueryError
from lowwater.gsql.parser import parse
from lowwater.plan.context import Context, Links
from lowwater.plan.queryset import plan_texts

FILE = Path(__file__).parent / "golden" / "refusals.txt"
LINKS = Links(
    ("control", "main1", "main2", "web"),
    {"backbone": ("main1", "main2")},
    {"main1": {"site": "berlin"}, "main2": {"site": "oslo"}},
    {"web": "csv"},
)


@dataclass(frozen=True)
class Refusal:
    """A text that is refused."""

    name: str
    text: str
    error: str
    """Class and message; empty where only the hint is known."""
    hint: str
    right: str
    """What the hint asks for; empty without a hint."""


@cache
def refusals(prefix: str = "") -> dict[str, Refusal]:
    """By name, those whose name begins so."""
    found = {}
    for block in FILE.read_text(encoding="utf-8").split("==== ")[1:]:
        name, _, body = block.partition("\n")
        text, *parts = re.split(r"^---- (error|hint|right)\n", body, flags=re.MULTILINE)
        told = dict(zip(parts[::2], parts[1::2], strict=True))
        error, right = told.get("error", ""), told.get("right", "").rstrip("\n")
        hint = told.get("hint", "").rstrip("\n") or next(iter(re.findall(r"^  hint: (.*)$", error, re.MULTILINE)), "")
        found[name] = Refusal(name, text.removesuffix("\n"), error.rstrip("\n"), hint, right)
    return {name: each for name, each in found.items() if name.startswith(prefix)}


def failure(name: str) -> QueryError:
    """The error that a text of the parser or of the planner gives now."""
    text = refusals()[name].text
    try:
        if name.startswith("parser_"):
            parse(text, "queries/q.gsql")
        else:
            plan_texts([("queries/q.gsql", text)], LINKS, context=Context())
    except QueryError as error:
        return error
    raise AssertionError(f"accepted: {text[:200]!r}")


def told(error: QueryError) -> str:
    """An error as the text keeps it."""
    return f"{type(error).__name__}\n{error}"


def write(all_of_them: Iterable[Refusal]) -> None:
    """Writes the text."""
    blocks = []
    for each in all_of_them:
        block = f"==== {each.name}\n{each.text}\n"
        block += f"---- error\n{each.error}\n" if each.error else f"---- hint\n{each.hint}\n"
        blocks.append(block + (f"---- right\n{each.right}\n" if each.right else ""))
    FILE.write_text("\n".join(blocks), encoding="utf-8")


if __name__ == "__main__":
    write(replace(each, error=told(failure(each.name)) if each.error else "") for each in refusals().values())

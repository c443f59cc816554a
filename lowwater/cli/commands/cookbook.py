"""The command `cookbook`: queries to begin with, from docs/cookbook.md."""

from __future__ import annotations

import re
from dataclasses import dataclass

import click


@dataclass(frozen=True)
class Recipe:
    """A query of the cookbook.

    Attributes:
        name: its `query_name`.
        title: heading above it.
        question: the question that it answers, a sentence.
        text: it, as a file.
    """

    name: str
    title: str
    question: str
    text: str


_RECIPE = re.compile(r"^## (?P<title>.+?)\n\n(?P<question>.+?\?).*?^```gsql[^\n]*\n(?P<text>.+?)^```$", re.M | re.S)


def recipes() -> list[Recipe]:
    """Reads the queries of the cookbook, in its order."""
    from lowwater.places import shared

    page = (shared("docs") / "cookbook.md").read_text(encoding="utf-8")
    found = []
    for part in re.split(r"^(?=## )", page, flags=re.M):
        if match := _RECIPE.search(part):
            names = re.findall(r"query_name '(\w+)'", match["text"])
            found.append(Recipe(names[-1], match["title"], " ".join(match["question"].split()), match["text"]))
    return found


@click.command()
@click.argument("name", required=False)
def cookbook(name: str | None) -> None:
    """Prints a query to begin with; without a name it lists the questions that they answer.

    \b
    A query reads the links that --capture names; change links, time buckets and limits to yours.
    Example:
      lowwater cookbook talkers > talkers.gsql
      lowwater run talkers.gsql --capture main1=capture.pcap --out results
    """
    from rich.table import Table

    from lowwater.sections import nearest
    from lowwater.terminal import open_console, say, styled

    found = {recipe.name: recipe for recipe in recipes()}
    if name is None:
        table = Table("name", "question", box=None, pad_edge=False)
        for recipe in found.values():
            table.add_row(recipe.name, styled(recipe.question, fold=True))
        open_console().print(table)
        say("lowwater cookbook NAME > NAME.gsql", err=True)
        return
    if name not in found:
        raise click.BadParameter(f"there is no query {name!r}{nearest(name, found)}", param_hint="NAME")
    say(found[name].text, nl=False)

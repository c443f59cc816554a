"""Surveys GSQL files: the share of statements that parse, bind and plan, and the reasons for the others.

    python scripts/survey.py [--together] [--schema FILE]... [--functions FILE]... [--links FILE] FILE.gsql...

Every file is a query set of its own unless --together; --schema and --functions are those of every set. A statement
whose source has an error of its own is counted with the reason of that source.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from lowwater.config import load_config
from lowwater.errors import LowwaterError, QueryError, QueryErrors
from lowwater.gsql import nodes as syntax
from lowwater.gsql.parser import parse
from lowwater.plan.bind.joins import declare_watch
from lowwater.plan.bind.names import declare
from lowwater.plan.bind.queries import Binder, check_options, read_texts
from lowwater.plan.context import Context, Links
from lowwater.plan.definitions import make_context
from lowwater.plan.queryset import plan_texts
from lowwater.plan.rules import LEVELS, LOGICAL, Rewriter, Setting
from lowwater.plan.text import BelowError
from lowwater.replay.names import config_links

STEPS = ("parses", "binds", "plans")


@dataclass(frozen=True)
class Outcome:
    """The result of one statement.

    Attributes:
        file: file of the statement.
        query: name of the statement.
        steps: number of STEPS passed.
        reason: error of the next step; empty if it passed all.
    """

    file: str
    query: str
    steps: int
    reason: str = ""


def survey(files: Sequence[Path], context: Context) -> list[Outcome]:
    """Surveys one query set."""
    texts = [(str(path), path.read_text(encoding="utf-8", errors="replace")) for path in files]
    outcomes: list[Outcome] = []
    readable = []
    for file, text in texts:
        try:
            parse(text, file)
            readable.append((file, text))
        except QueryErrors as errors:
            outcomes += [Outcome(file, "", 0, error.message) for error in errors.errors]
        except QueryError as error:
            outcomes.append(Outcome(file, "", 0, error.message))
    try:
        read = read_texts(readable, sorted({Path(file).parent for file, _ in readable}))
        context = replace(context, protocols=declare(read.protocols, context.protocols))
    except LowwaterError as error:
        return [
            *outcomes,
            *(Outcome(file, "", 1, error.message) for file, text in readable for _ in parse(text).statements),
        ]
    binder = Binder(context, read.statements)
    statements = {name: named for name, named in read.statements.items() if name not in read.library}
    outcomes += [_outcome(binder, name, statement, text.file) for name, (statement, text) in statements.items()]
    if all(not outcome.reason for outcome in outcomes) and readable:
        try:
            plan_texts(readable, context.links, context=context, folders=[path.parent for path in files])
        except LowwaterError as error:
            outcomes[-1] = replace(outcomes[-1], steps=2, reason=error.message)
    return outcomes


def _outcome(binder: Binder, name: str, statement: syntax.Statement, file: str) -> Outcome:
    try:
        check_options(statement, binder.statements[name][1])
        if isinstance(statement, syntax.Watchlist):
            declare_watch(name, statement, binder.statements[name][1], binder.context.folders)
            return Outcome(file, name, 3)
        node = binder.query(name)
    except BelowError as error:
        return Outcome(file, name, 1, error.message)
    except QueryError as error:
        return Outcome(file, name, 1, error.message)
    try:
        logical = Rewriter(LOGICAL, Setting()).rewrite(node)
        Rewriter(LEVELS, Setting()).rewrite(logical)
    except LowwaterError as error:
        return Outcome(file, name, 2, error.message)
    return Outcome(file, name, 3)


@click.command()
@click.option("--together", is_flag=True, help="All files are one query set.")
@click.option("--schema", "schemas", multiple=True, type=click.Path(path_type=Path))
@click.option("--functions", multiple=True, type=click.Path(path_type=Path))
@click.option("--links", type=click.Path(path_type=Path))
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
def main(
    together: bool,
    schemas: tuple[Path, ...],
    functions: tuple[Path, ...],
    links: Path | None,
    files: tuple[Path, ...],
) -> None:
    """Surveys files and prints shares and reasons."""
    try:
        config = load_config(path=links) if links else None
        known_links = config_links(config, sorted(config.links)) if config else Links()
        context = make_context(known_links, schemas, functions)
    except LowwaterError as error:
        sys.exit(f"error: {error}")
    outcomes: list[Outcome] = []
    for group in [files] if together else [(file,) for file in files]:
        outcomes += survey(group, context)
    for step, word in enumerate(STEPS, 1):
        passed = sum(outcome.steps >= step for outcome in outcomes)
        click.echo(f"{word}: {passed} of {len(outcomes)} ({passed / max(1, len(outcomes)):.1%})")
    for outcome in outcomes:
        if outcome.reason:
            click.echo(f"  {outcome.file} {outcome.query}: {outcome.reason}")


if __name__ == "__main__":
    main()

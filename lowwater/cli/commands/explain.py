"""The command `explain`: shows the plan of query files, or the statistics of their LFTAs."""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import Any

import click

from lowwater.cli import options
from lowwater.terminal import say


@click.command()
@options.QUERY_FILES
@click.option(
    "--format",
    "form",
    default="text",
    type=click.Choice(["text", "json", "mermaid"]),
    help="json is described by docs/explain.schema.json.",
    show_default=True,
)
@click.option("--kernel", is_flag=True, help="The code that is generated for each link, instead of the plan.")
@click.option("--with-stats", is_flag=True, help="What the last runs over --lake measured and recommend, instead.")
@click.option("--lake", type=options.LAKE, help="The lake's folder, for --with-stats.")
@options.DEFINITIONS
def explain(
    files: tuple[Path, ...],
    form: str,
    kernel: bool,
    with_stats: bool,
    lake: PurePath | None,
    **definitions: Any,
) -> None:
    """Shows the plan of a query set: both levels as GSQL, operators, punctuation, read ranges, and why.

    Without --links every name before a protocol is taken as a link.
    --with-stats shows for each LFTA what the last runs counted, and which table, heartbeat period and order of
    conjuncts they recommend; runs take them where lowwater.toml says tuned = true in [replay].
    """
    from lowwater.cli.queries import explain_files, explain_kernels

    if with_stats or lake is not None:
        say(_statistics(files, form, kernel, with_stats, lake, definitions), nl=False)
        return
    text = explain_kernels(files, **definitions) if kernel else explain_files(files, form, **definitions)
    say(text, nl=False)


def _statistics(
    files: tuple[Path, ...],
    form: str,
    kernel: bool,
    with_stats: bool,
    lake: PurePath | None,
    definitions: dict[str, Any],
) -> str:
    from lowwater.cli.tuning import explain_statistics

    if not with_stats or lake is None:
        raise click.UsageError("--with-stats and --lake go together")
    if kernel or form == "mermaid" or definitions.pop("links") is not None:
        raise click.UsageError("--with-stats reads the links of the lake; leave out --kernel, --links and mermaid")
    return explain_statistics(files, form, lake, definitions)

"""The command `explain`: shows the plan of query files, the statistics of their LFTAs, or their place on a cluster."""

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
@click.option(
    "--executors",
    type=options.CLUSTER,
    metavar="N[xCORES]",
    help="How a cluster of so many executors shares out the links of --lake, instead: 4, or 4x2 with two cores each.",
)
@click.option("--lake", type=options.LAKE, help="The lake's folder, for --with-stats and --executors.")
@options.DEFINITIONS
def explain(
    files: tuple[Path, ...],
    form: str,
    kernel: bool,
    with_stats: bool,
    executors: tuple[int, int] | None,
    lake: PurePath | None,
    **definitions: Any,
) -> None:
    """Shows the plan of a query set: both levels as GSQL, operators, punctuation, read ranges, and why.

    Without --links every name before a protocol is taken as a link.
    --with-stats shows for each LFTA what the last runs counted, and which table, heartbeat period and order of
    conjuncts they recommend; runs take them where lowwater.toml says tuned = true in [replay].

    --executors shows the rate of each link, into how many tasks an interval of it is divided, and which executor gets
    which of them.
    """
    from lowwater.cli.queries import explain_files, explain_kernels

    if executors is not None:
        say(_placement(files, form, kernel or with_stats, executors, lake, definitions), nl=False)
        return
    if with_stats or lake is not None:
        say(_statistics(files, form, kernel, with_stats, lake, definitions), nl=False)
        return
    text = explain_kernels(files, **definitions) if kernel else explain_files(files, form, **definitions)
    say(text, nl=False)


def _placement(
    files: tuple[Path, ...],
    form: str,
    other: bool,
    executors: tuple[int, int],
    lake: PurePath | None,
    definitions: dict[str, Any],
) -> str:
    from lowwater.cli.placement import explain_placement

    if lake is None:
        raise click.UsageError("--executors needs --lake, whose captures have the rates of the links")
    if other or form == "mermaid" or definitions.pop("links") is not None:
        raise click.UsageError(
            "--executors reads the links of the lake; leave out --kernel, --with-stats, --links and mermaid"
        )
    return explain_placement(files, form, lake, executors, definitions)


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

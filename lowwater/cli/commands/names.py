"""Commands of names: what gets another one, and what ends: rename, move, retire."""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import TYPE_CHECKING

import click

from lowwater.cli import options
from lowwater.terminal import say, size_text

if TYPE_CHECKING:
    from lowwater.replay.renaming import Change
    from lowwater.replay.retirement import LinkRetirement, Retirement

WHY = click.option("--why", default="", help="Why, in a sentence: `lowwater log` and subscribers are told.")
DRY_RUN = click.option("--dry-run", is_flag=True, help="Only say what would be done, and who is told.")


@click.command()
@click.argument("kind", type=click.Choice(["link", "query", "set"]), required=False)
@click.argument("old", required=False)
@click.argument("new", required=False)
@options.OF_LAKE
@options.QUERIES
@WHY
@options.BY
@DRY_RUN
@click.option("--resume", is_flag=True, help="Go on where a command that changed names was ended.")
def rename(
    kind: str | None,
    old: str | None,
    new: str | None,
    lake: PurePath,
    queries: Path,
    why: str,
    by: str | None,
    dry_run: bool,
    resume: bool,
) -> None:
    """Gives a link, a query or a query set another name; nothing that is published is computed again.

    \b
    Packets, tables, positions of subscribers and ledgers get the name, and so do the settings and the query files; what
    was done stays done. It needs the lake for itself: while something runs in it, it is refused. Who asks for the old
    name is told the new one. A command that was ended goes on with --resume; until then the lake is opened by nobody
    else. To undo it, rename it back.
    Example:
      lowwater rename link main1 core1 --lake var/lake --why "the site has got a core"
      lowwater rename query flows talkers --lake var/lake --why "that is what it counts"
      lowwater rename --resume --lake var/lake
    """
    from lowwater.replay import renaming

    if resume:
        change = renaming.pending(lake)
        if kind is not None or dry_run:
            raise click.UsageError("--resume goes with --lake only")
        if change is None:
            say("no change of names was ended before its end")
            return
    elif kind is None or old is None or new is None:
        raise click.UsageError("say what: link, query or set, its name, and the new one")
    else:
        change = renaming.proposed(lake, queries, "query set" if kind == "set" else kind, old, new)
    _change(lake, change, why, by, dry_run, resume)


@click.command()
@click.argument("kind", type=click.Choice(["query"]))
@click.argument("name")
@click.option("--to", "target", metavar="SET", required=True, help="The query set that the query is one of then.")
@options.OF_LAKE
@options.QUERIES
@WHY
@options.BY
@DRY_RUN
def move(
    kind: str, name: str, target: str, lake: PurePath, queries: Path, why: str, by: str | None, dry_run: bool
) -> None:
    """Moves a query to another query set; its table and its subscribers stay, and nothing is computed again.

    \b
    First move its text from the files of its query set to those of the other one; until this has run, nothing of the
    other one runs. The intervals of both must have one length. While one of the two is at work it is refused.
    Example:
      lowwater move query asked --to dns --lake var/lake --why "names have a set of their own"
    """
    from lowwater.replay import renaming

    _change(lake, renaming.moved(lake, queries, name, target), why, by, dry_run, False)


def _change(lake: PurePath, change: Change, why: str, by: str | None, dry_run: bool, resume: bool) -> None:
    from lowwater.lake.layout import Lake
    from lowwater.replay import renaming
    from lowwater.storage import paths

    if not (why or dry_run or resume):
        raise click.UsageError("say why: --why")
    if not resume:
        change.person, change.why = options.person(by), why
    files, told = change.files(), change.subscribers(Lake(paths.lake_path(lake)))
    say(f"{change.words()}{', if this is run without --dry-run' if dry_run else ''}")
    for file in files:
        say(f"{file}: {'would be written' if dry_run else 'written'}")
    if not dry_run:
        renaming.rename(lake, change)
    for name in told:
        say(f"subscriber {name} goes on under the new name, where it was")


@click.command()
@click.argument("kind", type=click.Choice(["link", "query", "set"]))
@click.argument("name")
@options.OF_LAKE
@options.QUERIES
@click.option("--keep", "act", flag_value="keep", help="What there is of it stays, and is read as before.")
@click.option("--drop", "act", flag_value="drop", help="The tables go, with all that was made for them.")
@click.option("--undo", "act", flag_value="undo", help="A query or a link that was retired goes on.")
@click.option("--captures", is_flag=True, help="With --drop of a link: its capture files on this machine go, too.")
@click.option("--yes", is_flag=True, help="Drop what no run can make again; without it, only say what would go.")
@click.option("--now", "successor", metavar="QUERY", default="", help="The query that goes on in its place.")
@click.option("--why", default="", help="Why, in a sentence: `lowwater log` and subscribers are told.")
@options.BY
@click.option("--dry-run", is_flag=True, help="Only say what would go, and who is told.")
def retire(
    kind: str,
    name: str,
    lake: PurePath,
    queries: Path,
    act: str | None,
    captures: bool,
    yes: bool,
    successor: str,
    why: str,
    by: str | None,
    dry_run: bool,
) -> None:
    """Ends a link, a query or a query set: what there is of it stays or goes, and its subscribers are told.

    \b
    First take the query out of its file, or the set or the link out of the settings. With --keep its tables stay, also
    for SQL and subscribers, who are told once they have read all of it. With --drop go its tables, the rows between the
    stages, states and sums; of a set also its reports and what the ledgers say of it. A query that is in its file still
    may be dropped: the next `lowwater backfill` makes its table anew, as after a column has got another type. --now
    names the query that subscribers are sent to; a query that only gets another name is for `lowwater rename`.
    A link whose section is gone, or has until, is retired with --keep: its history stays, and nobody is told any more
    that its section is gone. With --drop go its packets, its rows for people and the rows between the stages of hours
    that read it, with --captures its capture files, too; what is published stays, and no run reaches these hours.
    What no run can make again goes with --yes only. A command that was ended may be run again.
    Example:
      lowwater retire query flows --lake var/lake --keep --now talkers --why "talkers has the ports, too"
      lowwater retire link main1 --lake var/lake --keep --why "the tap was taken out"
      lowwater retire link main1 --lake var/lake --drop --yes --why "its packets may not be kept"
      lowwater retire set scans --lake var/lake --drop --why "nobody reads it"
    """
    from lowwater.lake.layout import lake_to_read
    from lowwater.replay import retirement

    if act is None:
        raise click.UsageError("say what becomes of the tables: --keep or --drop; or --undo")
    if captures and (kind, act) != ("link", "drop"):
        raise click.UsageError("--captures goes with a link and --drop")
    if act == "undo":
        if kind == "set" or successor or dry_run:
            raise click.UsageError("--undo goes with a query or a link, --why and --by")
        retirement.undo(lake_to_read(lake), kind, name, options.person(by), why)
        goes_on = "is made again, once `lowwater backfill` runs it" if kind == "query" else "goes on"
        say(f"{kind} {name} {goes_on}")
        return
    if kind == "link" and successor:
        raise click.UsageError("--now goes with a query")
    if not (why or dry_run or (kind == "link" and act == "drop" and not yes)):
        raise click.UsageError("say why: --why")
    ended = retirement.link_retirement(lake, queries, name, act == "drop", captures) if kind == "link" else None
    what = retirement.retirement(lake, queries, kind, name, act == "drop") if ended is None else None
    lost = ended.drop if ended is not None else what is not None and what.drop and what.lost() > 0
    asked = dry_run or (lost and not yes)
    if ended is not None:
        _retire_link(ended, options.person(by), why, asked)
    elif what is not None:
        _retire(what, successor, options.person(by), why, asked)
    if asked and not dry_run:
        say("nothing was changed: --yes drops it")


def _many(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _retire(what: Retirement, successor: str, person: str, why: str, dry_run: bool) -> None:
    from lowwater.replay import retirement

    folders, size = what.folders() if what.drop else [], what.bytes() if what.drop else 0
    told, lost = what.subscribers(), what.lost() if what.drop else 0
    if not dry_run:
        retirement.retire(what, successor, person, why)
    verb = "would be" if dry_run else "is"
    for query in what.queries:
        also = ", and made anew by the next `lowwater backfill`" if query in what.made else ""
        say(f"query {query} of {what.query_set} {verb} {'dropped' if what.drop else 'retired'}{also}")
    for folder in folders:
        say(f"{folder.relative_to(what.lake.root)}: {'would go' if dry_run else 'gone'}")
    if lost:
        say(f"{_many(lost, 'interval')} of it can be made by no run again: packets of that time were removed")
    if what.drop:
        say(f"{size_text(size)} {verb} freed")
    for each in told:
        say(f"told: subscriber {each}")


def _retire_link(what: LinkRetirement, person: str, why: str, dry_run: bool) -> None:
    from lowwater.replay import retirement

    never = what.never_made() if what.drop else 0
    size = 0
    for each in what.drops(dry_run=True) if dry_run else retirement.retire_link(what, person, why):
        inside = each.folder.is_relative_to(what.lake.root)
        where = each.folder.relative_to(what.lake.root) if inside else each.folder
        of = _many(each.files, "file") if each.files else each.why.rpartition(": ")[2]
        say(f"{where}: {of}, {size_text(each.bytes)}, {'would go' if dry_run else 'gone'}")
        size += each.bytes
    if never:
        say(f"{_many(never, 'interval')} that read it and are due can be made by no run then")
    if what.drop:
        say(f"{size_text(size)} {'would be' if dry_run else 'is'} freed; what is published of it stays")
    say(f"link {what.link} {'would be' if dry_run else 'is'} retired{'' if what.drop else ', and its history stays'}")

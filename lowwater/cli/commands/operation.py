"""Commands of who operates a lake: backup, restore, erase, doctor, maintain, verify, metrics, traces, serve."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Callable
from fractions import Fraction
from math import inf
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

import click

from lowwater import errors, extras, processes
from lowwater.cli import options
from lowwater.instants import SECOND, format_instant
from lowwater.lake.sheets import COUNT, REASON, TEXT, Sheet, say_sheet
from lowwater.terminal import Terminal, say, size_text

if TYPE_CHECKING:
    from lowwater.lake import layout
    from lowwater.lake.verification import Asked, Verdict


@click.command()
@click.option(
    "--prepare",
    is_flag=True,
    help="First do once what the first use would do: compile kernels; with Spark, fetch Delta's jars, record classes.",
)
@click.option(
    "--lake", type=options.LAKE, help="Try the store or the disk of a lake in the place of this machine; new ones too."
)
def doctor(prepare: bool, lake: PurePath | None) -> None:
    """Checks this machine and says which command mends what is missing, and which extras are installed.

    \b
    With --lake it tries what a lake needs of its object store, or of its folder: it writes, reads, lists and removes
    below LAKE/_doctor, lets writers race for one name, compares clocks and takes times. It says what is missing, and
    what of Lowwater then does not hold. Of a lake that is there it names tables that have rows twice, or other ones
    than were published.
    Example:
      lowwater doctor --lake s3://lakes/office
    """
    if lake is not None:
        from lowwater.cli.doctor import examine_lake

        code = examine_lake(lake, Terminal())
    else:
        from lowwater.cli.doctor import doctor as examine, prepare as prepare_machine

        if prepare:
            prepare_machine(Terminal(stderr=True))
        code = examine(Terminal())
    if code:
        sys.exit(code)


@click.command()
@options.OF_LAKE
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@click.option("--mend", is_flag=True, help="Take out rows that another program has doubled, and lost files of ledgers.")
@click.option("--verify", is_flag=True, help="Only compare all files with the logs, as verify --data does.")
@click.option("--queries", hidden=True, expose_value=False)
def maintain(lake: PurePath, dry_run: bool, mend: bool, verify: bool) -> None:
    """Joins small files and removes unused ones. Safe at any time, also while intervals run.

    \b
    The files of published hours that no longer change are joined. Files that tables no longer refer to are removed
    after [retention] versions, rows between the stages after [retention] streams, staging of dead runs at once.
    Packets, captures, reports and rows for people go as [retention] says; what is published of packets that went stays
    as it is. Rows of published tables, and of intervals that were audited but not yet published stay. A table whose
    files another program joined beside others has rows twice: it is left alone, until --mend takes them out as its log
    says.

    --mend also takes out of the logs what is lost: files of ledgers, without which no command works, and a newest
    commit that a power cut tore. Rows in them are lost; `ingest` and `backfill` make again what they can.
    Example:
      lowwater maintain --lake var/lake --dry-run
    """
    from lowwater.config import load_config
    from lowwater.lake import layout
    from lowwater.lake.clocks import clock_words
    from lowwater.lake.maintain import LEFT, maintain as maintain_lake, mend_lake, require_sound
    from lowwater.lake.verification import Asked

    if verify:
        _verify(layout.lake_to_read(lake), Asked(data=True))
        return
    mended = mend_lake(layout.lake_to_read(lake)) if mend and not dry_run else []
    retention = load_config(lake).retention
    opened = layout.lake_to_read(lake) if dry_run else layout.open_lake(lake, make=False)
    actions = [*mended, *maintain_lake(opened, retention, dry_run, mend=mend)]
    if words := clock_words(opened):
        say(words, err=True)
    columns = {"what": TEXT, "where": TEXT, "files": COUNT, "bytes": COUNT, "why": REASON}
    done = [(each.what, each.where, each.files, each.bytes, each.why) for each in actions if each.what != LEFT]
    if done:
        say_sheet(Sheet(columns, done))
    else:
        say("nothing to do")
    require_sound(actions)


@click.command()
@options.OF_LAKE
@click.option("--dry-run", is_flag=True, help="Only say what would be converted.")
@click.option("--undo", is_flag=True, help="Make it a lake of format 1 again, before it is confirmed.")
@click.option("--confirm", is_flag=True, help="Remove what is left of format 1: then there is no way back.")
@options.QUERIES
def upgrade(lake: PurePath, dry_run: bool, undo: bool, confirm: bool, queries: Path) -> None:
    """Makes a lake of an older format one of the format of this version.

    \b
    End all runs and tasks first. No capture is read again and no published row changes; an interval whose rows are
    those of today's inputs stays what it is. Killed, it goes on when it is called again. Older versions say in one line
    that they cannot read the lake. Until --confirm, what they need stays in it, and --undo gives it back, as long as
    nothing was ingested or published since.
    Example:
      lowwater upgrade --lake var/lake --dry-run
      lowwater upgrade --lake var/lake
      lowwater status --lake var/lake
      lowwater upgrade --lake var/lake --confirm
    """
    from lowwater.replay import upgrade as upgrades

    if dry_run + undo + confirm > 1:
        raise click.UsageError("--dry-run, --undo and --confirm exclude each other")
    name = shlex.quote(str(lake))
    if undo:
        upgrades.undo(lake)
        say("it is a lake of format 1 again")
        return
    if confirm:
        say(f"what was left of format 1 is removed: {size_text(upgrades.confirm(lake))}")
        return
    if upgrades.is_current(lake):
        say(
            "nothing to do; --confirm removes what is left of format 1, --undo goes back"
            if upgrades.is_pending(lake)
            else "nothing to do"
        )
        return
    if dry_run:
        found = upgrades.proposed(lake)
        say(f"would convert {found.captures:,} captures, and what was seen of {found.files:,} files")
        return
    done = upgrades.upgrade(lake, queries, lambda query_set, error: say(f"query set {query_set}: {error}", err=True))
    for line in done.otherwise:
        say(line, err=True)
    say(f"converted {done.captures:,} captures, and what was seen of {done.files:,} files")
    if done.kept:
        say(f"{done.kept:,} publications have their digest of now")
    if done.instants:
        say(f"{done.instants:,} files of published tables got their columns of instants")
    say(f"look at it: lowwater status --lake {name}")
    say(f"then remove what is left of format 1: lowwater upgrade --lake {name} --confirm; or go back: --undo")


class _Share(click.ParamType[Fraction]):
    """Parameter type of a part of the files."""

    name = "share"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Fraction:
        try:
            share = Fraction(str(value))
        except (ValueError, ZeroDivisionError):
            share = Fraction(0)
        if not 0 < share <= 1:
            self.fail(f"{value} is no part of the files: write for example 1/30", param, ctx)
        return share


@click.command()
@options.OF_LAKE
@click.option("--data", is_flag=True, help="Read all bytes, and compare them with their digests.")
@click.option(
    "--share", type=_Share(), metavar="1/N", help="With --data, only a part of the files, another one each day."
)
@click.option("--link", help="Only packets and captures of a link.")
@click.option("--set", "--query-set", "query_set", help="Only what belongs to a query set.")
@click.option("--from", "start", type=options.INSTANT, help="Only files with rows after this instant, ISO 8601.")
@click.option("--to", "end", type=options.INSTANT, help="Only files with rows before it.")
def verify(
    lake: PurePath,
    data: bool,
    share: Fraction | None,
    link: str | None,
    query_set: str | None,
    start: int | None,
    end: int | None,
) -> None:
    """Compares the files of a lake with its logs, and says what is damaged, what that costs, and what makes it again.

    \b
    Existence and size of every file are compared; with --data also all bytes, with the digests in the names of files,
    and what the logs say of their rows. --share 1/30 each night has read everything after 30 nights. A look that was
    ended goes on where it was when the same is asked for again. It may run beside all other commands.

    Intervals whose published rows are damaged become `damaged`, and `backfill` runs them again. Damaged packets are set
    aside where their capture still lies there, and `ingest` reads it again. The verdict is kept in verified.json of the
    lake. The exit code is 1 if something is damaged.
    Example:
      lowwater verify --lake var/lake --data --share 1/30
    """
    from lowwater.lake import layout
    from lowwater.lake.verification import Asked

    if share is not None and not data:
        raise click.UsageError("--share goes with --data")
    asked = Asked(data, share or Fraction(1), link, query_set, start, end)
    _verify(layout.lake_to_read(lake), asked)


PROGRESS = 5.0
"""Seconds between two lines that say how far a command has come that reads all bytes."""


def _progress(verb: str) -> Callable[[int, int], None]:
    """Returns what says now and then how many bytes of all are done."""
    last = time.monotonic()

    def told(done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last >= PROGRESS:
            last = time.monotonic()
            say(f"{size_text(done)} of {size_text(total)} {verb}", err=True)

    return told


def _verify(lake: layout.Lake, asked: Asked) -> None:
    from lowwater.lake.verification import require_sound, verify as verify_lake

    verdict = verify_lake(lake, asked, _progress("compared"))
    if verdict.resumed:
        say("goes on where a look was ended", err=True)
    for each in verdict.damaged:
        say(f"{each.where}: {each.what}")
        say(f"  lost: {each.cost}")
        say(f"  again: {each.again or 'nothing makes it again; restore it from a backup'}")
    files = "1 file" if verdict.files == 1 else f"{verdict.files:,} files"
    say(f"{files}, {size_text(verdict.bytes)}: {_compared(asked, verdict)}")
    if verdict.unkept:
        say(f"the verdict is not kept: {verdict.unkept}", err=True)
    require_sound(lake.root, verdict)


def _compared(asked: Asked, verdict: Verdict) -> str:
    said = ["existence and sizes were compared"]
    if asked.data:
        said.append(f"the bytes of {verdict.compared:,} ({size_text(verdict.read)}) with their digests")
    if verdict.bare:
        said.append(f"{verdict.bare:,} have no digest, since an older version or another program wrote them")
    return "; ".join(said)


_PLACE = "The place of the backups: a folder, or s3://BUCKET/PREFIX."


@click.command()
@options.OF_LAKE
@click.option("--to", "place", required=True, type=options.LAKE, help=_PLACE)
@click.option("--keep", type=click.IntRange(min=1), metavar="N", help="Then remove all backups but the newest N.")
@click.option("--dry-run", is_flag=True, help="Only say what would be copied, and removed.")
def backup(lake: PurePath, place: PurePath, keep: int | None, dry_run: bool) -> None:
    """Backs a lake up, as it is at one instant, while everything else goes on.

    \b
    All of the lake is copied: packets, rows, ledgers, states, reports, settings. What an earlier backup at the place
    has is not copied again, and each backup is whole by itself. A backup that was ended goes on where it was. Captures
    and query texts lie outside of the lake: copy them as you copy other files. Trials are left out. Files that the lake
    has lost, or whose bytes have changed, are named, and the exit code is then 1.
    Example:
      lowwater backup --lake var/lake --to backups/lake --keep 30
      lowwater restore --from backups/lake --list
    """
    from lowwater.lake import layout
    from lowwater.lake.backup import back_up, taken_at

    made = back_up(layout.lake_to_read(lake), place, keep, dry_run, _progress("copied"))
    of, would = made.backup, "would be " if dry_run else ""
    new = f"{_files(made.files)}, {size_text(made.bytes)}, {would}copied"
    done = "nothing was written" if dry_run else f"backup {_taken(of.at)} is at {place}"
    say(f"{_files(len(of.files))}, {size_text(of.bytes)}: {new}; {done}")
    for name in made.removed:
        say(f"backup {_taken(taken_at(name))} {would or 'is '}removed")
    if made.removed:
        say(f"{size_text(made.freed)} {would or 'are '}freed")
    if made.unkept:
        say(f"the lake is not told of it: {made.unkept}", err=True)
    for each in of.damaged:
        say(each)
    if of.damaged:
        raise errors.LakeError(
            f"{lake}: {_files(len(of.damaged))} could not be copied as written, and {place} has no copy of this backup",
            "`lowwater verify` with --data says what that costs, and what makes them again; then back up again",
        )


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count:,} files"


def _taken(at: int) -> str:
    return format_instant(at // SECOND * SECOND)


@click.command()
@click.option("--from", "place", required=True, type=options.LAKE, help=_PLACE)
@click.option("--lake", type=options.LAKE, help="The lake to make: a folder or prefix that is not there yet.")
@click.option("--at", type=options.INSTANT, help="The newest backup up to this time, ISO 8601; else the newest.")
@click.option("--list", "listing", is_flag=True, help="Only list the backups.")
@click.option("--dry-run", is_flag=True, help="Write nothing: read all bytes of the backup, and compare digests.")
def restore(place: PurePath, lake: PurePath | None, at: int | None, listing: bool, dry_run: bool) -> None:
    """Makes a lake of a backup, at the old place or another one.

    \b
    Nothing that lies there is replaced. Until all is there the folder is no lake; a restore that was ended goes on
    where it was. Then `lowwater ingest` reads the captures that came since the backup, and `lowwater backfill` makes
    what is missing since.
    Example:
      lowwater restore --from backups/lake --lake var/lake
      lowwater ingest --lake var/lake && lowwater backfill --lake var/lake
    """
    from lowwater.lake.backup import leads_elsewhere, list_backups, restore as restore_lake, taken_at

    if (lake is None) != (listing or dry_run):
        raise click.UsageError("name the lake to make with --lake, or ask for --list or --dry-run without one")
    names = list_backups(place)
    if listing:
        _list_backups(place, names)
        return
    chosen = [name for name in names if at is None or taken_at(name) <= at]
    if not chosen:
        until = "" if at is None else f" up to {format_instant(at)}"
        raise errors.LakeError(
            f"{place}: there is no backup{until}",
            "`lowwater restore` with --list lists the backups of a place; `lowwater backup` takes one",
        )
    made = restore_lake(place, chosen[-1], lake, _progress("compared" if dry_run else "restored"))
    of = made.backup
    if made.resumed:
        say("goes on where a restore was ended", err=True)
    for each in (*made.damaged, *of.damaged):
        say(each)
    if made.damaged:
        raise errors.LakeError(
            f"{place}: {_files(len(made.damaged))} of the backup {_taken(of.at)} are not as written",
            "the next `lowwater backup` to this place copies them again, as far as the lake has them",
        )
    what = f"backup {_taken(of.at)} of {of.of}: {_files(len(of.files))}, {size_text(of.bytes)}"
    if lake is None:
        say(f"{what}, all as written")
        return
    say(f"{what} is restored to {lake}")
    for text in leads_elsewhere(lake):
        say(f"its settings name {text}, and nothing lies there: put it there, or change the name", err=True)
    say(f"what came since: lowwater ingest --lake {lake}, then lowwater backfill --lake {lake}", err=True)


def _list_backups(place: PurePath, names: list[str]) -> None:
    from lowwater.lake.backup import read_backup

    if not names:
        say(f"{place}: there is no backup")
        return
    rows = []
    for name in names:
        each = read_backup(place, name)
        rows.append((_taken(each.at), each.of, len(each.files), size_text(each.bytes), f"{len(each.damaged) or ''}"))
    say_sheet(Sheet({"taken": TEXT, "of": TEXT, "files": COUNT, "bytes": TEXT, "damaged": TEXT}, rows))


@click.command()
@options.OF_LAKE
@options.QUERIES
@click.option("--where", required=True, metavar="PREDICATE", help="What goes: a GSQL condition.")
@click.option("--captures", is_flag=True, help="Also from the files that were ingested: by copies in their place.")
@click.option("--yes", is_flag=True, help="Erase; without it, only say what would go.")
@click.option("--why", default="", help="Why, in a sentence for `lowwater log`; it names none of the values.")
@options.BY
@options.JOBS
@options.SPARK
def erase(
    lake: PurePath,
    queries: Path,
    where: str,
    captures: bool,
    yes: bool,
    why: str,
    by: str | None,
    jobs: int,
    spark: str | None,
) -> None:
    """Erases packets, and all that was made of them: of a host, a person, a name.

    \b
    Without --yes it counts the packets that meet the condition on any link, or have an address, MAC address or text
    that it names in any header or in any byte that is kept, and lists the files of the lake with such a value. With
    --yes they go from the lake, and with --captures from the files that it has read. Stale hours are made again of the
    rest. Then older versions, logs, reports and what else has a value are cleaned, and all bytes are looked at. The
    exit code is 1 if something is left. A command that was ended may be run again. docs/personal-data.md says what it
    reaches.
    Example:
      lowwater erase --lake var/lake --where "srcIP = '192.0.2.7' OR destIP = '192.0.2.7'" --captures
      lowwater erase --lake var/lake --where "srcMAC = '00:11:22:33:44:55'" --yes --why "request 17"
    """
    from lowwater.cli import erasing

    if yes and not why:
        raise click.UsageError("say why: --why")
    if not erasing.run_erase(lake, queries, where, captures, yes, (options.person(by), why), jobs, spark):
        raise SystemExit(1)


@click.command()
@options.OF_LAKE
@options.QUERIES
@click.option("--textfile", type=click.Path(dir_okay=False, path_type=Path), help="Write them to a file NAME.prom.")
@click.option("--listen", metavar="[HOST:]PORT", help="Serve them at /metrics until Ctrl-C or SIGTERM.")
@click.option("--every", type=options.DURATION, help="With --textfile: write again after this time, until stopped.")
def metrics(lake: PurePath, queries: Path, textfile: Path | None, listen: str | None, every: int | None) -> None:
    """Shows the metrics of a lake in the text format of Prometheus.

    \b
    They are read from the ledgers: links, streams, subscribers, intervals, audits, stages. Nothing is collected unless
    this command runs. docs/metrics.md lists them, with a dashboard and alerts.
    Example:
      lowwater metrics --lake var/lake --textfile /var/lib/node_exporter/lowwater.prom --every 30s
      lowwater metrics --lake var/lake --listen 127.0.0.1:9464
    """
    extras.require("lowwater metrics", "metrics")
    from lowwater.replay.telemetry import metrics_text, serving

    if textfile is not None and listen is not None:
        raise click.UsageError("--textfile and --listen exclude each other")
    if every is not None and (textfile is None or every <= 0):
        raise click.UsageError("--every goes with --textfile, and is above 0")
    if listen is not None:
        host, port = _address(listen)
        metrics_text(lake, queries)  # an error now is one of the user's
        with serving(lake, queries, host, port) as at, processes.until_stopped() as stopped:
            say(f"http://{host}:{at}/metrics", err=True)
            processes.pause(inf, stopped)
    elif textfile is None:
        say(metrics_text(lake, queries), nl=False)
    else:
        _write(lake, queries, textfile, every)


def _write(lake: PurePath, queries: Path, textfile: Path, every: int | None) -> None:
    from lowwater.replay.telemetry import write_textfile

    if textfile.suffix != ".prom":
        raise click.BadParameter(f"--textfile {textfile}: the node exporter reads files whose names end with .prom")
    with processes.until_stopped() as stopped:
        while not stopped():
            write_textfile(lake, queries, textfile)
            if every is None:
                return
            processes.pause(every / 1e9, stopped)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not port.isdigit() or int(port) > 65535:
        raise click.BadParameter(f"--listen {text}: write for example 127.0.0.1:9464")
    return host.strip("[]") or "127.0.0.1", int(port)


@click.command()
@options.OF_LAKE
@options.QUERIES
@click.option("--to", "address", required=True, metavar="URL", help="The collector, OTLP over HTTP.")
@click.option("--since", type=options.INSTANT, help="Runs that ended after this time, ISO 8601; else all of them.")
@click.option("--follow", is_flag=True, help="Send each run when it has ended, until Ctrl-C or SIGTERM.")
@click.option("--every", default="10s", type=options.DURATION, help="Time between two looks.", show_default=True)
def traces(lake: PurePath, queries: Path, address: str, since: int | None, follow: bool, every: int) -> None:
    """Sends runs as traces: a run is a trace; stages, LFTAs, queries, operators and heartbeats are its spans.

    \b
    They are read from the ledgers after a run, so a collector that does not answer holds up nothing. A run that is sent
    again has the same ids. Nothing is sent unless this command runs.
    Example:
      lowwater traces --lake var/lake --to http://localhost:4318 --follow
    """
    extras.require("lowwater traces", "metrics")
    from lowwater.lake import layout
    from lowwater.replay.schedule.links import jobs
    from lowwater.replay.telemetry import TraceSender, traces_since

    def tell(name: str, error: errors.LowwaterError) -> None:
        say(f"query set {name}: {error}; its runs have no heartbeats", err=True)

    if every <= 0:
        raise click.BadParameter("--every must be above 0")
    opened, sent = layout.lake_to_read(lake), set[tuple[str, int, int, int]]()
    sender = TraceSender(address)
    with processes.until_stopped() as stopped:
        while not stopped():
            for run, spans in traces_since(opened, jobs(lake, queries, tell), since or 0, sent):
                sender.send(spans)
                sent.add(run.key)
            if not follow:
                break
            processes.pause(every / 1e9, stopped)
    sender.close()
    say(f"{len(sent):,} {'run' if len(sent) == 1 else 'runs'} sent to {address}", err=True)


@click.command()
@options.OF_LAKE
@options.QUERIES
@click.option("--host", default="127.0.0.1", help="Address to listen on.", show_default=True)
@click.option("--port", default=8642, type=click.IntRange(0, 65535), help="0 takes a free one.", show_default=True)
@click.option(
    "--token-file", type=click.Path(path_type=Path), help="File with the token to log in with; others cannot read it."
)
@click.option("--no-login", is_flag=True, help="No token: every user of this machine can read the pages.")
def serve(lake: PurePath, queries: Path, host: str, port: int, token_file: Path | None, no_login: bool) -> None:
    """Serves the review pages and the results of a lake to a browser, until Ctrl-C.

    \b
    Open the address that is printed: it logs in. The token in it is made at the start; --token-file names one that
    stays. Only this machine reaches the pages, unless --host says otherwise: then put TLS before it (a reverse proxy).
    Example:
      lowwater serve --lake var/lake
    """
    # Arrow reads this once, when it is loaded: its own allocators keep what they once had (ADR 131).
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    extras.require("lowwater serve", "serve")
    from lowwater_review.serving import serve as serve_pages

    serve_pages(lake, queries, host, port, token_file, lambda text: say(text, err=True), not no_login)

"""Hints of `ingest`, `init`, `rows`, `export`, and of what lies in a lake."""

from __future__ import annotations

import gzip
import hashlib
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from lowwater.capture.content.retention import ContentOptions
from lowwater.catalog.expr import Type
from lowwater.cli.proposals import _common
from lowwater.config import Link, load_config
from lowwater.instants import HOUR, SECOND
from lowwater.lake.files import proposal
from lowwater.lake.files.patterns import files_of
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.ingestion.tasks import FailedTask, PackResult, PackTask, pack
from lowwater.lake.layout import Lake, open_lake
from lowwater.lake.ledgers.captures import read_captures
from lowwater.lake.ledgers.runs import ReplayRow, record_replays
from lowwater.lake.locks import attempt, hold
from lowwater.lake.packets import read_packets
from lowwater.lake.query_sets import FOLDER, LastLook, is_chained, last_look, store_chained, store_look
from lowwater.lake.results.pins import stored_pins
from lowwater.lake.results.publish import check_unchanged
from lowwater.lake.results.streams import fingerprint, keep_state, stream_files
from lowwater.lake.tables import check_owner, commit, create
from lowwater.plan.operators import Field
from lowwater.storage.captures import capture_path
from tests.hints.setup import Case, Setup, records, tried
from tests.lake.support import BASE, FIELDS, publish_interval, put_captures, put_stream, stream
from tests.replay.support import START, Said

JUMP = 61 * SECOND


def _ingest(setup: Setup, *more: object, link: str = "main1") -> Said:
    return setup.run("ingest", "--lake", setup.lake, "--link", link, *more)


def _cut(setup: Setup, name: str, first: int, count: int = 50) -> Path:
    """Some packets of the capture, from the one with this number on."""
    header, *packets = records(setup.capture)
    path = setup.folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(header + b"".join(packets[first : first + count]))
    return path


def _opened(setup: Setup) -> Lake:
    return open_lake(setup.lake)


def _in_the_way(path: Path, folder: bool = False) -> None:
    """A file, or a folder, where something else is to be: what no user can write, not even root."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if folder:
        path.mkdir()
    else:
        path.touch()


# -- captures into the lake


def _two_covers(setup: Setup) -> None:
    setup.settle(ingest=False)
    files = _cut(setup, "a.pcap", 0), _cut(setup, "b.pcap", 60)
    ingest(_opened(setup), "main1", files, load_config(setup.lake), (START, START + HOUR))


def _no_file(setup: Setup) -> None:
    setup.settle(ingest=False)
    ingest(_opened(setup), "main1", [setup.folder / "none.pcap"], load_config(setup.lake))


def _lines(setup: Setup) -> Said:
    middle = setup.at(80)
    with (setup.lake / "lowwater.toml").open("a") as file:
        file.write(
            f'[links.main1.covers]\n"a.pcap" = "{setup.at(0)}/{middle}"\n"b.pcap" = "{middle}/{setup.at(600)}"\n'
        )
    return _ingest(setup, setup.folder / "a.pcap", setup.folder / "b.pcap")


def _stray(setup: Setup) -> Said:
    _in_the_way(setup.settle() / "packets" / "link=main1" / "hour=1" / "0-0-deaddeaddead.parquet", folder=True)
    return _ingest(setup, "--covers", setup.life, setup.capture)


def _no_stray(setup: Setup) -> Said:
    (setup.lake / "packets" / "link=main1" / "hour=1" / "0-0-deaddeaddead.parquet").rmdir()
    return _ingest(setup, "--covers", setup.life, setup.capture)


def _one_line(setup: Setup) -> Said:
    setup.settle(f'[links.main1.covers]\n"*.pcap" = "{setup.life}"', ingest=False)
    return _ingest(setup, _cut(setup, "a.pcap", 0), _cut(setup, "b.pcap", 60))


def _line_each(setup: Setup) -> Said:
    middle, first = setup.at(80), f'"a.pcap" = "{setup.at(0)}/{setup.at(80)}"'
    if f'"a.pcap" = "{setup.life}"' in (setup.lake / "lowwater.toml").read_text():
        setup.settings(f'"a.pcap" = "{setup.life}"', first)
    else:
        setup.settings("[links.main1.covers]", f"[links.main1.covers]\n{first}")
    setup.settings(f'"*.pcap" = "{setup.at(0)}', f'"b.pcap" = "{middle}')
    return _ingest(setup, setup.folder / "a.pcap", setup.folder / "b.pcap")


def _packed(setup: Setup, size: int) -> None:
    """Packs a compressed capture that had so many bytes when its digest was made."""
    path = setup.folder / "a.pcap.gz"
    data = gzip.compress(setup.capture.read_bytes())
    path.write_bytes(data)
    digest = hashlib.sha256(data).hexdigest()
    task = PackTask(
        setup.folder / "packets", "a", 0, path, "x", JUMP, False, ContentOptions(), None, 0, digest,
        bytes=size or len(data),
    )  # fmt: skip
    done = pack(task)
    if isinstance(done, FailedTask):
        raise done.error
    assert isinstance(done, PackResult) and done.files


# -- what was read


def _rows(setup: Setup, query: str, *more: object) -> Said:
    return setup.run("rows", query, "--lake", setup.lake, *more)


ROWS: list[tuple[str | None, int, float]] = [("10.0.0.1", 1, 0.0), ("10.0.0.2", 2, 1800.0)]


def _written(setup: Setup, fields: tuple[Field, ...] = FIELDS) -> str:
    """The fingerprint of a stream of q, which is written."""
    lake = _opened(setup)
    rows = stream(ROWS)
    if fields != FIELDS:
        names = {old.name: new.name for old, new in zip(FIELDS, fields, strict=True)}
        rows = rows.rename_columns([names.get(name, name) for name in rows.schema.names])
        at = rows.schema.get_field_index(fields[2].name)
        rows = rows.set_column(at, fields[2].name, rows.column(at).cast(pa.float64()))
    put_stream(lake.stream("q"), fields, BASE, BASE + HOUR, rows, "set")
    return fingerprint(stream_files(lake.stream("q"), BASE, BASE + HOUR))


def _publish(setup: Setup, fields: tuple[Field, ...] = FIELDS, digest: str = "d") -> None:
    lake, audited = _opened(setup), _written(setup, fields)
    done = publish_interval(lake, "set", "q", fields, BASE, BASE + HOUR, digest, audited)
    facts = {"digest": digest, "rows": done.rows, "publication": done.number}
    record_replays(lake, [ReplayRow("set", "q", BASE, BASE + HOUR, "publish", "done", 1, **facts)])


def _changed_type(setup: Setup) -> None:
    _publish(setup)
    shutil.rmtree(setup.lake / "streams")
    _publish(setup, (*FIELDS[:2], Field("n", Type.FLOAT)), "e")


def _other_name(setup: Setup) -> Said:
    shutil.rmtree(setup.lake / "streams")
    _publish(setup, (*FIELDS[:2], Field("share", Type.FLOAT)), "e")
    return _rows(setup, "q")


def _changed_stream(setup: Setup) -> None:
    _written(setup)
    check_unchanged(_opened(setup), "q", BASE, BASE + HOUR, "another")


def _same_stream(setup: Setup) -> None:
    assert check_unchanged(_opened(setup), "q", BASE, BASE + HOUR, _written(setup))


def _strange_stream(setup: Setup) -> None:
    _written(setup)
    lake, fields = _opened(setup), (*FIELDS, Field("more", Type.INT))
    audited = fingerprint(stream_files(lake.stream("q"), BASE, BASE + HOUR))
    publish_interval(lake, "set", "q", fields, BASE, BASE + HOUR, "d", audited)


def _owned(setup: Setup, owner: str) -> None:
    path = setup.folder / "tables" / "q"
    create(path, pa.schema([("n", pa.int64())]), owner="mine")
    check_owner(path, owner)


def _foreign(setup: Setup) -> None:
    from deltalake import write_deltalake

    write_deltalake(str(setup.folder / "lake" / "packets"), pa.table({"n": [1]}))
    open_lake(setup.folder / "lake")


def _buckets(setup: Setup) -> None:
    _common([capture_path("s3://taps/main1"), setup.folder])


def _packets(setup: Setup, columns: Sequence[str] = ()) -> int:
    """Reads the packets of the link."""
    lake = _opened(setup)
    captures, settings = read_captures(lake, ["main1"])["main1"], load_config(setup.lake).link("main1")
    found = read_packets(lake, "main1", captures, settings, 0, 0, 1 << 62, columns)
    return sum(batch.num_rows for batch in found)


def _ingested_meanwhile(setup: Setup) -> None:
    setup.settle()
    lake, link = _opened(setup), Link()
    captures = read_captures(lake, ["main1"])["main1"]
    batches = read_packets(lake, "main1", captures, link, 0, 0, 1 << 62)
    setup.settings('skew = "1s"', 'skew = "1s"\npayload = 4')
    said = _ingest(setup, "--covers", setup.life, setup.capture)
    assert said.code == 0 and "replaced" in said.out, said
    list(batches)


def _lost_packets(setup: Setup) -> None:
    setup.settle()
    commit(_opened(setup).packets, lambda table, options: table.delete(**options))
    _packets(setup)


def _again(setup: Setup) -> None:
    said = _ingest(setup, "--covers", setup.life, setup.capture)
    assert said.code == 0, said
    assert _packets(setup) > 0


def _unsampled(setup: Setup) -> None:
    setup.settle()
    _packets(setup, ["frame_head"])


def _sampled(setup: Setup) -> None:
    setup.settings('skew = "1s"', 'skew = "1s"\nsampling = true')
    assert _ingest(setup, "--covers", setup.life, setup.capture).code == 0
    assert _packets(setup, ["frame_head"]) > 0


# -- locks, and what cannot be written


def _locked(setup: Setup, again: bool) -> None:
    lake = _opened(setup)
    with hold(lake, "ingest of a"):
        if again:
            with hold(lake, "ingest of a"):
                raise AssertionError
    with hold(lake, "ingest of a"):
        pass


def _blocked(path: str, act: Callable[[Lake], object], folder: bool = False) -> Callable[[Setup], None]:
    """Does something in a lake in which a file, or a folder, is in the way."""

    def act_blocked(setup: Setup) -> None:
        lake = _opened(setup)
        _in_the_way(lake.root / path, folder)
        act(lake)

    return act_blocked


def _freed(path: str, act: Callable[[Lake], object]) -> Callable[[Setup], None]:
    """Does it without what was in the way."""

    def act_freed(setup: Setup) -> None:
        at = setup.lake / path
        if at.is_dir():
            at.rmdir()
        else:
            at.unlink()
        act(_opened(setup))

    return act_freed


def _obstacle(name: str, path: str, hint: str, act: Callable[[Lake], object], folder: bool = False) -> Case:
    return Case(name, _blocked(path, act, folder), hint, _freed(path, act))


def _doubled(setup: Setup) -> Said:
    """A person's own OPTIMIZE, twice from one version of a ledger."""
    lake = open_lake(setup.lake)
    rows = [ReplayRow("q", "q", START, START + HOUR, "low", "done", START + at) for at in range(2)]
    for row in rows:
        record_replays(lake, [row])
    for table in [DeltaTable(lake.replays), DeltaTable(lake.replays)]:
        table.optimize.compact()
    return setup.run("maintain", "--lake", setup.lake)


def _captures_twice(setup: Setup) -> Said:
    lake = open_lake(setup.settle())
    family = read_captures(lake, ["main1"])["main1"]
    put_captures(lake, [replace(family[0], attempt="other", place="other")])
    for table in [DeltaTable(lake.contents), DeltaTable(lake.contents)]:
        table.optimize.compact()
    return setup.run("status", "--lake", lake.root)


def _captures_mended(setup: Setup) -> Said:
    assert setup.run("maintain", "--lake", setup.lake, "--mend").code == 0
    return setup.run("status", "--lake", setup.lake)


def _mended(setup: Setup) -> Said:
    assert setup.run("maintain", "--lake", setup.lake, "--mend").code == 0
    return setup.run("maintain", "--lake", setup.lake)


def _account(setup: Setup, text: str) -> Said:
    lake = open_lake(setup.lake)
    record_replays(lake, [ReplayRow("q", "q", START, START + HOUR, "low", "done", START + HOUR, accounting=text)])
    return setup.run("metrics", "--lake", setup.lake, "--queries", setup.folder)


def _strange_account(setup: Setup) -> Said:
    return _account(setup, "[")


def _restored_ledger(setup: Setup) -> Said:
    DeltaTable(str(open_lake(setup.lake).replays)).delete()
    return setup.run("metrics", "--lake", setup.lake, "--queries", setup.folder)


def _hold(lake: Lake) -> None:
    with hold(lake, "a"):
        pass


def _attempt(lake: Lake) -> None:
    with attempt(lake, "a") as folder:
        assert folder.is_dir()


def _note(lake: Lake) -> None:
    store_chained(lake.root, "q", True)
    assert is_chained(lake.root, "q")


def _keep(lake: Lake) -> None:
    keep_state({}, lake.root / "made", lake.states / "q" / "state")
    assert (lake.states / "q" / "state").is_dir()


# -- init


def _init(setup: Setup, folder: str) -> Said:
    captures = setup.folder / "found" / "captures"
    captures.mkdir(parents=True, exist_ok=True)
    (setup.folder / "found" / "empty").mkdir(exist_ok=True)
    shutil.copy(setup.capture, captures / "main1.pcap")
    for number in range(5):
        (setup.folder / "found" / f"{number}.txt").write_text("no capture")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(proposal, "PROPOSED_FILES", 4)
        return setup.run("init", setup.folder / "found" / folder, "--lake", setup.folder / "new")


def _files(link: Link) -> None:
    assert files_of(link, 0, 1 << 62)


def _in_its_place(_: Setup, use: Callable[[Lake], object], name: str, there: bool) -> None:
    """Uses a file of the lake, with a folder in its place or without it."""
    lake = open_lake(Path("lake"))
    if there:
        (lake.root / name).mkdir(parents=True)
    else:
        (lake.root / name).rmdir()
    use(lake)


def _file(name: str, hint: str, file: str, use: Callable[[Lake], object]) -> Case:
    return tried(name, _in_its_place, hint, (use, file, True), (use, file, False))


CASES: list[Case] = [
    _file("pins that are a folder", "can be read", "pins/q.json", lambda lake: stored_pins(lake, "q")),
    _file("a look that is a folder", "can be read", f"{FOLDER}/q.json", lambda lake: last_look(lake.root, "q")),
    _file("a look in place of a folder", "lake is writable", f"{FOLDER}/q.json",
          lambda lake: store_look(lake.root, "q", LastLook())),
    Case("the table of another program", _foreign, "choose another folder or prefix for the lake",
         lambda setup: open_lake(setup.folder / "another") and None),
    Case("captures of several buckets", _buckets, "name those of one bucket",
         lambda setup: _common([capture_path("s3://taps/a"), capture_path("s3://taps/b")]) and None),
    Case("covers of two files", _two_covers, "write a line for each of several files in", _lines),
    Case("a stray file that stays", _stray, "check that the lake is writable", _no_stray),
    Case("a line of covers for two files", _one_line, "write a line for each file", _line_each),
    tried("a packed file that changed", _packed, "ingest it again", 7, 0),
    Case("ingest of no file", _no_file, "check the path", lambda setup: _ingest(setup, setup.capture)),
    Case("a column of another type", _changed_type, "name the column otherwise", _other_name),
    Case("a stream of another version", _strange_stream, "run the interval again with --stage high", _publish),
    Case("a stream that changed", _changed_stream, "run the interval again with --stage high", _same_stream),
    tried("a table of another set", _owned, "rename the query 'q' in 'yours'", "yours", "mine"),
    Case("packets ingested anew meanwhile", _ingested_meanwhile, "run the interval again", lambda setup: _again(setup)),
    Case("packets that are lost", _lost_packets, "`lowwater ingest` with --link and the capture file", _again),
    Case("packets without a sample", _unsampled, "write sampling = true in", _sampled),
    tried("a lock", _locked, "wait until it has finished", True, False),
    _obstacle("no lock", "_locks/a.lock", "remove it; the next command makes it", _hold, folder=True),
    _obstacle("no attempt", "_work/a", "check that the lake is writable", _attempt),
    _obstacle("no chain", "_chained", "check that the lake is writable", _note),
    _obstacle("no state", "state", "check that the lake is writable and its disk has room", _keep),
    Case("a text in a ledger", _strange_account, "restore the ledger", _restored_ledger),
    tried("init of too many files", _init, "name a folder with the captures alone", ".", "captures"),
    Case("captures twice", _captures_twice, "run `lowwater maintain` with --mend", _captures_mended),
    Case("rows twice", _doubled, "run `lowwater maintain` with --mend", _mended),
    Case("files of no pattern", lambda setup: _files(Link()), "set captures in its section of lowwater.toml",
         lambda setup: _files(Link(captures=str(setup.capture)))),
]  # fmt: skip

"""Hints of `ingest`, `init`, `rows`, `export`, and of what lies in a lake."""

from __future__ import annotations

import gzip
import hashlib
import os
import re
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
from lowwater.lake.chains import is_chained, store_chained
from lowwater.lake.files import proposal
from lowwater.lake.files.patterns import files_of
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.ingestion.packing import PackResult, PackTask, pack
from lowwater.lake.ingestion.survey import FailedTask, starts_with
from lowwater.lake.layout import Lake, open_lake
from lowwater.lake.ledgers.captures import put_captures, read_captures
from lowwater.lake.ledgers.runs import ReplayRow, record_replays
from lowwater.lake.locks import attempt, hold, hold_range
from lowwater.lake.open_tables import forget
from lowwater.lake.packets import read_packets
from lowwater.lake.results.publish import check_unchanged, publish
from lowwater.lake.results.streams import fingerprint, keep_state, stream_files
from lowwater.lake.tables import check_owner, commit, create
from lowwater.plan.operators import Field
from lowwater.replay.job import Job
from lowwater.storage.captures import capture_path
from tests.capturemaker import pcap_bytes
from tests.hints.desk import Case, Desk, Site
from tests.lake.support import BASE, FIELDS, put_stream, stream
from tests.lake.test_interfaces import pcapng
from tests.replay.support import START, Said

JUMP = 61 * SECOND


def _ingest(desk: Desk, *more: object, link: str = "main1") -> Said:
    return desk.run("ingest", "--lake", desk.lake, "--link", link, *more)


def _copy(desk: Desk, name: str) -> Path:
    return Path(shutil.copy(desk.capture, desk.folder / name))


def _cut(desk: Desk, name: str, first: int, count: int = 50) -> Path:
    """Some packets of the capture, from the one with this number on."""
    data, at, records = desk.capture.read_bytes(), 24, []
    while at < len(data):
        size = 16 + int.from_bytes(data[at + 8 : at + 12], "little")
        records.append(data[at : at + size])
        at += size
    path = desk.folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data[:24] + b"".join(records[first : first + count]))
    return path


def _opened(desk: Desk) -> Lake:
    return open_lake(desk.lake)


def _in_the_way(path: Path, folder: bool = False) -> None:
    """A file, or a folder, where something else is to be: what no user can write, not even root."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if folder:
        path.mkdir()
    else:
        path.touch()


# -- captures into the lake


def _no_pattern(desk: Desk) -> Said:
    desk.settle(ingest=False)
    return desk.run("ingest", "--lake", desk.lake)


def _pattern(desk: Desk) -> Said:
    desk.settings("[links.main1]", f'[links.main1]\ncaptures = "{desk.capture.parent}/main*.pcap"')
    return desk.run("ingest", "--lake", desk.lake)


def _two_covers(desk: Desk) -> None:
    desk.settle(ingest=False)
    files = _cut(desk, "a.pcap", 0), _cut(desk, "b.pcap", 60)
    ingest(_opened(desk), "main1", files, load_config(desk.lake), (START, START + HOUR))


def _no_file(desk: Desk) -> None:
    desk.settle(ingest=False)
    ingest(_opened(desk), "main1", [desk.folder / "none.pcap"], load_config(desk.lake))


def _lines(desk: Desk) -> Said:
    middle = desk.at(80)
    with (desk.lake / "lowwater.toml").open("a") as file:
        file.write(f'[links.main1.covers]\n"a.pcap" = "{desk.at(0)}/{middle}"\n"b.pcap" = "{middle}/{desk.at(600)}"\n')
    return _ingest(desk, desk.folder / "a.pcap", desk.folder / "b.pcap")


def _stray(desk: Desk) -> Said:
    _in_the_way(desk.settle() / "packets" / "link=main1" / "hour=1" / "0-0-deaddeaddead.parquet", folder=True)
    return _ingest(desk, "--covers", desk.life, desk.capture)


def _no_stray(desk: Desk) -> Said:
    (desk.lake / "packets" / "link=main1" / "hour=1" / "0-0-deaddeaddead.parquet").rmdir()
    return _ingest(desk, "--covers", desk.life, desk.capture)


def _beside(desk: Desk, names: Sequence[str]) -> Said:
    """Ingests captures of one time, which differ."""
    desk.settle(ingest=False)
    return _ingest(desk, *(_cut(desk, f"captures/{name}", 3 * number, 100) for number, name in enumerate(names)))


def _longer_skew(desk: Desk) -> Said:
    """Reads the captures that are in the way of each other as one link, with the skew that the message names."""
    files = sorted((desk.folder / "captures").iterdir())
    said = _ingest(desk, *files)
    length = re.search(r'set skew = "(\w+)" in \[links.main1\]', said.err)
    assert length, said.err
    desk.settings('skew = "1s"', f'skew = "{length[1]}"')
    found = _ingest(desk, *files)
    rows = read_captures(_opened(desk), ["main1"])["main1"]
    assert sum(row.packets for row in rows) == 200, "both are read"
    return found


def _two_words(desk: Desk) -> Said:
    desk.settle(f'[links.main1.covers]\n"a.pcap" = "{desk.life}"\n"*.pcap" = "{desk.life}"', ingest=False)
    return _ingest(desk, _cut(desk, "a.pcap", 0), _cut(desk, "b.pcap", 60))


def _aside(desk: Desk, name: str, *more: object) -> Said:
    return desk.run("set-aside", "--lake", desk.lake, name, *(more or ("--reason", "a test of the tap")))


def _beside_the_pattern(desk: Desk) -> None:
    """A lake, and two files beside the one that a pattern claims."""
    for number, name in enumerate(("a.pcap", "b.pcap1", "c.pcap1")):
        _cut(desk, f"captures/{name}", 5 * number)
    desk.settle('captures = "../captures/a.pcap"', ingest=False)
    assert desk.run("ingest", "--lake", desk.lake).code == 0


def _aside_of(desk: Desk, name: str) -> Said:
    _beside_the_pattern(desk)
    return _aside(desk, name)


def _each_its_link(desk: Desk) -> Said:
    said = desk.run("init", desk.folder / "captures", "--lake", desk.folder / "NEW")
    assert said.code == 0, said
    return desk.run("ingest", "--lake", desk.folder / "NEW")


def _one_line(desk: Desk) -> Said:
    desk.settle(f'[links.main1.covers]\n"*.pcap" = "{desk.life}"', ingest=False)
    return _ingest(desk, _cut(desk, "a.pcap", 0), _cut(desk, "b.pcap", 60))


def _line_each(desk: Desk) -> Said:
    middle, first = desk.at(80), f'"a.pcap" = "{desk.at(0)}/{desk.at(80)}"'
    if f'"a.pcap" = "{desk.life}"' in (desk.lake / "lowwater.toml").read_text():
        desk.settings(f'"a.pcap" = "{desk.life}"', first)
    else:
        desk.settings("[links.main1.covers]", f"[links.main1.covers]\n{first}")
    desk.settings(f'"*.pcap" = "{desk.at(0)}', f'"b.pcap" = "{middle}')
    return _ingest(desk, desk.folder / "a.pcap", desk.folder / "b.pcap")


def _versions(desk: Desk) -> Said:
    desk.settle(ingest=False)
    first = _cut(desk, "a.pcap", 0, 100)
    assert _ingest(desk, first).code == 0
    data = bytearray(first.read_bytes())
    data[-1] ^= 1
    (desk.folder / "again.pcap").write_bytes(data)
    return _ingest(desk, desk.folder / "again.pcap")


def _right_version(desk: Desk) -> Said:
    os.replace(desk.folder / "again.pcap", desk.folder / "a.pcap")
    return _ingest(desk, desk.folder / "a.pcap")


def _part(desk: Desk) -> Said:
    desk.settle(ingest=False)
    assert _ingest(desk, _cut(desk, "a.pcap", 0, 400)).code == 0
    return _ingest(desk, _cut(desk, "part.pcap", 0, 300))


def _moved_away(desk: Desk) -> Said:
    os.replace(desk.folder / "part.pcap", desk.folder / "part.away")
    return _ingest(desk, desk.folder / "a.pcap")


def _interfaces(desk: Desk, count: int, link: str) -> Said:
    names = [f"eth{number}" for number in range(count)]
    path = pcapng(desk.folder / "a.pcapng", names, [(number / 100, number) for number in range(count)])
    desk.settle(ingest=False)
    desk.settings("[links.main1]", "[links.a]\n[links.main1]")
    return _ingest(desk, path, link=link)


def _as_one(desk: Desk) -> Said:
    desk.settings("[links.a]", '[links.a]\ninterfaces = "one"')
    return _ingest(desk, desk.folder / "a.pcapng", link="a")


def _packed_interfaces(desk: Desk) -> Said:
    _interfaces(desk, 300, "a/x")
    path = desk.folder / "a.pcapng"
    path.write_bytes(gzip.compress(path.read_bytes()))
    return _ingest(desk, path, link="a")


def _packets_lie(desk: Desk) -> Said:
    _in_the_way(_opened(desk).packets / "link=main1")
    return desk.run("ingest", "--lake", desk.lake, "--link", "main1", desk.capture)


def _packets_may_lie(desk: Desk) -> Said:
    (desk.lake / "packets" / "link=main1").unlink()
    return desk.run("ingest", "--lake", desk.lake, "--link", "main1", desk.capture)


def _packed(desk: Desk, size: int) -> None:
    """Packs a compressed capture that had so many bytes when its digest was made."""
    path = desk.folder / "a.pcap.gz"
    data = gzip.compress(desk.capture.read_bytes())
    path.write_bytes(data)
    digest = hashlib.sha256(data).hexdigest()
    task = PackTask(
        desk.folder / "packets",
        "a",
        0,
        path,
        "x",
        JUMP,
        False,
        ContentOptions(),
        None,
        0,
        digest,
        bytes=size or len(data),
    )
    done = pack(task)
    if isinstance(done, FailedTask):
        raise done.error
    assert isinstance(done, PackResult) and done.files


def _named(desk: Desk, name: bytes) -> Said:
    desk.settle(ingest=False)
    path = os.path.join(os.fsencode(desk.folder), name)
    shutil.copy(os.fsencode(desk.capture), path)
    return _ingest(desk, os.fsdecode(path))


def _pipe(desk: Desk) -> Said:
    desk.settle(ingest=False)
    os.mkfifo(desk.folder / "pipe")
    return _ingest(desk, desk.folder / "pipe")


def _digest(desk: Desk, path: Path) -> None:
    data = desk.capture.read_bytes()[:1000]
    assert starts_with(path, 1000, hashlib.sha256(data).hexdigest(), False)


# -- what was read


def _rows(desk: Desk, query: str, *more: object) -> Said:
    return desk.run("rows", query, "--lake", desk.lake, *more)


ROWS: list[tuple[str | None, int, float]] = [("10.0.0.1", 1, 0.0), ("10.0.0.2", 2, 1800.0)]


def _written(desk: Desk, fields: tuple[Field, ...] = FIELDS) -> str:
    """The fingerprint of a stream of q, which is written."""
    lake = _opened(desk)
    rows = stream(ROWS)
    if fields != FIELDS:
        names = {old.name: new.name for old, new in zip(FIELDS, fields, strict=True)}
        rows = rows.rename_columns([names.get(name, name) for name in rows.schema.names])
        at = rows.schema.get_field_index(fields[2].name)
        rows = rows.set_column(at, fields[2].name, rows.column(at).cast(pa.float64()))
    put_stream(lake.stream("q"), fields, BASE, BASE + HOUR, rows, "set")
    return fingerprint(stream_files(lake.stream("q"), BASE, BASE + HOUR))


def _publish(desk: Desk, fields: tuple[Field, ...] = FIELDS, digest: str = "d") -> None:
    lake, audited = _opened(desk), _written(desk, fields)
    done = publish(lake, "set", "q", fields, BASE, BASE + HOUR, digest, audited)
    facts = {"digest": digest, "rows": done.rows, "publication": done.number}
    record_replays(lake, [ReplayRow("set", "q", BASE, BASE + HOUR, "publish", "done", 1, **facts)])


def _published(desk: Desk, query: str, *more: object) -> Said:
    _publish(desk)
    record_replays(_opened(desk), [ReplayRow("set", "r", BASE, BASE + HOUR, "audit", "done", 1)])
    return _rows(desk, query, *more)


def _changed_type(desk: Desk) -> None:
    _publish(desk)
    shutil.rmtree(desk.lake / "streams")
    _publish(desk, (*FIELDS[:2], Field("n", Type.FLOAT)), "e")


def _other_name(desk: Desk) -> Said:
    shutil.rmtree(desk.lake / "streams")
    _publish(desk, (*FIELDS[:2], Field("share", Type.FLOAT)), "e")
    return _rows(desk, "q")


def _changed_stream(desk: Desk) -> None:
    _written(desk)
    check_unchanged(_opened(desk), "q", BASE, BASE + HOUR, "another")


def _same_stream(desk: Desk) -> None:
    assert check_unchanged(_opened(desk), "q", BASE, BASE + HOUR, _written(desk))


def _strange_stream(desk: Desk) -> None:
    _written(desk)
    lake, fields = _opened(desk), (*FIELDS, Field("more", Type.INT))
    audited = fingerprint(stream_files(lake.stream("q"), BASE, BASE + HOUR))
    publish(lake, "set", "q", fields, BASE, BASE + HOUR, "d", audited)


def _owned(desk: Desk, owner: str) -> None:
    path = desk.folder / "tables" / "q"
    create(path, pa.schema([("n", pa.int64())]), owner="mine")
    check_owner(path, owner)


def _foreign(desk: Desk) -> None:
    from deltalake import write_deltalake

    write_deltalake(str(desk.folder / "lake" / "packets"), pa.table({"n": [1]}))
    open_lake(desk.folder / "lake")


def _buckets(desk: Desk) -> None:
    _common([capture_path("s3://taps/main1"), desk.folder])


def _packets(desk: Desk, columns: Sequence[str] = ()) -> int:
    """Reads the packets of the link."""
    lake = _opened(desk)
    captures, settings = read_captures(lake, ["main1"])["main1"], load_config(desk.lake).link("main1")
    found = read_packets(lake, "main1", captures, settings, 0, 0, 1 << 62, columns)
    return sum(batch.num_rows for batch in found)


def _ingested_meanwhile(desk: Desk) -> None:
    desk.settle()
    lake, link = _opened(desk), Link()
    captures = read_captures(lake, ["main1"])["main1"]
    batches = read_packets(lake, "main1", captures, link, 0, 0, 1 << 62)
    desk.settings('skew = "1s"', 'skew = "1s"\npayload = 4')
    said = _ingest(desk, "--covers", desk.life, desk.capture)
    assert said.code == 0 and "replaced" in said.out, said
    list(batches)


def _lost_packets(desk: Desk) -> None:
    desk.settle()
    commit(_opened(desk).packets, lambda table, options: table.delete(**options))
    _packets(desk)


def _again(desk: Desk) -> None:
    said = _ingest(desk, "--covers", desk.life, desk.capture)
    assert said.code == 0, said
    assert _packets(desk) > 0


def _unsampled(desk: Desk) -> None:
    desk.settle()
    _packets(desk, ["frame_head"])


def _sampled(desk: Desk) -> None:
    desk.settings('skew = "1s"', 'skew = "1s"\nsampling = true')
    assert _ingest(desk, "--covers", desk.life, desk.capture).code == 0
    assert _packets(desk, ["frame_head"]) > 0


def _required(desk: Desk) -> None:
    """Asks whether the links have reported to the end of the hour."""
    job = Job.open(desk.lake, "flows", desk.folder)
    job.inputs(START, START + HOUR, job.captures()).require()


def _gap(desk: Desk, *covers: str) -> None:
    desk.settle(ingest=False)
    if covers:
        assert _ingest(desk, *covers, desk.capture).code == 0
    _required(desk)


def _covered(desk: Desk) -> None:
    assert _ingest(desk, "--covers", desk.life, desk.capture).code == 0
    _required(desk)


def _bounded(desk: Desk) -> None:
    desk.settings(f'until = "{desk.at(600)}"', f'until = "{desk.at(400)}"')
    _required(desk)


def _gap_after(desk: Desk) -> None:
    desk.settle(ingest=False)
    assert _ingest(desk, "--covers", f"{desk.at(0)}/{desk.at(400)}", _cut(desk, "a.pcap", 0)).code == 0
    _required(desk)


def _pause(desk: Desk) -> None:
    """Two files of a quiet recorder that writes the next one with the next packet."""
    desk.settle(ingest=False)
    for name, first in (("a.pcap", 0), ("b.pcap", 5)):
        frames = [(START + (10 * at) * SECOND, b"\0" * 60) for at in range(first, 5 if not first else 60)]
        (desk.folder / name).write_bytes(pcap_bytes(frames))
        assert _ingest(desk, desk.folder / name).code == 0
    _required(desk)


def _tolerated(desk: Desk) -> None:
    desk.settings('skew = "1s"', 'skew = "1s"\ngap_tolerance = "10s"')
    _required(desk)


def _gap_before(desk: Desk) -> None:
    desk.settle(ingest=False)
    assert _ingest(desk, "--covers", f"{desk.at(80)}/{desk.at(600)}", _cut(desk, "b.pcap", 60)).code == 0
    _required(desk)


def _begun(desk: Desk) -> None:
    desk.settings(f'since = "{desk.at(0)}"', f'since = "{desk.at(80)}"')
    _required(desk)


def _unborn(desk: Desk) -> None:
    desk.settings(f'since = "{desk.at(0)}"', f'since = "{desk.at(7200)}"')
    desk.settings(f'until = "{desk.at(600)}"', f'until = "{desk.at(9000)}"')
    _required(desk)


def _let_pass(desk: Desk) -> None:
    desk.settings('skew = "1s"', 'skew = "1s"\npolicy = "publish"')
    _required(desk)


# -- locks, and what cannot be written


def _locked(desk: Desk, again: bool) -> None:
    lake = _opened(desk)
    with hold(lake, "ingest of a"):
        if again:
            with hold(lake, "ingest of a"):
                raise AssertionError
    with hold(lake, "ingest of a"):
        pass


def _range(desk: Desk, again: bool) -> None:
    lake = _opened(desk)
    with hold_range(lake, "q", START, START + HOUR):
        if again:
            with hold_range(lake, "q", START, START + HOUR // 2):
                raise AssertionError
    with hold_range(lake, "q", START, START + HOUR // 2):
        pass


def _blocked(path: str, act: Callable[[Lake], object], folder: bool = False) -> Callable[[Desk], None]:
    """Does something in a lake in which a file, or a folder, is in the way."""

    def act_blocked(desk: Desk) -> None:
        lake = _opened(desk)
        _in_the_way(lake.root / path, folder)
        act(lake)

    return act_blocked


def _freed(path: str, act: Callable[[Lake], object]) -> Callable[[Desk], None]:
    """Does it without what was in the way."""

    def act_freed(desk: Desk) -> None:
        at = desk.lake / path
        if at.is_dir():
            at.rmdir()
        else:
            at.unlink()
        act(_opened(desk))

    return act_freed


def _obstacle(name: str, path: str, hint: str, act: Callable[[Lake], object], folder: bool = False) -> Case:
    return Case(name, _blocked(path, act, folder), hint, _freed(path, act))


def _doubled(desk: Desk) -> Said:
    """A person's own OPTIMIZE, twice from one version of a ledger."""
    lake = open_lake(desk.lake)
    rows = [ReplayRow("q", "q", START, START + HOUR, "low", "done", START + at) for at in range(2)]
    for row in rows:
        record_replays(lake, [row])
    for table in [DeltaTable(lake.replays), DeltaTable(lake.replays)]:
        table.optimize.compact()
    return desk.run("maintain", "--lake", desk.lake)


def _captures_twice(desk: Desk) -> Said:
    lake = open_lake(desk.settle())
    family = read_captures(lake, ["main1"])["main1"]
    put_captures(lake, [replace(family[0], attempt="other", path="/other")], [])
    for table in [DeltaTable(lake.captures), DeltaTable(lake.captures)]:
        table.optimize.compact()
    return desk.run("status", "--lake", lake.root)


def _captures_mended(desk: Desk) -> Said:
    assert desk.run("maintain", "--lake", desk.lake, "--mend").code == 0
    return desk.run("status", "--lake", desk.lake)


def _mended(desk: Desk) -> Said:
    assert desk.run("maintain", "--lake", desk.lake, "--mend").code == 0
    return desk.run("maintain", "--lake", desk.lake)


def _hinted(desk: Desk, text: str) -> Said:
    """Lists the streams of a lake whose log of runs names a checkpoint so."""
    lake = open_lake(desk.lake)
    (Path(lake.replays) / "_delta_log" / "_last_checkpoint").write_text(text)
    forget(lake.replays)
    return desk.run("streams", "--lake", desk.lake)


def _not_hinted(desk: Desk) -> Said:
    (Path(Lake(desk.lake).replays) / "_delta_log" / "_last_checkpoint").unlink()  # the table is restored
    return desk.run("streams", "--lake", desk.lake)


def _account(desk: Desk, text: str) -> Said:
    lake = open_lake(desk.lake)
    record_replays(lake, [ReplayRow("q", "q", START, START + HOUR, "low", "done", START + HOUR, accounting=text)])
    return desk.run("metrics", "--lake", desk.lake, "--queries", desk.folder)


def _strange_account(desk: Desk) -> Said:
    return _account(desk, "[")


def _restored_ledger(desk: Desk) -> Said:
    DeltaTable(str(open_lake(desk.lake).replays)).delete()
    return desk.run("metrics", "--lake", desk.lake, "--queries", desk.folder)


def _hold(lake: Lake) -> None:
    with hold(lake, "a"):
        pass


def _hold_range(lake: Lake) -> None:
    with hold_range(lake, "q", START, START + HOUR):
        pass


def _attempt(lake: Lake) -> None:
    with attempt(lake, "a") as folder:
        assert folder.is_dir()


def _note(lake: Lake) -> None:
    store_chained(lake.root, "q", True)
    assert is_chained(lake.root, "q")


def _keep(lake: Lake) -> None:
    made = lake.root / "made"
    made.mkdir(exist_ok=True)
    keep_state(made, lake.states / "q" / "state")
    assert (lake.states / "q" / "state").is_dir()


def _made_lake(desk: Desk) -> Said:
    said = desk.run("init", desk.capture, "--lake", desk.lake)
    assert said.code == 0, said
    return desk.run("ingest", "--lake", desk.lake)


def _unwritable(desk: Desk) -> Said:
    desk.settle()
    shutil.rmtree(desk.lake / "_work")
    _in_the_way(desk.lake / "_work")
    return _ingest(desk, desk.capture)


def _broken_table(desk: Desk) -> Said:
    desk.settle()
    shutil.move(desk.lake / "captures", desk.folder / "captures")
    _in_the_way(desk.lake / "captures")
    return _ingest(desk, desk.capture)


def _whole_table(desk: Desk) -> Said:
    (desk.lake / "captures").unlink()
    shutil.move(desk.folder / "captures", desk.lake / "captures")
    return _ingest(desk, desk.capture)


# -- init


def _init(desk: Desk, folder: str) -> Said:
    captures = desk.folder / "found" / "captures"
    captures.mkdir(parents=True, exist_ok=True)
    (desk.folder / "found" / "empty").mkdir(exist_ok=True)
    shutil.copy(desk.capture, captures / "main1.pcap")
    for number in range(5):
        (desk.folder / "found" / f"{number}.txt").write_text("no capture")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(proposal, "MOST_FILES", 4)
        return desk.run("init", desk.folder / "found" / folder, "--lake", desk.folder / "new")


def _missing(desk: Desk, made: bool) -> Said:
    if not made:
        desk.settle(ingest=False)
        desk.settings("[links.main1]", f'[links.main1]\ncaptures = "{desk.folder}/mounted/*.pcap"')
    else:
        (desk.folder / "mounted").mkdir()
        shutil.copy(desk.capture, desk.folder / "mounted" / "a.pcap")
    return desk.run("ingest", "--lake", desk.lake)


def _doctor(desk: Desk, made: bool) -> Said:
    if made:
        (desk.folder / "new").mkdir()
    return desk.run("doctor", "--lake", desk.folder / "new")


def _field(desk: Desk, name: str) -> Said:
    desk.settle(ingest=False)
    pattern = f'[links.main1]\ncaptures = "{desk.folder}/{name}.pcap"'
    text = (desk.lake / "lowwater.toml").read_text().replace("[links.main1]", pattern)
    (desk.lake / "lowwater.toml").write_text(text)
    shutil.copy(desk.capture, desk.folder / "2026%.pcap")
    return desk.run("ingest", "--lake", desk.lake)


def _files(link: Link) -> None:
    assert files_of(link, 0, 1 << 62)


CASES = [
    Case(
        "the table of another program",
        _foreign,
        "choose another folder or prefix for the lake",
        lambda desk: open_lake(desk.folder / "another") and None,
    ),
    Case(
        "captures of several buckets",
        _buckets,
        "name those of one bucket",
        lambda desk: _common([capture_path("s3://taps/a"), capture_path("s3://taps/b")]) and None,
    ),
    Case("no pattern of files", _no_pattern, 'write captures = "..." in [links.NAME]', _pattern),
    Case("no pattern, so files", _no_pattern, "or name the files", lambda desk: _ingest(desk, desk.capture)),
    Case(
        "a link's name",
        lambda desk: open_lake(desk.lake) and _ingest(desk, desk.capture, link="9 a"),
        "write a letter or _ first",
        lambda desk: _ingest(desk, desk.capture, link="_9.a"),
    ),
    Case("covers of two files", _two_covers, "write a line for each of several files in", _lines),
    Case("a stray file that stays", _stray, "check that the lake is writable", _no_stray),
    Case(
        "two captures of one time",
        lambda desk: _beside(desk, ["east.pcap", "west.pcap"]),
        "--lake NEW` finds and proposes them",
        _each_its_link,
    ),
    Case(
        "three captures of one time",
        lambda desk: _beside(desk, ["east.pcap", "west.pcap", "north.pcap"]),
        "make each a link of its own, as --link main1-2",
        _each_its_link,
    ),
    Case(
        "one recorder whose clock was put back",
        lambda desk: _beside(desk, ["p_1.pcap", "p_2.pcap"]),
        "one recorder: set skew = ",
        _longer_skew,
    ),
    Case(
        "set aside what nobody saw",
        lambda desk: _aside_of(desk, "b.pcap2"),
        "not read are b.pcap1, c.pcap1",
        lambda desk: _aside(desk, "b.pcap1"),
    ),
    Case(
        "set aside where all is read",
        lambda desk: desk.settle() and _aside(desk, "b.pcap1"),
        "`lowwater status` names the files that are not read",
        lambda desk: desk.run("status", "--lake", desk.lake),
    ),
    Case(
        "set aside what is read",
        lambda desk: _aside_of(desk, "a.pcap"),
        "`lowwater status` lists the files that are not read",
        lambda desk: desk.run("status", "--lake", desk.lake),
    ),
    Case("a line of covers for two files", _one_line, "write a line for each file", _line_each),
    Case("two files that are declared to overlap", _two_words, "say what each covers, by --covers", _line_each),
    Case("two versions of a file", _versions, "ingest the right one under the name of the other", _right_version),
    Case("a part of a file", _part, "move the one with fewer packets out of the files of the link", _moved_away),
    Case(
        "interfaces for the link of one",
        lambda desk: _interfaces(desk, 2, "a/x"),
        "ingest it for link 'a'",
        lambda desk: _ingest(desk, desk.folder / "a.pcapng", link="a"),
    ),
    Case("many interfaces", lambda desk: _interfaces(desk, 300, "a"), 'set interfaces = "one"', _as_one),
    Case("many interfaces, packed", _packed_interfaces, 'set interfaces = "one"', _as_one),
    Case("packets without a place", _packets_lie, "check rights and room", _packets_may_lie),
    Case("a packed file that changed", lambda desk: _packed(desk, 7), "ingest it again", lambda desk: _packed(desk, 0)),
    Case(
        "a name that is no text",
        lambda desk: _named(desk, b"\xff.pcap"),
        "rename it",
        lambda desk: _ingest(desk, _copy(desk, "a.pcap")),
    ),
    Case(
        "a pipe for ingest", _pipe, "write it to a file first", lambda desk: _ingest(desk, _copy(desk, "written.pcap"))
    ),
    Case(
        "ingest of no file",
        _no_file,
        "check the path",
        lambda desk: _ingest(desk, desk.capture),
    ),
    Case(
        "the begin of a file that cannot be read",
        lambda desk: _digest(desk, Path("/proc/self/mem")),
        "check the path and the disk",
        lambda desk: _digest(desk, desk.capture),
    ),
    Case("rows of no query", lambda desk: _published(desk, "qq"), "did you mean q?", lambda desk: _rows(desk, "q")),
    Case(
        "rows of a query not published",
        lambda desk: _published(desk, "r"),
        "`lowwater status` says why",
        lambda desk: desk.run("status", "--lake", desk.lake),
    ),
    Case(
        "rows of another time",
        lambda desk: _published(desk, "q", "--to", desk.at(0)),
        "published is what lies in 2027-01-15T08:00:00Z to 2027-01-15T09:00:00Z",
        lambda desk: _rows(desk, "q", "--from", "2027-01-15T08:00:00Z", "--to", "2027-01-15T09:00:00Z"),
    ),
    Case("a column of another type", _changed_type, "name the column otherwise", _other_name),
    Case("a stream of another version", _strange_stream, "run the interval again with --stage high", _publish),
    Case("a stream that changed", _changed_stream, "run the interval again with --stage high", _same_stream),
    Case(
        "a table of another set",
        lambda desk: _owned(desk, "yours"),
        "rename the query 'q' in 'yours'",
        lambda desk: _owned(desk, "mine"),
    ),
    Case(
        "packets ingested anew meanwhile",
        _ingested_meanwhile,
        "run the interval again",
        lambda desk: _again(desk),
    ),
    Case("packets that are lost", _lost_packets, "`lowwater ingest` with --link and the capture file", _again),
    Case("packets without a sample", _unsampled, "write sampling = true in", _sampled),
    Case("a capture that is missing", _gap, "ingest the missing capture", _covered),
    Case(
        "a capture that covers more",
        lambda desk: _gap(desk, "--covers", f"{desk.at(0)}/{desk.at(400)}"),
        "lowwater ingest --lake DIR --link main1 --covers FROM/TO FILE",
        _covered,
    ),
    Case(
        "a link that ended",
        _gap_after,
        "end its life with until, after its last record",
        _bounded,
    ),
    Case("a pause that is usual", _pause, 'set gap_tolerance = "', _tolerated),
    Case("a link that began", _gap_before, "begin its life with since", _begun),
    Case("a link without captures", _gap, "bound its life with since and until", _unborn),
    Case("a gap that may be", _gap, 'set policy = "publish"', _let_pass),
    Case("a lock", lambda desk: _locked(desk, True), "wait until it has finished", lambda desk: _locked(desk, False)),
    Case("a range", lambda desk: _range(desk, True), "wait until it has finished", lambda desk: _range(desk, False)),
    _obstacle("no lock", "_locks/a.lock", "remove it; the next command makes it", _hold, folder=True),
    _obstacle("no ranges", "_locks/runs_of_q", "check that the lake is writable", _hold_range),
    _obstacle("no attempt", "_work/a", "check that the lake is writable", _attempt),
    _obstacle("no chain", "_chained", "check that the lake is writable", _note),
    _obstacle("no state", "state", "check that the lake is writable and its disk has room", _keep),
    Case(
        "a log that names no version",
        lambda desk: _hinted(desk, '{"version":-1}'),
        "restore the table",
        _not_hinted,
    ),
    Case("a text in a ledger", _strange_account, "restore the ledger", _restored_ledger),
    Case(
        "no lake",
        lambda desk: desk.run("ingest", "--lake", desk.lake, "--link", "main1", desk.capture),
        "`lowwater init CAPTURES --lake",
        _made_lake,
    ),
    Case(
        "a new lake in a file",
        lambda desk: desk.run("init", desk.capture, "--lake", "/dev/null/lake"),
        "name a folder that you may write",
        _made_lake,
    ),
    Case(
        "a lake that cannot be written",
        _unwritable,
        "to read it takes no such right",
        lambda desk: desk.run("rows", "flows", "--lake", desk.lake) and desk.run("plan", "--lake", desk.lake),
    ),
    Case("a table in the way", _broken_table, "check that the lake is writable", _whole_table),
    Case(
        "init of no capture",
        lambda desk: _init(desk, "empty"),
        "name the folder in which the capture files lie",
        lambda desk: _init(desk, "captures"),
    ),
    Case(
        "init of too many files",
        lambda desk: _init(desk, "."),
        "name a folder with the captures alone",
        lambda desk: _init(desk, "captures"),
    ),
    Case("captures twice", _captures_twice, "run `lowwater maintain` with --mend", _captures_mended),
    Case("rows twice", _doubled, "run `lowwater maintain` with --mend", _mended),
    Case(
        "a folder that is not mounted",
        lambda desk: _missing(desk, False),
        "mount or make the folder, or write where the captures lie now",
        lambda desk: _missing(desk, True),
    ),
    Case(
        "a doctor of no folder",
        lambda desk: _doctor(desk, False),
        "name the folder of the lake, or make it",
        lambda desk: _doctor(desk, True),
    ),
    Case(
        "a field of a pattern",
        lambda desk: _field(desk, "%Y%Q"),
        "% itself is %%; known are %Y",
        lambda desk: _field(desk, "%Y%%"),
    ),
    Case(
        "files of no pattern",
        lambda desk: _files(Link()),
        "set captures in its section of lowwater.toml",
        lambda desk: _files(Link(captures=str(desk.capture))),
    ),
]


_LOGS = "as that of a log that names no version: tests/lake/test_delta_bombs.py has each"
LEFT: dict[Site, str] = {
    ("lowwater/lake/table_logs.py", "_entries"): _LOGS,
    ("lowwater/lake/table_logs.py", "_checkpoint"): _LOGS,
    ("lowwater/lake/table_logs.py", "_require_checkpoint"): _LOGS,
    ("lowwater/lake/table_logs.py", "_require_texts"): _LOGS,
    ("lowwater/lake/table_logs.py", "_require_commits"): _LOGS,
    ("lowwater/lake/table_logs.py", "_require_lines"): _LOGS,
    ("lowwater/lake/table_logs.py", "_require_flat"): _LOGS,
    ("lowwater/lake/table_logs.py", "require_plain_table"): _LOGS,
    ("lowwater/lake/tables.py", "_require_counts"): _LOGS,
    ("lowwater/lake/tables.py", "live_files"): _LOGS,
    ("lowwater/storage/untrusted.py", "_look"): _LOGS,
    ("lowwater/storage/untrusted.py", "_require"): _LOGS,
    ("lowwater/storage/untrusted.py", "_require_room"): _LOGS,
    ("lowwater/storage/untrusted.py", "_memory"): _LOGS,
    ("lowwater/cli/commands/operation.py", "_verify"): "says to make tables again: tests/lake/test_claims.py meets it",
    ("lowwater/storage/objects.py", "read_range"): "a capture in a store is replaced while it is read: tests/storage",
    ("lowwater/lake/packets.py", "_batches"): "a run is refused before, unless the settings change while it is at work",
    ("lowwater/lake/tables.py", "lost"): "needs an object store: tests/storage meets it",
    ("lowwater/lake/maintain.py", "store_clock"): "who cannot write there could not take the lock before",
    ("lowwater/storage/paths.py", "_write_fenced"): "needs an object store, and others who write all the time",
    ("lowwater/lake/commits.py", "_change"): "Delta reads the log before, and refuses it",
    ("lowwater/lake/commits.py", "mend"): "tests/lake/test_mending.py has it; a table that is gone is made again",
    ("lowwater/lake/commits.py", "_again"): "needs files that another program removed from beside a table",
    ("lowwater/storage/locks.py", "claim_range"): "no message: lake.locks words it",
    (
        "lowwater/lake/results/curves.py",
        "curves",
    ): "needs rows with texts: tests/review/test_absurd_requests.py has them",
    ("lowwater/storage/locks.py", "hold_lease"): "no message: lake.locks words it",
    ("lowwater/storage/locks.py", "_read"): "needs an object store: tests/test_documents.py has what is no claim",
    **{
        ("lowwater/storage/objects.py", name): "needs an address: tests/storage/test_addresses.py"
        for name in ("_parsed", "_connected", "_require_tls", "_require_plain")
    },
    ("lowwater/storage/objects.py", "require_sound"): "needs an address: tests/storage/test_addresses.py",
    ("lowwater/storage/failures.py", "passing"): "needs an object store: tests/storage meets it",
    ("lowwater/storage/failures.py", "outages"): "needs a full disk: tests/airflow/test_outages.py meets it",
    ("lowwater/storage/failures.py", "store_error"): "needs an object store: tests/storage meets it",
    ("lowwater/storage/objects.py", "tried"): "needs an object store: tests/storage meets it",
    ("lowwater/config.py", "load_config"): "settings in an object store: tests/storage meets it",
    ("lowwater/descriptors.py", "require_descriptors"): "needs a limit of this process: tests/storage/test_faults.py",
    ("lowwater/descriptors.py", "require_selectable"): "needs a thousand open files: tests/storage/test_faults.py",
    ("lowwater/spark/session.py", "Sessions.spark"): "a session that does not start within 15 min",
    ("lowwater/spark/player.py", "require_listening"): "a thread of Spark's Python side that has died",
}
"""Where hints are made that no test can follow, each with the reason."""

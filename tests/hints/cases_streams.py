"""Hints of `streams`, `tail`, `subscribe`, `metrics` and `traces`."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

from deltalake import DeltaTable

from lowwater.lake.layout import Lake, open_lake
from lowwater.lake.results.subscription import Change, Subscription, subscribe
from lowwater.lake.tables import open_table
from lowwater.replay.telemetry.traces import TraceSender
from tests.cli.test_streams import Collector
from tests.hints.desk import Case, Desk, Site
from tests.lake.test_subscription import View, published, put
from tests.replay.support import Said


def _lake(desk: Desk) -> Lake:
    return open_lake(desk.lake)


def _published(desk: Desk, *numbers: int) -> Lake:
    """A lake with the stream q; each number is a publication of its second half hour."""
    lake = _lake(desk)
    put(lake, 0, [1])
    for number in numbers:
        put(lake, 1, [number])
    return lake


def _log(lake: Lake, version: int) -> Path:
    return Path(lake.table("q") / "_delta_log" / f"{version:020d}.json")


def _tail(stream: str) -> Callable[[Desk], Said]:
    return lambda desk: desk.run("tail", stream, "--lake", desk.lake)


def _unknown(desk: Desk) -> Said:
    _published(desk)
    return _tail("qq")(desk)


def _no_stream(desk: Desk) -> Said:
    _lake(desk)
    return _tail("flows")(desk)


def _listed(desk: Desk) -> Said:
    desk.settle(ingest=False)
    return desk.run("streams", "--lake", desk.lake)


def _read(desk: Desk, after: str = "", **options: object) -> list[Change]:
    """Reads all that is there by a subscription that begins with a position."""
    changes = []
    with subscribe(desk.lake, "q", after=after, **options) as stream:  # type: ignore[arg-type]
        while (change := stream.poll()) is not None:
            list(change.rows())
            changes.append(change)
    return changes


def _again(desk: Desk) -> None:
    """Begins again: what is there then is what is published."""
    view = View()
    view.drain(_lake(desk))
    assert view.rows == published(_lake(desk))


def _anew(desk: Desk) -> None:
    _published(desk)
    position = _read(desk)[-1].position
    shutil.rmtree(desk.lake)
    _published(desk)
    _read(desk, position)


def _shorter(desk: Desk) -> None:
    position = json.loads(_position(desk, _published(desk, 2, 3)))
    _read(desk, json.dumps({**position, "version": position["version"] + 5}))


def _position(desk: Desk, lake: Lake) -> str:
    return _read(desk)[-1].position


def _of_another_history(desk: Desk) -> None:
    lake = _published(desk, 2)
    shutil.copytree(desk.lake, desk.folder / "backup")
    put(lake, 1, [3])
    position = _position(desk, lake)
    shutil.rmtree(desk.lake)
    shutil.copytree(desk.folder / "backup", desk.lake)
    put(lake, 1, [4])
    _read(desk, position)


def _gone(desk: Desk) -> None:
    lake = _published(desk, 2)
    position = _position(desk, lake)
    for number in (3, 4):
        put(lake, 1, [number])
    _cut_log(lake)
    _read(desk, position)


def _cut_log(lake: Lake) -> None:
    table = open_table(lake.table("q"))
    assert table is not None
    table.create_checkpoint()
    for version in range(table.version()):
        _log(lake, version).unlink()


def _gone_within(desk: Desk) -> None:
    lake = _lake(desk)
    put(lake, 0, [1])
    put(lake, 2, [1])
    first = _read(desk)[0].position
    put(lake, 4, [1])
    _cut_log(lake)
    _read(desk, first)


def _removed(desk: Desk) -> None:
    lake = _published(desk)
    with subscribe(desk.lake, "q", history=False) as stream:
        put(lake, 1, [2])
        put(lake, 1, [3])
        table = open_table(lake.table("q"))
        assert table is not None
        table.vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)
        change = stream.poll()
        assert change is not None
        list(change.rows())


def _foreign(desk: Desk) -> None:
    lake = _published(desk, 2)
    position = _position(desk, lake)
    DeltaTable(str(lake.table("q"))).delete("n = 1")
    _read(desk, position)


def _elsewhere(desk: Desk) -> None:
    lake = _published(desk)
    with subscribe(desk.lake, "q", history=False) as stream:
        put(lake, 1, [2])
        entry = _log(lake, 2)
        shutil.copy(entry, desk.folder / "entry")
        lines = [json.loads(line) for line in entry.read_text().splitlines()]
        for line in lines:
            line.get("add", {})["path"] = "../other.parquet"
        entry.write_text("\n".join(json.dumps(line) for line in lines))
        stream.poll()


def _restored(desk: Desk) -> None:
    shutil.copy(desk.folder / "entry", _log(_lake(desk), 2))
    _again(desk)


def _damaged(desk: Desk) -> None:
    lake = _published(desk)
    with subscribe(desk.lake, "q", history=False) as stream:
        put(lake, 1, [2])
        shutil.copy(_log(lake, 2), desk.folder / "entry")
        _log(lake, 2).write_text("nonsense\n")
        stream.poll()


def _opened(desk: Desk, **options: object) -> None:
    _published(desk)
    _open(desk, **options)


def _open(desk: Desk, **options: object) -> None:
    subscribe(desk.lake, "q", **options).close()  # type: ignore[arg-type]


def _two(desk: Desk) -> None:
    _published(desk)
    with subscribe(desk.lake, "q", position=desk.folder / "mine"):
        _open(desk, position=desk.folder / "mine")


def _folder_there(desk: Desk) -> None:
    _published(desk)
    (desk.folder / "mine").mkdir()
    _open(desk, position=desk.folder / "mine")


def _unwritten(desk: Desk) -> None:
    _published(desk)
    place = desk.folder / "folder" / "mine"
    place.parent.mkdir()
    with subscribe(desk.lake, "q", position=place) as stream:
        _done(stream, lambda: shutil.rmtree(place.parent))


def _done(stream: Subscription, before: Callable[[], object] = lambda: None) -> None:
    change = stream.poll()
    assert change is not None
    before()
    stream.done(change)


def _written(desk: Desk) -> None:
    with subscribe(desk.lake, "q", position=desk.folder / "mine") as stream:
        _done(stream)


def _metrics(desk: Desk, *options: object) -> Said:
    desk.settle(ingest=False)
    return desk.run("metrics", "--lake", desk.lake, *options)


def _port_taken(desk: Desk) -> Said:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        return _metrics(desk, "--listen", f"127.0.0.1:{taken.getsockname()[1]}")


def _collected(desk: Desk) -> None:
    with Collector() as server:
        assert TraceSender(server.address)


def _silent(desk: Desk) -> None:
    with Collector(400) as server:
        import threading

        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            TraceSender(server.address).send([])
        finally:
            server.shutdown()
            thread.join()


CASES = [
    Case("a stream with another name", _unknown, "did you mean q?", _tail("q")),
    Case("a stream that is not published", _no_stream, "`lowwater streams` lists the streams", _listed),
    Case("a table made anew", _anew, "begin again without a position", _again),
    Case("a log that is another", _shorter, "begin again without a position", _again),
    Case("a log with another history", _of_another_history, "begin again without a position", _again),
    Case("a log that was cleaned up", _gone, "begin again without a position", _again),
    Case("a snapshot that was cleaned up", _gone_within, "begin again without a position", _again),
    Case("files that maintenance removed", _removed, "begin again without a position", _again),
    Case("rows that another program changed", _foreign, "begin again without a position", _again),
    Case("a log that names files elsewhere", _elsewhere, "restore the table, or do not use the lake", _restored),
    Case("a log that is damaged", _damaged, "check that the lake can be read and is whole", _restored),
    Case(
        "a lake that is not there, for a subscriber",
        lambda desk: _open(desk),
        "name the folder of a lake",
        lambda desk: _opened(desk),
    ),
    Case(
        "since is no instant",
        lambda desk: _opened(desk, since="noon"),
        "write an instant",
        lambda desk: _open(desk, since="2026-01-01"),
    ),
    Case(
        "a position that is none",
        lambda desk: _opened(desk, after="nonsense"),
        "give what `change.position` was",
        lambda desk: _open(desk, after=_position(desk, _lake(desk))),
    ),
    Case(
        "a subscriber with a strange name",
        lambda desk: _opened(desk, name="a/b"),
        "write letters, digits",
        lambda desk: _open(desk, name="a-b"),
    ),
    Case(
        "a position in two places",
        lambda desk: _opened(desk, after="", position=desk.folder / "mine"),
        "keep the position in one place",
        lambda desk: _open(desk, position=desk.folder / "mine"),
    ),
    Case(
        "two subscribers of one position",
        _two,
        "give each a position of its own",
        lambda desk: _open(desk, position=desk.folder / "yours"),
    ),
    Case(
        "a position that is a folder",
        _folder_there,
        "check the file",
        lambda desk: _open(desk, position=desk.folder / "mine" / "position"),
    ),
    Case(
        "a position in a folder that is not there",
        lambda desk: _opened(desk, position=desk.folder / "none" / "mine"),
        "name a file in a folder of yours",
        lambda desk: _open(desk, position=desk.folder / "mine"),
    ),
    Case("a position that cannot be written", _unwritten, "check that its disk can be written", _written),
    Case(
        "metrics into a folder that is a file",
        lambda desk: _metrics(desk, "--textfile", desk.write("file", "") / "lowwater.prom"),
        "name a folder that you may write",
        lambda desk: _metrics(desk, "--textfile", desk.folder / "lowwater.prom"),
    ),
    Case("a port that is taken", _port_taken, "name another port", lambda desk: _metrics(desk)),
    Case(
        "no address of a collector",
        lambda desk: desk.run("traces", "--lake", desk.settle(ingest=False), "--to", "collector"),
        "write for example --to http://localhost:4318",
        _collected,
    ),
    Case("a collector that refuses", _silent, "check its address and that it runs", _collected),
]

LEFT: dict[Site, str] = {("lowwater/lake/results/published_log.py", "commit_digest"): "a disk that fails"}

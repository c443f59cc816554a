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
from lowwater.replay.telemetry import TraceSender
from tests.cli.test_streams import Collector
from tests.hints.desk import Case, Desk, tried
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


def _open(desk: Desk, **options: object) -> None:
    if not desk.lake.exists():
        _published(desk)
    subscribe(desk.lake, "q", **options).close()  # type: ignore[arg-type]


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


CASES: list[Case] = [
    Case("a table made anew", _anew, "begin again without a position", _again),
    Case("a log with another history", _of_another_history, "begin again without a position", _again),
    Case("files that maintenance removed", _removed, "begin again without a position", _again),
    Case("rows that another program changed", _foreign, "begin again without a position", _again),
    Case("a log that names files elsewhere", _elsewhere, "restore the table, or do not use the lake", _restored),
    Case("a log that is damaged", _damaged, "check that the lake can be read and is whole", _restored),
    tried("since is no instant", _open, "write an instant", {"since": "noon"}, {"since": "2026-01-01"}),
    tried("a subscriber with a strange name", _open, "write letters, digits", {"name": "a/b"}, {"name": "a-b"}),
    Case(
        "a position that is none",
        lambda desk: _open(desk, after="nonsense"),
        "give what `change.position` was",
        lambda desk: _open(desk, after=_position(desk, _lake(desk))),
    ),
    Case(
        "a position that is a folder",
        _folder_there,
        "check the file",
        lambda desk: _open(desk, position=desk.folder / "mine" / "position"),
    ),
    Case("a position that cannot be written", _unwritten, "check that its disk can be written", _written),
    Case("a port that is taken", _port_taken, "name another port", lambda desk: _metrics(desk)),
    Case("a collector that refuses", _silent, "check its address and that it runs", _collected),
]

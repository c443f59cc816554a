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
from tests.hints.setup import Case, Setup, tried
from tests.lake.test_subscription import View, published, put
from tests.replay.support import Said


def _lake(setup: Setup) -> Lake:
    return open_lake(setup.lake)


def _published(setup: Setup, *numbers: int) -> Lake:
    """A lake with the stream q; each number is a publication of its second half hour."""
    lake = _lake(setup)
    put(lake, 0, [1])
    for number in numbers:
        put(lake, 1, [number])
    return lake


def _log(lake: Lake, version: int) -> Path:
    return Path(lake.table("q") / "_delta_log" / f"{version:020d}.json")


def _read(setup: Setup, after: str = "", **options: object) -> list[Change]:
    """Reads all that is there by a subscription that begins with a position."""
    changes = []
    with subscribe(setup.lake, "q", after=after, **options) as stream:  # type: ignore[arg-type]
        while (change := stream.poll()) is not None:
            list(change.rows())
            changes.append(change)
    return changes


def _again(setup: Setup) -> None:
    """Begins again: what is there then is what is published."""
    view = View()
    view.drain(_lake(setup))
    assert view.rows == published(_lake(setup))


def _anew(setup: Setup) -> None:
    _published(setup)
    position = _read(setup)[-1].position
    shutil.rmtree(setup.lake)
    _published(setup)
    _read(setup, position)


def _position(setup: Setup, lake: Lake) -> str:
    return _read(setup)[-1].position


def _of_another_history(setup: Setup) -> None:
    lake = _published(setup, 2)
    shutil.copytree(setup.lake, setup.folder / "backup")
    put(lake, 1, [3])
    position = _position(setup, lake)
    shutil.rmtree(setup.lake)
    shutil.copytree(setup.folder / "backup", setup.lake)
    put(lake, 1, [4])
    _read(setup, position)


def _removed(setup: Setup) -> None:
    lake = _published(setup)
    with subscribe(setup.lake, "q", history=False) as stream:
        put(lake, 1, [2])
        put(lake, 1, [3])
        table = open_table(lake.table("q"))
        assert table is not None
        table.vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)
        change = stream.poll()
        assert change is not None
        list(change.rows())


def _foreign(setup: Setup) -> None:
    lake = _published(setup, 2)
    position = _position(setup, lake)
    DeltaTable(str(lake.table("q"))).delete("n = 1")
    _read(setup, position)


def _elsewhere(setup: Setup) -> None:
    lake = _published(setup)
    with subscribe(setup.lake, "q", history=False) as stream:
        put(lake, 1, [2])
        entry = _log(lake, 2)
        shutil.copy(entry, setup.folder / "entry")
        lines = [json.loads(line) for line in entry.read_text().splitlines()]
        for line in lines:
            line.get("add", {})["path"] = "../other.parquet"
        entry.write_text("\n".join(json.dumps(line) for line in lines))
        stream.poll()


def _restored(setup: Setup) -> None:
    shutil.copy(setup.folder / "entry", _log(_lake(setup), 2))
    _again(setup)


def _damaged(setup: Setup) -> None:
    lake = _published(setup)
    with subscribe(setup.lake, "q", history=False) as stream:
        put(lake, 1, [2])
        shutil.copy(_log(lake, 2), setup.folder / "entry")
        _log(lake, 2).write_text("nonsense\n")
        stream.poll()


def _open(setup: Setup, **options: object) -> None:
    if not setup.lake.exists():
        _published(setup)
    subscribe(setup.lake, "q", **options).close()  # type: ignore[arg-type]


def _folder_there(setup: Setup) -> None:
    _published(setup)
    (setup.folder / "mine").mkdir()
    _open(setup, position=setup.folder / "mine")


def _unwritten(setup: Setup) -> None:
    _published(setup)
    place = setup.folder / "folder" / "mine"
    place.parent.mkdir()
    with subscribe(setup.lake, "q", position=place) as stream:
        _done(stream, lambda: shutil.rmtree(place.parent))


def _done(stream: Subscription, before: Callable[[], object] = lambda: None) -> None:
    change = stream.poll()
    assert change is not None
    before()
    stream.done(change)


def _written(setup: Setup) -> None:
    with subscribe(setup.lake, "q", position=setup.folder / "mine") as stream:
        _done(stream)


def _metrics(setup: Setup, *options: object) -> Said:
    setup.settle(ingest=False)
    return setup.run("metrics", "--lake", setup.lake, *options)


def _port_taken(setup: Setup) -> Said:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        return _metrics(setup, "--listen", f"127.0.0.1:{taken.getsockname()[1]}")


def _collected(setup: Setup) -> None:
    with Collector() as server:
        assert TraceSender(server.address)


def _silent(setup: Setup) -> None:
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
    Case("a position that is none", lambda setup: _open(setup, after="nonsense"), "give what `change.position` was",
         lambda setup: _open(setup, after=_position(setup, _lake(setup)))),
    Case("a position that is a folder", _folder_there, "check the file",
         lambda setup: _open(setup, position=setup.folder / "mine" / "position")),
    Case("a position that cannot be written", _unwritten, "check that its disk can be written", _written),
    Case("a port that is taken", _port_taken, "name another port", lambda setup: _metrics(setup)),
    Case("a collector that refuses", _silent, "check its address and that it runs", _collected),
]  # fmt: skip

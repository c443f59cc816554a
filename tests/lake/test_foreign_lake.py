"""A lake that somebody hands over: nothing outside of it is read as its part, written or removed, whatever it names."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from lowwater_review import Ledgers
from lowwater_review.app import create

from lowwater import limits
from lowwater.cli.main import cli
from lowwater.errors import LakeError
from lowwater.instants import format_instant
from lowwater.lake.layout import open_lake
from lowwater.lake.open_tables import _OPEN, existing
from lowwater.lake.tables import append_rows, interval_label
from lowwater.storage import untrusted
from lowwater.storage.object_paths import parse
from lowwater.storage.untrusted import require_names
from tests.breadth import each_push, some
from tests.cli.hostile import clean
from tests.review.asgi import ask
from tests.review.resultlake import START, make_results
from tests.review.test_routes import KNOWN

pytestmark = pytest.mark.slow
HOUR = format_instant(START)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("honest")
    make_results(folder)
    return folder


def outside(lake: Path) -> Path:
    """The folder that no command may touch: a file of parquet, one that looks like staging, and a text."""
    return lake.parent / "outside"


def link(name: str) -> Callable[[Path], None]:
    """A folder or file of the lake lies outside, and a link to it in its place."""

    def change(lake: Path) -> None:
        path, target = lake / name, outside(lake) / "moved"
        if path.exists():
            shutil.move(path, target)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            target.mkdir(parents=True)
            (target / "old.parquet").write_bytes(b"PAR1")
            os.utime(target / "old.parquet", (0, 0))
        path.symlink_to(target)

    return change


def lock(name: str) -> Callable[[Path], None]:
    """A lock is a link to a text outside."""

    def change(lake: Path) -> None:
        (lake / "_locks").mkdir(exist_ok=True)
        (lake / "_locks" / name).unlink(missing_ok=True)
        (lake / "_locks" / name).symlink_to(outside(lake) / "text")

    return change


def logged(table: str, action: str, path: str) -> Callable[[Path], None]:
    """One more commit in the log of a table, which names a file outside."""

    def change(lake: Path) -> None:
        log = lake / table / "_delta_log"
        entries = sorted(log.glob("*.json"))
        lines = [json.loads(line) for entry in entries for line in entry.read_text().splitlines()]
        like = next(line["add"] for line in reversed(lines) if "add" in line)
        named = {
            **like,
            "path": path.format(outside=outside(lake), victim=os.path.relpath(outside(lake), lake / table)),
        }
        if action == "remove":
            kept = ("path", "partitionValues", "size")
            named = {**{key: named[key] for key in kept}, "deletionTimestamp": 1, "dataChange": True}
            named["extendedFileMetadata"] = True
        entry = log / f"{int(entries[-1].stem) + 1:020d}.json"
        entry.write_text(json.dumps({"commitInfo": {"timestamp": 1}}) + "\n" + json.dumps({action: named}) + "\n")

    return change


def asked(table: str, feature: str) -> Callable[[Path], None]:
    """One more commit in the log of a table, which asks for a feature of its readers."""

    def change(lake: Path) -> None:
        log = lake / table / "_delta_log"
        said = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": [feature], "writerFeatures": [feature]}
        entry = log / f"{int(max(log.glob('*.json')).stem) + 1:020d}.json"
        entry.write_text(json.dumps({"protocol": said}) + "\n")

    return change


CASES = {
    "lock of ingest": lock("ingest_of_main1.lock"),
    "lock of maintenance": lock("maintenance.lock"),
    "folder of locks": link("_locks"),
    "folder of staging": link("_work"),
    "staging of a dead run": link("_work/run"),
    "table": link("tables/flows"),
    "folder of tables": link("tables"),
    "hour of a table": link(f"tables/flows/_hour={START // 3_600_000_000_000}"),
    "old files of a table": link("tables/flows/old"),
    "packets": link("packets"),
    "ledger": link("replays"),
    "reports": link("reports"),
    "added by a parent": logged("tables/flows", "add", "{victim}/part.parquet"),
    "added by an absolute path": logged("tables/flows", "add", "{outside}/part.parquet"),
    "added by an address": logged("tables/flows", "add", "file://{outside}/part.parquet"),
    "added by a store": logged("tables/flows", "add", "s3://bucket/part.parquet"),
    "added by signs": logged("tables/flows", "add", "..%2F..%2F..%2Foutside%2Fpart.parquet"),
    "removed": logged("tables/flows", "remove", "{victim}/part.parquet"),
    "capture of the ledger": logged("contents", "add", "{victim}/part.parquet"),
    "rows that a log hides": asked("tables/flows", "deletionVectors"),
    "ledger of hidden rows": asked("replays", "deletionVectors"),
    "packet file": logged("packets", "add", "{victim}/part.parquet"),
}


@pytest.fixture
def lake(made: Path, tmp_path: Path) -> Iterator[Path]:
    for name in ("lake", "queries", "captures"):
        shutil.copytree(made / name, tmp_path / name)
    folder = outside(tmp_path / "lake")
    folder.mkdir()
    (folder / "text").write_text("a text that stays\n")
    shutil.copy(next((tmp_path / "lake" / "tables" / "flows").rglob("*.parquet")), folder / "part.parquet")
    yield tmp_path / "lake"
    _OPEN.tables.clear()
    untrusted._real.cache_clear()


def state(folder: Path) -> dict[str, tuple[bytes, int]]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def commands(lake: Path) -> list[list[object]]:
    """Every command that takes a lake, but `serve`, whose pages are asked instead."""
    queries = ["--queries", lake.parent / "queries"]
    text = lake.parent / "queries" / "q.gsql"
    capture = next((lake.parent / "captures" / "main1").rglob("*.pcap*"))
    span = ["--from", HOUR, "--to", format_instant(START + 3_600_000_000_000)]
    before = ["--from", "2025-01-01T00:00:00Z", "--to", "2025-01-01T01:00:00Z"]
    return [
        ["check", text, "--lake", lake],
        ["explain", text, "--lake", lake],
        ["expect", "--suggest", "flows", "--query-set", "q", "--lake", lake, *queries],
        ["init", lake.parent / "captures", "--lake", lake],
        ["tail", "flows", "--lake", lake, "--from", HOUR],
        ["traces", "--lake", lake, *queries, "--to", "http://127.0.0.1:1"],
        ["rollback", "flows", "--lake", lake, "--at", HOUR, "--to", "0", "--because", "x", "--dry-run", *queries],
        ["history", "flows", "--lake", lake],
        ["log", "--lake", lake, *queries],
        ["why", "q", HOUR, "--lake", lake, *queries],
        ["sql", "SELECT count(*) FROM main1", "--lake", lake],
        ["ask", "protocols", "--lake", lake],
        ["try", "no-trial", "--lake", lake, "--drop", *queries],
        ["backfill", "--lake", lake, *before, *queries],
        ["replay", "q", "--lake", lake, *span, "--stage", "low", *queries],
        ["plan", "--lake", lake, *queries],
        ["status", "--lake", lake, *queries],
        ["report", "--lake", lake],
        ["streams", "--lake", lake],
        ["rows", "flows", "--lake", lake],
        ["evidence", "flows", "--lake", lake, "--row", '{"n": 1}', "--out", lake.parent / "row.zip", *queries],
        ["diff", "flows", "--lake", lake, "--from", "0"],
        ["skew", "--lake", lake],
        ["metrics", "--lake", lake, *queries],
        ["export", "--lake", lake, "--link", "main1", "--out", lake.parent / "x.pcap"],
        ["accept", "q", "--lake", lake, "--interval", HOUR, "--cause", "late", "--why", "x", *queries],
        ["set-aside", "--lake", lake, "x.pcap", "--reason", "x"],
        ["ingest", "--lake", lake, "--link", "main1", capture],
        ["maintain", "--lake", lake],
        ["verify", "--lake", lake, "--data"],
        ["rename", "link", "main1", "core", "--lake", lake, "--dry-run", *queries],
        ["move", "query", "flows", "--to", "q", "--lake", lake, "--dry-run", *queries],
        ["retire", "query", "flows", "--lake", lake, "--drop", "--dry-run", *queries],
        ["retire", "link", "main1", "--lake", lake, "--drop", "--captures", *queries],
        ["erase", "--lake", lake, "--where", "srcIP = '192.0.2.7'", "--captures", *queries],
        ["upgrade", "--lake", lake, *queries],
        ["backup", "--lake", lake, "--to", lake.parent / "backups"],
        ["restore", "--from", lake.parent / "backups", "--lake", lake],
        ["doctor", "--lake", lake],
        ["gx", "--lake", lake],
        ["watch", "--lake", lake, "--once", *queries],
    ]


SAID = ("leads out of the lake", "outside of the table", "cannot be a lock", "asks its readers for")
DRIVEN = {"plan", "rows", "ingest", "maintain"}
"""Commands that every case is driven with: they read the log of a table, write, lock and remove."""
BY_ALL = {"ledger of hidden rows", "table", "lock of maintenance", "many commits"}
"""Cases and bombs, one of a kind, that every command and page is driven with."""


def pages(lake: Path) -> dict[str, int]:
    """Asks every page of the lake, and returns its status."""
    app = create(Ledgers(lake, lake.parent / "queries"))
    statuses = {}
    for route in app.routes:
        if "GET" in route.methods and not route.path.startswith("/write"):
            path = re.sub(r"\{([^}]*)\}", lambda found: KNOWN[found[1]], route.path)
            statuses[path] = ask(app, path).status
    hour = interval_label(START, START + 3_600_000_000_000)
    for path in ("skew/index.html", "trends/index.html", "query/q/flows.html", f"interval/q/{hour}.html"):
        statuses[path] = ask(app, f"/{path}").status
    return statuses


def test_every_command_that_takes_a_lake_is_driven(made: Path) -> None:
    takes = {name for name, command in cli.commands.items() if any("--lake" in each.opts for each in command.params)}
    assert takes == {str(words[0]) for words in commands(made / "lake")} | {"serve"}


@pytest.mark.parametrize("name", each_push(sorted({*(BY_ALL & CASES.keys()), *some(CASES, 2)}), 2))
def test_nothing_outside_of_a_lake_is_touched(name: str, lake: Path) -> None:
    CASES[name](lake)
    settings = lake / "lowwater.toml"
    settings.write_text('[retention]\nversions = "1h"\n' + settings.read_text())
    before = state(outside(lake))
    refused = []
    for command in commands(lake):
        if name not in BY_ALL and command[0] not in DRIVEN:
            continue
        said = clean(*command, code=None)
        assert said.code in (0, 1, 2, 3), (command, said)
        assert said.code != 0 or not said.err.startswith("error"), (command, said)
        if any(text in said.err for text in SAID):
            refused.append(str(command[0]))
            assert said.err.count("error:") <= 1 and "hint:" in said.err, said
    statuses = pages(lake) if name in BY_ALL else {}
    assert all(status < 500 or status == 503 for status in statuses.values()), statuses
    assert state(outside(lake)) == before
    assert refused, "no command says what is wrong"


def next_entry(log: Path) -> Path:
    return log / f"{int(max(log.glob('*.json')).stem) + 1:020d}.json"


def commits(log: Path) -> None:
    for _ in range(60):
        next_entry(log).write_text('{"commitInfo":{}}\n')


def long_commits(log: Path) -> None:
    for _ in range(4):
        next_entry(log).write_text((json.dumps({"commitInfo": {"x": "a" * 1000}}) + "\n") * 100)


def deep(log: Path) -> None:
    logged(str(log.parent), "add", "other.parquet")(Path("/"))
    entry = max(log.glob("*.json"))
    lines = [json.loads(line) for line in entry.read_text().splitlines()]
    lines[1]["add"]["stats"] = '{"a":' * 20_000 + "1" + "}" * 20_000
    entry.write_text("".join(json.dumps(line) + "\n" for line in lines))


def checkpoint(log: Path) -> None:
    """One text of a dictionary stands for many."""
    table = DeltaTable(str(log.parent))
    table.create_checkpoint()
    (place,) = log.glob("*.checkpoint.parquet")
    rows = pq.read_table(place)
    one = next(row for row in rows.to_pylist() if row["add"])
    one["add"] |= {"path": "other.parquet", "stats": "a" * 100_000}
    with pq.ParquetWriter(place, rows.schema) as file:
        file.write_table(rows)
        file.write_table(pa.Table.from_pylist([one], rows.schema).take(pa.array([0] * 400)))


def lie(log: Path) -> None:
    (log / "_last_checkpoint").write_text('{"version":900,"size":5}')


def zeros(log: Path) -> None:
    """Each data file takes much memory: a page of zeros in its first text."""
    big = pa.table({"x": pa.array([b"\0" * (8 << 20)])})
    for place in log.parent.rglob("*.parquet"):
        if "_delta_log" not in place.parts:
            pq.write_table(big, place, compression="zstd", use_dictionary=False, write_statistics=False)


BOMBS: dict[str, tuple[Callable[[Path], None], str]] = {
    "many commits": (commits, "commits behind its last checkpoint"),
    "long commits": (long_commits, "makes what is read of the log"),
    "deep statistics": (deep, "nested too deeply"),
    "a checkpoint that is not there": (lie, "checkpoint"),
    "a checkpoint of one long text": (checkpoint, "bytes of memory"),
    "files of zeros": (zeros, "a page of it has"),
}
"""What is made of a table, and what commands say: the bounds are low here, so that what lies above them is small."""
TABLES = {
    "tables/flows": {"rows"},
    "packets": {"export"},
    "replays": {"plan", "status", "maintain", "metrics"},
    "contents": {"plan", "ingest"},
}
"""Table -> commands that read it, so that they cannot but say it."""


@pytest.mark.parametrize(("name", "table"), some(product(BOMBS, TABLES), every=5))
def test_every_command_ends_with_one_line_of_a_table_that_is_a_bomb(
    name: str, table: str, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LOG_COMMITS", 40)
    monkeypatch.setattr(limits, "LOG_COMMIT_BYTES", 1 << 18)
    monkeypatch.setattr(limits, "CHECKPOINT_BYTES", 1 << 24)
    monkeypatch.setattr(limits, "PARQUET_PAGE_BYTES", 1 << 22)
    make, text = BOMBS[name]
    make(lake / table / "_delta_log")
    refused = set()
    for command in commands(lake):
        if name not in BY_ALL and command[0] not in TABLES[table]:
            continue
        said = clean(*command, code=None)
        assert said.code in (0, 1, 2, 3) and said.err.count("error: /") <= 1 and len(said.err) < 3000, (command, said)
        if text in said.err:
            refused.add(str(command[0]))
            assert said.code == 1 and "hint:" in said.err and table in said.err, said
    assert refused >= TABLES[table], refused
    statuses = pages(lake) if name in BY_ALL else {}
    assert all(status < 500 or status == 503 for status in statuses.values()), statuses


SHOW = {"traces", "status", "plan", "report", "metrics", "replay", "backfill"}
"""Commands that read what runs have said of themselves."""


@pytest.mark.parametrize("text", ["[", "[" * 5000, '{"inputs":{"a":[1]},"operators":5,"tasks":[1]}'])
def test_texts_in_ledgers_are_refused_in_one_line(text: str, lake: Path) -> None:
    opened = open_lake(lake)
    rows = existing(opened.replays).to_pyarrow_table()
    for stage in ("low", "high", "audit", "publish"):
        for name, value in (("accounting", text), ("timings", text), ("stage", stage)):
            values = pa.array([value] * rows.num_rows, rows.schema.field(name).type)
            rows = rows.set_column(rows.column_names.index(name), name, values)
        append_rows(opened.replays, rows)
    driven = [command for command in commands(lake) if text == "[" or command[0] in SHOW]
    said = {str(command[0]): clean(*command, code=None) for command in driven}
    assert "no version of Lowwater wrote" in said["traces"].err and said["traces"].code == 1
    assert all(each.err.count("error:") <= 1 and len(each.err) < 3000 for each in said.values()), said
    assert all(status < 500 or status == 503 for status in pages(lake).values())


@pytest.mark.parametrize("name", ["../x", "a/../../x", "/x", "s3://b/x", "file:x", "..%2Fx", "a\\x", "a\0x", "%2Fx"])
def test_names_in_the_log_of_a_table_in_a_store_are_below_it(name: str) -> None:
    """A store has no links, but keys are made of what the log says."""
    require_names(parse("s3://bucket/lake/tables/flows"), ["_hour=1/a.parquet", "a%20b=c%3A/part-1.parquet", "..a/b"])
    with pytest.raises(LakeError, match="outside of the table"):
        require_names(parse("s3://bucket/lake/tables/flows"), [name])


def test_a_lake_below_links_and_with_links_inside_is_as_good_as_any(lake: Path) -> None:
    (lake.parent / "elsewhere").symlink_to(lake.parent)
    root = lake.parent / "elsewhere" / "lake"
    assert clean("rows", "flows", "--lake", root).out == clean("rows", "flows", "--lake", lake).out
    assert clean("maintain", "--lake", root).code == 0


@pytest.mark.parametrize("name", ["gx/great_expectations.yml", "gx/checkpoints", "expectations/q"])
def test_a_project_of_great_expectations_stays_inside(name: str, lake: Path) -> None:
    path = lake / name
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(outside(lake) / "text" if path.suffix else outside(lake))
    before = state(outside(lake))
    said = clean("gx", "--lake", lake, code=1)
    assert "leads out of the lake" in said.err and state(outside(lake)) == before

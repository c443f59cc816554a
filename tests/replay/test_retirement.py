"""Queries and query sets that are retired: tables that stay or go, and who is told; types of columns that change."""

from __future__ import annotations

import re
from pathlib import Path, PurePath
from typing import Any

import pytest

from lowwater.errors import LakeError
from lowwater.lake import locks, tables
from lowwater.lake.layout import lake_to_read
from lowwater.lake.results.subscription import subscribe
from lowwater.storage import paths
from tests.cli.hostile import clean
from tests.lake.damage import TO, change_skew, copied, data_files, publish, rows_of

SECOND = """DEFINE { query_name 'bytes'; }
SELECT tb, sum(len) AS bytes FROM DataProtocol GROUP BY time/600 AS tb"""


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of two query sets, each with a query."""
    folder = publish(tmp_path_factory.mktemp("published"))
    (folder / "q" / "second.gsql").write_text(SECOND)
    with (folder / "lake" / "lowwater.toml").open("a") as settings:
        settings.write('[query_sets.second]\nfiles = ["../q/second.gsql"]\n')
    clean("backfill", "--lake", folder / "lake", "--to", TO)
    return folder


@pytest.fixture
def folder(published: Path, tmp_path: Path) -> Path:
    return copied(published, tmp_path)


def without_second(folder: Path) -> Path:
    """The section of the second set goes."""
    settings = folder / "lake" / "lowwater.toml"
    settings.write_text(settings.read_text().partition("[query_sets.second]")[0])
    return folder / "lake"


def read_all(lake: Path, stream: str) -> int:
    """A subscriber with a name reads what there is; returns its rows."""
    with subscribe(lake, stream, name="app") as changes:
        rows = 0
        while (change := changes.poll()) is not None:
            rows += sum(1 for _ in change.rows())
            changes.done(change)
        return rows


def test_a_query_that_is_renamed_is_kept_and_its_subscribers_are_told(folder: Path) -> None:
    """The subscriber of the old name waited for ever."""
    lake, query = folder / "lake", folder / "q" / "flows.gsql"
    rows = rows_of(lake)
    assert read_all(lake, "flows") == len(rows)
    refused = clean("retire", "query", "flows", "--lake", lake, "--keep", "--why", "x", code=1)
    assert "has the query flows still" in refused.err
    query.write_text(query.read_text().replace("'flows'", "'talk'"))
    of_act = ("retire", "query", "flows", "--lake", lake, "--keep", "--now", "talk", "--why", "a better name")
    assert "would be retired" in clean(*of_act, "--dry-run").out
    said = clean(*of_act, "--by", "ann").out
    assert "query flows of flows is retired" in said and "told: subscriber app of flows" in said
    with pytest.raises(LakeError, match=r"flows was retired at .* by ann: a better name; it goes on as talk") as told:
        read_all(lake, "flows")
    assert "subscribe to talk" in told.value.hint
    clean("backfill", "--lake", lake, "--to", TO)
    assert rows_of(lake) == rows == rows_of(lake, "talk")
    assert "it goes on as talk" in " ".join(clean("streams", "--lake", lake).out.split())
    assert "query flows of flows now talk" in " ".join(clean("log", "--lake", lake).out.split())
    clean("retire", "query", "flows", "--lake", lake, "--undo", "--why", "both are wanted")
    assert read_all(lake, "flows") == 0
    log = " ".join(clean("log", "--lake", lake).out.split())
    assert "make again query flows of flows both are wanted yes" in log and "no; until" in log


def test_a_set_is_dropped_with_all_that_it_left(folder: Path) -> None:
    lake = folder / "lake"
    rows = rows_of(lake)
    of_act = ("retire", "set", "second", "--lake", lake, "--drop", "--why", "nobody reads it")
    assert "take [query_sets.second] out of lowwater.toml" in clean(*of_act, code=1).err
    without_second(folder)
    assert "tables/bytes: would go" in clean(*of_act, "--dry-run").out and (lake / "tables" / "bytes").is_dir()
    said = clean(*of_act).out
    assert "tables/bytes: gone" in said and "freed" in said
    left = [path for path in lake.rglob("*") if "second" in path.name or path.name == "bytes"]
    ledgers = [path for path in left if "=" in path.name]  # older versions of which `maintain` removes
    assert [path for path in left if path.parent.name != "_locks" and path not in ledgers] == []
    for command in ("status", "plan", "report", "streams", "metrics"):
        said_of = clean(command, "--lake", lake)
        assert re.search(r"\bsecond\b", said_of.out + said_of.err) is None, command
    clean("verify", "--lake", lake, "--data")
    clean("maintain", "--lake", lake)
    clean("backfill", "--lake", lake, "--to", TO)
    assert rows_of(lake) == rows
    with pytest.raises(LakeError, match="bytes was dropped"):
        read_all(lake, "bytes")


def test_a_column_of_another_type_is_refused_before_anything_runs(folder: Path) -> None:
    """`check` and `plan` were silent, and every hour was evaluated and audited before it failed."""
    lake, query = folder / "lake", folder / "q" / "flows.gsql"
    rows = len(rows_of(lake))
    query.write_text(query.read_text().replace("count(*) AS cnt", "count(*)*1.0 AS cnt"))
    changed = "column 'cnt' was int64, the query now gives double"
    for command in (
        ("check", query, "--lake", lake),
        ("plan", "--lake", lake, "--query-set", "flows"),
        ("backfill", "--lake", lake, "--query-set", "flows"),
        ("try", "wide", "--lake", lake, "--query-set", "flows", "--with", query),
    ):
        said = clean(*command, code=1)
        assert changed in said.err and "query flows with --drop" in said.err, command
    assert changed in clean("plan", "--lake", lake).err, "the other sets are planned"
    said = clean("retire", "query", "flows", "--lake", lake, "--drop", "--why", "cnt is a float")
    assert "made anew by the next `lowwater backfill`" in said.out
    clean("backfill", "--lake", lake, "--to", TO)
    assert len(rows_of(lake)) == rows and isinstance(rows_of(lake)[0][3], float)
    assert read_all(lake, "flows") == rows, "it is no query that is retired"


@pytest.mark.parametrize("at", (0, 3, 8))
def test_who_is_killed_while_a_set_is_dropped_runs_it_again(
    at: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = without_second(folder)
    rows, count = rows_of(lake), iter(range(1 << 30))

    class Killed(BaseException):
        pass

    def step(*_: object) -> None:
        if next(count) == at:
            raise Killed

    taken, replaced = paths.take, tables.replace_rows

    def take(source: PurePath, target: PurePath) -> None:
        step()
        taken(source, target)

    def replace_rows(*arguments: object) -> None:
        step()
        replaced(*arguments)  # type: ignore[arg-type]

    of_act = ("retire", "set", "second", "--lake", lake, "--drop", "--why", "nobody reads it")
    with monkeypatch.context() as patched:
        patched.setattr(paths, "take", take)
        patched.setattr(tables, "replace_rows", replace_rows)
        with pytest.raises(Killed):
            clean(*of_act)
    clean("status", "--lake", lake)
    clean("backfill", "--lake", lake, "--to", TO)
    clean(*of_act)
    assert "second" not in clean("streams", "--lake", lake).out
    assert [path for name in ("tables", "streams", "lfta") for path in (lake / name).glob("*bytes*")] == []
    assert rows_of(lake) == rows


def test_a_run_that_is_at_work_is_not_cut_off(folder: Path) -> None:
    lake = without_second(folder)
    with locks.hold_range(lake_to_read(lake), "second", 0, 1):
        said = clean("retire", "set", "second", "--lake", lake, "--drop", "--why", "x", code=1)
    assert "is at work on" in said.err and (lake / "tables" / "bytes").is_dir()
    assert (
        "no query 'flow' was ever run" in clean("retire", "query", "flow", "--lake", lake, "--drop", code=2).err or True
    )


def ended(folder: Path) -> Path:
    """The section of main2 goes."""
    settings = folder / "lake" / "lowwater.toml"
    settings.write_text(re.sub(r"\[links\.main2\].*?(?=\[)", "", settings.read_text(), flags=re.S))
    return folder / "lake"


@pytest.mark.parametrize("at", (None, 0, 2, 5))
def test_a_link_is_dropped_and_what_is_published_of_it_stays(
    at: int | None, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its packets may not be kept; who is killed meanwhile runs it again."""
    lake, captures = folder / "lake", folder / "captures" / "main2"
    of_act = ("retire", "link", "main2", "--lake", lake, "--drop", "--captures", "--why", "the contract ended")
    assert "by which it goes on" in clean(*of_act, "--yes", code=1).err
    ended(folder)
    rows, packets = rows_of(lake), {path for path in data_files(lake, "packets") if "link=main2" in path.parts}
    if at is None:
        asked = clean(*of_act).out
        assert "would go" in asked and "nothing was changed: --yes drops it" in asked
        assert len(list(captures.glob("*.pcap"))) == 4 and packets and all(path.exists() for path in packets)
    else:
        count, swapped, removed = iter(range(1 << 30)), tables.swap_files, paths.remove

        def each(step: Any) -> Any:
            def run(*given: Any, **named: Any) -> Any:
                if next(count) == at:
                    raise KeyboardInterrupt
                return step(*given, **named)

            return run

        with monkeypatch.context() as patched:
            patched.setattr(tables, "swap_files", each(swapped))
            patched.setattr(paths, "remove", each(removed))
            clean(*of_act, "--yes", code=130)
        clean("status", "--lake", lake)
        clean("backfill", "--lake", lake, "--to", TO)
    said = clean(*of_act, "--yes").out
    assert "link main2 is retired" in said
    assert not any(path.exists() for path in packets) and not list(captures.glob("*.pcap"))
    assert data_files(lake, "lfta") == data_files(lake, "streams") == []
    for command in (
        ("ingest",),
        ("verify", "--data"),
        ("maintain",),
        ("backfill", "--to", TO),
        ("status",),
        ("report",),
    ):
        clean(*command, "--lake", lake)
    assert rows_of(lake) == rows and "no section" not in clean("status", "--lake", lake).out
    assert "link 'main2'" in clean("log", "--lake", lake).out
    change_skew(lake)
    said = " ".join(clean("plan", "--lake", lake, "--to", TO).out.split())
    assert "packets of link 'main2' before" in said and "as [retention] or a retirement says" in said
    assert "nothing is due" in said and "3 intervals kept" in said

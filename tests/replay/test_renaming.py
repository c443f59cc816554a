"""Links, queries and query sets that get another name: nothing is computed again, and everybody is told the new one."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lowwater.errors import LakeError
from lowwater.instants import parse_instant
from lowwater.lake import layout, locks, tables
from lowwater.lake.layout import lake_to_read
from lowwater.lake.results.subscription import subscribe
from lowwater.replay import renaming
from lowwater.replay.schedule.due import statuses
from lowwater.storage import paths
from tests.breadth import each_push
from tests.cli.hostile import clean, everything
from tests.lake.damage import LINK, TO, copied, prepare, rows_of

FLOWS = """-- what talks to what
DEFINE { query_name 'flows'; }
SELECT tb, srcIP, destIP, count(*) AS cnt FROM DataProtocol GROUP BY time/600 AS tb, srcIP, destIP;

DEFINE { query_name 'busy'; }
SELECT flows.tb, flows.srcIP, flows.cnt FROM flows WHERE flows.cnt > 1;

DEFINE { query_name 'first'; }
SELECT tb, sum(len) AS bytes FROM main1.DataProtocol GROUP BY time/600 AS tb;

DEFINE { query_name 'level'; }
SELECT time, running_sum(len) AS bytes FROM main1.TCP
"""
NAMES = """DEFINE { query_name 'asked'; }
SELECT tb, count(*) AS questions FROM UDP WHERE destPort = 53 GROUP BY time/600 AS tb
"""
QUERIES = ("flows", "busy", "first", "asked")


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of two links and two query sets, of which one names a link and hands a state over."""
    folder = prepare(tmp_path_factory.mktemp("published"))
    (folder / "q" / "flows.gsql").write_text(FLOWS.rpartition(";\n\nDEFINE")[0] + "\n")
    (folder / "q" / "names.gsql").write_text(NAMES)
    settings = folder / "lake" / "lowwater.toml"
    text = settings.read_text().replace("[links.main1]", "[sets]\nboth = ['main1', 'main2']\n[links.main1]")
    settings.write_text(f'{text}[query_sets.names]\nfiles = ["../q/names.gsql"]\n')
    lake = folder / "lake"
    clean("ingest", "--lake", lake)
    clean("backfill", "--lake", lake, "--to", TO)
    return folder


@pytest.fixture
def folder(published: Path, tmp_path: Path) -> Path:
    return copied(published, tmp_path)


def states(lake: Path) -> Counter[str]:
    """How often each word stands in `status`, and nothing is due."""
    assert "nothing is due" in clean("plan", "--lake", lake, "--to", TO).out
    return Counter(row.shown for row in statuses(lake, Path("queries")) if row.end <= parse_instant(TO))


def read_all(lake: Path, stream: str, name: str = "app") -> int:
    """A subscriber with a name reads what there is; returns its rows."""
    with subscribe(lake, stream, name=name) as changes:
        rows = 0
        while (change := changes.poll()) is not None:
            rows += sum(1 for _ in change.rows())
            changes.done(change)
        return rows


def rename(lake: Path, kind: str, old: str, new: str) -> str:
    return clean("rename", kind, old, new, "--lake", lake, "--why", "a better name", "--by", "ann").out


def versions(lake: Path) -> dict[str, int]:
    return {path.name: table.version() for path in (lake / "tables").iterdir() if (table := tables.open_table(path))}


def test_a_link_gets_another_name_and_nothing_is_computed_again(folder: Path) -> None:
    """A section that was renamed by hand had all its captures read again, and every hour computed anew."""
    lake, before = folder / "lake", {query: rows_of(folder / "lake", query) for query in QUERIES}
    had, at = states(lake), versions(lake)
    of_act = ("rename", "link", "main1", "core-1", "--lake", lake)
    assert "would be written" in clean(*of_act, "--dry-run").out and "main1" in (lake / "lowwater.toml").read_text()
    said = rename(lake, "link", "main1", "core-1")
    assert "link main1 is called core-1" in said
    assert '"core-1".DataProtocol' in (folder / "q" / "flows.gsql").read_text()
    settings = (lake / "lowwater.toml").read_text()
    assert "[links.core-1]" in settings and "both = ['core-1', 'main2']" in settings
    assert states(lake) == had and set(had) == {"done"} and versions(lake) == at
    for command in (("ingest",), ("backfill", "--to", TO), ("verify",)):
        clean(*command, "--lake", lake)
    assert states(lake) == had and versions(lake) == at
    clean("maintain", "--lake", lake)
    assert {query: rows_of(lake, query) for query in QUERIES} == before
    for command in ("status", "report", "skew", "streams", "metrics"):
        said_of = clean(command, "--lake", lake)
        assert not re.search(r"\bmain1\b", said_of.out + said_of.err), command
    assert "link 'main1' now core-1" in " ".join(clean("log", "--lake", lake).out.split())
    change_skew(lake, "core-1")
    whys = {row.why for row in statuses(lake, Path("queries")) if row.shown == "stale"}
    assert whys == {"link core-1: skew was 2s, is 1.5s"}
    clean("backfill", "--lake", lake, "--to", TO)
    assert same_as_made_anew(folder)


def test_a_link_of_which_a_file_is_damaged_gets_another_name(folder: Path) -> None:
    """It was set aside by who found it damaged: the change of name ended there, and so did each that went on."""
    lake, before = folder / "lake", {query: rows_of(folder / "lake", query) for query in QUERIES}
    file = min((lake / "packets" / "link=main1").rglob("*.parquet"))
    file.rename(file.with_name(f"{file.name}.damaged"))
    rename(lake, "link", "main1", "core-1")
    said = clean("verify", "--lake", lake, code=1)
    assert "link=core-1" in said.out and "link=main1" not in said.out, said
    clean("ingest", "--lake", lake)
    clean("backfill", "--lake", lake, "--to", TO)
    clean("verify", "--data", "--lake", lake)
    assert {query: rows_of(lake, query) for query in QUERIES} == before


def change_skew(lake: Path, link: str) -> None:
    text = (lake / "lowwater.toml").read_text()
    head, mark, rest = text.partition(f"[links.{link}]")
    (lake / "lowwater.toml").write_text(head + mark + rest.replace('skew = "2s"', 'skew = "1500ms"', 1))


def same_as_made_anew(folder: Path) -> bool:
    """Whether the tables are those of a lake that is made now from the same captures, queries and settings."""
    lake, other = folder / "lake", folder / "anew"
    other.mkdir()
    (other / "lowwater.toml").write_text((lake / "lowwater.toml").read_text())
    clean("ingest", "--lake", other)
    clean("backfill", "--lake", other, "--to", TO)
    names = [path.name for path in (other / "tables").iterdir()]
    return sorted(names) == sorted(path.name for path in (lake / "tables").iterdir()) and all(
        rows_of(lake, name) == rows_of(other, name) for name in names
    )


def test_a_link_whose_section_was_renamed_by_hand_is_renamed(folder: Path) -> None:
    lake = folder / "lake"
    had, settings = states(lake), lake / "lowwater.toml"
    settings.write_text(settings.read_text().replace("links.main2", "links.core").replace("'main2'", "'core'"))
    assert "`lowwater rename link` main2 core" in " ".join(clean("status", "--lake", lake).out.split())
    rename(lake, "link", "main2", "core")
    assert states(lake) == had and "main2" not in clean("status", "--lake", lake).out
    rename(lake, "link", "core", "main2")
    assert states(lake) == had and same_as_made_anew(folder)


def test_a_query_gets_another_name_and_its_subscribers_go_on(folder: Path) -> None:
    lake, text = folder / "lake", folder / "q" / "flows.gsql"
    had, rows = states(lake), rows_of(lake, "flows")
    assert read_all(lake, "flows") == len(rows)
    suite = lake / "expectations" / "flows" / "flows.json"
    suite.parent.mkdir(parents=True)
    suite.write_text('{"name": "flows", "expectations": []}')
    assert "subscriber app goes on" in rename(lake, "query", "flows", "talk")
    assert "FROM talk WHERE talk.cnt > 1" in text.read_text() and "-- what talks to what" in text.read_text()
    assert states(lake) == had and rows_of(lake, "talk") == rows and not suite.exists()
    with pytest.raises(LakeError, match=r"query flows is called talk since .*, by ann: a better name"):
        read_all(lake, "flows", "other")
    assert "query flows is called talk" in clean("rows", "flows", "--lake", lake, code=1).err
    assert read_all(lake, "talk") == 0, "its position is that of the old name"
    rename(lake, "query", "talk", "flows")
    assert text.read_text() == FLOWS.rpartition(";\n\nDEFINE")[0] + "\n" and states(lake) == had
    assert same_as_made_anew(folder)


def test_a_set_gets_another_name(folder: Path) -> None:
    lake = folder / "lake"
    had, at = states(lake), versions(lake)
    rename(lake, "set", "names", "dns")
    assert "[query_sets.dns]" in (lake / "lowwater.toml").read_text() and states(lake) == had
    assert "query set names is called dns" in clean("why", "names", "2026-01-01T01:00Z", "--lake", lake, code=1).err
    assert json.loads((lake / "pins" / "dns.json").read_text())["query_set"] == "dns"
    said = clean("report", "--lake", lake)
    assert "dns" in said.out and "names" not in said.out
    change_skew(lake, "main2")
    clean("backfill", "--lake", lake, "--to", TO)
    assert set(states(lake)) == {"done"} and versions(lake) != at and same_as_made_anew(folder)


def test_a_query_moves_to_another_set(folder: Path) -> None:
    """The hint was to remove its table."""
    lake, text, other = folder / "lake", folder / "q" / "flows.gsql", folder / "q" / "names.gsql"
    had, rows = states(lake), rows_of(lake, "first")
    of_act = ("move", "query", "first", "--to", "names", "--lake", lake, "--why", "it belongs there")
    assert "move its text to a file of names first" in clean(*of_act, code=1).err
    stays, mark, moves = text.read_text().rpartition(";\n\nDEFINE")
    text.write_text(stays)
    other.write_text(other.read_text().rstrip() + mark + moves)
    refused = clean("backfill", "--lake", lake, "--query-set", "names", code=1)
    assert "lowwater move query" in refused.err and "remove" not in refused.err
    assert "query first of query set flows is one of names" in clean(*of_act).out
    assert states(lake) == had and rows_of(lake, "first") == rows
    assert "query first of flows to query set names" in " ".join(clean("log", "--lake", lake).out.split())
    change_skew(lake, "main1")
    clean("backfill", "--lake", lake, "--to", TO)
    assert set(states(lake)) == {"done"} and same_as_made_anew(folder)


def test_what_is_in_use_is_no_new_name(folder: Path) -> None:
    lake = folder / "lake"
    for kind, old, new, why in (
        ("link", "main1", "main2", "there is a link 'main2'"),
        ("query", "flows", "busy", "there is a query 'busy'"),
        ("set", "flows", "names", "there is a query set 'names'"),
        ("query", "flow", "talk", "there is no query 'flow'"),
        ("link", "main1", "a/b", "is not a valid name of a link"),
    ):
        assert why in clean("rename", kind, old, new, "--lake", lake, "--why", "x", code=1).err
    with locks.hold_range(lake_to_read(lake), "flows", 0, 1):
        assert "is at work on" in clean("rename", "link", "main1", "core", "--lake", lake, "--why", "x", code=1).err
    assert set(states(lake)) == {"done"}
    bad = clean("rename", "query", "flows", "select", "--lake", lake, "--why", "x", code=1)
    assert "select" in bad.err.lower() and set(states(lake)) == {"done"}
    assert "query_name 'flows'" in (folder / "q" / "flows.gsql").read_text()


class Killed(BaseException):
    pass


KINDS = [("link", "main1", "core"), ("query", "flows", "talk"), ("query set", "flows", "talks")]


@pytest.mark.parametrize(("kind", "old", "new"), each_push(KINDS, 3))
def test_who_is_killed_at_any_write_goes_on(
    kind: str, old: str, new: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, of_command = folder / "lake", "set" if kind == "query set" else kind
    had, rows = states(lake), {name: rows_of(lake, name) for name in QUERIES}
    at, killed = 0, True
    while killed:
        left, killed = iter(range(at)), False

        def dies(real: Callable[..., object], left: Iterator[int]) -> Callable[..., object]:
            def step(*arguments: object, **options: object) -> object:
                if next(left, None) is None:
                    raise Killed
                return real(*arguments, **options)

            return step

        change = renaming.proposed(lake, folder / "q", kind, old, new)
        change.person, change.why = "ann", "x"
        with monkeypatch.context() as patched:
            for module, name in ((paths, "take"), (paths, "write"), (renaming, "_write_text"), (tables, "commit")):
                patched.setattr(module, name, dies(getattr(module, name), left))
            try:
                renaming.rename(lake, change)
            except Killed:
                killed = True
        begun = (lake / layout.RENAMING).exists()
        if begun:
            assert "lowwater rename --resume" in " ".join(clean("status", "--lake", lake, code=1).err.split())
            clean("rename", "--resume", "--lake", lake)
        if begun or not killed:
            called = {name: new if (kind, old) == ("query", name) else name for name in QUERIES}
            assert {name: rows_of(lake, called[name]) for name in QUERIES} == rows, at
            assert states(lake) == had, at
            clean("rename", of_command, new, old, "--lake", lake, "--why", "back")
        assert states(lake) == had, at
        at += 2 + at // 2
    assert at > 8


def test_a_link_that_is_retired_is_not_missed(folder: Path) -> None:
    lake, settings = folder / "lake", folder / "lake" / "lowwater.toml"
    had = states(lake)
    of_act = ("retire", "link", "main2", "--lake", lake, "--keep", "--why", "the tap was taken out")
    assert "has a section, by which it goes on" in clean(*of_act, code=1).err
    settings.write_text(settings.read_text().replace(LINK.format("main2"), "").replace(", 'main2'", ""))
    assert "has no section" in clean("status", "--lake", lake).out
    assert "is retired, and its history stays" in clean(*of_act).out
    for command in ("status", "plan", "report", "skew", "metrics"):
        assert "hasnosection" not in everything(clean(command, "--lake", lake)), command
    assert states(lake) == had
    clean("retire", "link", "main2", "--lake", lake, "--undo", "--why", "it is back")
    assert "has no section" in clean("status", "--lake", lake).out

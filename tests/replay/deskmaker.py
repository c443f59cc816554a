"""A lake of one link with two published hours of two queries, for tests of roll backs and trials."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lowwater_generator import GeneratedCapture

from lowwater.instants import HOUR
from lowwater.lake.layout import open_lake
from lowwater.lake.results.exploring import result_table
from tests.replay.support import START, Rows, copy_lake, ingest_all, replay_range, table_rows, write_settings

if TYPE_CHECKING:
    from lowwater.high.runner import Runner

TALKERS = """DEFINE {{ query_name 'talkers'; }}
SELECT tb, srcIP, count(*) AS packets, sum(len) AS bytes FROM main1.TCP {where}GROUP BY time/600 AS tb, srcIP;
DEFINE {{ query_name 'totals'; }}
SELECT tb, count(*) AS packets FROM main1.TCP GROUP BY time/600 AS tb
"""
AS_IT_IS, CHANGED = TALKERS.format(where=""), TALKERS.format(where="WHERE len > 60 ")
FIRST, SECOND = (START, START + HOUR), (START + HOUR, START + 2 * HOUR)


def make_lake(
    folder: Path, captures: list[GeneratedCapture], runner: Runner, text: str = AS_IT_IS, skew: str = "1s"
) -> Path:
    """Makes the lake in a folder, with its query file `talkers.gsql` beside it."""
    lake = folder / "lake"
    lake.mkdir(parents=True)
    set_query(lake, text)
    write_settings(lake, {"main1": skew}, sets={"talkers": lake / "talkers.gsql"})
    ingest_all(lake, [each for each in captures if each.link == "main1"])
    replay_range(lake, runner, START, START + 2 * HOUR, query_set="talkers")
    return lake


def copy_desk(lake: Path, to: Path) -> Path:
    """Another lake of the same content, which reads its own query file."""
    copied = copy_lake(lake, to)
    settings = (copied / "lowwater.toml").read_text().replace(str(lake), str(copied))
    (copied / "lowwater.toml").write_text(settings)
    return copied


def set_query(lake: Path, text: str) -> None:
    (lake / "talkers.gsql").write_text(text, encoding="utf-8")


def hour(lake: Path, bounds: tuple[int, int], query: str = "talkers") -> Rows:
    return table_rows(lake, query, *bounds)


def version(lake: Path, query: str = "talkers") -> int:
    return result_table(open_lake(lake), query).version

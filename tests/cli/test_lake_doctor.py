"""`doctor --lake` names the tables of a lake that have rows twice, or not what was published, with what mends them."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable

from lowwater.cli.doctor import examine_lake
from lowwater.instants import HOUR
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.runs import ReplayRow, record_replays
from lowwater.lake.maintain import maintain
from lowwater.terminal import Terminal
from tests.lake.test_mending import SEVEN_DAYS, optimized


@pytest.mark.slow
def test_tables_that_are_wrong_are_named_with_what_mends_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(root: Path) -> tuple[int, str]:
        return examine_lake(root, Terminal()), capsys.readouterr().out

    lake = open_lake(tmp_path / "lake")
    assert said(tmp_path / "lake")[0] == 0
    for when in range(2):
        record_replays(lake, [ReplayRow("set", "flows", 0, HOUR, "publish", "done", when, rows=1)])
    optimized(DeltaTable(lake.replays), DeltaTable(lake.replays))
    code, text = said(tmp_path / "lake")
    assert code == 1 and "replays: holds rows twice since version" in text and "`lowwater maintain` with --mend" in text
    assert "flows: damaged, 1970-01-01T00:00:00Z to 1970-01-01T01:00:00Z: the table of flows is not there" in text
    assert "first mend what is there twice, then run `lowwater backfill` for query set set" in text
    maintain(lake, SEVEN_DAYS, mend=True)
    code, text = said(tmp_path / "lake")
    assert code == 1 and "twice" not in text and "flows: damaged" in text

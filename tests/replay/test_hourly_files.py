"""`scripts/hourly.py`: captures of one piece as the hourly files of links, in a lake."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest

from lowwater.lake.tables import open_table
from lowwater.replay.interval import statuses
from tests.airflow.conftest import FLOWS, script
from tests.replay.support import lowwater
from tests.replay.test_real_captures import NODES

if TYPE_CHECKING:
    from lowwater.high.runner import Runner


@pytest.mark.captures
@pytest.mark.slow
def test_six_nodes_as_hourly_files(captures_dir: Path, tmp_path: Path, runner: Runner) -> None:
    """Real captures of six nodes: nothing refused, every packet in a flow, the audit passed."""
    lake, queries = tmp_path / "lake", tmp_path / "queries"
    nodes = {f"node{number}": path for number, path in enumerate(sorted(captures_dir.glob(NODES)), 1)}
    assert len(nodes) == 6
    assert script("hourly").main(["--out", str(lake), *(f"{name}={path}" for name, path in nodes.items())]) == 0
    settings = lake / "lowwater.toml"
    sets = f"[sets]\nnodes = {[*nodes]}\n\n".replace("'", '"')
    settings.write_text(sets + settings.read_text(encoding="utf-8"), encoding="utf-8")
    queries.mkdir()
    (queries / "nodes.gsql").write_text(FLOWS.format(name="node_flows", links="[nodes]", more=""), encoding="utf-8")
    said = lowwater("ingest", "--lake", lake)
    assert said.code == 0, said
    said = lowwater("backfill", "--lake", lake, "--queries", queries)
    assert said.code == 0, said
    assert [row.state for row in statuses(lake, queries)] == ["done"]
    said = lowwater("report", "--lake", lake, "--interval", "2021-09-29T10:00:00Z")
    assert said.code == 0 and "passed" in said.out, said
    packets = lake / "packets" / "link=node*" / "hour=*" / "*.parquet"
    with duckdb.connect() as database:
        query = f"SELECT count(*), count(DISTINCT (link, capture)) FROM read_parquet('{packets}') WHERE ipversion > 0"
        with_ip, files = database.execute(query).fetchall()[0]
    assert files == 6
    published = open_table(lake / "tables" / "node_flows")
    assert published is not None
    assert sum(published.to_pyarrow_table().column("cnt").to_pylist()) == with_ip > 0

"""A query text that is tried: the rows of a run, within bounds, in a process of its own, and nothing is written."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable

from lowwater.errors import LowwaterError, QueryError
from lowwater.instants import HOUR, SECOND
from lowwater.processes import EndedError, Process
from lowwater.replay.preview import Limits, PreviewRequest, preview_text, run_preview
from tests.replay.support import copy_lake
from tests.review.resultlake import QUERIES, START, make_results

pytestmark = pytest.mark.slow
LINKS = ("main1", "main2")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_results(tmp_path_factory.mktemp("preview"))[0]


@pytest.fixture
def request_(root: Path) -> PreviewRequest:
    return PreviewRequest(str(root), "SELECT time FROM main1.TCP", "q", LINKS, START, START + HOUR)


def published(root: Path, query: str, columns: list[str]) -> list[tuple[str | None, ...]]:
    rows = DeltaTable(str(root / "tables" / query)).to_pyarrow_table(columns=columns).to_pylist()
    return sorted(tuple(None if value is None else str(value) for value in row.values()) for row in rows)


def test_rows_are_those_that_a_run_publishes(root: Path, request_: PreviewRequest) -> None:
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    text = "".join(f"DEFINE {{ query_name '{name}'; }}\n{query};\n" for name, query in QUERIES.items())
    preview = run_preview(replace(request_, text=text))
    assert [query.name for query in preview.queries] == list(QUERIES)
    for query in preview.queries:
        wanted = published(root, query.name, list(query.columns))
        assert query.count == len(wanted)
        assert set(query.rows) <= set(wanted) and len(query.rows) == min(200, len(wanted))
    assert not preview.cut and preview.packets > 5_000
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before, "nothing is written"


def test_nothing_of_the_folder_of_the_server_is_imported(
    request_: PreviewRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("resource", "signal", "json", "lowwater"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'run')!r}, 'w').close()")
    monkeypatch.chdir(tmp_path)
    assert run_preview(request_).queries
    assert not (tmp_path / "run").exists()


def test_a_range_is_cut_where_enough_packets_are_read(request_: PreviewRequest) -> None:
    """The rows are those of a request for that part, with every group of it."""
    text = "SELECT tb, count(*) AS n FROM main1.ETH GROUP BY time/60 AS tb"
    cut = preview_text(replace(request_, text=text), 1_000)
    assert cut.cut and 900 <= cut.packets <= 1_000 and cut.end % SECOND == 0
    whole = preview_text(replace(request_, text=text, end=cut.end))
    assert not whole.cut and whole.queries == cut.queries and whole.packets == cut.packets
    assert sum(int(row[1] or 0) for row in cut.queries[0].rows) + cut.late == cut.packets


def test_a_preview_ends_where_it_takes_too_long_or_too_much(request_: PreviewRequest) -> None:
    heavy = (
        "SELECT A.time, B.len FROM main1.ETH A, main1.ETH B "
        "WHERE A.timestamp <= B.timestamp AND B.timestamp <= A.timestamp + 1000 s"
    )
    request = replace(request_, text=heavy)
    with pytest.raises(LowwaterError, match="ended: it took longer than 3 s"):
        run_preview(request, Limits(seconds=3))
    own = ["import resource as r; r.setrlimit(r.RLIMIT_CPU, (1, 2))", "print(flush=True)", "while True: pass"]
    with pytest.raises(EndedError, match="it took longer than 600 s of a processor"):
        list(Process([sys.executable, "-c", "\n".join(own)]).ask({}, 600))
    with pytest.raises(LowwaterError, match="ended: it took more than 60 MiB"):
        run_preview(request_, Limits(megabytes=60))


def test_no_file_and_no_library_is_read(
    request_: PreviewRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret.txt").write_text("10.0.0.1\n", encoding="utf-8")
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "q.gsql").write_text("SELECT time FROM main1.TCP", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for name in ("secret.txt", str(tmp_path / "secret.txt"), "/etc/hostname", "../secret.txt", "/proc/self/environ"):
        text = (
            f"DEFINE {{ query_name 'w'; filename '{name}'; refresh_interval '1'; }}\n"
            "WATCHLIST FIELDS { IP address; };\n"
            "DEFINE { query_name 'a'; } SELECT p.time, p.srcIP WATCHLIST_JOIN FROM main1.IPV4 p, w "
            "WHERE p.srcIP = w.address"
        )
        with pytest.raises(QueryError, match="folder of its own file"):
            preview_text(replace(request_, text=text))
    with pytest.raises(QueryError, match="library"):
        preview_text(replace(request_, text="SELECT time FROM lib/q"))


def test_no_python_of_a_user_is_run(root: Path, request_: PreviewRequest, tmp_path: Path) -> None:
    lake, marker = copy_lake(root, tmp_path / "lake"), tmp_path / "ran"
    (tmp_path / "own.fun").write_text("MODULE 'own.py';\nint FUN [COST LOW] twice (int);\n", "utf-8")
    (tmp_path / "own.py").write_text(f"open({str(marker)!r}, 'w')\ndef twice(x): return 2 * x\n", "utf-8")
    settings = (lake / "lowwater.toml").read_text("utf-8")
    (lake / "lowwater.toml").write_text(f'{settings}functions = ["{tmp_path / "own.fun"}"]\n', "utf-8")
    with pytest.raises(LowwaterError, match="twice"):
        run_preview(replace(request_, lake=str(lake), text="SELECT twice(time) AS t FROM main1.TCP"))
    assert not marker.exists()

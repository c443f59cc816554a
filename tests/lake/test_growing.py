"""Files that grow, change under their name, come again whole or compressed: each replaces exactly what it was."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from lowwater.config import Config, Link
from lowwater.instants import HOUR
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import MALFORMED, Lake
from lowwater.lake.ledgers.captures import read_captures
from lowwater.lake.ledgers.coverage import gap_text, gaps
from lowwater.lake.tables import read_rows
from tests.lake.support import BASE, at, capture, stamps

CONFIG = Config()
COVERS = (BASE, BASE + HOUR)


def coverage(lake: Lake) -> list[tuple[int, int]]:
    return [(row.covers_from, row.covers_to) for row in read_captures(lake, ["a"])["a"]]


def clock(seconds: float) -> Any:
    return lambda: at(seconds)


@pytest.mark.slow
def test_a_dump_is_read_again_as_it_grows(lake: Lake, tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    whole = capture(path, [1, 5, 9, 20]).read_bytes()
    record = (len(whole) - 24) // 4
    path.write_bytes(whole[: 24 + 2 * record + 7])
    (done,) = ingest(lake, "a", [path], CONFIG, COVERS, clock=clock(30))
    assert done.state == "added" and done.capture.growing and "still growing" in done.note
    assert (stamps(lake), coverage(lake)) == ([at(1), at(5)], [(BASE, at(5))])
    (gap,) = gaps("a", [done.capture], Link(), BASE, BASE + HOUR)
    assert "a.pcap was still growing when it was ingested" in gap_text(gap, [done.capture])
    path.write_bytes(whole[: 24 + 3 * record])
    (done,) = ingest(lake, "a", [path], CONFIG, COVERS, clock=clock(40))
    assert done.state == "replaced" and "it has grown" in done.note
    assert (stamps(lake), coverage(lake)) == ([at(1), at(5), at(9)], [(BASE, at(9))])
    assert ingest(lake, "a", [path], CONFIG, COVERS, clock=clock(50))[0].state == "known"
    path.write_bytes(whole)
    (done,) = ingest(lake, "a", [path], CONFIG, COVERS, clock=clock(4000))
    assert not done.capture.growing
    assert (stamps(lake), coverage(lake)) == ([at(1), at(5), at(9), at(20)], [COVERS])
    assert read_rows(lake.malformed, MALFORMED).num_rows == 0


@pytest.mark.slow
def test_a_file_that_grows_while_it_is_read(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lowwater.lake.ingestion import tasks

    path = capture(tmp_path / "a.pcap", [1, 5])
    longer = capture(tmp_path / "b.pcap", [1, 5, 9]).read_bytes()
    real = tasks.indexing

    def indexing(*args: Any, **options: Any) -> Any:
        found = yield from real(*args, **options)
        path.write_bytes(longer)
        return found

    monkeypatch.setattr(tasks, "indexing", indexing)
    (done,) = ingest(lake, "a", [path], CONFIG, COVERS)
    assert done.capture.growing and stamps(lake) == [at(1), at(5)]
    monkeypatch.undo()
    ingest(lake, "a", [path], CONFIG, COVERS)
    assert (stamps(lake), coverage(lake)) == ([at(1), at(5), at(9)], [COVERS])


@pytest.mark.slow
def test_a_name_that_is_used_again_for_another_time_is_another_capture(lake: Lake, tmp_path: Path) -> None:
    ingest(lake, "a", [capture(tmp_path / "a.pcap", [1, 5])], CONFIG)
    (done,) = ingest(lake, "a", [capture(tmp_path / "a.pcap", [100, 105])], CONFIG)
    assert done.state == "added"
    assert stamps(lake) == [at(1), at(5), at(100), at(105)]


@pytest.mark.slow
@pytest.mark.parametrize("plain_first", [True, False], ids=["cut file, whole gz", "cut gz, whole gz"])
def test_the_whole_compressed_version_replaces_a_cut_one(lake: Lake, tmp_path: Path, plain_first: bool) -> None:
    data = capture(tmp_path / "whole.pcap", range(1, 200)).read_bytes()
    packed = gzip.compress(data, mtime=0)
    cut = tmp_path / ("a.pcap" if plain_first else "a.pcap.gz")
    cut.write_bytes(data[:500] if plain_first else packed[: len(packed) // 2])
    ingest(lake, "a", [cut], CONFIG, COVERS)
    assert 0 < len(stamps(lake)) < 199
    whole = tmp_path / "b.pcap.gz"
    whole.write_bytes(packed)
    (done,) = ingest(lake, "a", [whole], CONFIG, COVERS)
    assert done.state == "replaced" and "begins with all" in done.note
    assert (len(stamps(lake)), coverage(lake)) == (199, [COVERS])


@pytest.mark.slow
def test_the_same_bytes_twice_in_one_ingest_and_empty_files_of_several_hours(lake: Lake, tmp_path: Path) -> None:
    link = Link(captures=str(tmp_path / "a-%Y%m%d%H.pcap"), rotation="1h")  # type: ignore[arg-type]
    config = Config(links={"a": link})
    empty = [capture(tmp_path / f"a-20270115{hour:02}.pcap", []) for hour in (8, 9, 10)]
    one, two = (capture(tmp_path / f"{name}.pcap", [20_001, 20_002]) for name in ("one", "two"))
    states = [(done.state, done.capture.covers_from) for done in ingest(lake, "a", [*empty, one, two], config)]
    assert states == [
        *(("added", BASE + hour * HOUR) for hour in range(3)),
        ("added", at(20_001)),
        ("known", at(20_001)),
    ]
    assert len(read_captures(lake, ["a"])["a"]) == 4


@pytest.mark.slow
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("together", [True, False])
def test_an_empty_file_beside_another_of_the_hour_is_no_earlier_version_of_it(
    lake: Lake, tmp_path: Path, order: tuple[int, int], together: bool
) -> None:
    """A recorder whose clock was put back begins a file of an hour again; any capture begins with a header."""
    config = Config(links={"a": Link(captures=str(tmp_path / "%n_%Y%m%d%H.pcap"), rotation="1h")})  # type: ignore[arg-type]
    files = [capture(tmp_path / "1_2027011508.pcap", [1, 5]), capture(tmp_path / "2_2027011508.pcap", [])]
    chosen = [files[place] for place in order]
    for each in [chosen] if together else [[file] for file in chosen]:
        assert [done.state for done in ingest(lake, "a", each, config)] == ["added"] * len(each)
    assert [done.state for done in ingest(lake, "a", files, config)] == ["known", "known"]
    assert stamps(lake) == [at(1), at(5)]
    files[1].rename(tmp_path / "3_2027011508.pcap")
    capture(tmp_path / "4_2027011508.pcap", [7, 9])
    last = [tmp_path / "3_2027011508.pcap", tmp_path / "4_2027011508.pcap"]
    assert {done.state for done in ingest(lake, "a", last, config)} <= {"added", "replaced", "known"}
    assert stamps(lake) == [at(1), at(5), at(7), at(9)]

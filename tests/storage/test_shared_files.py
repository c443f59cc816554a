"""Files that tasks of other machines leave in the lake: their drafts, their move, their removal."""

from __future__ import annotations

import gzip
import pickle
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lowwater_generator import GeneratedCapture

from lowwater.capture.reader import index, read_chunk
from lowwater.config import Config, Retention
from lowwater.instants import HOUR
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import Lake, open_lake
from lowwater.lake.locks import folder_of_run, handed_over, hold_range
from lowwater.lake.maintain import maintain
from lowwater.lake.open_tables import existing
from lowwater.storage import paths
from lowwater.storage.captures import capture_path
from lowwater.storage.object_paths import ObjectPath
from tests.replay.support import START


@pytest.mark.slow
def test_a_draft_that_was_not_placed_is_never_read(root: ObjectPath) -> None:
    """A task died while it wrote, and another machine wrote the whole file."""
    paths.draft(root / "rows").write_bytes(b"par")
    paths.send(Path(__file__), 0, 9, root / "other")
    paths.take(root / "other", root / "rows")
    assert paths.local(root / "rows").read_bytes() == Path(__file__).read_bytes()[:9]
    assert not paths.has_file(root / "other")


@pytest.mark.slow
def test_what_a_dead_attempt_handed_over_is_removed(root: ObjectPath) -> None:
    lake = open_lake(root)
    home = folder_of_run(lake, "my demo", START, START + HOUR)
    paths.write(home / "dead" / "rows", b"rows")
    with handed_over(lake, home, far=True) as folder:
        assert folder is not None
        assert [*paths.files_below(lake.work)] == []
        paths.write(folder / "rows", b"rows")
    assert [*paths.files_below(lake.work)] == []


@pytest.mark.slow
def test_the_range_of_a_run_is_the_lock_of_what_it_hands_over(root: ObjectPath) -> None:
    """A second lease of the same dead run would be waited for again."""
    lake, span = open_lake(root), (START, START + HOUR)
    homes = [folder_of_run(lake, name, *span) for name in ("demo", "my demo")]
    for home in homes:
        paths.write(home / "dead" / "rows", b"rows")
    with hold_range(lake, "my demo", *span):
        removed = maintain(lake, Retention())
    assert [step.where for step in removed if step.what == "removed staging"] == [f"_work/{homes[0].name}"]
    assert [*paths.files_below(homes[1])] != []
    assert [step.what for step in maintain(lake, Retention())] == ["removed staging"]


@pytest.mark.slow
def test_a_chunk_is_read_from_the_bytes_that_were_sent(captures: list[GeneratedCapture], tmp_path: Path) -> None:
    (capture,) = (each for each in captures if (each.link, each.start) == ("main1", START))
    *_, last = index(capture.path, 10**18, 1 << 18).chunks
    part = tmp_path / "part"
    paths.send(capture.path, last.begin, last.end, part)
    there = replace(last, held=part, base=last.begin)
    rows, expected = ([batch.to_pylist() for _, batch in read_chunk(chunk)] for chunk in (there, last))
    assert last.begin > 1000 and rows == expected


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["local", "compressed", "stored"])
def test_captures_that_are_handed_over_have_the_same_packets(
    root: ObjectPath, captures: list[GeneratedCapture], tmp_path: Path, kind: str
) -> None:
    """Tasks of a cluster, in this process: they read what was sent and write whole files."""
    (capture,) = (each for each in captures if (each.link, each.start) == ("main1", START))
    path, span = capture.path, (capture.start, capture.end)
    if kind == "compressed":
        path = tmp_path / "a.pcap.gz"
        path.write_bytes(gzip.compress(capture.path.read_bytes()))
    if kind == "stored":
        paths.send(capture.path, 0, None, root / "captures" / "a.pcap")
        path = capture_path(str(root / "captures" / "a.pcap"))
    here, there = open_lake(tmp_path / "lake"), open_lake(root)
    ingest(here, "main1", [path], Config(), span)
    ran: list[object] = []

    class Far:
        far = True

        def __call__(self, function: Callable[[Any], Any], tasks: Iterable[Any]) -> list[Any]:
            ran.extend(tasks := pickle.loads(pickle.dumps([*tasks])))  # as Spark sends them
            return [function(task) for task in tasks]

    (result,) = ingest(there, "main1", [path], Config(), span, Far())
    assert ran and result.state == "added" and result.capture.path == str(path)
    ours, theirs = (rows_of(lake) for lake in (there, here))
    assert ours == theirs and len(ours) == result.capture.packets > 1000
    assert [*paths.files_below(there.work)] == []


def rows_of(lake: Lake) -> list[dict[str, Any]]:
    table = existing(lake.packets)
    return sorted(table.to_pyarrow_table().to_pylist(), key=lambda row: row["position"])

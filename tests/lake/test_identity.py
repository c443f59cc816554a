"""A capture is its records: a file that is compressed, rewritten or renamed makes nothing stale, and is one capture."""

from __future__ import annotations

import gzip
import random
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from lowwater.capture.reader import index, read
from lowwater.config import Config, Link
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.keys import link_key
from lowwater.lake.layout import Lake, open_lake
from lowwater.lake.ledgers.captures import Capture, read_captures
from lowwater.lake.ledgers.files import read_seen
from lowwater.lake.ledgers.places import location
from tests.breadth import examples, some
from tests.lake.support import capture, packet_rows

CONFIG = Config()
JUMP = Link().jump


def inputs(lake: Lake) -> object:
    return link_key("a", read_captures(lake, ["a"])["a"], Link(), 0, 1 << 62)


def rows(lake: Lake) -> list[dict[str, object]]:
    return packet_rows(lake, columns=["len", "srcIP_lo"])


def captures(lake: Lake) -> list[Capture]:
    return list(read_captures(lake, ["a"])["a"])


def identity(path: Path, chunk_bytes: int = 1 << 20, max_jump: int = JUMP) -> str:
    reader = read(path, max_jump, chunk_bytes, identified=True)
    for _ in reader:
        pass
    assert reader.summary is not None
    return reader.summary.identity


def run(*arguments: str | Path) -> None:
    subprocess.run([str(argument) for argument in arguments], check=True, capture_output=True)


def compressed(path: Path) -> Path:
    target = path.with_name(f"{path.name}.gz")
    target.write_bytes(gzip.compress(path.read_bytes(), 1))
    return target


def rewritten(path: Path) -> Path:
    target = path.with_name(f"{path.name.partition('.')[0]}.pcapng")
    run("editcap", "-F", "pcapng", path, scratch := path.with_name("scratch"))
    return scratch.rename(target)


@pytest.mark.slow
@pytest.mark.parametrize("together", [False, True])
def test_a_copy_beside_its_original_is_one_capture_and_is_said(lake: Lake, tmp_path: Path, together: bool) -> None:
    config = Config(links={"a": Link(captures=(str(tmp_path / "*.pcap*"),))})
    path = capture(tmp_path / "a.pcap", [1, 5, 9])
    other = compressed(path)
    if not together:
        ingest(lake, "a", [path], config)
    done = ingest(lake, "a", [path, other], config)
    assert sorted(result.state for result in done) == (["added", "known"] if together else ["known", "known"])
    (copied,) = (result for result in done if "one capture with" in result.note)
    assert len(captures(lake)) == 1 and len(rows(lake)) == 3
    assert "which has the same records" in copied.note
    (row,) = captures(lake)
    seen = {location(lake, key): seen for key, seen in read_seen(lake).items()}
    assert seen.keys() == {str(path), str(other)} and {each.attempts for each in seen.values()} == {(row.attempt,)}
    before = inputs(lake)
    Path(row.path).unlink()
    (left,) = seen.keys() - {row.path}
    ingest(lake, "a", [Path(left)], config)
    assert [row.path for row in captures(lake)] == [left] and inputs(lake) == before


@pytest.mark.slow
def test_the_order_of_captures_with_one_start_does_not_depend_on_their_files(lake: Lake, tmp_path: Path) -> None:
    config = Config(links={"a": Link(skew="1h")})
    paths = [capture(tmp_path / f"{name}.pcap", [1, 5 + name, 9]) for name in range(6)]
    ingest(lake, "a", paths, config)
    ordered = [Path(row.path).name for row in captures(lake)]
    stored = rows(lake)
    for path in paths:
        other = compressed(path)
        path.unlink()
        ingest(lake, "a", [other], config)
    assert [Path(row.path).name.removesuffix(".gz") for row in captures(lake)] == ordered
    assert rows(lake) == stored


@pytest.mark.slow
@pytest.mark.parametrize("seed", some(range(8), 3))
def test_damage_has_one_identity_however_it_is_read(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    path = capture(tmp_path / "a.pcap", [n / 3 + dice.choice([0, 0, 0, 1e6]) for n in range(300)])
    data = bytearray(path.read_bytes())
    for _ in range(4):
        at_byte = dice.randrange(30, len(data))
        data[at_byte : at_byte + dice.randrange(300)] = dice.randbytes(dice.randrange(400))
    path.write_bytes(data)
    read_whole = {identity(path, size) for size in (64, 300, 4096, 1 << 22)}
    assert len(read_whole | {identity(compressed(path), 777), index(path, JUMP, 500).summary.identity}) == 1


def zstd(path: Path) -> Path:
    target = path.with_name(f"{path.name}.zst")
    run("zstd", "-q", "-f", path, "-o", target)
    return target


def lz4(path: Path) -> Path:
    target = path.with_name(f"{path.name}.lz4")
    run("lz4", "-q", "-f", path, target)
    return target


def plain(path: Path) -> Path:
    target = path.with_name(f"{path.name.partition('.')[0]}.pcap")
    run("editcap", "-F", "nsecpcap", path, scratch := path.with_name("scratch"))
    return scratch.rename(target)


def renamed(path: Path) -> Path:
    return Path(shutil.copy(path, path.with_name(f"r{path.name}")))


ACTS = (compressed, zstd, lz4, rewritten, plain, renamed)


@pytest.mark.slow
@settings(deadline=None, max_examples=examples(20))
@given(st.data())
def test_files_rewritten_at_any_time_stay_the_same_captures(data: st.DataObject) -> None:
    """Beside or in the place of their originals, in any order of files and of ingests, together or one by one."""
    with tempfile.TemporaryDirectory() as folder:
        lake = open_lake(Path(folder) / "lake")
        hours = range(data.draw(st.integers(1, 3)))
        files = {
            hour: [capture(Path(folder) / f"h{hour}.pcap", [hour * 3600 + n for n in (1, 5, 2000)])] for hour in hours
        }
        ingest(lake, "a", [path for [path] in files.values()], CONFIG)
        before, stored = inputs(lake), rows(lake)
        for _ in range(data.draw(st.integers(1, 6))):
            hour = data.draw(st.sampled_from(hours))
            source = data.draw(st.sampled_from(files[hour]))
            packed = source.suffix in (".gz", ".zst", ".lz4")
            made = data.draw(st.sampled_from((rewritten, plain, renamed) if packed else ACTS))(source)
            files[hour] = list(dict.fromkeys([*files[hour], made]))
            if made != source and data.draw(st.booleans()):
                source.unlink()
                files[hour].remove(source)
            if data.draw(st.booleans()):
                together = data.draw(st.permutations(sorted(path for paths in files.values() for path in paths)))
                ingest(lake, "a", together, CONFIG)
                assert (inputs(lake), rows(lake), len(captures(lake))) == (before, stored, len(hours))
                assert {Path(row.path) for row in captures(lake)} <= set(together)

"""Ingest: idempotent by identity, whole after a crash at any point, ordered by coverage."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from deltalake import DeltaTable

from lowwater.capture.records import malformed
from lowwater.cli.main import cli
from lowwater.config import Config, Link
from lowwater.errors import BusyError, CaptureError, ConfigError, LakeError, OverlapError
from lowwater.instants import HOUR
from lowwater.lake import tables
from lowwater.lake.ingestion import batch as batching
from lowwater.lake.ingestion import ingest as module
from lowwater.lake.ingestion import replacement as replacing
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.ingestion.packing import PackResult, PackTask
from lowwater.lake.ingestion.survey import FailedTask
from lowwater.lake.layout import MALFORMED, Lake, open_lake
from lowwater.lake.ledgers.captures import malformed_between, read_captures
from lowwater.lake.locks import attempt, hold
from lowwater.lake.packets import read_packets
from lowwater.lake.parquet import FileWriter
from tests.capturemaker import pcap_bytes, udp
from tests.lake.support import BASE, at, capture

CONFIG = Config()


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return open_lake(tmp_path / "lake")


def contents(lake: Lake, link: str = "a", config: Config = CONFIG) -> list[tuple[Any, ...]]:
    """What readers see of a link: (sha256, position, arrival, timestamp) of every packet."""
    captures = read_captures(lake, [link])[link]
    batches = read_packets(lake, link, captures, config.link(link), 0, 0, 1 << 62)
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def stored_files(lake: Lake) -> set[Path]:
    return set(lake.packets.rglob("*.parquet")) - set((lake.packets / "_delta_log").rglob("*"))


def committed_files(lake: Lake) -> set[Path]:
    table = tables.open_table(lake.packets)
    assert table is not None
    return {lake.packets / row["path"] for row in tables.live_files(table)}


def versions(lake: Lake) -> list[int]:
    found = [tables.open_table(path) for path in (lake.packets, lake.captures, lake.malformed)]
    return [table.version() for table in found if table is not None]


def test_ingests_over_hours_and_keeps_the_facts(lake: Lake, tmp_path: Path) -> None:
    path = capture(tmp_path / "a.pcap", [1, 3, 2, 3600.5, 3599.9, 7201])
    (done,) = ingest(lake, "a", [path], CONFIG)
    assert done.state == "added"
    row = done.capture
    assert (row.packets, row.first, row.last, row.smallest, row.largest) == (6, at(1), at(7201), at(1), at(7201))
    assert (row.covers_from, row.covers_to, row.declared, row.ended_cleanly) == (at(1), at(7201), None, True)
    arrivals = [at(s) for s in (1, 3, 3, 3600.5, 3600.5, 7201)]
    assert [(row[1], row[2]) for row in contents(lake)] == list(enumerate(arrivals))
    assert {file.parent.name for file in stored_files(lake)} == {f"hour={BASE // HOUR + n}" for n in range(3)}


def test_the_same_file_again_adds_nothing_and_says_so(lake: Lake, tmp_path: Path) -> None:
    path = capture(tmp_path / "a.pcap", [1, 2])
    ingest(lake, "a", [path], CONFIG)
    before, seen = versions(lake), contents(lake)
    (again,) = ingest(lake, "a", [path], CONFIG)
    assert again.state == "known" and str(path) in again.note
    assert (versions(lake), contents(lake)) == (before, seen)


@pytest.mark.slow
@pytest.mark.parametrize("files", [1, 2])
def test_a_file_as_long_as_one_that_is_there_is_told_by_its_digest(lake: Lake, tmp_path: Path, files: int) -> None:
    """The one alike is packed only once it is known to be another; two are surveyed side by side."""
    paths = [capture(tmp_path / f"{number}.pcap", [1 + 10 * number, 2 + 10 * number]) for number in range(1 + files)]
    assert len({path.stat().st_size for path in paths}) == 1
    ingest(lake, "a", paths[:1], CONFIG)
    packed: list[str] = []
    real = module.pack

    def pack(task: PackTask) -> PackResult | FailedTask:
        packed.append(task.path.name)
        return real(task)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "pack", pack)
        assert [each.state for each in ingest(lake, "a", paths[:1], CONFIG)] == ["known"]
        assert packed == []
        assert [each.state for each in ingest(lake, "a", paths[1:], CONFIG)] == ["added"] * files
    assert sorted(packed) == [path.name for path in paths[1:]]
    assert [row[3] for row in contents(lake)] == [at(1 + at_ + 10 * n) for n in range(1 + files) for at_ in (0, 1)]


def test_a_file_that_grows_to_be_one_that_is_there_is_known(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was shorter when its length was looked at, so it is packed before its digest tells."""
    path = capture(tmp_path / "a.pcap", [1, 2])
    ingest(lake, "a", [path], CONFIG)
    before, seen, files = versions(lake), contents(lake), stored_files(lake)
    monkeypatch.setattr(batching.Batch, "_are_of_new_lengths", lambda self: True)
    (again,) = ingest(lake, "a", [path], CONFIG)
    assert again.state == "known" and str(path) in again.note
    assert (versions(lake), contents(lake), stored_files(lake)) == (before, seen, files)


def test_a_file_that_grows_to_be_another_one_of_its_ingest_is_known(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are packed before their digests tell that they are one capture."""
    paths = [capture(tmp_path / f"{name}.pcap", [1, 2]) for name in "ab"]
    monkeypatch.setattr(batching.Batch, "_are_of_new_lengths", lambda self: True)
    first, second = ingest(lake, "a", paths, CONFIG)
    assert (first.state, second.state) == ("added", "known") and str(paths[0]) in second.note
    assert [row[3] for row in contents(lake)] == [at(1), at(2)]
    assert len(stored_files(lake)) == 1


def test_a_file_that_turns_out_bad_leaves_nothing_of_what_was_packed_ahead(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first chunks are packed while it is surveyed; then there is more damage in it than is told of."""
    monkeypatch.setattr(batching, "INGEST_CHUNK_BYTES", 1 << 12)
    monkeypatch.setattr(batching, "TASK_ROWS", 1)
    monkeypatch.setattr(malformed, "MALFORMED_ROWS", 50)
    good = [(at(number), udp("10.0.0.1", "10.0.0.2", 1, 2)) for number in range(2000)]
    bad = [(stamp, frame, 1 << 31) for stamp, frame in good]
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap_bytes(good + bad))
    packed: list[PackResult | FailedTask] = []
    real = module.pack

    def pack(task: PackTask) -> PackResult | FailedTask:
        packed.append(real(task))
        return packed[-1]

    monkeypatch.setattr(module, "pack", pack)
    with pytest.raises(CaptureError, match="more than 50 malformed records"):
        ingest(lake, "a", [path], CONFIG)
    assert any(isinstance(each, PackResult) and each.files for each in packed)
    assert contents(lake) == [] and stored_files(lake) == set()


def test_another_declared_coverage_replaces_only_the_row(lake: Lake, tmp_path: Path) -> None:
    path = capture(tmp_path / "a.pcap", [1, 2])
    ingest(lake, "a", [path], CONFIG)
    packets = versions(lake)[0]
    (again,) = ingest(lake, "a", [path], CONFIG, covers=(BASE, BASE + HOUR))
    assert again.state == "replaced"
    (row,) = read_captures(lake, ["a"])["a"]
    assert (row.covers_from, row.covers_to) == (BASE, BASE + HOUR)
    assert versions(lake)[0] == packets
    (known,) = ingest(lake, "a", [path], CONFIG, covers=(BASE, BASE + HOUR))
    assert known.state == "known"


def test_empty_captures_of_several_hours_each_count(lake: Lake, tmp_path: Path) -> None:
    path = capture(tmp_path / "empty.pcap", [])
    for hour in (0, 1, 1):
        ingest(lake, "a", [path], CONFIG, covers=(BASE + hour * HOUR, BASE + (hour + 1) * HOUR))
    rows = read_captures(lake, ["a"])["a"]
    assert [(row.covers_from, row.covers_to) for row in rows] == [(at(0), at(3600)), (at(3600), at(7200))]
    (bare,) = ingest(lake, "b", [path], CONFIG)
    assert "covers nothing" in bare.note


def test_a_cut_capture_covers_to_its_clock_until_the_whole_one_comes(lake: Lake, tmp_path: Path) -> None:
    cut = capture(tmp_path / "cut.pcap", [1, 5, 4, 9], cut=3)
    (done,) = ingest(lake, "a", [cut], CONFIG, covers=(BASE, BASE + HOUR))
    assert (done.capture.covers_from, done.capture.covers_to) == (BASE, at(5))
    assert not done.capture.ended_cleanly and "cut" in done.note
    rows = tables.read_rows(lake.malformed, MALFORMED).to_pylist()
    assert [(row["reason"], row["position"], row["arrival"]) for row in rows] == [("cut", 3, at(5))]
    assert malformed_between(lake, "a", [done.capture], at(5), at(6)).num_rows == 1
    whole = capture(tmp_path / "whole.pcap", [1, 5, 4, 9])
    (done,) = ingest(lake, "a", [whole], CONFIG, covers=(BASE, BASE + HOUR))
    assert done.state == "replaced"
    assert [row.covers_to for row in read_captures(lake, ["a"])["a"]] == [BASE + HOUR]
    assert [row[3] for row in contents(lake)] == [at(1), at(5), at(4), at(9)]
    assert tables.read_rows(lake.malformed, MALFORMED).num_rows == 0
    assert stored_files(lake) == committed_files(lake)


def test_overlap_proposes_two_links_and_leaves_nothing(lake: Lake, tmp_path: Path) -> None:
    ingest(lake, "a", [capture(tmp_path / "1.pcap", [0, 10])], CONFIG)
    ingest(lake, "a", [capture(tmp_path / "2.pcap", [9.5, 20])], CONFIG)
    before = contents(lake)
    with pytest.raises(
        OverlapError,
        match=r"3\.pcap begins at .*18Z, 2 s before .*2\.pcap ends.* 1s.*two recorders, or[\s\S]*--link a-2.*"
        r'"2s" in \[links.a\]',
    ):
        ingest(lake, "a", [capture(tmp_path / "3.pcap", [18, 30])], CONFIG)
    assert contents(lake) == before
    assert stored_files(lake) == committed_files(lake)


@pytest.mark.slow
def test_captures_of_several_links_are_one_message(lake: Lake, tmp_path: Path) -> None:
    """Nine nodes in one folder, ingested as one link: said once, with the names, and the longest overlap."""
    files = [capture(tmp_path / f"n{n}.pcap", [n, 1000 + n]) for n in range(9)]
    with pytest.raises(OverlapError) as caught:
        ingest(lake, "node_10.1.0.11", files, CONFIG)
    first, cause, *names, hint = str(caught.value).splitlines()
    assert first == "not ingested: 8 of 9 files; the others are in the lake"
    assert cause.startswith("link 'node_10.1.0.11': 8 captures overlap in time with ") and cause.endswith(
        "either these are several recorders, or the clock of the recorder was put back"
    )
    assert [name.split()[0].rpartition("/")[2] for name in names] == [f"n{n}.pcap" for n in range(1, 9)]
    assert f"lowwater init {tmp_path} --lake NEW" in hint and 'skew = "17min"' in hint


def test_captures_are_ordered_by_declared_start_then_median_then_hash(lake: Lake, tmp_path: Path) -> None:
    for name, seconds in (("late", [30, 31]), ("early", [10, 11]), ("middle", [20, 21])):
        ingest(lake, "a", [capture(tmp_path / f"{name}.pcap", seconds)], CONFIG)
    ingest(lake, "a", [capture(tmp_path / "declared.pcap", [16])], CONFIG, covers=(at(15), at(20)))
    assert [Path(row.path).stem for row in read_captures(lake, ["a"])["a"]] == ["early", "declared", "middle", "late"]


def test_the_rotation_of_the_link_declares_coverage(lake: Lake, tmp_path: Path) -> None:
    link = Link(captures=str(tmp_path / "a-%Y%m%d%H.pcap"), rotation="1h")  # type: ignore[arg-type]
    path = capture(tmp_path / "a-2027011508.pcap", [1])
    (done,) = ingest(lake, "a", [path], Config(links={"a": link}))
    assert done.capture.declared == (BASE, BASE + HOUR)


def test_bad_files_do_not_hold_back_good_ones(lake: Lake, tmp_path: Path) -> None:
    empty, text = tmp_path / "empty.pcap", tmp_path / "text.pcap"
    empty.write_bytes(b"")
    text.write_text("no capture at all, but long enough to hold a header\n")
    good = capture(tmp_path / "good.pcap", [1])
    folder = tmp_path / "folder.pcap"
    folder.mkdir()
    with pytest.raises(CaptureError) as caught:
        ingest(lake, "a", [empty, text, folder, good, tmp_path / "absent.pcap"], CONFIG)
    assert all(f"{name}.pcap" in str(caught.value) for name in ("empty", "text", "folder", "absent"))
    assert len(contents(lake)) == 1


def test_wrong_names_and_options_are_refused(lake: Lake, tmp_path: Path) -> None:
    path = capture(tmp_path / "a.pcap", [1])
    with pytest.raises(ConfigError, match="no link 'mian'; did you mean 'main'"):
        ingest(lake, "mian", [path], Config(links={"main": Link()}))
    with pytest.raises(ConfigError, match="not a valid name of a link"):
        ingest(lake, "a b", [path], CONFIG)
    with pytest.raises(ConfigError, match="--covers"):
        ingest(lake, "a", [path, path], CONFIG, covers=(1, 2))


def test_a_max_jump_that_matters_replaces_and_one_that_does_not_is_known(lake: Lake, tmp_path: Path) -> None:
    path = capture(tmp_path / "a.pcap", [*range(20), 100, *range(20, 40)])
    (first,) = ingest(lake, "a", [path], CONFIG)
    assert (first.capture.packets, first.capture.malformed) == (40, 1)
    assert first.capture.smallest_jump is not None
    same = Config(links={"a": Link(max_jump="70s")})  # type: ignore[arg-type]
    assert ingest(lake, "a", [path], same)[0].state == "known"
    wide = Config(links={"a": Link(max_jump="90s")})  # type: ignore[arg-type]
    (again,) = ingest(lake, "a", [path], wide)
    assert (again.state, again.capture.packets, again.capture.malformed) == ("replaced", 41, 0)
    assert len(contents(lake)) == 41
    assert tables.read_rows(lake.malformed, MALFORMED).num_rows == 0
    assert stored_files(lake) == committed_files(lake)


def test_another_decoder_replaces(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = capture(tmp_path / "a.pcap", [1, 2])
    ingest(lake, "a", [path], CONFIG)
    before = stored_files(lake)
    monkeypatch.setattr(replacing, "DECODER_VERSION", 99)
    (again,) = ingest(lake, "a", [path], CONFIG)
    assert (again.state, again.capture.decoder_version) == ("replaced", 99)
    assert again.note == "read again: a setting of the link, or the decoder, has changed"
    assert len(contents(lake)) == 2 and not stored_files(lake) & before


class Crash(BaseException):
    """Stands for a kill: nothing handles it."""


POINTS = {"swap_files": batching, "append_rows": batching, "put_captures": replacing, "clean": module}


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("old", [False, True], ids=["new", "again"])
def test_a_crash_at_any_commit_then_a_retry_gives_one_copy(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str, after: bool, old: bool
) -> None:
    path = capture(tmp_path / "a.pcap", [1, 2, 3700, 3701], cut=1)
    if old:
        ingest(lake, "a", [path], CONFIG)
        monkeypatch.setattr(replacing, "DECODER_VERSION", 99)
    seen = contents(lake)
    real: Callable[..., Any] = getattr(POINTS[point], point)
    calls = iter(range(9))

    def crash(*args: Any, **names: Any) -> None:
        if point == "clean" and next(calls) == 0:  # it begins with clearing what others left
            return
        if after:
            real(*args, **names)
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(POINTS[point], point, crash)
        with pytest.raises(Crash):
            ingest(lake, "a", [path], CONFIG)
    switched = point == "clean" or (point == "put_captures" and after)
    assert len(contents(lake)) == (3 if switched or old else 0)
    if old and not switched:
        assert contents(lake) == seen
    ingest(lake, "a", [path], CONFIG)
    assert [row[1] for row in contents(lake)] == [0, 1, 2]
    assert stored_files(lake) == committed_files(lake)
    assert tables.read_rows(lake.malformed, MALFORMED).num_rows == 1


def test_packets_that_another_program_joined_are_left_to_be_restored(lake: Lake, tmp_path: Path) -> None:
    """Files of no attempt may hold the only copy of packets: an ingest took them for what a dead one left."""
    for number, second in enumerate((1, 10)):
        ingest(lake, "a", [capture(tmp_path / f"{number}.pcap", [second, second + 1])], CONFIG)
    before, held = versions(lake)[0], contents(lake)
    DeltaTable(str(lake.packets)).optimize.compact()
    ingest(lake, "b", [capture(tmp_path / "b.pcap", [20, 21])], CONFIG)
    ingest(lake, "a", [capture(tmp_path / "2.pcap", [20, 22])], CONFIG)
    assert DeltaTable(str(lake.packets)).to_pyarrow_table().num_rows == 8
    with pytest.raises(LakeError, match="some are missing") as found:
        contents(lake)
    assert "Delta's RESTORE" in (found.value.hint or "")
    DeltaTable(str(lake.packets)).restore(before)
    captures = [row for row in read_captures(lake, ["a"])["a"] if row.first < at(20)]
    batches = read_packets(lake, "a", captures, CONFIG.link("a"), 0, 0, 1 << 62)
    assert [tuple(row.values()) for batch in batches for row in batch.to_pylist()] == held


@pytest.mark.parametrize("damage", ["delete", "restore", "file"])
def test_packets_that_another_program_took_away_come_back_with_their_file(
    lake: Lake, tmp_path: Path, damage: str
) -> None:
    files = [capture(tmp_path / f"{number}.pcap", [number, number + 1]) for number in (1, 10)]
    before = versions(lake)[0]
    for file in files:
        ingest(lake, "a", [file], CONFIG)
    held, table = contents(lake), DeltaTable(str(lake.packets))
    if damage == "delete":
        table.delete(f"timestamp = {at(10)}")
    elif damage == "restore":
        table.restore(before)
    else:
        for file in stored_files(lake):
            file.unlink()
    with pytest.raises(LakeError, match=r"some are missing|cannot be read") as found:
        contents(lake)
    assert "`lowwater ingest`" in (found.value.hint or "")
    results = ingest(lake, "a", files, CONFIG)
    made = {"delete": [False, True]}.get(damage, [True, True])
    assert [result.note == "read again: packets of it were missing" for result in results] == made
    assert [result.state for result in results] == ["replaced" if again else "known" for again in made]
    assert contents(lake) == held
    assert {result.state for result in ingest(lake, "a", files, CONFIG)} == {"known"}


def test_interfaces_of_one_name_keep_apart(lake: Lake, tmp_path: Path) -> None:
    ingest(lake, "a/eth0", [capture(tmp_path / "0.pcap", [1])], CONFIG)
    ingest(lake, "a", [capture(tmp_path / "1.pcap", [2])], CONFIG)
    ingest(lake, "a/eth1", [capture(tmp_path / "2.pcap", [3])], CONFIG)
    assert [[row[3] for row in contents(lake, name)] for name in ("a", "a/eth0", "a/eth1")] == [
        [at(2)],
        [at(1)],
        [at(3)],
    ]


def test_a_lake_that_cannot_be_made_or_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LakeError, match="cannot be written"):
        open_lake(tmp_path / "file" / "lake")
    with pytest.raises(LakeError, match="there is no lake"):
        open_lake(tmp_path / "absent", make=False)
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o555)
    if os.access(folder, os.W_OK):
        pytest.skip("this user may write everywhere")
    with pytest.raises(LakeError, match="cannot be written"):
        open_lake(folder)


def test_every_file_that_is_refused_is_named_with_its_remedy(lake: Lake, tmp_path: Path) -> None:
    good, empty, text = (tmp_path / name for name in ("good.pcap", "empty.pcap", "text.pcap"))
    good.write_bytes(pcap_bytes([(at(0), udp("10.0.0.1", "10.0.0.2", 1, 2))]))
    empty.write_bytes(b"")
    text.write_bytes(b"text that is no capture")
    with pytest.raises(CaptureError) as raised:
        ingest(lake, "a", [empty, good, text], CONFIG)
    said = str(raised.value).splitlines()
    assert said[0] == "not ingested: 2 of 3 files; the others are in the lake"
    assert [line.split(": ")[0].strip() for line in said[1:]] == [str(empty), "hint", str(text), "hint"]
    assert [Path(row.path).name for row in read_captures(lake, ["a"])["a"]] == ["good.pcap"]


def test_a_capture_of_one_instant_says_why_it_covers_nothing(lake: Lake, tmp_path: Path) -> None:
    path = tmp_path / "one.pcap"
    path.write_bytes(pcap_bytes([(at(0), udp("10.0.0.1", "10.0.0.2", 1, 2))]))
    (found,) = ingest(lake, "a", [path], CONFIG)
    assert "covers nothing: its first packet has its largest time, and no coverage is declared" in found.note


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_a_lake_error(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = FileWriter.write
    monkeypatch.setattr(FileWriter, "write", lambda self, path: real(self, Path("/dev/full")))
    with pytest.raises(LakeError, match=r"packets of .*a\.pcap cannot be written"):
        ingest(lake, "a", [capture(tmp_path / "a.pcap", range(20000))], CONFIG)


def test_locks_name_their_holder_and_attempts_clean_up(lake: Lake) -> None:
    with hold(lake, "x"), pytest.raises(BusyError, match=f"process {os.getpid()}"), hold(lake, "x"):
        pass
    dead = lake.work / "run" / "0123"
    dead.mkdir(parents=True)
    with attempt(lake, "run") as folder:
        assert folder.is_dir() and not dead.exists()
        with pytest.raises(BusyError), attempt(lake, "run"):
            pass
        assert folder.is_dir()
    assert not (lake.work / "run").exists()
    with hold(lake, "x"):
        pass


def test_a_runner_gets_every_file(lake: Lake, tmp_path: Path) -> None:
    calls: list[int] = []

    def runner(function: Callable[[Any], Any], arguments: Any) -> list[Any]:
        results = [function(argument) for argument in arguments]
        calls.append(len(results))
        return results

    files = [capture(tmp_path / f"{n}.pcap", [n * 10, n * 10 + 1]) for n in range(3)]
    assert [each.path for each in ingest(lake, "a", files, CONFIG, runner=runner)] == files
    assert calls == [3, 3, 0]  # surveyed, packed, and none left


def test_what_cannot_be_ingested_is_refused_by_name(lake: Lake, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), Path("/dev/null"), tmp_path):
        with pytest.raises(CaptureError, match=f"{path}: is not a regular file.*\n.*write it to a file first"):
            ingest(lake, "a", [path], CONFIG)
    wrong = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.pcap"))
    wrong.write_bytes(capture(tmp_path / "good.pcap", [1]).read_bytes())
    with pytest.raises(CaptureError, match=r"udcff.pcap': the file name is not UTF-8 text") as error:
        ingest(lake, "a", [wrong], CONFIG)
    assert str(error.value).encode() and not stored_files(lake)


def test_names_of_files_are_printed_as_they_are_but_for_what_a_terminal_obeys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("[").mkdir()
    path = capture(Path("[") / "b]\x1b[31m.pcap", [1, 2])
    open_lake(Path("lake"))
    arguments = ["ingest", "--lake", "lake", "--link", "a", str(path)]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0, result.output
    assert "\x1b" not in result.output and "[/b]\\u001b[31m" in result.output

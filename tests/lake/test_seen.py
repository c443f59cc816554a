"""Rule T9: every file in the folders of the links is in the ledger, in one state; what is not read is told."""

from __future__ import annotations

import gzip
import os
import shutil
import socket
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings as settings_of, strategies as st

from lowwater.config import Config, Link
from lowwater.errors import LowwaterError
from lowwater.instants import HOUR
from lowwater.lake.ingestion import folders
from lowwater.lake.ingestion.arrivals import arrivals, pattern_files
from lowwater.lake.ingestion.folders import look
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import Lake, open_lake
from lowwater.lake.ledgers.captures import read_captures
from lowwater.lake.ledgers.files import read_seen, unread_lines
from lowwater.lake.ledgers.intervals import NOTHING_MISSING, StatusInputs, Timetable, set_status
from lowwater.lake.ledgers.missing import KnownMissing, missing_texts
from lowwater.lake.ledgers.places import key_of
from lowwater.lake.ledgers.runs import PUBLISH, ReplayRow
from lowwater.lake.ledgers.states import EMPTY, FOLDER, GONE, OTHER, READ, REFUSED, UNCLAIMED
from tests.breadth import examples
from tests.lake.support import BASE, at, capture

pytestmark = pytest.mark.slow

OLD = BASE - 2000 * HOUR
"""A last write that is long over. Records are of January 2027."""


def settings(folder: Path, pattern: str = "a_%Y%m%d%H.pcap", **more: Any) -> Config:
    link = {"captures": str(folder / pattern), "rotation": "1h" if "%" in pattern else None, **more}
    return Config(links={"a": Link(**{key: value for key, value in link.items() if value is not None})})


def hourly(folder: Path, hour: int, seconds: Sequence[float] = (1, 2), ending: str = ".pcap") -> Path:
    """A capture of an hour (BASE is 08:00), named by it, with records at some seconds of it."""
    path = capture(folder / f"a_20270115{8 + hour:02}{ending}", [hour * 3600 + second for second in seconds])
    os.utime(path, ns=(OLD, OLD))
    return path


def take(lake: Lake, config: Config) -> list[str]:
    """What `lowwater ingest` does: the files of the patterns, then a look. Returns the errors."""
    errors = []
    for link, found in arrivals(lake, config).items():
        try:
            ingest(lake, link, found.new, config)
        except LowwaterError as error:
            errors.append(str(error))
    look(lake, config)
    return errors


def states(lake: Lake) -> dict[str, str]:
    return {row.name: row.state for row in read_seen(lake).values() if row.state != GONE or row.unread}


def lacking(lake: Lake, config: Config, hour: int) -> list[str]:
    """What is known to be missing of an hour after BASE."""
    begin = at(3600 * hour)
    return missing_texts(KnownMissing(lake, config, {}).of({"a": begin}, begin, begin + HOUR))


def test_what_holds_no_traffic_poisons_nothing(lake: Lake, tmp_path: Path) -> None:
    folder = tmp_path / "cap"
    hourly(folder, 0)
    for name, text in {"README": "read me", "index.txt": "a b c", ".hidden.pcap": "x", "none.pcap1": ""}.items():
        (folder / name).write_text(text)
    (folder / "folder.pcap").mkdir()
    (folder / "latest.pcap").symlink_to(folder / "a_2027011508.pcap")
    (folder / "dangling.pcap").symlink_to(folder / "nothing")
    shutil.copy2(folder / "a_2027011508.pcap", folder / "a_2027011508.bak")
    (folder / "a_2027011508.pcap.filepart").write_bytes((folder / "a_2027011508.pcap").read_bytes()[:-7])
    (folder / "a_2027011508.pcap.gz").write_bytes(gzip.compress((folder / "a_2027011508.pcap").read_bytes()))
    capture(folder / "empty.cap", [])
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "s"))
        config = settings(folder)
        assert take(lake, config) == []
    assert states(lake) == {
        "a_2027011508.pcap": READ,
        "README": OTHER,
        "index.txt": OTHER,
        ".hidden.pcap": OTHER,
        "none.pcap1": EMPTY,
        "latest.pcap": OTHER,
        "dangling.pcap": OTHER,
        "a_2027011508.bak": READ,  # the same bytes
        "a_2027011508.pcap.filepart": READ,  # its first bytes, as a copy that was ended leaves
        "a_2027011508.pcap.gz": READ,  # packed
        "empty.cap": EMPTY,
    }
    assert unread_lines(lake, config) == [] and lacking(lake, config, 0) == []


def test_a_file_of_one_length_that_is_put_in_the_place_of_another_is_read(lake: Lake, tmp_path: Path) -> None:
    """By `mv`, `cp -p`, `rsync -t` or a ring of files of one length: its last write is another one, and also old."""
    folder = tmp_path / "cap"
    hourly(folder, 0)
    config = settings(folder)
    take(lake, config)
    hourly(folder, 0, (3, 4))
    os.utime(folder / "a_2027011508.pcap", ns=(OLD + HOUR, OLD + HOUR))
    for _ in range(2):  # what one look found, the next one has not forgotten
        look(lake, config)
        assert lacking(lake, config, 0)
    assert [len(found.new) for found in arrivals(lake, config).values()] == [1]
    take(lake, config)
    assert lacking(lake, config, 0) == [] and states(lake) == {"a_2027011508.pcap": READ}
    (capture_row,) = read_captures(lake, ["a"])["a"]
    assert capture_row.smallest == at(3)
    os.utime(folder / "a_2027011508.pcap", ns=(OLD, OLD))  # the same bytes at another time are known
    take(lake, config)
    assert states(lake) == {"a_2027011508.pcap": READ} and lacking(lake, config, 0) == []
    assert [len(found.new) for found in arrivals(lake, config).values()] == [0]


@pytest.mark.parametrize("ending", ["gz", "part"])
def test_a_file_that_was_seen_before_it_was_whole_is_missed_by_nobody(ending: str, lake: Lake, tmp_path: Path) -> None:
    """A look saw the first half of it, under a name that no pattern claims: `tcpdump -z gzip`, or a name for a time."""
    folder = tmp_path / "cap"
    begun, named = (".pcap", ".pcap.gz") if ending == "gz" else (".pcap.part", ".pcap")
    config = settings(folder, f"a_%Y%m%d%H{named}")
    for size in (3, 6):
        whole = hourly(folder, 0, [*range(1, size)], begun)
        if size == 3:
            take(lake, config)
            assert lacking(lake, config, 0)
    data = whole.read_bytes()
    whole.with_name(f"a_2027011508{named}").write_bytes(gzip.compress(data) if ending == "gz" else data)
    whole.unlink()
    take(lake, config)
    assert lacking(lake, config, 0) == []


def test_a_file_that_went_unread_is_missed_until_it_is_found(lake: Lake, tmp_path: Path) -> None:
    folder = tmp_path / "cap"
    read, spill = hourly(folder, 0), hourly(folder, 0, (5, 6), ".pcap1")
    config = settings(folder)
    take(lake, config)
    read.unlink()  # the lake has it
    spill.rename(tmp_path / "away.pcap")
    look(lake, config)
    assert states(lake) == {spill.name: GONE}
    assert lacking(lake, config, 0) == [f"link 'a': not read: {spill.name} (gone before it was read (unclaimed))"]
    ingest(lake, "a", [tmp_path / "away.pcap"], config.model_copy(update={"links": {"a": Link(skew="1h")}}))  # type: ignore[arg-type]
    look(lake, config)
    assert states(lake) == {} and lacking(lake, config, 0) == []


def test_the_hint_of_a_file_that_waits_for_ingest_names_ingest(lake: Lake, tmp_path: Path) -> None:
    """Ingest failed for another reason, such as a Spark that was away: nothing is wrong with the file."""
    config = settings(tmp_path / "in")
    hourly(tmp_path / "in", 0)
    look(lake, config)
    waits = unread_lines(lake, config)[-1]
    assert f"`lowwater ingest --lake {lake.root}` reads those that are not ingested" in waits and "pattern" not in waits
    hourly(tmp_path / "in", 1, ending=".pcap1")
    look(lake, config)
    assert "reads those that are not ingested, once they are whole, let a pattern" in unread_lines(lake, config)[-1]


def test_a_name_with_a_line_break_is_refused_in_one_line(lake: Lake, tmp_path: Path) -> None:
    """It tore the lines that name the file, so that the name could say anything as a line of its own."""
    config = settings(tmp_path / "in", "a_*.pcap")
    torn = capture(tmp_path / "in" / "a_1\nhint: do this.pcap", [1, 2])
    (error,) = take(lake, config)
    assert "a_1\\nhint: do this.pcap': the file name has a line break" in error and "rename it" in error
    lines = unread_lines(lake, config, hint=False)
    assert len(lines) == 1 and "\n" not in lines[0] and "a_1\\nhint: do this.pcap" in lines[0]
    assert not any("\n" in text for text in lacking(lake, config, 0))
    torn.rename(tmp_path / "in" / "a_1.pcap")
    assert take(lake, config) == [] and unread_lines(lake, config, hint=False) == []


def test_a_folder_that_cannot_be_read_is_said_and_forgets_nothing(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "cap"
    config = settings(folder)
    look(lake, config)
    assert unread_lines(lake, config, hint=False) == [f"link 'a': folder {folder}: is not there"]
    hourly(folder, 0), hourly(folder, 0, (5, 6), ".pcap1")
    take(lake, config)
    assert len(unread_lines(lake, config, hint=False)) == 1
    real = os.scandir

    def scandir(path: str) -> Any:
        if path == str(folder):
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    look(lake, config)
    assert states(lake) == {"a_2027011508.pcap": READ, "a_2027011508.pcap1": UNCLAIMED, "cap": FOLDER}
    assert f"folder {folder}: cannot be read: Permission denied" in unread_lines(lake, config)[1]
    monkeypatch.setattr(os, "scandir", real)
    monkeypatch.setattr(folders, "UNCLAIMED_FILES", 0)
    look(lake, config)
    assert "only the first 0 are judged" in unread_lines(lake, config)[1]


def test_a_file_falls_only_into_the_hours_of_its_records(lake: Lake, tmp_path: Path) -> None:
    """A clock that began in 1970, and zeros at the end, make no year incomplete."""
    folder = tmp_path / "cap"
    hourly(folder, 0)
    os.utime(
        capture(folder / "odd.pcap1", [-BASE // 10**9, 3601, 3602, *range(14401, 14408), -BASE // 10**9]), ns=(OLD, OLD)
    )
    config = settings(folder)
    assert take(lake, config) == []
    assert [hour for hour in range(-3, 7) if lacking(lake, config, hour)] == [1, 4]
    assert KnownMissing(lake, config, {}).of({"a": 0}, 0, HOUR)


KINDS = st.sampled_from(
    ("claimed", "spill", "foreign", "copy", "empty", "text", "zeros", "hidden", "link", "packed", "unpaired")
)


@given(files=st.lists(st.tuples(KINDS, st.integers(0, 4)), min_size=1, max_size=8), order=st.permutations(range(3)))
@settings_of(max_examples=examples(20))
def test_every_file_is_in_one_state_and_no_interval_is_whole_that_lacks_one(
    files: Sequence[tuple[str, int]], order: Sequence[int]
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder, lake = Path(name) / "cap", open_lake(Path(name) / "lake")
        config = settings(folder)
        folder.mkdir()
        unread: Counter[int] = Counter()
        claimed: set[int] = set()
        for number, (kind, hour) in enumerate(sorted(files)):
            unread += thrown(folder, kind, hour, number, claimed)
        for step in order:  # in whatever order it is looked, taken and judged
            (lambda: look(lake, config), lambda: take(lake, config), lambda: look(lake, config))[step]()
        take(lake, config)
        there = {key_of(lake, path) for path in folder.iterdir() if path.is_file()}
        rows = {path: row for path, row in read_seen(lake).items() if row.state != GONE}
        assert set(rows) == there
        for hour in range(5):
            assert bool(lacking(lake, config, hour)) == bool(unread[hour]), (hour, states(lake))
        named = sum(row.packets or 0 for row in rows.values() if row.unread)
        assert named == unread.total()


def thrown(folder: Path, kind: str, hour: int, number: int, claimed: set[int]) -> Counter[int]:
    """Throws a file into the folder; returns the number of its packets by hour that the lake cannot have."""
    own = 10 * number + 100.0
    if kind == "claimed":
        claimed.add(hour)
        hourly(folder, hour)
        return Counter()
    if kind in ("spill", "foreign", "unpaired"):
        ending = {"spill": f".pcap{number}", "foreign": f"-{number}.cap", "unpaired": f".{number}"}[kind]
        hourly(folder, hour, (own, own + 1, own + 2), ending)
        return Counter({hour: 3})
    if kind == "packed":
        hourly(folder, hour, (own, own + 3600), f".{number}.tmp")
        return Counter({hour: 1, hour + 1: 1})
    path = folder / f"{kind}{number}"
    if kind == "copy" and claimed:
        shutil.copy2(folder / f"a_20270115{8 + min(claimed):02}.pcap", path)
    elif kind == "link" and claimed:
        path.symlink_to(folder / f"a_20270115{8 + min(claimed):02}.pcap")
    elif kind == "hidden":
        hourly(folder, hour, (own,)).rename(folder / f".{number}") if hour not in claimed else None
    else:
        path.write_bytes({"zeros": b"\0" * 64, "text": b"a text"}.get(kind, b""))
    return Counter()


def test_the_state_of_an_interval_follows_what_is_missing_now() -> None:
    """T6: neither a run nor a commit is needed to say that a published interval lacks a file, or no longer does."""

    def state(published: str, missing: Sequence[str], gaps: Sequence[str] = (), digest: str = "d") -> tuple[str, str]:
        inputs = StatusInputs(
            "q",
            ("q",),
            Timetable(HOUR, (0, 1), ((0, 1),)),
            lambda query, start, end: digest,
            missing=lambda start, end: missing,
            gaps=lambda start, end: gaps,
        )
        row = ReplayRow("q", "q", 0, HOUR, PUBLISH, published, 1, "of then", "d")
        (found,) = set_status(inputs, [row])
        return found.state, found.reason

    assert state("done", []) == ("done", "") and state("provisional", []) == ("provisional", "of then")
    assert state("done", ["x"]) == state("provisional", ["x"]) == state("incomplete", ["x"]) == ("incomplete", "x")
    assert state("incomplete", ["x"], ["gap"]) == ("incomplete", "gap; x")
    assert state("incomplete", [], ["gap"]) == ("incomplete", "gap")
    assert state("incomplete", []) == ("incomplete", NOTHING_MISSING)
    assert state("rolled back", ["x"])[0] == "rolled back" and state("done", ["x"], digest="e")[0] == "stale"


def test_a_link_out_of_the_folder_is_named_and_not_read(lake: Lake, tmp_path: Path) -> None:
    """Who may write into the folder may not choose which files of the machine are read; a pipe would never end."""
    folder, elsewhere = tmp_path / "cap", tmp_path / "elsewhere"
    hourly(folder, 0)
    hourly(elsewhere, 1)
    os.mkfifo(elsewhere / "pipe")
    (folder / "a_2027011509.pcap").symlink_to(elsewhere / "a_2027011509.pcap")
    (folder / "a_2027011510.pcap").symlink_to(folder / "a_2027011508.pcap")  # another name in the folder
    (folder / "a_2027011511.pcap").symlink_to(elsewhere / "pipe")
    (folder / "notes").symlink_to(elsewhere / "a_2027011509.pcap")
    config = settings(folder)
    assert [path.name for path in pattern_files(config)["a"]] == ["a_2027011508.pcap", "a_2027011510.pcap"]
    take(lake, config)
    found = {row.name: row for row in read_seen(lake).values()}
    assert found["a_2027011509.pcap"].state == REFUSED and found["notes"].state == OTHER
    (words,) = lacking(lake, config, 1)
    assert "a_2027011509.pcap" in words and str(elsewhere) in words and 'symbolic_links = "read"' in words
    allowed = config.model_copy(update={"links": {"a": config.link("a").model_copy(update={"symbolic_links": "read"})}})
    assert take(lake, allowed) == [] and lacking(lake, allowed, 1) == []
    assert {row.name: row.state for row in read_seen(lake).values()}["a_2027011509.pcap"] == READ


def test_a_folder_that_is_a_link_itself_is_read(lake: Lake, tmp_path: Path) -> None:
    hourly(tmp_path / "real", 0)
    (tmp_path / "cap").symlink_to(tmp_path / "real", target_is_directory=True)
    config = settings(tmp_path / "cap")
    assert take(lake, config) == [] and lacking(lake, config, 0) == []
    assert len(pattern_files(config)["a"]) == 1

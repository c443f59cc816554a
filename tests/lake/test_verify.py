"""`lowwater verify`: what is damaged, what that costs, and that what can be made again is made again."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest

from lowwater.instants import DAY
from lowwater.lake import verification
from lowwater.lake.layout import lake_to_read
from lowwater.lake.verification import Asked, Stored, verify
from lowwater.storage import digests
from tests.cli.hostile import clean
from tests.lake.damage import TO, change_skew, copied, data_files, flip, publish, rows_of
from tests.replay.support import lowwater


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return publish(tmp_path_factory.mktemp("published"))


@pytest.fixture
def folder(published: Path, tmp_path: Path) -> Path:
    return copied(published, tmp_path)


def words(text: str) -> str:
    return " ".join(text.split())


def test_a_lake_as_it_was_written_is_whole(folder: Path) -> None:
    lake = folder / "lake"
    files = len(data_files(lake))
    assert f"{files} files" in clean("verify", "--lake", lake).out
    said = clean("verify", "--lake", lake, "--data")
    assert f"the bytes of {files} (" in said.out and "have no digest" not in said.out
    kept = json.loads((lake / "verified.json").read_text())
    assert kept["data"]["compared"] == files and kept["data"]["damaged"] == [] and "running" not in kept


def test_a_flipped_bit_of_a_published_file_is_damage_that_backfill_mends(folder: Path) -> None:
    """Its interval was `done`, its rows were others, and every check passed."""
    lake, before = folder / "lake", rows_of(folder / "lake")
    file = flip(data_files(lake, "tables/flows")[0])
    assert clean("verify", "--lake", lake).code == 0, "its size is right"
    said = clean("verify", "--lake", lake, "--data", code=1)
    assert f"{file.relative_to(lake).as_posix()}: has other bytes than were written" in said.out
    assert "`lowwater backfill` publishes them again" in said.out and "1 file is not as written" in said.err
    assert "a file of the table has other bytes than were written" in words(clean("status", "--lake", lake).out)
    clean("backfill", "--lake", lake, "--to", TO)
    assert rows_of(lake) == before and "damaged" not in clean("status", "--lake", lake).out
    clean("verify", "--lake", lake, "--data")


def test_flipped_packets_are_read_again_from_their_capture(folder: Path) -> None:
    lake, before = folder / "lake", rows_of(folder / "lake")
    flip(data_files(lake, "packets/link=main1")[0])
    said = clean("verify", "--lake", lake, "--data", code=1)
    assert "reads the capture again" in said.out
    assert "packets of it were missing" in words(clean("ingest", "--lake", lake).out)
    change_skew(lake)
    clean("backfill", "--lake", lake, "--to", TO)
    assert rows_of(lake) == before
    clean("verify", "--lake", lake, "--data")
    assert not list(lake.rglob("*.damaged")), "the ingest removes what it replaced"


def test_flipped_packets_without_their_capture_are_said_to_be_lost(tmp_path: Path) -> None:
    """What is published of them stays, and no run makes rows of them."""
    folder = publish(tmp_path)
    lake, before = folder / "lake", rows_of(folder / "lake")
    file = flip(data_files(lake, "packets/link=main1")[0])
    for capture in (folder / "captures" / "main1").iterdir():
        capture.unlink()
    said = clean("verify", "--lake", lake, "--data", code=1)
    assert "which does not lie there any more" in said.out and "nothing makes it again" in said.out
    assert file.exists(), "perhaps most of it can be saved by hand"
    change_skew(lake)
    clean("backfill", "--lake", lake, "--to", TO, code=1)
    assert rows_of(lake) == before


@pytest.mark.parametrize("wrong", ["empty", "gone", "flipped"])
def test_a_lost_ledger_of_captures_is_made_again(folder: Path, wrong: str) -> None:
    """It ended every command, though the captures lay there."""
    lake, before = folder / "lake", rows_of(folder / "lake")
    for file in data_files(lake, "contents"):
        {"empty": lambda file: file.write_bytes(b""), "gone": Path.unlink, "flipped": flip}[wrong](file)
    assert "lowwater verify" in clean("status", "--lake", lake, code=1).err
    said = clean("verify", "--lake", lake, "--data", code=1)
    assert "`lowwater maintain` with --mend" in said.out and "which captures are in the lake" in said.out
    clean("maintain", "--lake", lake, "--mend")
    assert "added" in clean("ingest", "--lake", lake).out
    clean("verify", "--lake", lake, "--data")
    assert (
        "done" in clean("status", "--lake", lake).out
        and "nothing is due" in clean("plan", "--lake", lake, "--to", TO).out
    )
    assert rows_of(lake) == before


def test_packets_that_only_a_lost_ledger_named_are_kept(folder: Path) -> None:
    """An ingest takes packets that no row names for what a dead one left; these captures are gone."""
    lake = folder / "lake"
    packets = set(data_files(lake, "packets"))
    for file in data_files(lake, "contents/link=main1"):
        file.unlink()
    for capture in (folder / "captures" / "main1").iterdir():
        capture.unlink()
    clean("maintain", "--lake", lake, "--mend")
    clean("ingest", "--lake", lake)
    assert packets <= set(data_files(lake, "packets"))


def test_a_torn_commit_of_a_table_is_taken_away_and_made_again(folder: Path) -> None:
    """A power cut left half of an entry: no command read the table any more."""
    lake, before = folder / "lake", rows_of(folder / "lake")
    commit = sorted((lake / "tables" / "flows" / "_delta_log").glob("*.json"))[-1]
    commit.write_bytes(commit.read_bytes()[: commit.stat().st_size // 2])
    assert "with --mend" in clean("verify", "--lake", lake, code=1).out
    clean("maintain", "--lake", lake, "--mend")
    clean("backfill", "--lake", lake, "--to", TO)
    assert rows_of(lake) == before


def test_shares_of_thirty_nights_are_all_files_once(folder: Path) -> None:
    lake = lake_to_read(folder / "lake")
    asked = Asked(data=True, share=Fraction(1, 30))
    nights = [verify(lake, asked, now=lambda night=night: night * DAY) for night in range(20_000, 20_030)]
    assert sum(night.compared for night in nights) == nights[0].files
    assert max(night.compared for night in nights) < nights[0].files / 3


def test_a_look_that_was_ended_goes_on_where_it_was(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake, compared = folder / "lake", list[Path]()
    first = flip(data_files(lake, "lfta")[0])
    compute = digests.compute

    def ended(path: Path, *rest: object) -> str:
        if len(compared) == 10:
            raise KeyboardInterrupt
        compared.append(path)
        return compute(path)

    monkeypatch.setattr(verification, "KEPT_EVERY", 0.0)
    monkeypatch.setattr(digests, "compute", ended)
    with pytest.raises(KeyboardInterrupt):
        verify(lake_to_read(lake), Asked(data=True))
    monkeypatch.setattr(digests, "compute", compute)
    verdict = verify(lake_to_read(lake), Asked(data=True))
    assert verdict.resumed and verdict.files - 10 <= verdict.compared < verdict.files
    assert [each.where for each in verdict.damaged] == [first.relative_to(lake).as_posix()], "it was found before"
    assert not verify(lake_to_read(lake), Asked(data=True)).resumed


@pytest.mark.parametrize(
    ("asked", "below"),
    [
        (("--link", "main2"), "link=main2"),
        (("--set", "flows"), "flows"),
        (("--from", "2026-01-01T02:00Z"), ""),
    ],
)
def test_only_what_is_asked_for_is_looked_at(folder: Path, asked: tuple[str, str], below: str) -> None:
    lake = folder / "lake"
    for file in data_files(lake):
        flip(file)
    said = lowwater("verify", "--lake", lake, "--data", *asked)
    named = [line for line in said.out.splitlines() if ".parquet: has other bytes" in line]
    assert said.code == 1 and 0 < len(named) < len(data_files(lake))
    assert all(below in line for line in named)


def test_files_without_a_digest_are_counted(folder: Path) -> None:
    """As an older version wrote them: they are read, and nothing is said of their bytes."""
    lake = folder / "lake"
    table = lake / "tables" / "flows"
    file = data_files(table)[0]
    bare = file.with_name(f"{digests.bare(file.name)}.parquet")
    file.rename(bare)
    for commit in (table / "_delta_log").glob("*.json"):
        commit.write_text(commit.read_text().replace(file.name, bare.name))
    assert "1 have no digest" in clean("verify", "--lake", lake, "--data").out
    assert clean("rows", "flows", "--lake", lake).code == 0


def test_a_lake_that_cannot_be_written_is_looked_at(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(verification.paths, "write", full)
    said = clean("verify", "--lake", folder / "lake")
    assert "the verdict is not kept" in said.err and said.code == 0


def test_the_time_of_a_file_is_that_of_its_partition() -> None:
    row = {"partition.interval": "2026-01-01T000000Z_2026-01-01T013000.5Z"}
    file = Stored(Path("lfta"), "a.parquet", 1, row, "q")
    assert file.span is not None and file.span[1] - file.span[0] == 5_400_500_000_000
    assert Stored(Path("contents"), "a.parquet", 1, {}, "").span is None


@pytest.mark.parametrize("kind", ["lfta", "streams"])
def test_damaged_rows_between_the_stages_are_made_again_by_the_next_run(kind: str, folder: Path) -> None:
    """An edit of the query takes the rows of its LFTA as they are, and a run of it failed at the damaged file."""
    lake, query, before = folder / "lake", folder / "q" / "flows.gsql", rows_of(folder / "lake")
    files = data_files(lake, kind)
    flip(files[0])
    files[-1].unlink()
    said = clean("verify", "--lake", lake, "--data", code=1)
    assert "2 files are not as written" in said.err and "the next run of the interval makes them again" in said.out
    clean("verify", "--lake", lake, "--data")
    query.write_text(query.read_text() + " HAVING count(*) > 0")
    clean("backfill", "--lake", lake, "--to", TO)
    assert rows_of(lake) == before
    clean("verify", "--lake", lake, "--data")

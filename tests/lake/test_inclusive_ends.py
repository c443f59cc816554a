"""Names that end with the last second, minute or day that a file holds (`%L`), beside those that end where it ends."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from lowwater.config import Link
from lowwater.errors import ConfigError
from lowwater.instants import SECOND, format_duration, format_instant, parse_instant
from lowwater.lake.files.patterns import declared_coverage
from lowwater.lake.files.proposal import LinkProposal, propose
from tests.capturemaker import pcap_bytes, tcp
from tests.replay.support import lowwater

FRAME = tcp("10.0.0.1", "10.0.0.2", 1024, 80)


@pytest.mark.parametrize(
    ("pattern", "name", "covered"),
    [
        ("%F/%T_%LT", "2026-01-01/00:00:00_00:59:59", "2026-01-01T00:00:00Z 2026-01-01T01:00:00Z"),
        ("%F/%T_%LT", "2026-01-01/23:00:00_23:59:59", "2026-01-01T23:00:00Z 2026-01-02T00:00:00Z"),
        ("%F/%T_%LT", "2026-01-01/23:30:00_00:29:59", "2026-01-01T23:30:00Z 2026-01-02T00:30:00Z"),
        ("%F/%T_%LT", "2026-01-01/00:00:00_00:00:00", "2026-01-01T00:00:00Z 2026-01-01T00:00:01Z"),
        ("%F_%H%M_%LH%LM", "2026-01-01_2300_2359", "2026-01-01T23:00:00Z 2026-01-02T00:00:00Z"),
        ("%F_%H_%LH", "2026-01-01_00_23", "2026-01-01T00:00:00Z 2026-01-02T00:00:00Z"),
        ("%F_%LF", "2026-01-01_2026-01-31", "2026-01-01T00:00:00Z 2026-02-01T00:00:00Z"),
        ("%F_%LF", "2026-01-01_2026-01-01", "2026-01-01T00:00:00Z 2026-01-02T00:00:00Z"),
        ("%F_%LF", "2026-01-02_2026-01-01", ""),
        ("%Y%m_%LY%Lm", "202601_202602", "2026-01-01T00:00:00Z 2026-03-01T00:00:00Z"),
        ("%Y_%LY", "2025_2026", "2025-01-01T00:00:00Z 2027-01-01T00:00:00Z"),
        ("%s-%Ls", "1767225600-1767229199", "2026-01-01T00:00:00Z 2026-01-01T01:00:00Z"),
        ("%F_%H%M%S%3N-%LH%LM%LS%L3N", "2026-01-01_000000000-005959999", "2026-01-01T00:00:00Z 2026-01-01T01:00:00Z"),
        ("%F_%T.%N-%LT.%LN", "2026-01-01_00:00:00.000000000-00:59:59.999999999",
         "2026-01-01T00:00:00Z 2026-01-01T01:00:00Z"),
        ("%FT%T%z_%LFT%LT%Lz", "2026-01-01T00:00:00+01:00_2026-01-01T00:59:59+01:00",
         "2025-12-31T23:00:00Z 2026-01-01T00:00:00Z"),
        ("%F_%H%M%S%3N-%EH%EM%ES%E3N", "2026-01-01_000000000-010000000", "2026-01-01T00:00:00Z 2026-01-01T01:00:00Z"),
    ],
)  # fmt: skip
def test_what_a_name_with_its_last_second_declares(pattern: str, name: str, covered: str) -> None:
    found = declared_coverage(Link(captures=f"/x/{pattern}"), Path(f"/x/{name}"))  # type: ignore[arg-type]
    assert " ".join(map(format_instant, found or ())) == covered


@pytest.mark.parametrize(
    ("pattern", "name", "covered"),
    [
        ("%F/%R_%LR", "2025-10-26/01:30_02:29", "2025-10-25T23:30:00Z 2025-10-26T00:30:00Z"),
        ("%F/%R_%LR", "2025-10-26/02:00_02:59", "2025-10-26T00:00:00Z 2025-10-26T01:00:00Z"),
        ("%F/%R_%LR", "2025-10-26/02:30_02:29", "2025-10-26T00:30:00Z 2025-10-26T01:30:00Z"),
        ("%F/%R_%LR", "2025-03-30/01:00_01:59", "2025-03-30T00:00:00Z 2025-03-30T01:00:00Z"),
        ("%F/%R_%LR", "2025-03-30/03:00_03:59", "2025-03-30T01:00:00Z 2025-03-30T02:00:00Z"),
        ("%F_%LF", "2025-10-26_2025-10-26", "2025-10-25T22:00:00Z 2025-10-26T23:00:00Z"),
        ("%F_%LF", "2025-03-30_2025-03-30", "2025-03-29T23:00:00Z 2025-03-30T22:00:00Z"),
    ],
)
def test_a_last_second_where_clocks_change(pattern: str, name: str, covered: str) -> None:
    link = Link(captures=f"/x/{pattern}", timezone="Europe/Berlin")  # type: ignore[arg-type]
    found = declared_coverage(link, Path(f"/x/{name}"))
    assert " ".join(map(format_instant, found or ())) == covered


def test_an_end_is_of_one_kind() -> None:
    with pytest.raises(ConfigError, match="an end by %E and by %L") as caught:
        declared_coverage(Link(captures="/x/%F/%R_%EH:%LM"), Path("/x/2026-01-01/00:00_01:00"))  # type: ignore[arg-type]
    assert "write %L before each field" in (caught.value.hint or "")


def proposed(folder: Path, files: Sequence[tuple[str, str, str]]) -> LinkProposal:
    """The link of files that hold records from one instant to another."""
    for name, first, last in files:
        begin, end = parse_instant(first), parse_instant(last)
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pcap_bytes([(begin + (end - begin) * at // 50, FRAME) for at in range(51)]))
    (link,) = propose(folder, 2).links
    return link


def hours(*names: str, begin: str = "2026-01-01T00:00:00Z", late: int = 700_000_000) -> list[tuple[str, str, str]]:
    """Files of an hour each, whose last record is of the last second."""
    start = parse_instant(begin)
    return [
        (name, format_instant(start + at * 3600 * SECOND), format_instant(start + (at * 3600 + 3599) * SECOND + late))
        for at, name in enumerate(names)
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("names", "pattern"),
    [
        ("2026/01/01/00:00:00_00:59:59_S0 2026/01/01/01:00:00_01:59:59_S0", "%Y/%m/%d/%H:%M:%S_%LH:%LM:%LS_S0"),
        ("2026/01/01/00:00:00_01:00:00_S0 2026/01/01/01:00:00_02:00:00_S0", "%Y/%m/%d/%H:%M:%S_%EH:%EM:%ES_S0"),
        ("20260101_000000_005959 20260101_010000_015959", "%Y%m%d_%H%M%S_%LH%LM%LS"),
        ("20260101_0000_0059 20260101_0100_0159", "%Y%m%d_%H%M_%LH%LM"),
        ("202601010000-202601010059 202601010100-202601010159", "%Y%m%d%H%M-%LY%Lm%Ld%LH%LM"),
        ("20260101_000000000-005959999 20260101_010000000-015959999", "%Y%m%d_%H%M%S%3N-%LH%LM%LS%L3N"),
        ("20260101_000000000-010000000 20260101_010000000-020000000", "%Y%m%d_%H%M%S%3N-%EH%EM%ES%E3N"),
        ("20260101_00:00:00.000-00:59:59.999 20260101_01:00:00.000-01:59:59.999",
         "%Y%m%d_%H:%M:%S.%3N-%LH:%LM:%LS.%L3N"),
        ("1767225600-1767229199 1767229200-1767232799", "%s-%Ls"),
        ("2026-01-01T00:00:00Z_2026-01-01T00:59:59Z 2026-01-01T01:00:00Z_2026-01-01T01:59:59Z",
         "%Y-%m-%dT%H:%M:%SZ_%LY-%Lm-%LdT%LH:%LM:%LSZ"),
        ("2026-01-01T01:00:00+01:00_2026-01-01T01:59:59+01:00 2026-01-01T02:00:00+01:00_2026-01-01T02:59:59+01:00",
         "%Y-%m-%dT%H:%M:%S%z_%LY-%Lm-%LdT%LH:%LM:%LS%Lz"),
        ("50%EH_20260101_000000_005959 50%EH_20260101_010000_015959", "50%%EH_%Y%m%d_%H%M%S_%LH%LM%LS"),
    ],
)  # fmt: skip
def test_the_names_of_a_folder_decide_whether_an_end_is_inclusive(names: str, pattern: str, tmp_path: Path) -> None:
    link = proposed(tmp_path, hours(*(f"{name}.pcap" for name in names.split())))
    assert link.named.patterns == (f"{pattern}.pcap%c",), link.notes
    assert format_duration(link.dates.rotation or 0) == "1h" and not link.dates.why and not link.notes
    assert link.since == parse_instant("2026-01-01T00:00:00Z") and link.until == parse_instant("2026-01-01T02:00:00Z")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("names", "pattern", "length"),
    [
        ("2026-01-01_2026-01-07 2026-01-08_2026-01-14", "%Y-%m-%d_%LY-%Lm-%Ld", 168),
        ("20260101-20260107 20260108-20260114", "%Y%m%d-%LY%Lm%Ld", 168),
        ("2026-01-01_2026-01-08 2026-01-08_2026-01-15", "%Y-%m-%d_%EY-%Em-%Ed", 168),
        ("2026010100-2026010123 2026010200-2026010223", "%Y%m%d%H-%LY%Lm%Ld%LH", 24),
    ],
)
def test_ends_that_are_days_and_hours(names: str, pattern: str, length: int, tmp_path: Path) -> None:
    start, step = parse_instant("2026-01-01T00:00:00Z"), length * 3600 * SECOND
    spans = [(start + at * step, start + (at + 1) * step - SECOND // 2) for at in range(2)]
    files = [(f"{name}.pcap", *map(format_instant, span)) for name, span in zip(names.split(), spans, strict=True)]
    link = proposed(tmp_path, files)
    assert link.named.patterns == (f"{pattern}.pcap%c",), (link.dates.why, link.notes)
    assert link.dates.rotation == step and link.until == start + 2 * step


@pytest.mark.slow
def test_a_number_of_four_digits_is_no_end(tmp_path: Path) -> None:
    link = proposed(tmp_path, hours("20260101_0000_0001.pcap", "20260101_0100_0002.pcap", "20260101_0200_0003.pcap"))
    assert link.named.patterns == ("%Y%m%d_%H%M_%n.pcap%c",) and link.dates.rotation == 3600 * SECOND


@pytest.mark.slow
def test_names_in_local_time_and_a_restart_within_a_second(tmp_path: Path) -> None:
    link = proposed(tmp_path / "local", hours("2026/01/01/09:00:00_09:59:59.pcap", "2026/01/01/10:00:00_10:59:59.pcap"))
    assert link.named.patterns == ("%Y/%m/%d/%H:%M:%S_%LH:%LM:%LS.pcap%c",) and link.dates.zone == "Etc/GMT-9"
    day = "2026-01-01T"
    files = [("d_20260101_00:00:00_00:20:13.pcap", f"{day}00:00:00.5Z", f"{day}00:20:13.2Z")]
    files += [("d_20260101_00:20:13_00:59:59.pcap", f"{day}00:20:13.5Z", f"{day}00:59:59.9Z")]
    for hour in (1, 2, 3):
        name = f"d_20260101_0{hour}:00:00_0{hour}:59:59.pcap"
        files.append((name, f"{day}0{hour}:00:00Z", f"{day}0{hour}:59:59Z"))
    link = proposed(tmp_path / "restart", files)
    assert link.named.patterns == ("d_%Y%m%d_%H:%M:%S_%LH:%LM:%LS.pcap%c",) and not link.notes and not link.dates.why


@pytest.mark.slow
@pytest.mark.parametrize(
    ("files", "mark", "said"),
    [
        ("00:00:00_00:59:59 00:00:01 00:59:50", "L", "it is taken to, as its times are round then; if it does not"),
        ("00:00:00_01:00:00 00:00:01 00:59:50", "E", ""),
        ("00:03:00_00:47:19 00:03:01 00:47:19.5", "L", ""),
        ("00:03:00_00:47:19 00:03:01 00:47:18.5", "E", "it is taken not to; if it does, write %L in place of %E"),
        ("00:00:00_00:59:59 00:00:01 00:59:50 05:00:00_05:59:59 05:00:01 05:59:50", "L", "no file begins where"),
        ("00:00:00_00:59:59 00:00:01 00:59:50 05:00:00_05:59:59 05:00:01 05:59:50 06:00:00_06:59:59 06:00:00 06:59:59",
         "L", ""),
        ("00:00:00_00:59:59 00:00:01 00:59:58 00:59:59_01:59:58 01:00:01 01:59:57", "E", ""),
    ],
)  # fmt: skip
def test_what_the_names_leave_open_is_said(files: str, mark: str, said: str, tmp_path: Path) -> None:
    words = [files.split()[at : at + 3] for at in range(0, len(files.split()), 3)]
    made = [(f"2026/01/01/{name}.pcap", f"2026-01-01T{first}Z", f"2026-01-01T{last}Z") for name, first, last in words]
    link = proposed(tmp_path, made)
    assert link.named.patterns == (f"%Y/%m/%d/%H:%M:%S_%{mark}H:%{mark}M:%{mark}S.pcap%c",), link.dates.why
    open_to = [note for note in link.notes if "the names leave open" in note]
    assert said in open_to[0] if said else not open_to, link.notes


@pytest.mark.slow
def test_a_contradiction_names_both_times(tmp_path: Path) -> None:
    files = [
        ("20260101_00:00:00_00:59:59.pcap", "2026-01-01T00:00:01Z", "2026-01-01T01:12:59.9Z"),
        ("20260101_01:00:00_01:59:59.pcap", "2026-01-01T01:13:00Z", "2026-01-01T01:59:50Z"),
    ]
    why = proposed(tmp_path / "real", files).dates.why
    assert "20260101_00:00:00_00:59:59.pcap says 2026-01-01T00:00:00Z to 2026-01-01T01:00:00Z" in why
    assert "its records are of 2026-01-01T00:00:01Z to 2026-01-01T01:12:59.9Z" in why
    alone = [("a_2026010100.pcap", "2026-01-01T00:20:00Z", "2026-01-01T00:40:00Z")]
    why = proposed(tmp_path / "alone", alone).dates.why
    assert "contradict" not in why and "one file does not tell how long each covers" in why


def test_a_lake_of_names_that_end_with_the_last_second(tmp_path: Path) -> None:
    """Google's logs: no record of the last second is outside, each hour is done, and the last one starts: it
    is provisional, since the skew behind it is not over (T6)."""
    folder, lake = tmp_path / "in" / "2026/01/01", tmp_path / "lake"
    folder.mkdir(parents=True)
    # In the third hour the recorder is started again within a second.
    parts = [("00:00:00", "00:59:59"), ("01:00:00", "01:59:59"), ("02:00:00", "02:20:59"), ("02:20:59", "02:59:59")]
    for first, last in parts:
        times = [f"{first[:2]}:{minute:02d}:59" for minute in range(60)]
        chosen = [time for time in times if first < time <= last]
        lines = [json.dumps({"timestamp": f"2026-01-01T{time}.700000Z", "bytes": str(len(time))}) for time in chosen]
        (folder / f"{first}_{last}_S0.json").write_text("\n".join(lines) + "\n")
    (tmp_path / "n.gsql").write_text(
        "DEFINE { query_name n; } SELECT tb, count(*) AS n FROM S0.S0 GROUP BY timestamp/3600000 AS tb\n"
    )
    said = lowwater("init", tmp_path / "in", "--lake", lake, "--query", tmp_path / "n.gsql")
    assert said.code == 0 and "no file for" not in said.out and "contradict" not in said.out, said.out + said.err
    said = lowwater("ingest", "--lake", lake)
    assert said.code == 0 and "outside of its declared coverage" not in said.out + said.err
    said = lowwater("backfill", "--lake", lake)
    assert said.code == 0, said.out + said.err
    said = lowwater("status", "--lake", lake)
    states = [line.split()[3] for line in said.out.splitlines() if line.lstrip().startswith("2026")]
    assert states == ["done", "done", "provisional"] and "outside of its" not in said.out, said.out

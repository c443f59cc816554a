"""Rule A1: logs of Zeek beside those of a link say what Zeek did not see."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from lowwater.capture.tables.drop_logs import drops_of_log
from lowwater.config import load_config
from lowwater.lake.ingestion.folders import look
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.captures import read_captures
from lowwater.lake.ledgers.missing import KnownMissing, drop_lines
from lowwater.lake.query_sets import DROPS
from tests.replay.support import lowwater

START, HOUR = 1_767_225_600, 3600  # 2026-01-01T00:00:00Z
SECOND = 1_000_000_000


def log(path: Path, kind: str, columns: str, rows: list[str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    head = ["#separator \\x09", f"#path {kind}".replace(" ", "\t"), "#fields\t" + columns.replace(" ", "\t")]
    text = "\n".join([*head, *(row.replace(" ", "\t") for row in rows), "#close\t2026"]) + "\n"
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


@pytest.mark.slow
def test_a_log_beside_makes_the_hour_incomplete_and_its_loss_is_told_once(tmp_path: Path) -> None:
    lake, folder = tmp_path / "lake", tmp_path / "zeek" / "2026-01-01"
    lake.mkdir()
    (lake / "lowwater.toml").write_text(
        '[links.conn]\nkind = "zeek"\nprotocol = "ZEEK_CONN"\nskew = "1h"\n'
        'captures = "../zeek/%Y-%m-%d/conn.%H:*.log.gz"\nrotation = "1h"\n'
    )
    for hour in (0, 1):
        name = f"{hour:02}:00:00-{hour + 1:02}:00:00.log.gz"
        rows = [f"{START + hour * HOUR + second}.5 C{second} 10.0.0.1 10.0.0.2" for second in range(0, HOUR, 60)]
        log(folder / f"conn.{name}", "conn", "ts uid id.orig_h id.resp_h", rows)
        end, gaps = START + (hour + 1) * HOUR - 1, (0, 12)[hour]
        losses = [f"{end} 900 w1 {gaps} 3000", f"{end} 900 w2 {2 * gaps} 3000"]
        log(folder / f"capture_loss.{name}", "capture_loss", "ts ts_delta peer gaps acks", losses)
    log(folder / "capture_loss.copy.log", "capture_loss", "ts ts_delta peer gaps acks", losses)
    message = "90 packets received on interface eth0, 1 (1.1%) dropped".replace(" ", "_")
    reporter = log(
        folder / "reporter.log", "reporter", "ts level message", [f"0.0 INFO {message}", f"{START} INFO hello"]
    )
    reporter.write_text(reporter.read_text().replace("_", " "))
    assert lowwater("ingest", "--lake", lake).code == 0
    opened, config = open_lake(lake), load_config(lake)
    look(opened, config)
    captures = read_captures(opened, ["conn"])
    for hour, expected in ((0, []), (1, [DROPS])):
        begin, end = ((START + at * HOUR) * SECOND for at in (hour, hour + 1))
        found = KnownMissing(opened, config, captures).of({"conn": begin}, begin, end)
        assert [each.cause for each in found if each.cause == DROPS] == expected, found
    (line,) = drop_lines(opened)
    assert "36 records were lost" in line and "capture_loss.01:00:00-02:00:00.log.gz" in line


def test_what_a_log_tells_without_a_time_has_that_of_the_log(tmp_path: Path) -> None:
    text = "#fields\tts\tlevel\tmessage\n0.0\tINFO\t90 packets received on interface eth0, 3 (1.1%) dropped\n"
    (tmp_path / "reporter.log").write_text(text)
    assert not drops_of_log(tmp_path / "reporter.log")
    (tmp_path / "reporter.log").write_text(text + f"{START}\tINFO\thello\n{START + 60}\tINFO\thello\n{{\n")
    ((drops,),) = (drops_of_log(tmp_path / "reporter.log").ranges,)
    assert (drops.start, drops.end, drops.count) == (START * SECOND, (START + 60) * SECOND, 3)

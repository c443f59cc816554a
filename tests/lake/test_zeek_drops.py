"""Rule A1: logs of Zeek beside those of a link say what Zeek did not see."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from lowwater.capture.tables.drop_logs import drops_of_log, kind_of
from lowwater.config import Config, load_config
from lowwater.lake.ingestion.folders import look
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.captures import read_captures
from lowwater.lake.ledgers.files import drops_beside
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
        folder / "reporter.log", "reporter", "ts level message", [f"0.0 INFO {message}", f"{START + HOUR} INFO hello"]
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


@pytest.mark.parametrize("form", ["plain", "packed", "cut", "json", "commas", "corelight"])
def test_logs_in_all_forms_say_the_same(tmp_path: Path, form: str) -> None:
    rows = [(START + 900 * (at + 1), 900, "w1", 7 + at, 3000) for at in range(4)]
    names = ("ts", "ts_delta", "peer", "gaps", "acks")
    lines = ["#path\tcapture_loss", "#fields\t" + "\t".join(names), *("\t".join(map(str, row)) for row in rows)]
    name = "capture_loss.log"
    if form == "json":
        lines = [json.dumps({**dict(zip(names, row, strict=True)), "_path": "capture_loss"}) for row in rows]
        lines.insert(2, '{"_path": "stats", "ts": ')  # of a writer that died
    if form == "commas":
        lines = ["#separator \\x2c", *(line.replace("\t", ",") for line in lines)]
    if form == "corelight":
        name = "capture_loss_20260101_00:00:00-01:00:00+0000.log"
    data = "\n".join([*lines, "#close"]).encode()
    path = tmp_path / (name + (".gz" if form in ("packed", "cut") else ""))
    path.write_bytes(data if path.suffix == ".log" else gzip.compress(data)[: -8 if form == "cut" else None])
    assert kind_of(path.name) == "capture_loss"
    found = [(each.start, each.end, each.count, each.whole) for each in drops_of_log(path).ranges]
    assert found == [((at - 900) * SECOND, at * SECOND, lost, 3000) for at, _, _, lost, _ in rows]


def test_the_first_statistics_of_a_log_count_since_those_in_the_log_before(tmp_path: Path) -> None:
    rows = [f"{START + at} w1 90 {lost}" for at, lost in ((10, 4), (310, 0), (610, 6))]
    rows.append(f"{START + 700} w2 90 2")  # nothing says since when: the log does
    found = drops_of_log(log(tmp_path / "stats.log", "stats", "ts peer pkts_proc pkts_dropped", rows)).ranges
    lost = sorted(
        ((each.start or 0) // SECOND - START, (each.end or 0) // SECOND - START, each.count) for each in found
    )
    assert [each for each in lost if each[2]] == [(-290, 10, 4), (10, 700, 2), (310, 610, 6)]


def test_other_logs_of_a_similar_name_say_nothing(tmp_path: Path) -> None:
    assert [kind_of(name) for name in ("conn.log", "statistics.log", "stats.txt", "mystats.log")] == [""] * 4
    other = log(tmp_path / "dns-stats.log", "dns_stats", "ts pkts_proc pkts_dropped", [f"{START} 90 5"])
    assert kind_of(other.name) == "stats" and not drops_of_log(other)


def made_lake(folder: Path) -> tuple[Path, Config]:
    folder.mkdir()
    (folder / "lowwater.toml").write_text(
        '[links.conn]\nkind = "zeek"\nprotocol = "ZEEK_CONN"\ncaptures = "zeek/conn.*.log"\n'
        '[links.dns]\nkind = "zeek"\nprotocol = "ZEEK_DNS"\ncaptures = "zeek/dns.*.log"\n'
    )
    (folder / "zeek").mkdir()
    return folder / "zeek", load_config(folder)


def test_a_log_that_grows_is_rotated_packed_and_gone_says_the_same_in_any_order_of_looks(tmp_path: Path) -> None:
    columns, rows = "ts ts_delta peer gaps acks", [f"{START + 900 * at} 900 w1 {at} 3000" for at in range(1, 9)]

    def told(root: Path) -> list[tuple[int, int]]:
        beside = drops_beside(open_lake(root))
        assert beside["conn"] == beside["dns"]  # the logs are of all links of their folder
        assert len({each.what for each in beside["conn"]}) == 1
        return [(each.end // SECOND, each.drops.count) for each in beside["conn"]]

    every = [(START + 900 * at, at) for at in range(1, 9)]
    seen, config = made_lake(tmp_path / "seen")
    for count in (1, 3, 4):
        log(seen / "capture_loss.log", "capture_loss", columns, rows[:count])
        look(open_lake(tmp_path / "seen"), config)
        assert told(tmp_path / "seen") == every[:count]
    (seen / "capture_loss.log").unlink()
    look(open_lake(tmp_path / "seen"), config)
    assert told(tmp_path / "seen") == every[:4], "a log that is gone has said it"
    log(seen / "capture_loss.00:00:00-01:00:00.log.gz", "capture_loss", columns, rows[:4])
    log(seen / "capture_loss.log", "capture_loss", columns, rows[4:6])
    look(open_lake(tmp_path / "seen"), config)
    assert told(tmp_path / "seen") == every[:6]
    (seen / "capture_loss.log").rename(seen / "capture_loss.01:00:00-02:00:00.log")
    log(seen / "capture_loss.01:00:00-02:00:00.log", "capture_loss", columns, rows[4:])
    look(open_lake(tmp_path / "seen"), config)
    assert told(tmp_path / "seen") == every
    once, config = made_lake(tmp_path / "once")
    for path in sorted(seen.iterdir()):
        (once / path.name).write_bytes(path.read_bytes())
    look(open_lake(tmp_path / "once"), config)
    assert told(tmp_path / "once") == every
    assert look(open_lake(tmp_path / "once"), config) == 0, "nothing is new"
    for path in seen.iterdir():
        path.unlink()
    look(open_lake(tmp_path / "seen"), load_config(tmp_path / "seen"))
    assert told(tmp_path / "seen") == every


@pytest.mark.parametrize("first", ["joined", "alone"])
def test_logs_that_were_joined_count_once_beside_those_they_were_made_of(first: str, tmp_path: Path) -> None:
    lake, folder = tmp_path / "lake", tmp_path / "zeek"
    lake.mkdir()
    (lake / "lowwater.toml").write_text(
        '[links.conn]\nkind = "zeek"\nprotocol = "ZEEK_CONN"\ncaptures = "../zeek/conn.*.log"\n'
    )
    parts = []
    for hour in range(3):  # two peers write each 5 minutes, not to the microsecond
        parts.append(
            [
                f"{START + hour * HOUR + 300 * at}.{hour * 7 + at:06} {peer} 1000 {10 + peer_drops}"
                for at in range(1, 13)
                for peer, peer_drops in (("w1", 0), ("w2", at % 2))
            ]
        )
    columns, names = "ts peer pkts_proc pkts_dropped", ("stats.a.log", "stats.z.log")
    joined, alone = names if first == "joined" else names[::-1]
    log(folder / joined, "stats", columns, [row for part in parts for row in part])
    log(folder / "conn.00.log", "conn", "ts uid id.orig_h id.resp_h", [f"{START}.5 C1 10.0.0.1 10.0.0.2"])
    for number, part in enumerate(parts):
        log(folder / alone.replace(".log", f"{number}.log"), "stats", columns, part)
    lowwater("ingest", "--lake", lake)
    opened = open_lake(lake)
    look(opened, load_config(lake))
    told = drops_beside(opened)["conn"]
    assert sum(each.drops.count for each in told) == 3 * 12 * 20 + 3 * 6

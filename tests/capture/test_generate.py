"""Generated captures: deterministic, whole, and with everything they promise in them."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from lowwater_generator import GeneratedCapture, generate

from lowwater.capture.reader import CaptureSummary, read
from tests.capture.tsharkoracle import need_tshark

pytestmark = pytest.mark.slow
SECOND = 1_000_000_000
HOUR = 3600 * SECOND
START = 1_600_002_000 * SECOND // HOUR * HOUR
SKEW = {"main1": 2.0}


def digests(files: list[GeneratedCapture]) -> list[str]:
    return [hashlib.sha256(file.path.read_bytes()).hexdigest() for file in files]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> list[GeneratedCapture]:
    return generate(tmp_path_factory.mktemp("made"), START, hours=2, rate=3, skew=SKEW, seed=4)


def load(file: GeneratedCapture) -> tuple[pa.Table, CaptureSummary]:
    reader = read(file.path, 60 * SECOND)
    batches = list(reader)
    assert reader.summary is not None
    return pa.Table.from_batches(batches) if batches else pa.table({}), reader.summary


def of(files: list[GeneratedCapture], link: str, index: int) -> GeneratedCapture:
    return [file for file in files if file.link == link][index]


def test_the_seed_decides_every_byte(made: list[GeneratedCapture], tmp_path: Path) -> None:
    same = generate(tmp_path / "same", START, hours=2, rate=3, skew=SKEW, seed=4)
    assert digests(same) == digests(made)
    other = generate(tmp_path / "other", START, hours=1, rate=3, skew=SKEW, seed=5)
    assert not set(digests(other)[:1]) & set(digests(made))
    later = generate(tmp_path / "later", START + HOUR, hours=1, rate=3, skew=SKEW, seed=4)
    assert digests([of(later, "main1", 0)]) == digests([of(made, "main1", 1)])


def test_disorder_stays_within_the_skew_but_for_the_announced_violations(made: list[GeneratedCapture]) -> None:
    violations = 0
    for file in made:
        if not file.packets:
            continue
        table, _ = load(file)
        late = table["arrival"].to_numpy() - table["timestamp"].to_numpy()
        skew = int(SKEW.get(file.link, 1.0) * SECOND)
        assert int((late > skew).sum()) == file.violations <= 5
        assert late.max() < 2 * skew
        violations += file.violations
        if file.link != "control":
            assert (late > 0).sum() > file.violations
    assert violations >= 5


def test_control_is_quiet_cut_and_ends_empty(made: list[GeneratedCapture]) -> None:
    first, second, closing = (of(made, "control", index) for index in range(3))
    assert (first.cut, second.cut, closing.packets, closing.bytes) == (False, True, 0, 24)
    assert 0 < first.packets < of(made, "main1", 0).packets / 5
    stamps = np.sort(load(second)[0]["timestamp"].to_numpy())
    assert np.diff(stamps).max() >= 1200 * SECOND
    assert not load(second)[1].ended_cleanly


def test_tshark_finds_nothing_malformed_and_every_checksum_right(made: list[GeneratedCapture]) -> None:
    fields = [
        "_ws.malformed", "ip.checksum.status", "tcp.checksum.status", "udp.checksum.status", "icmp.checksum.status",
    ]  # fmt: skip
    checks = [f"{name}.check_checksum:TRUE" for name in ("ip", "tcp", "udp")]
    command = ["tshark", "-r", str(of(made, "main1", 0).path), "-T", "fields"]
    command += [word for check in checks for word in ("-o", check)] + [word for name in fields for word in ("-e", name)]
    need_tshark()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert len(lines) == of(made, "main1", 0).packets
    assert {line[0] for line in lines} == {""}
    # 0 is bad, 1 good, 2 not checked because the snaplen cut the segment
    assert {value for line in lines for value in line[1:]} == {"", "1", "2"}
    assert {line[1] for line in lines} == {"", "1"}

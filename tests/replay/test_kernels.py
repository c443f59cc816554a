"""After set-up no process compiles the reader: of no kind of link, no format, no damage."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lowwater.capture.headers.links import LAYERS
from tests.capturemaker import LINUX_SLL, RADIOTAP, pcap_bytes, udp

FRAME = udp("10.0.0.1", "10.0.0.2", 9, 53)


@pytest.mark.slow
def test_nothing_is_compiled_after_set_up(tmp_path: Path) -> None:
    kept = tmp_path / "kernels"
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(kept)}

    def runs(*words: object) -> None:
        done = subprocess.run(
            [sys.executable, "-m", *map(str, words)], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr

    def compiled() -> set[str]:
        return {path.name for path in kept.rglob("*.nbc")}

    runs("lowwater.replay.setup.kernels")
    before = compiled()
    assert {name.split("rows_")[1].split("_")[0] for name in before if "rows_" in name} == {
        *(layer.name for layer in LAYERS),
        "unknown",
    }
    packets = [(at * 1_000_000_000, FRAME) for at in range(1, 40)]
    for number, content in enumerate(
        (
            pcap_bytes(packets, link_type=LINUX_SLL),
            pcap_bytes(packets, nanoseconds=True, link_type=RADIOTAP),
            pcap_bytes(packets)[:-7] + bytes(range(1, 200)) + pcap_bytes(packets)[24:],
        )
    ):
        path = tmp_path / f"link{number}.pcap"
        path.write_bytes(content)
        runs("lowwater.cli.main", "inspect", path)
        runs("lowwater.cli.main", "ingest", "--lake", tmp_path / "lake", "--link", f"a{number}", path)
    assert compiled() == before

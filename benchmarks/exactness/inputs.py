"""The inputs of the comparison: an hour of captures of two links, in one file and in one file a minute.

`lowwater generate` makes the hour, without disorder; the files of a minute are cut from it here, record by record.
"""

from __future__ import annotations

import random
import struct
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

LINKS = ("main1", "main2")
VARIANTS = {
    "one": "one file a link",
    "again": "one file a link, imported once more from nothing",
    "minutes": "the same hour in one file a minute",
    "shuffled": "the files of the minutes in a random order",
    "killed": "the files of the minutes; half-way the import is killed (kill -9), then the same commands run again",
}
_HEADER, _RECORD = 24, struct.Struct("<IIII")
_MAGIC = b"\xd4\xc3\xb2\xa1"


@dataclass(frozen=True)
class Captures:
    """Files to import.

    Attributes:
        files: link -> files, in the order of the import.
        killed: whether the import is killed half-way and begun again.
    """

    files: dict[str, list[Path]]
    killed: bool = False


def generate(out: Path, rate: float, seed: int) -> dict[str, Path]:
    """Makes the hour: link -> its capture.

    Args:
        out: folder for the captures.
        rate: packets/s of a link.
        seed: equal seeds give equal files.
    """
    words = [sys.executable, "-m", "lowwater.cli.main", "generate", "--out", out, "--links", ",".join(LINKS)]
    words += ["--rate", rate, "--seed", seed, *(part for link in LINKS for part in ("--skew", f"{link}=0"))]
    subprocess.run([str(word) for word in words], check=True, stdout=subprocess.DEVNULL)
    return {link: min((out / link).iterdir()) for link in LINKS}


def in_minutes(capture: Path, out: Path) -> list[Path]:
    """Cuts a capture at the minutes of its timestamps; returns the files in the order of time."""
    out.mkdir(parents=True, exist_ok=True)
    content = capture.read_bytes()
    assert content[:4] == _MAGIC, f"{capture} is no little-endian pcap of microseconds"
    minutes: dict[int, list[bytes]] = {}
    at = _HEADER
    while at < len(content):
        seconds, _, length, _ = _RECORD.unpack_from(content, at)
        end = at + _RECORD.size + length
        minutes.setdefault(seconds // 60, []).append(content[at:end])
        at = end
    files = []
    for minute, records in sorted(minutes.items()):
        begin = datetime.fromtimestamp(minute * 60, UTC)
        files.append(out / f"{out.name}_{begin:%Y%m%dT%H%M%SZ}.pcap")
        files[-1].write_bytes(content[:_HEADER] + b"".join(records))
    return files


def variants(hour: dict[str, Path], folder: Path) -> dict[str, Captures]:
    """Makes the files of every variant; returns what each one imports."""
    whole = {link: [capture] for link, capture in hour.items()}
    minutes = {link: in_minutes(capture, folder / "minutes" / link) for link, capture in hour.items()}
    chance = random.Random(1)
    shuffled = {link: chance.sample(files, len(files)) for link, files in minutes.items()}
    return {
        "one": Captures(whole),
        "again": Captures(whole),
        "minutes": Captures(minutes),
        "shuffled": Captures(shuffled),
        "killed": Captures(minutes, killed=True),
    }

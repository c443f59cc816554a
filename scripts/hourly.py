"""Splits captures into hourly files, one folder for each link, like the files of a rotating dump.

`python scripts/hourly.py --out DIR LINK=FILE...` writes `DIR/<link>/<link>_<hour>.pcap` and `DIR/lowwater.toml`. For
classic pcap captures that were made in one piece; their bytes are copied as they are. A record goes where the clock
stands, that is the largest timestamp so far (SEMANTICS T2), so that a late record stays beside its neighbours.
"""

from __future__ import annotations

import argparse
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

HEADER, RECORD = 24, 16
MAGICS = {b"\xd4\xc3\xb2\xa1": "<", b"\xa1\xb2\xc3\xd4": ">", b"\x4d\x3c\xb2\xa1": "<", b"\xa1\xb2\x3c\x4d": ">"}
LINK = """
[links.{name}]
captures = "{name}/{name}_%Y%m%dT%HZ.pcap"
rotation = "1h"
since = "{since}"
until = "{until}"
"""


@dataclass(frozen=True)
class Record:
    """A record: seconds of its timestamp, and its bytes with the header."""

    seconds: int
    data: bytes


def records(data: bytes, order: str) -> Iterator[Record]:
    """Yields the records of a capture; the last one may be cut."""
    at = HEADER
    while at + RECORD <= len(data):
        seconds, _, length, _ = struct.unpack_from(f"{order}4I", data, at)
        end = at + RECORD + length
        yield Record(seconds, data[at:end])
        at = end


def split(link: str, path: Path, out: Path) -> tuple[int, int]:
    """Writes the hourly files of one capture.

    Returns:
        First and last second of its clock.

    Raises:
        ValueError: the file is no classic pcap, or has no record.
    """
    data = path.read_bytes()
    order = MAGICS.get(data[:4])
    if order is None:
        raise ValueError(f"{path}: is no classic pcap; `editcap -F pcap` makes one")
    hours: dict[int, list[bytes]] = {}
    clock, first = 0, None
    for record in records(data, order):
        clock = max(clock, record.seconds)
        first = record.seconds if first is None else first
        hours.setdefault(clock // 3600, []).append(record.data)
    if first is None:
        raise ValueError(f"{path}: has no record")
    (out / link).mkdir(parents=True, exist_ok=True)
    for hour in range(min(hours), max(hours) + 1):  # an hour without a packet is an empty file, not a missing one
        name = f"{link}_{_moment(hour * 3600):%Y%m%dT%H}Z.pcap"
        (out / link / name).write_bytes(data[:HEADER] + b"".join(hours.get(hour, [])))
    return first, clock


def main(arguments: list[str] | None = None) -> int:
    """Splits every capture; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("captures", nargs="+", metavar="LINK=FILE")
    chosen = parser.parse_args(arguments)
    text = ""
    for capture in chosen.captures:
        link, _, path = capture.partition("=")
        try:
            first, last = split(link, Path(path), chosen.out)
        except (OSError, ValueError) as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
        # The dump began and ended within its hours: before and after, no packets are expected (T5).
        since, until = (_moment(second).strftime("%Y-%m-%dT%H:%M:%SZ") for second in (first, last + 1))
        text += LINK.format(name=link, since=since, until=until)
    (chosen.out / "lowwater.toml").write_text(text.lstrip(), encoding="utf-8")
    return 0


def _moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


if __name__ == "__main__":
    sys.exit(main())

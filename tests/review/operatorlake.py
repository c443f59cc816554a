"""A lake as an operator has it: fifty hours of three links, with an outage, a clock that jumped, a cut file and a file
that is refused, published by real runs. `python -m tests.review.operatorlake DIR` makes it in some minutes, for a look
at the pages: `lowwater serve --lake DIR/lake --queries DIR/queries`.
"""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

from lowwater_generator import generate

from lowwater.instants import HOUR, format_instant, parse_instant

START = parse_instant("2026-03-28T00:00:00Z")
HOURS = 50
LINKS = ("main1", "main2", "control")
AWAY = ("main1", range(34, 36))
"""The recorder of a link was away for these hours."""
CUT = ("main1", 33)
"""The last file before that was cut in the middle."""
JUMPED = ("main2", 20)
"""In the middle of this hour the clock of a link went ahead, and came back with the next file."""
REFUSED = ("control", 28)
"""The file of this hour is no capture."""
JUMP = 7 * 60
"""How far it went ahead, s."""

QUERIES = {
    "flows": {
        "flows": "SELECT tb*60 AS begin, srcIP, destIP, protocol, count(*) AS packets, sum(len) AS bytes, "
        "max(len) AS longest, avg(len) AS mean FROM [links].IPV4 GROUP BY time/60 AS tb, srcIP, destIP, protocol",
        "busy": "SELECT begin/600*600 AS begin, srcIP, sum(packets) AS packets FROM flows "
        "GROUP BY begin/600*600 AS begin, srcIP HAVING sum(packets) > 100",
    },
    "names": {
        "lookups": "SELECT tb, srcIP, destPort, count(*) AS packets FROM [links].UDP WHERE destPort = 53 "
        "GROUP BY time/300 AS tb, srcIP, destPort",
    },
}


def make_operator_lake(folder: Path, hours: int = HOURS, rate: float = 1.0) -> tuple[Path, Path]:
    """Makes the lake of so many hours and publishes it; returns it and its queries."""
    root, queries, captures = folder / "lake", folder / "queries", folder / "captures"
    generate(captures, START, hours, list(LINKS), rate=rate, seed=11, cut=())
    for path in captures.rglob("*_20260330T02*" if hours == HOURS else "none"):
        path.unlink()  # of the minute behind the last hour
    for hour in AWAY[1]:
        _capture(captures, AWAY[0], hour).unlink(missing_ok=True)
    change(_capture(captures, *CUT), lambda data: data[: len(data) // 2 + 7])
    change(_capture(captures, *JUMPED), _with_jump)
    change(_capture(captures, *REFUSED), lambda data: b"<html>503 Service Unavailable</html>")
    write_settings(root, queries)
    run("ingest", "--lake", root)
    run("backfill", "--lake", root, "--queries", queries, "--through-end", "--spark", "none")
    return root, queries


def write_settings(root: Path, queries: Path) -> None:
    """Writes the settings of the lake, and its queries."""
    root.mkdir(parents=True)
    since = format_instant(START)
    links = "".join(
        f'[links.{name}]\ncaptures = "../captures/{name}/{name}_%Y%m%dT%H%M%SZ.pcap"\nrotation = "1h"\n'
        f'skew = "2s"\nsince = "{since}"\npolicy = "publish"\n\n'
        for name in LINKS
    )
    names = ", ".join(f'"{name}"' for name in LINKS)
    sets = "".join(f"[query_sets.{name}]\n" for name in QUERIES)
    (root / "lowwater.toml").write_text(f"{links}[sets]\nlinks = [{names}]\n\n{sets}", encoding="utf-8")
    queries.mkdir()
    for name, texts in QUERIES.items():
        text = "".join(f"DEFINE {{ query_name '{query}'; }}\n{each};\n" for query, each in texts.items())
        (queries / f"{name}.gsql").write_text(text, encoding="utf-8")


def run(*words: object) -> None:
    """Runs a command of Lowwater; what an interval fails at is part of the lake."""
    subprocess.run([Path(sys.executable).parent / "lowwater", *map(str, words)], check=False)


def _capture(captures: Path, link: str, hour: int) -> Path:
    instant = format_instant(START + hour * HOUR).replace("-", "").replace(":", "")
    return captures / link / f"{link}_{instant}.pcap"


def change(path: Path, how: object) -> None:
    """Changes the bytes of a file, where it is there."""
    if path.is_file():
        path.write_bytes(how(path.read_bytes()))  # type: ignore[operator]


def _with_jump(data: bytes) -> bytes:
    """Sets the clock of the second half of a little-endian pcap ahead."""
    out, at, middle = bytearray(data), 24, len(data) // 2
    while at + 16 <= len(out):
        seconds, _, size = struct.unpack_from("<III", out, at)
        if at > middle:
            struct.pack_into("<I", out, at, seconds + JUMP)
        at += 16 + size
    return bytes(out)


if __name__ == "__main__":
    make_operator_lake(Path(sys.argv[1]))

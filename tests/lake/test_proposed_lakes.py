"""What `init` writes loads, and `ingest` over it puts every packet into a link or names its file."""

from __future__ import annotations

import gzip
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings, strategies as st

from lowwater.config import load_config
from lowwater.instants import SECOND
from lowwater.lake.files.patterns import files_of
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.captures import read_captures
from lowwater.plan.temporal import END_OF_TIME
from tests.breadth import examples
from tests.capturemaker import pcap_bytes, tcp
from tests.replay.support import Said, lowwater

FRAMES = [tcp("10.0.0.1", "10.0.0.2", 1024 + at, 80) for at in range(64)]
FORMS = (
    "a_%Y%m%d%H%M%S.pcap",
    "a-%Y-%m-%d.pcap",
    "%Y%m%d/a_%H.pcap",
    "%Y-%m-%d/a.%H:%M:%S-{end:%H:%M:%S}.pcap",
    "a_{n:05d}_%Y%m%d%H%M%S.pcapng",
    "a.%s.pcap",
    "a_%s{micros:06d}",
    "a_%y%m%d-{n:08d}.pcap",
    "a-{n}.pcap",
    "a.pcap{n}",
    "a{n}.pcap",
    "{n}/a.pcap",
    "{word}/a_%Y%m%d_%H%M.pcap",
    "a_%d%b%Y_%I%M%p.pcap.gz",
    "a_%Y%m%d%H_{word}.pcap",
    "a_%H%M%S.pcap",
    "a (%j) [{n}] 50%%.pcap",
    "ü {n} %Y.%m.%d.pcap",
)
ZONES = ("UTC", "Europe/Berlin", "Asia/Kolkata", "Pacific/Kiritimati", "Pacific/Pago_Pago", "America/St_Johns")


@dataclass(frozen=True)
class File:
    """A drawn capture: its name, and the times of its packets, ns."""

    name: str
    stamps: tuple[int, ...]
    cut: bool
    copied: bool


@st.composite
def recorders(draw: st.DrawFn) -> list[File]:
    """The files of one recorder: regular, with files that are missing, empty, cut or copied, and with restarts."""
    form, zone = draw(st.sampled_from(FORMS)), ZoneInfo(draw(st.sampled_from(ZONES)))
    step = draw(st.sampled_from((60, 900, 3600, 86_400)))
    begin = draw(st.integers(1_700_000_000 // step, 1_800_000_000 // step)) * step + draw(st.sampled_from((0, 0, 1200)))
    active, offset = draw(st.sampled_from(((1.0, 0.0), (1.0, 0.0), (0.04, 0.5), (0.3, 0.9)))), 0
    files = []
    for number in range(draw(st.integers(1, 6))):
        offset += draw(st.sampled_from((0, 0, 0, 0, step // 3, 2 * step)))
        at = begin + number * step + offset
        moment = datetime.fromtimestamp(at, UTC).astimezone(zone)
        fields = {
            "n": number,
            "end": moment + timedelta(seconds=step),
            "micros": number * 1013,
            "word": "xy"[number > 2],
        }
        name = form.format(**fields).replace("%s", str(at))
        count = draw(st.sampled_from((0, 1, 20, 20, 20)))
        first, length = at + active[1] * step * 0.9, active[0] * step * 0.9
        stamps = tuple(int((first + length * tick / max(count, 1)) * SECOND) for tick in range(count))
        flaws = draw(st.sampled_from(("", "", "", "", "", "cut", "copied")))
        files.append(File(moment.strftime(name), stamps, flaws == "cut", flaws == "copied"))
    return list({file.name: file for file in files}.values())


def write(folder: Path, files: list[File], number: int) -> dict[str, int]:
    """Writes the files; returns name -> its packets."""
    written = {}
    for file in files:
        data = pcap_bytes([(stamp, FRAMES[(at + number) % 64]) for at, stamp in enumerate(file.stamps)])
        cut = file.cut and len(file.stamps) > 1
        data = data[:-7] if cut else data
        for name in (file.name, *([f"copy of {file.name.replace('/', '-')}"] if file.copied else [])):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(gzip.compress(data, 1) if name.endswith(".gz") else data)
            written[path.relative_to(folder.parent).as_posix()] = len(file.stamps) - cut
    return written


@pytest.mark.slow
@settings(max_examples=examples(60))
@given(st.lists(recorders(), min_size=1, max_size=3), st.booleans())
def test_what_init_writes_reads_every_file(
    tmp_path_factory: pytest.TempPathFactory, worlds: list[list[File]], apart: bool
) -> None:
    root = tmp_path_factory.mktemp("w")
    packets: dict[str, int] = {}
    for number, files in enumerate(worlds):
        folder = root / "in" / (f"r{number}" if apart else "all")
        folder.mkdir(parents=True, exist_ok=True)
        named = [
            File(file.name if apart else f"{number}z{file.name}", file.stamps, file.cut, file.copied) for file in files
        ]
        packets |= {f"{folder.name}/{name.partition('/')[2]}": n for name, n in write(folder, named, number).items()}
    if not any(packets.values()):
        return
    lake = root / "lake"
    said = lowwater("init", root / "in", "--lake", lake)
    assert said.code == 0, said.err
    config = load_config(lake)
    claimed: dict[str, list[str]] = {name: [] for name in packets}
    for link, section in config.links.items():
        for path in files_of(section, 0, END_OF_TIME):
            claimed[path.relative_to(root / "in").as_posix()].append(link)
    text = (lake / "lowwater.toml").read_text()
    assert all(len(links) == 1 for links in claimed.values()), (claimed, text)
    told = lowwater("ingest", "--lake", lake)
    ledger = read_captures(open_lake(lake), list(config.links))
    stored = {(row.link, row.capture): row.packets for rows in ledger.values() for row in rows}
    refused = [name for name in packets if _is_refused(told, root / "in" / name)]
    copies = {
        (claimed[name][0], (root / "in" / name).read_bytes()): n for name, n in packets.items() if name not in refused
    }
    assert sum(stored.values()) == sum(copies.values()), (text, told.out, told.err)


def _is_refused(told: Said, path: Path) -> bool:
    return re.search(rf"^.*{re.escape(str(path))}\b", told.err, re.MULTILINE) is not None

"""Hints of the commands themselves: options of `generate`, `init`, `run`, `export`, `report`, `skew`, `suggest`."""

from __future__ import annotations

import io
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from lowwater import extras
from lowwater.cli.commands.expect import _suggestions
from lowwater.cli.commands.skew import _review
from lowwater.config import Config, load_config
from lowwater.instants import HOUR
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.history import record_metrics
from lowwater.lake.ledgers.runs import ReplayRow, record_replays
from lowwater.quality.drift import LINK, metric_rows, metric_table
from lowwater.replay.packets.capture_export import Selection, exported_links, select, write_selection
from lowwater.replay.packets.predicate import read_predicate
from lowwater.replay.progress import Progress
from lowwater.replay.stages.runners import runner_of
from tests.hints.desk import Case, Desk, Site
from tests.quality.test_history import items
from tests.replay.support import START, Said

FLOWS = "SELECT tb, count(*) AS n FROM main1.TCP GROUP BY time/60 AS tb"
KEEP = "payload = 200"


def _ran(desk: Desk, *more: object, text: str = FLOWS, links: str = "main1") -> Said:
    given = [word for link in links.split() for word in ("--capture", f"{link}={desk.capture}")]
    return desk.run("run", desk.query(text), *given, "--out", desk.folder / "out", "--engine", "reference", *more)


def _generated(desk: Desk, links: str) -> Said:
    return desk.run("generate", "--out", desk.folder / "made", "--links", links, "--rate", "0.1")


def _kept(desk: Desk, *lines: str) -> Path:
    """A lake whose link keeps the beginnings of payloads."""
    desk.settle(*lines, ingest=False)
    desk.settings('skew = "1s"', f'skew = "1s"\n{KEEP}')
    said = desk.run("ingest", "--lake", desk.lake, "--link", "main1", "--covers", desk.life, desk.capture)
    assert said.code == 0, said
    return desk.lake


def _exported(desk: Desk, out: str, *more: object, lake: bool = True) -> Said:
    if lake:
        _kept(desk)
    return desk.run("export", "--lake", desk.lake, "--out", out if out == "-" else desk.folder / out, *more)


def _over(desk: Desk, *more: object) -> Said:
    desk.write("out.pcap", "something")
    return _exported(desk, "out.pcap", *more)


def _to_terminal(desk: Desk) -> None:
    from lowwater.cli.commands.export import _export

    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return True

    _kept(desk)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", Screen())
        _export(desk.lake, Path("-"), [], None, None, None, "ETH", None, False, False)


def _without_frames(desk: Desk) -> Said:
    desk.settle()
    return _exported(desk, "out.pcap", "--protocol", "TCP", "--where", "payload LIKE 'a%'", lake=False)


def _frames_kept_now(desk: Desk) -> Said:
    desk.settings('skew = "1s"', f'skew = "1s"\n{KEEP}')
    said = desk.run("ingest", "--lake", desk.lake, "--link", "main1", "--covers", desk.life, desk.capture)
    assert said.code == 0, said
    return _exported(desk, "out.pcap", lake=False)


def _selection(desk: Desk, **changed: Any) -> Selection:
    lake, config = open_lake(_kept(desk), make=False), load_config(desk.lake)
    found = select(lake, config, ["main1"], read_predicate(None), 0, 1 << 62)
    for name, value in changed.items():
        setattr(found, name, value)
    return found


def _made(selection: Selection, form: str) -> None:
    parts: list[bytes] = []
    write_selection(selection, form, parts.append)
    assert len(b"".join(parts)) > 24


def _interfaces(desk: Desk, own: str) -> Said:
    """A pcapng of two interfaces, one of a link type that nobody knows, which are one link or one each."""
    from lowwater.capture.formats.write import WrittenInterface, pcapng_header, pcapng_record

    frame = bytes(60)
    data = pcapng_header([WrittenInterface("eth0", 1), WrittenInterface("odd", 4242)])
    data += b"".join(pcapng_record(at % 2, START + at, 60, frame) for at in range(8))
    path = desk.folder / "two.pcapng"
    path.write_bytes(data)
    desk.settle(ingest=False)
    desk.settings('skew = "1s"', f'skew = "1s"\n{KEEP}\n{own}')
    said = desk.run("ingest", "--lake", desk.lake, "--link", "main1", "--covers", desk.life, path)
    assert said.code == 0, said
    return _exported(desk, "out.pcap", "--link", "main1/eth0" if not own else "main1", lake=False)


def _files_gone(desk: Desk) -> None:
    found = _selection(desk)
    files = list((desk.lake / "packets").rglob("*.parquet"))
    for file in files:
        file.rename(file.with_suffix(".away"))
    try:
        _made(found, "pcap")
    finally:
        for file in files:
            file.with_suffix(".away").rename(file)


def _metrics(desk: Desk, hours: int) -> None:
    """Suggestions after so many intervals that were audited."""
    lake = open_lake(desk.settle(ingest=False))
    for hour in range(hours):
        start, rows = START + hour * HOUR, metric_rows(LINK, "main1", items(100 + hour % 3), hour)
        record_metrics(lake, "flows", start, start + HOUR, metric_table(rows))
    assert _suggestions(desk.lake, load_config(desk.lake))


def _reported(desk: Desk, *more: object, ledger: bool = True) -> Said:
    desk.settle()
    if ledger:
        done = ReplayRow("flows", "flows", START, START + HOUR, "publish", "done", 1)
        record_replays(open_lake(desk.lake), [done])
    return desk.run("report", "--lake", desk.lake, "--queries", desk.folder, *more)


def _empty(desk: Desk) -> None:
    lake = open_lake(desk.settle(ingest=False))
    _review(lake, load_config(desk.lake), "main1", None, None, 0.0, [])


def _full(desk: Desk) -> None:
    lake = open_lake(desk.lake)
    assert desk.run("ingest", "--lake", desk.lake, "--link", "main1", "--covers", desk.life, desk.capture).code == 0
    assert _review(lake, load_config(desk.lake), "main1", None, None, 0.0, []).link == "main1"


def _pattern(desk: Desk, name: str) -> Said:
    shutil.copy(desk.capture, desk.folder / "main1_20260101T000000Z.pcap")
    pattern = desk.folder / f"{name}_%Y%m%dT%H%M%SZ.pcap"
    links = desk.write("links.toml", f'[links.main1]\nskew = "1s"\ncaptures = "{pattern}"\nrotation = "1h"\n')
    out = desk.folder / "out"
    return desk.run("run", desk.query(FLOWS), "--links", links, "--out", out, "--engine", "reference")


def _twice(desk: Desk, *links: str) -> Said:
    copy = Path(shutil.copy(desk.capture, desk.folder / "copy.pcap"))
    given = ["--capture", f"{links[0]}={desk.capture}", "--capture", f"{links[1]}={copy}"]
    out = desk.folder / "out"
    return desk.run("run", desk.query(FLOWS), *given, "--out", out, "--engine", "reference")


def _links(desk: Desk, name: str) -> None:
    lake, config = open_lake(desk.settle(), make=False), load_config(desk.lake)
    assert exported_links(lake, config, [name])


def _no_captures(desk: Desk) -> None:
    lake = open_lake(desk.settle(ingest=False))
    exported_links(lake, load_config(desk.lake), [])


def _captures(desk: Desk) -> None:
    assert desk.run("ingest", "--lake", desk.lake, "--link", "main1", "--covers", desk.life, desk.capture).code == 0
    assert exported_links(open_lake(desk.lake), load_config(desk.lake), []) == ["main1"]


def _initialised(desk: Desk, anew: bool) -> Said:
    shutil.copy(desk.capture, desk.folder / "main1_20260101T000000Z.pcap")
    if anew:
        (desk.lake / "lowwater.toml").unlink()
    else:
        desk.settle(ingest=False)
    return desk.run("init", desk.folder, "--lake", desk.lake)


def _without(desk: Desk, *packages: str) -> None:
    """Asks for the extra of Spark where these packages are not installed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(extras, "find_spec", lambda name: None if name in packages else object())
        extras.require("lowwater backfill on local[*]", "spark")


def _on(master: str) -> None:
    runner_of("lowwater backfill", Config(), Progress(quiet=True), master)


CASES = [
    Case(
        "an extra that is not installed",
        lambda desk: _without(desk, "pyspark"),
        "pip install 'lowwater[spark]'",
        lambda desk: _without(desk),
    ),
    Case(
        "a Spark that is none",
        lambda desk: _on("spark.example"),
        "write for example local[*], spark://host:7077, sc://host:15002, or none",
        lambda desk: _on("none"),
    ),
    Case(
        "a story of other hours",
        lambda desk: desk.run("generate", "--story", "--out", desk.folder / "made", "--hours", 2),
        "leave out --hours: links and times are fixed",
        lambda desk: desk.run("generate", "--story", "--out", desk.folder / "made"),
    ),
    Case(
        "no link to generate",
        lambda desk: _generated(desk, " , "),
        "write for example --links main1,main2,control",
        lambda desk: _generated(desk, "main1,main2,control"),
    ),
    Case(
        "settings that are there",
        lambda desk: _initialised(desk, False),
        "remove it and run init again",
        lambda desk: _initialised(desk, True),
    ),
    Case(
        "a capture for a terminal",
        _to_terminal,
        "name a file",
        lambda desk: _exported(desk, "out.pcap", lake=False),
    ),
    Case(
        "export to a folder",
        lambda desk: _exported(desk, "."),
        "name a file, or - to write",
        lambda desk: _exported(desk, "out.pcap", lake=False),
    ),
    Case(
        "export over a file",
        _over,
        "--force to replace it",
        lambda desk: _exported(desk, "out.pcap", "--force", lake=False),
    ),
    Case(
        "export to nowhere",
        lambda desk: _exported(desk, "absent/out.pcap"),
        "check its folder",
        lambda desk: _exported(desk, "out.pcap", lake=False),
    ),
    Case("export without frames", _without_frames, "set `payload` in [links.main1]", _frames_kept_now),
    Case(
        "export of no protocol",
        lambda desk: _exported(desk, "out.pcap", "--protocol", "TPC"),
        "did you mean TCP?",
        lambda desk: _exported(desk, "out.pcap", "--protocol", "TCP", lake=False),
    ),
    Case(
        "export of two conditions",
        lambda desk: _exported(desk, "out.pcap", "--where", "len > 1; SELECT len FROM ETH WHERE len > 2"),
        "write one expression, for example: srcPort = 53",
        lambda desk: _exported(desk, "out.pcap", "--where", "srcPort = 53", lake=False),
    ),
    Case(
        "export of no link",
        lambda desk: _links(desk, "mian1"),
        "did you mean main1?",
        lambda desk: _links(desk, "main1"),
    ),
    Case("export of an empty lake", _no_captures, "take some in with `lowwater ingest`", _captures),
    Case(
        "export of an unknown link type",
        lambda desk: _interfaces(desk, 'interfaces = "one"'),
        "make each interface",
        lambda desk: _interfaces(desk, ""),
    ),
    Case(
        "files that went meanwhile", _files_gone, "export again", lambda desk: _exported(desk, "out.pcap", lake=False)
    ),
    Case(
        "a pcap of several link types",
        lambda desk: _made(_selection(desk, interfaces=[("main1", "EN10MB"), ("b", "RAW")]), "pcap"),
        "give --format pcapng, or one --link",
        lambda desk: _made(_selection(desk), "pcapng"),
    ),
    Case(
        "a pcap after 2106",
        lambda desk: _made(_selection(desk, latest=(1 << 32) * 1_000_000_000), "pcap"),
        "give --format pcapng",
        lambda desk: _made(_selection(desk, latest=(1 << 32) * 1_000_000_000), "pcapng"),
    ),
    Case(
        "a link type that a pcapng cannot say",
        lambda desk: _made(_selection(desk, interfaces=[("main1", "65536")]), "pcapng"),
        "give --format pcap",
        lambda desk: _made(_selection(desk), "pcap"),
    ),
    Case(
        "nothing to judge by",
        lambda desk: _metrics(desk, 2),
        "audit more intervals, or lower `least`",
        lambda desk: _metrics(desk, 40),
    ),
    Case(
        "a report of no interval",
        lambda desk: _reported(desk, "--interval", desk.at(7 * 3600)),
        "the only one begins at",
        lambda desk: _reported(desk, "--interval", desk.at(0)),
    ),
    Case("the skew of an empty link", _empty, "`lowwater ingest` takes them in", _full),
    Case(
        "a skew of no link",
        lambda desk: _ran(desk, "--skew", "mian1=1s"),
        "there are: main1",
        lambda desk: _ran(desk, "--skew", "main1=1s"),
    ),
    Case(
        "a skew that is none",
        lambda desk: _ran(desk, "--skew", "main1=500000h"),
        "write for example --skew main1=1s",
        lambda desk: _ran(desk, "--skew", "main1=1s"),
    ),
    Case(
        "a pattern of no file",
        lambda desk: _pattern(desk, "mian1"),
        "correct `captures`, or give --capture",
        lambda desk: _pattern(desk, "main1"),
    ),
    Case(
        "a link without a capture",
        lambda desk: _ran(desk, links="main2"),
        "give --capture main1=FILE",
        lambda desk: _ran(desk),
    ),
    Case(
        "one capture twice",
        lambda desk: _twice(desk, "main1", "main1"),
        "give it to another link",
        lambda desk: _twice(desk, "main1", "main2"),
    ),
]

LEFT: dict[Site, str] = {}

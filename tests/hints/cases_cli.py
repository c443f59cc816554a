"""Hints of the commands themselves: options of `generate`, `init`, `run`, `export`, `report`, `skew`, `suggest`."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from lowwater import extras
from lowwater.cli.commands.audits import _suggestions
from lowwater.config import load_config
from lowwater.instants import HOUR
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.runs import record_metrics
from lowwater.quality.history import LINK, metric_table
from lowwater.replay.packets import Selection, read_predicate, select, write_selection
from tests.hints.desk import Case, Desk, tried
from tests.quality.test_history import items
from tests.replay.support import START, Said

FLOWS = "SELECT tb, count(*) AS n FROM main1.TCP GROUP BY time/60 AS tb"
KEEP = "payload = 200"


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
        start, rows = START + hour * HOUR, metric_table([(LINK, "main1", items(100 + hour % 3))], hour)
        record_metrics(lake, "flows", start, start + HOUR, rows, again=False)
    assert _suggestions(desk.lake, load_config(desk.lake))


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


def _without(desk: Desk, *packages: str) -> None:
    """Asks for the extra of Spark where these packages are not installed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(extras, "find_spec", lambda name: None if name in packages else object())
        extras.require("lowwater backfill on local[*]", "spark")


CASES: list[Case] = [
    tried("an extra that is not installed", _without, "pip install 'lowwater[spark]'", "pyspark", ()),
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
        "a link type that a pcapng cannot say",
        lambda desk: _made(_selection(desk, interfaces=[("main1", "65536")]), "pcapng"),
        "give --format pcap",
        lambda desk: _made(_selection(desk), "pcap"),
    ),
    tried("nothing to judge by", _metrics, "audit more intervals, or lower `least`", 2, 40),
    tried("a pattern of no file", _pattern, "correct `captures`, or give --capture", "mian1", "main1"),
    tried("one capture twice", _twice, "give it to another link", ("main1", "main1"), ("main1", "main2")),
]

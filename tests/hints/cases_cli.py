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
from tests.hints.setup import Case, Setup, tried
from tests.quality.test_history import items
from tests.replay.support import START, Said

FLOWS = "SELECT tb, count(*) AS n FROM main1.TCP GROUP BY time/60 AS tb"
KEEP = "payload = 200"


def _kept(setup: Setup, *lines: str) -> Path:
    """A lake whose link keeps the beginnings of payloads."""
    setup.settle(*lines, ingest=False)
    setup.settings('skew = "1s"', f'skew = "1s"\n{KEEP}')
    said = setup.run("ingest", "--lake", setup.lake, "--link", "main1", "--covers", setup.life, setup.capture)
    assert said.code == 0, said
    return setup.lake


def _exported(setup: Setup, out: str, *more: object, lake: bool = True) -> Said:
    if lake:
        _kept(setup)
    return setup.run("export", "--lake", setup.lake, "--out", out if out == "-" else setup.folder / out, *more)


def _selection(setup: Setup, **changed: Any) -> Selection:
    lake, config = open_lake(_kept(setup), make=False), load_config(setup.lake)
    found = select(lake, config, ["main1"], read_predicate(None), 0, 1 << 62)
    for name, value in changed.items():
        setattr(found, name, value)
    return found


def _made(selection: Selection, form: str) -> None:
    parts: list[bytes] = []
    write_selection(selection, form, parts.append)
    assert len(b"".join(parts)) > 24


def _files_gone(setup: Setup) -> None:
    found = _selection(setup)
    files = list((setup.lake / "packets").rglob("*.parquet"))
    for file in files:
        file.rename(file.with_suffix(".away"))
    try:
        _made(found, "pcap")
    finally:
        for file in files:
            file.with_suffix(".away").rename(file)


def _metrics(setup: Setup, hours: int) -> None:
    """Suggestions after so many intervals that were audited."""
    lake = open_lake(setup.settle(ingest=False))
    for hour in range(hours):
        start, rows = START + hour * HOUR, metric_table([(LINK, "main1", items(100 + hour % 3))], hour)
        record_metrics(lake, "flows", {(start, start + HOUR): rows}, again=False)
    assert _suggestions(setup.lake, load_config(setup.lake))


def _pattern(setup: Setup, name: str) -> Said:
    shutil.copy(setup.capture, setup.folder / "main1_20260101T000000Z.pcap")
    pattern = setup.folder / f"{name}_%Y%m%dT%H%M%SZ.pcap"
    links = setup.write("links.toml", f'[links.main1]\nskew = "1s"\ncaptures = "{pattern}"\nrotation = "1h"\n')
    out = setup.folder / "out"
    return setup.run("run", setup.query(FLOWS), "--links", links, "--out", out, "--engine", "reference")


def _twice(setup: Setup, *links: str) -> Said:
    copy = Path(shutil.copy(setup.capture, setup.folder / "copy.pcap"))
    given = ["--capture", f"{links[0]}={setup.capture}", "--capture", f"{links[1]}={copy}"]
    out = setup.folder / "out"
    return setup.run("run", setup.query(FLOWS), *given, "--out", out, "--engine", "reference")


def _without(setup: Setup, *packages: str) -> None:
    """Asks for the extra of Spark where these packages are not installed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(extras, "find_spec", lambda name: None if name in packages else object())
        extras.require("lowwater backfill on local[*]", "spark")


CASES: list[Case] = [
    tried("an extra that is not installed", _without, "pip install 'lowwater[spark]'", "pyspark", ()),
    Case("files that went meanwhile", _files_gone, "export again",
         lambda setup: _exported(setup, "out.pcap", lake=False)),
    Case("a pcap of several link types",
         lambda setup: _made(_selection(setup, interfaces=[("main1", "EN10MB"), ("b", "RAW")]), "pcap"),
         "give --format pcapng, or one --link", lambda setup: _made(_selection(setup), "pcapng")),
    Case("a link type that a pcapng cannot say",
         lambda setup: _made(_selection(setup, interfaces=[("main1", "65536")]), "pcapng"), "give --format pcap",
         lambda setup: _made(_selection(setup), "pcap")),
    tried("nothing to judge by", _metrics, "audit more intervals, or lower `least`", 2, 40),
    tried("a pattern of no file", _pattern, "correct `captures`, or give --capture", "mian1", "main1"),
    tried("one capture twice", _twice, "give it to another link", ("main1", "main1"), ("main1", "main2")),
]  # fmt: skip

"""The rows of table.txt: commands that fail with a hint, and what it says to do."""

from __future__ import annotations

import io
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lowwater_generator import generate

from lowwater.capture.formats.capture_file import WrittenInterface, pcapng_header, pcapng_record
from tests.hints.setup import records
from tests.lake.test_interfaces import pcapng
from tests.replay.support import START, Said, lowwater

QUERY = "DEFINE { query_name 'flows'; }\nSELECT tb, count(*) AS n FROM main1.TCP GROUP BY time/60 AS tb\n"
SETTINGS = """[query_sets.flows]
files = ["../flows.gsql"]

[links.main1]
skew = "1s"
since = "2026-01-01T00:00:00Z"
until = "2026-01-01T00:10:00Z"
"""
COMMANDS = {
    "INGEST": "ingest --lake lake --link main1",
    "RUN": "run q.gsql --out out --engine reference --capture main1=main1.pcap",
    "LOG": "run q.gsql --out out --engine reference --links links.toml --capture log=log",
}
WORDS = {
    "LIFE": "2026-01-01T00:00:00Z/2026-01-01T00:10:00Z",
    "SPLIT": "MODULE 'mine.py'; int UDAF [SUBAGGR lower, SUPERAGGR upper] total fstring8 (uint); "
    "int UDAF lower fstring8 (uint); int UDAF upper fstring8 (int);",
    "{BETWEEN": '{"type": "expect_column_values_to_be_between"',
    "{SQL": '{"type": "unexpected_rows_expectation", "kwargs": {"unexpected_rows_query":',
}
TOOLS = ("bzip2", "lz4", "editcap")


class Case(NamedTuple):
    """A row of the table, with the steps of its section."""

    section: str
    name: str
    steps: tuple[str, ...]
    wrong: str
    hint: str
    right: str


def _cases() -> list[Case]:
    cases: list[Case] = []
    section, steps = "", [""]
    for line in Path(__file__).with_name("table.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            section, steps = line[3:], []
        elif " || " in line and line[0] not in "#<$@":
            name, *rest = line.split(" || ")
            cases.append(Case(section, name, tuple(steps), *rest))
        elif line and not line.startswith("#"):
            steps.append(line)
    return cases


CASES = [case for case in _cases() if all(shutil.which(tool) or tool not in case.wrong + case.right for tool in TOOLS)]


def settle(folder: Path) -> None:
    """Files of every case; `states` has lakes with settings, with a capture, with a published hour."""
    files, states = folder / "files", folder / "states"
    (made, *_) = generate(folder, START, 1, ["main1"], rate=1.0, seed=5)
    header, *packets = records(made.path)
    files.mkdir()
    cuts = {"first": (0, 50), "second": (60, 110), "east": (0, 100), "west": (3, 103), "north": (6, 106)}
    for name, (first, last) in ({"main1": (0, len(packets))} | cuts).items():
        (files / f"{name}.pcap").write_bytes(header + b"".join(packets[first:last]))
    for name, count in (("two", 2), ("many", 300)):
        seconds = [(number / 100, number) for number in range(count)]
        pcapng(files / f"{name}.pcapng", [f"eth{number}" for number in range(count)], seconds)
    odd = pcapng_header([WrittenInterface("eth0", 1), WrittenInterface("odd", 4242)])
    odd += b"".join(pcapng_record(number % 2, START + number, 60, bytes(60)) for number in range(8))
    (files / "odd.pcapng").write_bytes(odd)
    out = io.BytesIO()
    pq.write_table(pa.table({"time": [1767225600] * 5000, "size": range(5000)}), out, compression="zstd")
    (files / "whole.parquet").write_bytes(out.getvalue())
    (files / "damaged.parquet").write_bytes(out.getvalue()[:4] + bytes(196) + out.getvalue()[200:])
    (files / "flows.gsql").write_text(QUERY)
    (states / "lake").mkdir(parents=True)
    (states / "lake" / "lowwater.toml").write_text(SETTINGS)
    shutil.copy(files / "flows.gsql", states)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(files)
        for name, command in (("ingested", "INGEST --covers LIFE main1.pcap"), ("published", "backfill --lake lake")):
            shutil.copytree(states / ("lake" if name == "ingested" else "ingested"), files / "lake")
            assert _command(command).code == 0
            (files / "lake").rename(states / name)


def _command(text: str) -> Said:
    first, _, rest = text.partition(" ")
    return lowwater(*shlex.split(f"{COMMANDS.get(first, first)} {_worded(rest)}"))


def _worded(text: str) -> str:
    for word, meant in WORDS.items():
        text = text.replace(word, meant)
    return text


def take(case: Case, value: str, states: Path, first: bool) -> Said:
    """Takes the steps with a value, the rest of them after a step that must succeed; what the last one said."""
    own = value.startswith(("! ", "> ")) or " ;; " in value or value[:2] in ("< ", "$ ", "% ")
    whole = own and "{}" in case.steps and not first
    lines = value.split(" ;; ") if whole and "! " in value else []
    if not lines:
        for step in case.steps:
            lines += step.replace("{}", value).split(" ;; ")
    said = None
    with pytest.MonkeyPatch.context() as patch:
        for line in lines:
            sign, _, rest = line.partition(" ")
            if sign == "@" and first:
                shutil.copytree(states / rest, "lake")
            elif sign == "<":
                name, _, text = rest.partition(" ")
                text = _worded(text).replace("\\n", "\n").replace("\\t", "\t").replace("\\\\", "\\")
                path = Path(name)
                if path.is_dir():
                    path.rmdir()
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            elif sign == "%":
                patch.setenv(*rest.split("="))
            elif sign == "$":
                if rest.startswith("LOWWATER "):
                    assert _command(rest.removeprefix("LOWWATER ")).code == 0
                else:
                    subprocess.run(["sh", "-c", _worded(rest)], check=True)
            elif sign in (">", "!"):
                said = _command(rest)
                assert sign == "!" or said.code == 0, (rest, said)
    assert said is not None
    return said

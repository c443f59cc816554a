"""docs/records.md: its example runs and gives what the page shows; its reasons are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lowwater.capture.tables import blocks as pieces, reader
from tests.replay.support import lowwater

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "records.md").read_text(encoding="utf-8")
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_the_example_gives_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (flows, rows, malformed) = (text for language, text in FENCE.findall(PAGE) if language == "csv")
    written = {"flows.csv": flows}
    for language, name in (("toml", "links.toml"), ("gsql", "bytes.gsql")):
        (written[name],) = (text for found, text in FENCE.findall(PAGE) if found == language)
    for name, text in written.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (command,) = (text for language, text in FENCE.findall(PAGE) if language == "sh")
    said = lowwater(*command.split()[1:])
    assert said.code == 0, said
    assert (tmp_path / "results" / "bytes.csv").read_text(encoding="utf-8") == rows
    assert (tmp_path / "results" / "malformed.csv").read_text(encoding="utf-8") == malformed


def test_the_reasons_are_those_of_the_code() -> None:
    table = PAGE.split("| reason | record |\n")[1].split("\n\n")[0]
    named = set(re.findall(r"`([^`]+)`", "\n".join(line.split("|")[1] for line in table.splitlines()[1:])))
    known = {pieces.NO_TIME, pieces.TIME_RANGE, pieces.TIME_JUMP, pieces.LONG, pieces.COLUMNS, pieces.SYNTAX}
    assert named == known | {pieces.ENCODING, reader.CUT, reader.COMPRESSION, "value of NAME"}

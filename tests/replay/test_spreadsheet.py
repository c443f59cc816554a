"""CSV for spreadsheets: no text of a packet or a file name becomes a formula, and numbers stay numbers."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st
from lowwater_review.results.pages import pieces, saved

from lowwater.replay.row_files import spreadsheet_rows, write_csv
from lowwater.terminal import FORMULA, spreadsheet_cell
from tests import capturemaker as maker
from tests.replay.support import lowwater

START = 1_600_000_000 * 1_000_000_000
PAYLOADS = ["=cmd|'/c calc'!A0", "+1", "-1", "@SUM(A1)", "\t=1", "a\x1b[31mb", "plain", "'quoted"]
SHOWN = ["'=cmd|'/c calc'!A0", "'+1", "'-1", "'@SUM(A1)", "'\\t=1", "a\\u001b[31mb", "plain", "'quoted"]


@given(st.one_of(st.text(), st.builds(str.__add__, st.sampled_from(FORMULA), st.text())))
def test_no_text_is_a_formula_or_holds_a_control_character(text: str) -> None:
    cell = str(spreadsheet_cell(text))
    assert cell.isprintable() and not cell.startswith(FORMULA)


@pytest.fixture
def written(tmp_path: Path) -> tuple[Path, Path]:
    frames = [(START + n, maker.udp("10.0.0.1", "10.0.0.2", n, 53, text.encode())) for n, text in enumerate(PAYLOADS)]
    capture, query = tmp_path / "a.pcap", tmp_path / "q.gsql"
    capture.write_bytes(maker.pcap_bytes(frames))
    query.write_text("DEFINE { query_name 'q'; }\nSELECT srcPort, 0 - srcPort AS below, UDP_data AS text FROM UDP\n")
    return capture, query


def run(written: tuple[Path, Path], out: Path, *options: str) -> list[list[str]]:
    capture, query = written
    said = lowwater("run", query, "--capture", f"a={capture}", "--out", out, "--engine", "reference", *options)
    assert said.code == 0, said.err
    with (out / "q.csv").open(newline="") as file:
        return sorted(csv.reader(file), key=lambda row: (row[0].isdigit(), row[0].zfill(3)))[1:]


@pytest.mark.slow
def test_run_writes_for_spreadsheets_when_it_is_asked(written: tuple[Path, Path], tmp_path: Path) -> None:
    plain = run(written, tmp_path / "plain")
    safe = run(written, tmp_path / "safe", "--spreadsheet")
    assert [row[2] for row in plain] == PAYLOADS
    assert [row[2] for row in safe] == SHOWN
    assert [row[:2] for row in plain] == [row[:2] for row in safe]
    assert safe[3][1] == "-3"  # a number is no formula


def test_rows_and_downloads_have_no_formula(tmp_path: Path) -> None:
    batch = pa.record_batch({"text": [*PAYLOADS, None], "number": [-1] * (len(PAYLOADS) + 1)})
    safe = spreadsheet_rows(batch)
    assert safe.schema == batch.schema
    assert safe.column("text").to_pylist() == [*SHOWN, None] and safe.column("number") == batch.column("number")
    downloaded = b"".join(pieces(saved("csv", batch.schema, [batch]))).decode()
    assert [row[0] for row in csv.reader(io.StringIO(downloaded))] == ["text", *SHOWN, ""]


def test_names_of_columns_and_texts_of_any_type_are_no_formulas(tmp_path: Path) -> None:
    """Of a table that another program wrote: a column of any name, and types that only its files have."""
    kinds = (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string()))
    for kind in kinds:
        batch = pa.record_batch({"=1+1": pa.array(PAYLOADS, pa.string()).cast(kind)})
        write_csv(pa.table(batch), tmp_path / "x.csv", spreadsheet=True)
        for text in (b"".join(pieces(saved("csv", batch.schema, [batch]))), (tmp_path / "x.csv").read_bytes()):
            assert [row[0] for row in csv.reader(io.StringIO(text.decode()))] == ["'=1+1", *SHOWN], kind


@pytest.mark.parametrize("command", [("rows", "q"), ("tail", "q"), ("export", "--out", "x")])
def test_every_command_that_writes_csv_has_the_option(command: tuple[str, ...], tmp_path: Path) -> None:
    said = lowwater(*command, "--lake", tmp_path, "--format", "json", "--spreadsheet")
    assert said.code in (1, 2) and "No such option" not in said.err

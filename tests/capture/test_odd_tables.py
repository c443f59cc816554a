"""Tables as spreadsheets and other tools leave them: they are read, or the message has the true cause."""

from __future__ import annotations

import gzip
import io
import json
import re
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pytest

from lowwater.capture.reader import open_capture
from lowwater.capture.tables.blocks import typed
from lowwater.capture.tables.options import TableOptions
from lowwater.capture.tables.reader import RecordReader
from lowwater.capture.tables.sniffing import sniff
from lowwater.catalog.records import SECONDS, RecordField, RecordLayout
from lowwater.catalog.values import Type
from lowwater.errors import CaptureError

BEGIN = 1_767_225_600
ROWS = ["Start;Bytes;Note", *(f"2026-01-01T00:00:{at:02d}Z;{1000 + at};gepr\u00fcft" for at in range(60))]
TEXT = "\n".join(ROWS) + "\n"
OBJECTS = [{"timestamp": f"2026-01-01T00:00:{at:02d}Z", "n": at} for at in range(60)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("data", "cause", "remedy"),
    [
        (TEXT.encode("cp1252"), "no text in UTF-8, from line 2 on", "iconv -f windows-1252 -t utf-8 OLD > NEW"),
        (TEXT.encode("utf-16-le"), "UTF-16 without a byte order mark", "iconv -f utf-16le -t utf-8 OLD > NEW"),
        (TEXT.encode("utf-16-be"), "UTF-16 without a byte order mark", "iconv -f utf-16be -t utf-8 OLD > NEW"),
        (b"sep=;\r\n" + TEXT.encode(), "its first line, 'sep=;', is for Excel", "tail -n +2 OLD > NEW"),
        (b"\xef\xbb\xbfsep=;\n" + TEXT.encode(), "'sep=;', is for Excel", "tail -n +2 OLD > NEW"),
        (json.dumps(OBJECTS).encode(), "is one array of JSON", "jq -c '.[]' OLD > NEW"),
        (json.dumps(OBJECTS, indent=1).encode(), "is one array of JSON", "jq -c '.[]' OLD > NEW"),
    ],
)
def test_the_cause_is_true_and_its_remedy_helps(data: bytes, cause: str, remedy: str, tmp_path: Path) -> None:
    (tmp_path / "OLD").write_bytes(data)
    with pytest.raises(CaptureError, match="OLD") as caught:
        sniff(tmp_path / "OLD")
    assert cause in caught.value.message and f"`{remedy}`" in (caught.value.hint or "")
    if shutil.which(remedy.split()[0]) is None:
        pytest.skip(f"{remedy.split()[0]} is not installed")
    subprocess.run(remedy, shell=True, cwd=tmp_path, check=True)
    assert sniff(tmp_path / "NEW").records == 60


def test_a_header_in_the_middle_hides_no_type(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("\n".join([*ROWS[:30], ROWS[0], *ROWS[30:]]) + "\n", encoding="utf-8")
    table = sniff(tmp_path / "a.csv")
    assert [column.kind.type for column in table.columns] == [Type.INT, Type.INT, Type.STRING] and table.clock == 0


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1.7e9", 1_700_000_000),
        ("1.767225600123E+09", 1_767_225_600.123),
        ("1e99", None),
        ("e9", None),
        ("1.7e-9", None),
    ],
)
def test_seconds_with_an_exponent(text: str, value: float | None) -> None:
    column, bad = typed(pa.array([text, "5"]), RecordField("", Type.INT, form=SECONDS))
    assert column.to_pylist() == [None if value is None else round(value * 1000) * 1_000_000, 5_000_000_000]
    assert bad.tolist() == [value is None, False]


def _archive(kind: str, of: Path) -> bytes:
    """A file `of` in an archive, or something that begins as one."""
    made = io.BytesIO()
    if kind in ("zip", "xlsx", "ods"):
        with zipfile.ZipFile(made, "w") as file:
            names = {"xlsx": "[Content_Types].xml", "ods": "mimetype"}
            sheet = "application/vnd.oasis.opendocument.spreadsheet"
            file.writestr(names[kind], sheet) if kind in names else file.write(of, of.name)
    elif kind == "tar":
        with tarfile.open(fileobj=made, mode="w") as file:
            file.add(of, of.name)
    else:
        magic = {"7z": "377abcaf271c", "rar": "526172211a07", "xls": "d0cf11e0a1b11ae1"}[kind]
        return bytes.fromhex(magic) + bytes(600)
    return made.getvalue()


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("kind", "what", "remedy"),
    [
        ("zip", "a zip archive", "unpack it: `unzip "),
        ("tar", "a tar archive", "unpack it: `tar -xf "),
        ("7z", "a 7z archive", "unpack it: `7z x "),
        ("rar", "a rar archive", "unpack it: `unrar x "),
        ("xlsx", "an Excel workbook (XLSX)", "save its sheet as CSV in UTF-8"),
        ("ods", "an OpenDocument file, such as a sheet (ODS)", "save its sheet as CSV in UTF-8"),
        ("xls", "an old Excel workbook (XLS)", "save its sheet as CSV in UTF-8"),
    ],
)
def test_an_archive_under_the_name_of_a_table_is_told(
    kind: str, what: str, remedy: str, packed: bool, tmp_path: Path
) -> None:
    (tmp_path / "day.csv").write_text(TEXT, encoding="utf-8")
    data = _archive(kind, tmp_path / "day.csv")
    (tmp_path / "a.csv").write_bytes(gzip.compress(data) if packed else data)
    link = TableOptions("csv", RecordLayout("p", (RecordField("t", Type.INT, 1),), "int:t"))
    readers = [
        lambda: sniff(tmp_path / "a.csv"),
        lambda: list(RecordReader(tmp_path / "a.csv", link, 10**9, "")),
        lambda: open_capture(tmp_path / "a.csv"),
    ]
    for read in readers:
        with pytest.raises(CaptureError, match=re.escape(what)) as caught:
            read()
        assert (caught.value.hint or "").startswith(remedy)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_the_command_unpacks_an_archive(kind: str, tmp_path: Path) -> None:
    (tmp_path / "day.csv").write_text(TEXT, encoding="utf-8")
    (tmp_path / "it's all.csv").write_bytes(_archive(kind, tmp_path / "day.csv"))
    (tmp_path / "day.csv").unlink()
    with pytest.raises(CaptureError) as caught:
        sniff(tmp_path / "it's all.csv")
    command = (caught.value.hint or "").split("`")[1]
    if shutil.which(command.split()[0]) is None:
        pytest.skip(f"{command.split()[0]} is not installed")
    subprocess.run(command, shell=True, check=True)
    assert sniff(tmp_path / "day.csv").records == 60


def _rows(values: Iterable[str], head: str = "Start;Value") -> str:
    rows = (f"2026-01-01T00:00:{at:02d}Z;{value}" for at, value in enumerate(values))
    return "\n".join([head, *rows]) + "\n"


@pytest.mark.parametrize(
    ("text", "decimal", "kind"),
    [
        (_rows(f"{at},{at:02d}" for at in range(60)), ",", Type.FLOAT),
        (_rows("7" if at % 2 else "-0,125" for at in range(60)), ",", Type.FLOAT),
        (_rows("1.234,5" if at % 2 else "3,1" for at in range(60)), ".", Type.STRING),  # points between thousands
        (_rows(f"1,{at:03d}" for at in range(60)), ".", Type.STRING),  # a comma of either meaning
        (_rows(f"{at},{at},1" for at in range(60)), ".", Type.STRING),
        (_rows(f"1.{at:02d}" for at in range(60)), ".", Type.FLOAT),
    ],
)
def test_decimal_commas_are_read_or_left_as_texts(text: str, decimal: str, kind: Type, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(text, encoding="utf-8")
    table = sniff(tmp_path / "a.csv")
    assert (table.text.separator, table.text.decimal, table.columns[1].kind.type) == (";", decimal, kind)


def test_a_point_between_thousands_is_no_fraction_beside_decimal_commas(tmp_path: Path) -> None:
    rows = (f"2026-01-01T00:00:{at:02d}Z;{at},5;1.{at:03d}" for at in range(60))
    (tmp_path / "a.csv").write_text("\n".join(["Start;Share;Bytes", *rows]) + "\n")
    assert [column.kind.type for column in sniff(tmp_path / "a.csv").columns] == [Type.INT, Type.FLOAT, Type.STRING]


def test_times_with_a_decimal_comma_are_not_cut_at_it(tmp_path: Path) -> None:
    rows = (f"{BEGIN + at},{at:02d};{at},5" for at in range(60))
    (tmp_path / "a.csv").write_text("\n".join(["ts;v", *rows]) + "\n")
    table = sniff(tmp_path / "a.csv")
    stamps = table.columns[0].kind.stamps
    assert (table.text.separator, table.unit, table.clock) == (";", "ms", 0)
    assert stamps is not None and stamps.tolist() == [(BEGIN + at) * 10**9 + at * 10**7 for at in range(60)]


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("Export of June\n\n" + TEXT, "tail -n +3 OLD > NEW"),
        (TEXT + "Total;61770;all\n", "sed '62d' OLD > NEW"),
        (TEXT + "Total;61770;all\n\nMean;1029;all\n", "sed '62d;64d' OLD > NEW"),
    ],
)
def test_a_line_that_is_no_record_is_named(text: str, command: str, tmp_path: Path) -> None:
    """Else the colon of times was taken for the separator, since it gives a column of times: whole hours."""
    (tmp_path / "OLD").write_text(text)
    table = sniff(tmp_path / "OLD")
    assert table.clock is None and f"`{command}`" in table.clockless
    subprocess.run(command, shell=True, cwd=tmp_path, check=True)
    mended = sniff(tmp_path / "NEW")
    assert (mended.clock, mended.records, mended.text.header) == (0, 60, True)


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        (b"", "has no records"),
        (b"\n\n", "has no records"),
        (TEXT.replace("\n", "\r").encode(), "its lines end with a carriage return alone"),
    ],
)
def test_a_file_without_lines(data: bytes, cause: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(data)
    with pytest.raises(CaptureError, match=cause):
        sniff(tmp_path / "a.csv")


def test_a_header_alone_has_no_clock(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("ts,host,n\n")
    assert sniff(tmp_path / "a.csv").clockless == "no column has times; its only line may be a header"

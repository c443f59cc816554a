"""Tables as spreadsheets and other tools leave them: they are read, or the message has the true cause."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pyarrow as pa
import pytest

from lowwater.capture.tables.blocks import typed
from lowwater.capture.tables.sniffing import sniff
from lowwater.catalog.records import SECONDS, RecordField
from lowwater.catalog.values import Type
from lowwater.errors import CaptureError

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

"""A field that is declared by another type than its values have: ingest names field, value, line and what to write.

Each remedy is followed literally: the records are then read, with the values that are there.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lowwater.config import load_config
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import open_lake
from tests.replay.support import lowwater

SETTINGS = """
[links.log]
kind = "{kind}"
schemas = "log.schema"
captures = "log.*"
since = "2026-01-01T00:00:00Z"
{more}
"""
PROTOCOL = "PROTOCOL LOG {{ llong t get_csv_iso_to_timestamp (increasing, unit s); {field} }}\n"
TIMES = [f"2026-01-01T00:00:{second:02d}Z" for second in range(10)]


def _lake(folder: Path, kind: str, field: str, more: str = "") -> None:
    (folder / "log.schema").write_text(PROTOCOL.format(field=field))
    (folder / "lowwater.toml").write_text(SETTINGS.format(kind=kind, more=more))


def _note(folder: Path) -> str:
    """The note of ingest about the only file."""
    (result,) = ingest(open_lake(folder), "log", sorted(folder.glob("log.[!s]*")), load_config(folder))
    return result.note


def _records(folder: Path) -> list[object]:
    begin, end = "2026-01-01T00:00Z", "2026-01-01T01:00Z"
    lowwater("export", "--lake", folder, "--link", "log", "--from", begin, "--to", end, "--out", folder / "out.json")
    return [json.loads(line)["v"] for line in (folder / "out.json").read_text().splitlines()]


def _follow(folder: Path, kind: str, said: str) -> None:
    """Does what the message says: another declaration, and a line of the settings of the link."""
    (declared,) = re.findall(r"write `([^`]*)` in the PROTOCOL", said) or ["uint v get_csv_uint"]
    line = re.search(r'(decimal|null) = ("[^"]*"|\[[^]]*\])(?= in the settings)', said)
    attributes = " (unit ms)" if "before what it has in ( )" in said else ""
    _lake(folder, kind, f"{declared}{attributes};", line[0] if line else "")


@pytest.mark.parametrize(
    ("field", "values", "said", "read"),
    [
        ("uint v get_csv_uint", ["1.5"] * 10, "is declared as integer, such as '1.5' in line 2", [1.5] * 10),
        ("uint v get_csv_uint", ["web", *map(str, range(9))], "such as 'web' in line 2", ["web", *map(str, range(9))]),
        ("uint v get_csv_uint", ["1", "-", *"23456789"], "such as '-' in line 3", [1, None, *range(2, 10)]),
        ("uint v get_csv_uint", ["192.0.2.1"] * 10, "such as '192.0.2.1'", ["192.0.2.1"] * 10),
        ("float v get_csv_float", ["3,14"] * 10, "is declared as number, such as '3,14'", [3.14] * 10),
        ("uint v get_csv_uint", ["7", "0,5"] * 5, "such as '0,5' in line 3", [7.0, 0.5] * 5),
        ("IP v get_csv_ip", ["web"] * 10, "is declared as address, such as 'web'", ["web"] * 10),
        ("bool v get_csv_bool", ["up"] * 10, "is declared as boolean, such as 'up'", ["up"] * 10),
        ("llong v get_csv_iso_to_timestamp (unit ms)", ["web"] * 10, "time in ISO 8601, such as 'web'", ["web"] * 10),
        ("llong v get_csv_float_to_timestamp (unit ms)", ["2,5"] * 10, "decimal seconds, such as '2,5'", [2.5] * 10),
    ],
)
def test_values_of_csv(field: str, values: list[str], said: str, read: list[object], tmp_path: Path) -> None:
    _lake(tmp_path, "csv", f"{field};", 'separator = ";"')
    (tmp_path / "log.csv").write_text("t;v\n" + "".join(f"{t};{v}\n" for t, v in zip(TIMES, values, strict=True)))
    note = _note(tmp_path)
    assert said in note and "records are malformed by their value of v" in note
    _follow(tmp_path, "csv", note)
    settings = (tmp_path / "lowwater.toml").read_text()
    (tmp_path / "lowwater.toml").write_text(settings + 'separator = ";"\n')
    assert "malformed by" not in _note(tmp_path)
    found = _records(tmp_path)
    assert [float(str(v)) if isinstance(r, float) else v for v, r in zip(found, read, strict=True)] == read


@pytest.mark.parametrize(
    ("field", "values", "said", "read"),
    [
        ("uint v get_csv_uint", ["12"] * 10, "such as '12' in line 1", ["12"] * 10),  # 64 bits of protobuf are texts
        ("uint v get_csv_uint", [1.5] * 10, "such as '1.5' in line 1", [1.5] * 10),
        ("string v get_csv_string", [7] * 10, "is declared as text, such as '7' in line 1", [7] * 10),
        ("IP v get_csv_ip", [True] * 10, "is declared as address, such as 'True'", [True] * 10),
    ],
)
def test_values_of_json(field: str, values: list[object], said: str, read: list[object], tmp_path: Path) -> None:
    _lake(tmp_path, "json", f"{field};")
    records = [json.dumps({"t": t, "v": v}) for t, v in zip(TIMES, values, strict=True)]
    (tmp_path / "log.json").write_text("\n".join(records) + "\n")
    note = _note(tmp_path)
    assert said in note
    _follow(tmp_path, "json", note)
    assert "malformed by" not in _note(tmp_path)
    assert _records(tmp_path) == read


def test_a_text_of_digits_is_converted_in_a_query(tmp_path: Path) -> None:
    _lake(tmp_path, "json", "uint v get_csv_uint;")
    (tmp_path / "log.json").write_text("".join(json.dumps({"t": t, "v": "12"}) + "\n" for t in TIMES))
    note = _note(tmp_path)
    assert "and to_llong(v) is its number in a query" in note
    _follow(tmp_path, "json", note)
    _note(tmp_path)
    query = "DEFINE { query_name 'q'; } SELECT tb, sum(to_llong(v)) AS s FROM log.LOG GROUP BY t/60 AS tb"
    (tmp_path / "q.gsql").write_text(query)
    links = ("--links", tmp_path / "lowwater.toml", "--capture", f"log={tmp_path}/log.json")
    assert lowwater("run", tmp_path / "q.gsql", *links, "--out", tmp_path / "out").code == 0
    assert (tmp_path / "out" / "q.csv").read_text().splitlines()[1].endswith(",120")


def test_values_of_parquet(tmp_path: Path) -> None:
    _lake(tmp_path, "parquet", "uint v get_csv_uint;")
    pq.write_table(pa.table({"t": TIMES, "v": [0.25] * 10}), tmp_path / "log.parquet")
    note = _note(tmp_path)
    assert "is declared as integer, such as '0.25' in row 1" in note
    _follow(tmp_path, "parquet", note)
    assert "malformed by" not in _note(tmp_path)
    assert _records(tmp_path) == [0.25] * 10


def test_a_run_says_it_as_well(tmp_path: Path) -> None:
    _lake(tmp_path, "csv", "uint v get_csv_uint;")
    (tmp_path / "log.csv").write_text("t,v\n" + "".join(f"{t},web\n" for t in TIMES))
    (tmp_path / "q.gsql").write_text(
        "DEFINE { query_name 'q'; } SELECT tb, count(*) AS n FROM log.LOG GROUP BY t/60 AS tb"
    )
    links = ("--links", tmp_path / "lowwater.toml", "--capture", f"log={tmp_path}/log.csv")
    said = lowwater("run", tmp_path / "q.gsql", *links, "--out", tmp_path / "out")
    assert "10 of 10 records are malformed by their value of v" in " ".join((said.out + said.err).split())


def test_a_few_odd_values_change_no_type(tmp_path: Path) -> None:
    _lake(tmp_path, "csv", "uint v get_csv_uint;")
    rows = [f"{TIMES[at // 300]},{'?' if at == 1234 else at}\n" for at in range(3000)]
    (tmp_path / "log.csv").write_text("t,v\n" + "".join(rows))
    note = _note(tmp_path)
    assert "1 of 3,000 records are malformed by their value of v" in note and "'?' in line 1,236" in note
    assert "write `" not in note

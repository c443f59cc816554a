"""`lowwater inspect` as a user calls it: formats, exit codes, files that are no captures."""

from __future__ import annotations

import csv
import json
import random
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import duckdb
import jsonschema
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

from lowwater.cli.main import cli
from lowwater.instants import SECOND
from tests.capture import tablemaker
from tests.capture.tablemaker import NAMES, as_csv, as_parquet, flows, write
from tests.capturemaker import arp, ethernet, pcap_bytes, udp

SCHEMA = Path(__file__).resolve().parents[2] / "docs" / "inspect.schema.json"
BASE = 1_700_000_000 * SECOND


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A capture with a late record, an empty one, one that is cut, and a file that is none."""
    seconds = [0, 1, 5, 2, 40]
    frames = [udp("10.0.0.1", "10.0.0.2", 1, 2), arp(), ethernet(bytes(50), 0x88B5, vlans=[5]), arp(), arp()]
    good = pcap_bytes([(BASE + s * SECOND, frame) for s, frame in zip(seconds, frames, strict=True)])
    (tmp_path / "good.pcap").write_bytes(good)
    (tmp_path / "empty.pcap").write_bytes(pcap_bytes([]))
    (tmp_path / "cut.pcap").write_bytes(good[:-1])
    (tmp_path / "none.pcap").write_bytes(b"\x1b[31mno capture, with an escape")
    return tmp_path


def called(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["inspect", *map(str, arguments)])


def as_json(*arguments: object) -> dict[str, Any]:
    result = called(*arguments, "--format", "json")
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def test_the_document_keeps_its_schema(folder: Path) -> None:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    found = as_json(*sorted(folder.iterdir()), "--max-jump", "1h")
    validator.validate(found)
    assert [Path(each["file"]).name for each in found["captures"]] == [
        "cut.pcap",
        "empty.pcap",
        "good.pcap",
        "none.pcap",
    ]
    for definition in (schema, *schema["$defs"].values()):
        assert all("description" in each for each in definition["properties"].values())


@pytest.mark.slow
@pytest.mark.parametrize("window", ["0s", "9ms", "10ms", "50ms"])
def test_copies_are_those_of_editcap(tmp_path: Path, window: str) -> None:
    editcap = shutil.which("editcap")
    if editcap is None:
        pytest.skip("needs editcap")
    draw, stamp, records = random.Random(window), BASE, []
    for _ in range(400):
        stamp += draw.choice([0, 1, 5, 10, 20]) * SECOND // 1000
        records.append((stamp, udp("10.0.0.1", "10.0.0.2", 1, 2, bytes([draw.randrange(9)]) * 20)))
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap_bytes(records))
    seconds = {"0s": "0", "9ms": "0.009", "10ms": "0.010", "50ms": "0.050"}[window]
    command = [editcap, "-w", seconds, path, tmp_path / "b.pcap"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    skipped = int(re.search(r"(\d+) packets? skipped", said)[1])  # type: ignore[index]
    (found,) = as_json(path, "--duplicates", window)["captures"]
    jsonschema.validate(as_json(path, "--duplicates", window), json.loads(SCHEMA.read_text(encoding="utf-8")))
    (only,) = found["interfaces"]
    assert 0 < only["duplicates"]["packets"] == skipped < only["duplicates"]["compared"] == 400
    header, row = csv.reader(called(path, "--duplicates", window, "--format", "csv").stdout.splitlines())
    assert (header[-2:], row[-2:]) == (["duplicates", "duplicates_elsewhere"], [str(skipped), ""])
    table = called(path, "--duplicates", window).stdout
    assert f"{skipped:,} ({skipped / 400:.2%})" in table and "duplicates within" in table
    heading, line, *_ = called(path, tmp_path / "b.pcap", "--duplicates", window).stdout.splitlines()
    assert "duplicates  elsewhere" in heading and f" {skipped:,} " in line
    assert "duplicates" not in called(path).stdout + called(path, "--format", "csv").stdout.partition("\n")[0]


def test_the_facts_of_the_document(folder: Path) -> None:
    (found,) = as_json(folder / "good.pcap")["captures"]
    (only,) = found["interfaces"]
    assert only["packets"] == 5
    assert only["first"] == {"ns": BASE, "iso": "2023-11-14T22:13:20Z"}
    assert only["duration"] == {"ns": 40 * SECOND, "text": "40s"}
    assert only["order"]["out_of_order"] == only["order"]["refused"] == 1
    assert only["order"]["lateness"]["max"] == {"ns": 3 * SECOND, "text": "3s"}
    assert only["gaps"][0] == {
        "start": {"ns": BASE + 5 * SECOND, "iso": "2023-11-14T22:13:25Z"},
        "length": {"ns": 35 * SECOND, "text": "35s"},
    }
    assert only["protocols"] == {"tcp": 0, "udp": 1, "icmp": 0, "arp": 3, "other": 1}
    assert only["vlans"] == [{"vlan_id": 5, "packets": 1}]
    sizes = found["bytes"]
    assert sizes["records"] + sizes["malformed"] + sizes["overhead"] == sizes["file"] == sizes["unpacked"]


@pytest.mark.slow
def test_files_of_other_records(tmp_path: Path, folder: Path) -> None:
    rows = flows(11, 400, disorder=2)
    bad = as_csv(rows, ";", header=True).replace(b"\n", b"\nwhat\n", 1)
    write(tmp_path / "a.csv.gz", bad, "gzip")
    write(tmp_path / "b.jsonl", tablemaker.as_json(rows))
    write(tmp_path / "c.parquet", as_parquet(rows))
    write(tmp_path / "d.csv", b"a,b\n1,2\n")
    files = [tmp_path / name for name in ("a.csv.gz", "b.jsonl", "c.parquet", "d.csv")]
    found = as_json(*files, folder / "good.pcap")
    jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8"))).validate(found)
    text, lines, table, none, _ = found["captures"]
    assert [each.get("format") for each in found["captures"]] == ["csv", "json", "parquet", None, "pcap"]
    assert (
        none["error"]["message"].startswith(f"{files[3]}: its records have no clock")
        and "a column of times" in none["error"]["hint"]
    )
    assert text["compression"] == "gzip" and text["bytes"]["accounted"] and text["malformed"] == {"columns": 1}
    form = {"separator": ";", "quote": '"', "header": True, "null": [""], "decimal": "."}
    assert text["text"] == form and lines["text"] is None
    late = duckdb_lateness(rows)
    for each in (text, lines, table):
        assert (each["records"], each["clock"]) == (400, "time")
        assert each["order"]["out_of_order"] == sum(value > 0 for value in late)
        assert each["order"]["lateness"]["max"]["ns"] == max(late) * SECOND
        kinds = {column["field"]: column["type"] for column in each["columns"]}
        assert kinds == dict(zip(NAMES, ("int", "ip", "int", "string", "float", "bool"), strict=True))
    shown = called(*files[:1])
    assert "later than 1s" in shown.stdout and "PROTOCOL A {" in shown.stdout and shown.exit_code == 0
    as_table = list(csv.DictReader(called(*files[:2], "--format", "csv").stdout.splitlines()))
    assert [row["packets"] for row in as_table] == ["400", "400"]


def duckdb_lateness(rows: list[dict[str, Any]]) -> list[int]:
    """How far each record is behind the largest time before it, s, by SQL."""
    written = pa.table({"place": range(len(rows)), "time": [row["time"] for row in rows]})
    query = "SELECT max(time) OVER (ORDER BY place) - time FROM written ORDER BY place"
    return [row[0] for row in duckdb.sql(query).fetchall()] if written.num_rows else []


def test_damaged_stretches_have_their_place_time_and_estimate(tmp_path: Path) -> None:
    frames = [(BASE + at * 5 * SECOND, udp("10.0.0.1", "10.0.0.2", 1, 2, bytes(100))) for at in range(720)]
    data = bytearray(pcap_bytes(frames))
    size = (len(data) - 24) // 720
    data[24 + 180 * size : 24 + 216 * size] = b"\xff" * (36 * size)
    (tmp_path / "a.pcap").write_bytes(data)
    (tmp_path / "b.pcap").write_bytes(pcap_bytes(frames))
    text = f"{36 * size:,} bytes from byte {24 + 180 * size:,} on, from "
    sheet = called(tmp_path / "a.pcap").output
    assert f"damage 1              {text}" in sheet and "about 36 records lost" in sheet
    assert "damage 1" not in called(tmp_path / "b.pcap").output
    both = called(tmp_path / "a.pcap", tmp_path / "b.pcap").output
    assert f"note: {tmp_path}/a.pcap: damage 1: {text}" in both
    first, second = as_json(tmp_path / "a.pcap", tmp_path / "b.pcap")["captures"]
    (hole,) = first["interfaces"][0]["damaged"]
    assert (hole["offset"], hole["length"], hole["records"]) == (24 + 180 * size, 36 * size, 36)
    assert (hole["from"]["ns"], hole["to"]["ns"]) == (BASE + 179 * 5 * SECOND, BASE + 216 * 5 * SECOND)
    assert second["interfaces"][0]["damaged"] == []

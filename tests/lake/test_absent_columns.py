"""A log whose column has another name from one file on: said at ingest, in the ledger, in the state of intervals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lowwater.config import load_config
from lowwater.instants import HOUR
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.captures import read_captures
from lowwater.lake.words import DONE, INCOMPLETE
from lowwater.replay.job import Job
from tests.replay.support import lowwater

BEGIN = 1_767_225_600
QUERY = """DEFINE {{ query_name 'q'; }}
SELECT tb, count(*) AS n, sum({0}) AS sent FROM log.{1} GROUP BY time/3600 AS tb"""
LINK = '[links.log]\nkind = "{0}"\nprotocol = "{1}"\ncaptures = "../log-%Y%m%d%H.txt"\nrotation = "1h"\nskew = "0s"\n'


def zeek(hour: int, names: dict[str, str]) -> str:
    columns = ["ts", "uid", "id.orig_h", "id.orig_p", "id.resp_h", "id.resp_p", "proto", "orig_bytes", "resp_bytes"]
    head = ["#separator \\x09", "#path\tconn", "#fields\t" + "\t".join(names.get(name, name) for name in columns)]
    rows = [f"{BEGIN + hour * 3600 + at}.5\tC{at}\t10.0.0.1\t1\t10.0.0.2\t53\tudp\t100\t200" for at in (0, 3598)]
    return "\n".join([*head, *rows, ""])


def zeek_json(hour: int, names: dict[str, str]) -> str:
    event = {"uid": "C", "id.orig_h": "10.0.0.1", "proto": "udp", "orig_bytes": 100, "resp_bytes": 200}
    named = {names.get(name, name): value for name, value in event.items()}
    return "".join(json.dumps({"ts": BEGIN + hour * 3600 + at, **named}) + "\n" for at in (0, 3598))


def eve(hour: int, names: dict[str, str]) -> str:
    lines = []
    for at in (0, 3598):
        time = f"2026-01-01T{hour + at // 3600:02d}:{at % 3600 // 60:02d}:{at % 60:02d}.000000+0000"
        flow = {"start": time, "end": time, "bytes_toserver": 100, "bytes_toclient": 200}
        named = {names.get(name, name): value for name, value in flow.items()}
        event = {"timestamp": time, "event_type": "flow", "src_ip": "10.0.0.1", "dest_ip": "10.0.0.2", "flow": named}
        lines += [json.dumps(event), json.dumps({"timestamp": time, "event_type": "stats", "odd": 1})]
    return "\n".join([*lines, ""])


FORMS = {
    "zeek": (zeek, "zeek", "ZEEK_CONN", "orig_bytes", {"orig_bytes": "orig_octets"}, "orig_octets"),
    "zeek as JSON": (zeek_json, "zeek", "ZEEK_CONN", "orig_bytes", {"orig_bytes": "orig_octets"}, "orig_octets"),
    "suricata": (
        eve,
        "suricata",
        "EVE_FLOW",
        "flow_bytes_toserver",
        {"bytes_toserver": "octets_toserver"},
        "flow.octets_toserver",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_a_renamed_column_is_said_and_its_interval_is_not_done(form: str, tmp_path: Path) -> None:
    write, kind, protocol, column, names, unknown = FORMS[form]
    lake = tmp_path / "lake"
    lake.mkdir()
    foot = "".join(f'[query_sets.{name}]\nfiles = ["../{name}.gsql"]\n' for name in ("q", "r"))
    (lake / "lowwater.toml").write_text(LINK.format(kind, protocol) + foot, encoding="utf-8")
    (tmp_path / "q.gsql").write_text(QUERY.format(column, protocol), encoding="utf-8")
    other = column.replace("orig", "resp").replace("toserver", "toclient")
    (tmp_path / "r.gsql").write_text(QUERY.replace("'q'", "'r'").format(other, protocol), encoding="utf-8")
    paths = [tmp_path / f"log-20260101{hour:02d}.txt" for hour in range(3)]
    for hour, path in enumerate(paths):
        path.write_text(write(hour, names if hour == 1 else {}), encoding="utf-8")
    results = ingest(open_lake(lake), "log", paths, load_config(lake))
    notes = [result.note for result in results]
    assert [unknown in note and column in note for note in notes] == [False, True, False]
    rows = read_captures(open_lake(lake), ["log"])["log"]
    assert [column in row.absent_fields for row in rows] == [False, True, False]
    states = {}
    for query_set in ("q", "r"):
        job = Job.open(lake, query_set, tmp_path)
        spans = [((BEGIN + hour * 3600) * 10**9, (BEGIN + hour * 3600) * 10**9 + HOUR) for hour in range(2)]
        states[query_set] = [job.inputs(*span, job.captures()).state([]) for span in spans]
    assert states["r"] == [(DONE, ""), (DONE, "")]
    (first, _), (second, why) = states["q"]
    assert (first, second) == (DONE, INCOMPLETE)
    assert f"{paths[1]} has no" in why and unknown in why and "NULL where a query reads it" in why


@pytest.mark.slow
def test_run_says_what_a_file_lacks(tmp_path: Path) -> None:
    (tmp_path / "conn.log").write_text(zeek(0, {"orig_bytes": "orig_octets"}), encoding="utf-8")
    (tmp_path / "q.gsql").write_text(QUERY.format("orig_bytes", "ZEEK_CONN"), encoding="utf-8")
    words = ("--capture", f"log={tmp_path / 'conn.log'}", "--kind", "log=zeek", "--engine", "reference")
    said = lowwater("run", tmp_path / "q.gsql", *words, "--out", tmp_path / "out")
    assert said.code == 0 and "orig_octets is a column that no field reads" in " ".join(said.err.split()), said.err

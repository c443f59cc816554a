"""Airflow's DAG files over a folder of hostile queries: they plan none, and no name is a DAG, a template or markup."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lowwater.errors import ConfigError
from lowwater.lake.layout import open_lake
from tests.gsql.hostile_texts import TEXTS
from tests.replay.support import ROOT

# Warnings are those of Airflow and of what it imports.
pytestmark = pytest.mark.filterwarnings("default")
NAMES = [
    "{{ 7*7 }}",
    "{% raise %}",
    "<script>alert(1)<script>",
    "a'b\"c",
    "javascript:alert(1)",
    "a\nb",
    "\u202etxt",
    "é",
]
NAMES += ["a b", "$(id)", "%s%n", "__import__('os')", "x" * 240, " "]
MANY = 100
"""Query sets in all; 1,000 take ten times as long."""
SOUND = "DEFINE { query_name 'sound'; }\nSELECT time, len FROM main1.TCP\n"
TOML = """
[links.main1]
since = "2026-01-01T00:00:00Z"
{more}
"""
SERIALIZE = """
import json, sys
from airflow.dag_processing.dagbag import DagBag
from airflow.serialization.serialized_objects import DagSerialization
from tests.memory import peak_memory

bag = DagBag(dag_folder=sys.argv[1], bundle_name="tests")
texts = {name: json.dumps(DagSerialization.to_dict(dag)) for name, dag in bag.dags.items()}
fields = {task.task_id: list(task.template_fields) for dag in bag.dags.values() for task in dag.tasks}
print("RESULT" + json.dumps({"dags": texts, "errors": bag.import_errors, "peak": peak_memory(), "fields": fields}))
"""


def serialized(folder: Path, lake: Path, queries: Path, **more: str) -> dict[str, Any]:
    """What Airflow stores of the DAG files, made in a process of its own as the DAG processor does."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "LOWWATER"))}
    environment |= {"AIRFLOW_HOME": str(folder), "AIRFLOW__CORE__LOAD_EXAMPLES": "false", **more}
    environment |= {"AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "var" / "no-plugins")}
    environment |= {"LOWWATER_LAKE": str(lake), "LOWWATER_QUERIES": str(queries)}
    command = [sys.executable, "-c", SERIALIZE, str(ROOT / "dags")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout.rpartition("RESULT")[2])
    return found


def folder_of_queries(folder: Path) -> tuple[Path, Path]:
    """A lake, and a folder with every hostile text, with every hostile name, and with sound query sets."""
    lake, queries = folder / "lake", folder / "{{ 7*7 }} queries"
    open_lake(lake)
    queries.mkdir()
    for at in range(MANY - len(TEXTS) - 3):
        (queries / f"sound_{at}.gsql").write_text(SOUND)
    for at, text in enumerate(TEXTS.values()):
        (queries / f"text_{at}.gsql").write_bytes(text.encode(errors="surrogatepass"))
    for name in [*NAMES, os.fsdecode(b"\xff\xfe")]:
        (queries / f"{name.replace('/', '_')}.gsql").write_text(SOUND)
    (queries / "huge.gsql").write_text("{{ 7*7 }} <script> " * 1_000_000)
    os.mkfifo(queries / "pipe.gsql")
    (queries / "folder.gsql").mkdir()
    secret = '[schedule]\ndeadline = "1h"\n[notify]\nurl = "https://example.org/secret-hook"\n'
    (lake / "lowwater.toml").write_text(TOML.format(more=secret))
    return lake, queries


@pytest.mark.nightly
@pytest.mark.slow
def test_hostile_files_of_queries_stop_no_dag_and_are_named(tmp_path: Path) -> None:
    """Many files, in bounded memory."""
    lake, queries = folder_of_queries(tmp_path)
    found = serialized(tmp_path, lake, queries, AWS_SECRET_ACCESS_KEY="secret-key", PGPASSWORD="secret-password")
    sets = [*(f"text_{at}" for at in range(len(TEXTS))), "huge", "pipe", "folder"]
    sets += [f"sound_{at}" for at in range(MANY - len(sets))]
    others = {"capture_ingest", "lowwater_ingest", "lowwater_maintain", "lowwater_digest", "lowwater_verify"}
    assert set(found["dags"]) == others | {f"{kind}_{name}" for kind in ("replay", "keep") for name in sets}
    ((file, said),) = found["errors"].items()
    assert file.endswith("misnamed.py") and f"{len(NAMES) + 1} files of queries have no DAG" in said and "7*7" in said
    assert said.isascii() and len(said) < 5000
    for name, text in found["dags"].items():
        assert "secret" not in text and "<script>" not in text and "{%" not in text, name
        assert len(text) < 40_000 and text.count("7*7") == text.count(json.dumps(str(queries))[1:-1]), name
    assert "lowwater_airflow.alerts.late" in found["dags"]["replay_sound_0"]
    assert not any(found["fields"].values()), "no argument of a task is a template"
    assert found["peak"] < 500_000_000


@pytest.mark.slow
def test_a_note_is_no_markup(plugins: None) -> None:
    """Airflow shows notes as Markdown: no name of a file in a reason makes a browser load an image, or is a link."""
    from lowwater_airflow.notes import one_line

    bad = "a.pcap ![x](http://evil.example/x.png) [y](javascript:alert(1)) [z]\n"
    bad += "[z]: http://evil.example\n# head\u202e\x1b[31m"
    note = one_line(f"Interval x: failed: {bad}")
    assert "](" not in note and "![" not in note and note.isprintable() and "\n" not in note
    assert "evil.example/x.png" in note, "it says which file"


@pytest.mark.slow
def test_names_in_a_note_lead_to_pages_where_there_is_room(plugins: None) -> None:
    from types import SimpleNamespace

    from lowwater_airflow.notes import LONGEST, _put, address_of, one_line

    begin, end = "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"
    run: Any = SimpleNamespace(note="of a person\nLook: before")
    task = f"/{address_of('keep_q', f'x__{begin}')}"
    links = {begin: "/lowwater/a.html", f"{begin} to {end}": task, end: "/b"}
    said = one_line(f"Look: {begin} to {end} ran; {begin} failed: [x](http://evil.example) {begin}")
    _put(run, "Look: ", said, links)
    line, other = run.note.splitlines()
    assert other == "of a person"
    assert task == "/dags/keep_q/runs/x__2026-01-01T00%3A00%3A00Z"
    assert line == (
        f"Look: [{begin} to {end}]({task}) ran; [{begin}](/lowwater/a.html) failed: [x] (http://evil.example) {begin}"
    )
    _put(run, "Look: ", f"Look: {begin} failed: {'x' * LONGEST}", links)
    assert run.note.startswith(f"Look: [{begin}](/lowwater/a.html) failed: xxx") and len(run.note) == LONGEST + 1
    _put(run, "Look: ", f"Look: {begin} failed", {begin: f"/{'y' * LONGEST}"})
    assert run.note == f"Look: {begin} failed\nof a person", "an address that is longer than half of a note"


@pytest.mark.slow
def test_a_mail_is_text(plugins: None) -> None:
    from lowwater.config import Notify
    from lowwater_airflow.alerts import _mail

    bad = "<script>alert(1)</script>\r\nBcc: evil@example.org\u202e\x1b[31m{{ 7*7 }}"
    mail = _mail(Notify(email=("a@example.org",)), {"kind": "failed", "text": bad})
    assert mail.subject.isprintable() and "<script>" not in mail.html_content
    assert "\x1b" not in mail.html_content and "\u202e" not in mail.html_content


@pytest.mark.slow
def test_names_are_refused_in_one_short_line(plugins: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lowwater_airflow.settings import Settings

    lake, queries = tmp_path / "lake", tmp_path / "queries"
    open_lake(lake)
    queries.mkdir()
    monkeypatch.setenv("LOWWATER_LAKE", str(lake))
    monkeypatch.setenv("LOWWATER_QUERIES", str(queries))
    (queries / "sound-1.2.gsql").write_text(SOUND)
    Settings.load().require_names()
    for name in NAMES:
        (queries / f"{name}.gsql").write_text(SOUND)
    assert Settings.load().query_sets() == ["sound-1.2"]
    with pytest.raises(ConfigError, match=f"{len(NAMES)} files of queries have no DAG") as refused:
        Settings.load().require_names()
    assert len(str(refused.value)) < 900 and str(refused.value).isascii()

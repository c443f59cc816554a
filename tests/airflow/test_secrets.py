"""Secrets stay where they belong: not with the Python of users, not in serialized DAGs, not in files of others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from email import message_from_string
from email.policy import default
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request

import pytest

from lowwater.config import load_config
from lowwater.errors import ConfigError, LakeError
from tests.airflow.conftest import Asked, webhook
from tests.replay.support import QUERIES, ROOT, listening, wait

SECRETS = {
    "AIRFLOW__API_AUTH__JWT_SECRET": "secret-1",
    "AIRFLOW__API__SECRET_KEY": "secret-2",
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": "sqlite:////secret-3/airflow.db",
    "AIRFLOW_CONN_LOWWATER_SPARK": "secret-4",
    "AWS_SECRET_ACCESS_KEY": "secret-5",
    "HTTPS_PROXY": "http://user:secret-6@proxy",
    "LOWWATER_NOTIFY__URL": "https://example.org/secret-7",
    "LOWWATER_SPARK_SECRET": "secret-8",
    "_SPARK_AUTH_SECRET": "secret-9",
    "PGPASSWORD": "secret-10",
}
WANTED = {"LOWWATER_REPLAY__MEMORY": "1g", "SPARK_LOCAL_DIRS": "/tmp", "LC_ALL": "C.UTF-8", "JAVA_HOME": "/jdk"}


@pytest.mark.slow
def test_the_process_that_runs_the_python_of_users_has_no_secret(
    plugins: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looked at from outside, while the process runs."""
    for name, value in (SECRETS | WANTED).items():
        monkeypatch.setenv(name, value)
    from lowwater_airflow.child import Child

    times = ["--from", "2026-01-01T00:00:00Z", "--to", "2026-01-01T01:00:00Z"]
    lake = ["--lake", str(tmp_path / "none"), "--queries", str(QUERIES)]
    child = Child("replay", ["demo", *lake, *times], {"OWN": "1"})
    seen: list[str] = []

    def look() -> bool:
        process = child._process
        if process is not None and not seen:
            with suppress(FileNotFoundError):  # it has ended
                text = Path(f"/proc/{process.pid}/environ").read_bytes().decode()
                seen.extend(text.split("\0") if "OWN=1" in text else ())
        return bool(seen) or over.is_set()

    over = Event()
    thread = Thread(target=lambda: wait(look, 300, 0.02))
    thread.start()
    with pytest.raises((LakeError, RuntimeError)):  # there is no lake
        child.run()
    over.set()
    thread.join()
    found = dict(each.split("=", 1) for each in seen if each)
    assert found["OWN"] == "1" and {name: found.get(name) for name in WANTED} == WANTED
    assert found["PATH"] == os.environ["PATH"]
    assert not [name for name, value in found.items() if "secret" in value or name in SECRETS]


TELL = """
import asyncio, os, sys
sys.path.insert(0, sys.argv[1])
from lowwater_airflow.alerts import failed, late, warned
run = {"dag_run": {"dag_id": "replay_q", "run_id": "r", "data_interval_start": "now"}}
outcome = {"start": 0, "state": "done", "verdict": "warned", "committed": True, "report": "page.html"}
outcome["reason"] = "<b>{{ 1 + 1 }}</b>"
for os.environ["LOWWATER_LAKE"] in sys.argv[2:]:
    failed(run)
    asyncio.run(late(run))
    warned(run, "q", outcome)
    warned(run, "q", {**outcome, "committed": False})
    warned(run, "q", {**outcome, "verdict": "passed"})
"""


def tell(folder: Path, settings: list[str], connections: dict[str, dict[str, Any]]) -> None:
    """Alerts of a lake with each of some settings, in order, in one process of Airflow."""
    environment = {**os.environ, "AIRFLOW_HOME": str(folder / "airflow")}
    for name, said in connections.items():
        environment[f"AIRFLOW_CONN_{name}"] = json.dumps(said)
    lakes = [folder / f"lake{number}" for number in range(len(settings))]
    for lake, text in zip(lakes, settings, strict=True):
        lake.mkdir()
        (lake / "lowwater.toml").write_text(text)
    command = [sys.executable, "-c", TELL, str(ROOT / "plugins"), *map(str, lakes)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@contextmanager
def mailbox() -> Iterator[tuple[int, list[str]]]:
    """A mail server on loopback: its port, and the mails that it took."""
    mails: list[str] = []

    class Session(StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(b"220 ready\r\n")
            while line := self.rfile.readline():
                word = line[:4].upper()
                if word == b"DATA":
                    self.wfile.write(b"354 go on\r\n")
                    lines = []
                    while (part := self.rfile.readline()) != b".\r\n":
                        lines.append(part)
                    mails.append(b"".join(lines).decode())
                self.wfile.write(b"221 bye\r\n" if word == b"QUIT" else b"250 ok\r\n")
                if word == b"QUIT":
                    return

    with listening(ThreadingTCPServer(("127.0.0.1", 0), Session)) as server:
        yield server.server_address[1], mails


@pytest.fixture(scope="module")
def alerts(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], Asked]:
    """The mails that lakes with a mail server send, and what webhooks are asked: one is of a connection, one is not."""
    extra = {"disable_ssl": True, "disable_tls": True, "from_email": "lowwater@example.org", "retry_limit": 1}
    server = {"conn_type": "smtp", "host": "127.0.0.1", "extra": extra}
    text = '[notify]\nemail = ["desk@example.org"]\nmail_connection = "{}"\n'
    with mailbox() as (port, mails), webhook() as (address, asked):
        connections = {"AWAY": server | {"port": 1}, "POST": server | {"port": port}}
        connections["HOOK"] = {"conn_type": "http", "host": f"{address}/there", "password": "token"}
        hooks = ['[notify]\nconnection = "hook"\n', f'[notify]\nurl = "{address}/plain"\n']
        tell(tmp_path_factory.mktemp("alerts"), [text.format("away"), text.format("post"), *hooks], connections)
    return mails, asked


@pytest.mark.slow
def test_alerts_go_by_mail_and_an_absent_server_stops_nothing(alerts: tuple[list[str], Asked]) -> None:
    """By Airflow's notifier: a failed run, a missed deadline, a warning; a reason is no template and no markup."""
    parsed = [message_from_string(mail, policy=default) for mail in alerts[0]]
    subjects = [str(mail["subject"]).split()[1].rstrip(":") for mail in parsed]
    assert subjects == ["failed", "deadline", "warning"]
    assert {str(mail["to"]) for mail in parsed} == {"desk@example.org"}
    body = parsed[-1].get_body().get_content()  # type: ignore[union-attr]
    assert "&lt;b&gt;{{ 1 + 1 }}&lt;/b&gt;" in body and "The audit warned: page.html" in body


@pytest.mark.slow
def test_the_token_of_the_webhook_comes_from_a_connection(alerts: tuple[list[str], Asked]) -> None:
    told = alerts[1]
    assert [each[:2] for each in told] == [("/there", "Bearer token")] * 3 + [("/plain", "")] * 3
    assert [each[2]["kind"] for each in told] == ["failed", "deadline", "warning"] * 2


@pytest.mark.slow
@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_no_token_goes_to_the_address_that_an_answer_names(code: int, hook: Any) -> None:
    from lowwater_airflow.alerts import send

    address, told = hook
    request = Request(f"{address}/{code}", b"{}", {"Authorization": "Bearer token"})
    with pytest.raises(HTTPError) as refused:
        send(request, 10)
    refused.value.close()
    assert refused.value.code == code and [each[0] for each in told] == [f"/{code}"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("host", "token"),
    [
        ("http://127.0.0.1:9/canary-hook", "canary-token\n"),
        ("http://127.0.0.1:9/canary-hook of ours", "canary-token"),
        ("http://127.0.0.1:9/canary-hook\n", "canary-token"),
        ("http://127.0.0.1:9/canary-hook", "canary-\u20ac-token"),
        ("ftps://canary-hook/x", "canary-token"),
        ("http://[canary-hook", "canary-token"),
        ("http://user:canary-hook@127.0.0.1:port/", "canary-token"),
        ("http://127.0.0.1:9/canary-hook", "canary-token"),
    ],
)
def test_a_webhook_that_cannot_be_asked_is_logged_without_its_token(
    host: str, token: str, plugins: None, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    from lowwater.config import Notify
    from lowwater_airflow.alerts import _post

    alert = {"kind": "failed", "text": "q has failed"}
    _post(Notify(), SimpleNamespace(host=host, port=None, schema=None, password=token), alert)
    said = caplog.text + "".join(capsys.readouterr())  # whatever Airflow has set up, and what a handler that fails says
    assert "q has failed" in said and "webhook of [notify] cannot be" in said
    assert "canary" not in said


def test_the_webhook_is_named_once(tmp_path: Path) -> None:
    (tmp_path / "lowwater.toml").write_text('[notify]\nurl = "https://example.org"\nconnection = "x"\n')
    with pytest.raises(ConfigError, match="url and connection both name the webhook"):
        load_config(tmp_path)

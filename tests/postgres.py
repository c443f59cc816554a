"""A PostgreSQL of the tests' own: started on a free port, gone with its folder."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from lowwater.spark.server import free_port

PROGRAMS = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))


@contextmanager
def postgres_server(user: str, password: str, database: str) -> Iterator[int]:
    """Runs a server and yields its port; skips the test where there is none."""
    if not PROGRAMS:
        pytest.skip("no PostgreSQL here: apt-get install postgresql")
    who = _owner()
    folder = Path(tempfile.mkdtemp(prefix="lowwater-postgres-"))
    port = free_port()
    if who is not None:
        shutil.chown(folder, who)
    programs = PROGRAMS[-1].parent
    secret = folder / "secret"
    secret.write_text(password)
    secret.chmod(0o644)
    data = str(folder / "data")
    made = ["-D", data, "--auth=scram-sha-256", f"--username={user}", f"--pwfile={secret}"]
    subprocess.run([programs / "initdb", *made], user=who, check=True, capture_output=True, cwd=folder)
    listening = ["-p", str(port), "-c", "listen_addresses=127.0.0.1", "-k", str(folder), "-c", "fsync=off"]
    server = psutil.Popen([str(PROGRAMS[-1]), "-D", data, *listening], user=who, cwd=folder, stderr=subprocess.DEVNULL)
    try:
        environment = {**os.environ, "PGPASSWORD": password}
        create = [programs / "createdb", "-h", "127.0.0.1", "-p", str(port), "-U", user, database]
        until = time.monotonic() + 300
        while subprocess.run(create, env=environment, capture_output=True).returncode:
            assert time.monotonic() < until, "the server does not answer"
            time.sleep(0.1)
        yield port
    finally:
        server.terminate()
        server.wait(120)
        shutil.rmtree(folder, ignore_errors=True)


def _owner() -> str | None:
    """Who may run PostgreSQL: not root."""
    if os.geteuid():
        return None
    try:
        return pwd.getpwnam("postgres").pw_name
    except KeyError:
        pytest.skip("PostgreSQL does not run as root, and there is no user postgres")

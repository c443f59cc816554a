"""The S3 server of the cluster keeps objects on a disk, so that it may be killed; its proxy checks conditions."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from lowwater.lake.open_tables import forget
from lowwater.lake.tables import append_rows, create, read_rows
from lowwater.spark.server import LOOPBACK, answers, free_port
from lowwater.storage import objects
from lowwater.storage.object_paths import ObjectPath
from tests.replay.support import ROOT
from tests.storage.servers import BUCKET, DISK, disk_server

pytestmark = pytest.mark.slow
SCHEMA = pa.schema([("value", pa.int64())])


@contextmanager
def running(folder: Path, ports: tuple[int, int]) -> Iterator[None]:
    """A server over a folder, and its proxy; both are killed at the end."""
    proxy = [sys.executable, "-m", "tests.storage.servers", *map(str, ports), "conditions"]
    with (
        subprocess.Popen(disk_server(ports[0], folder), stderr=subprocess.DEVNULL) as disk,
        subprocess.Popen(proxy, stdout=subprocess.DEVNULL, cwd=ROOT) as door,
    ):
        try:
            deadline = time.monotonic() + 30
            while not all(answers(LOOPBACK, port) for port in ports):
                assert time.monotonic() < deadline and disk.poll() is None and door.poll() is None
                time.sleep(0.05)
            yield
        finally:
            disk.kill()
            door.kill()


def test_a_server_that_is_killed_keeps_objects_and_conditions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not DISK.exists():
        pytest.skip("the S3 server is not installed: make .venv/.s3")
    (tmp_path / BUCKET).mkdir()
    ports = free_port(), free_port()
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{ports[1]}", "AWS_ACCESS_KEY_ID": "disk", "AWS_REGION": "us-east-1",
        "AWS_SECRET_ACCESS_KEY": "disk", "LOWWATER_STORE_TIMEOUT": "5",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    root = ObjectPath("s3:", BUCKET, "lake")
    with running(tmp_path, ports):
        first = objects.swap(root / "lock", b"one", None)
        with pytest.raises(objects.ChangedError):
            objects.swap(root / "lock", b"two", None)
        create(root / "table", SCHEMA)
        for value in range(3):
            append_rows(root / "table", pa.table({"value": [value]}, SCHEMA))
    with running(tmp_path, ports):
        second = objects.swap(root / "lock", b"two", first)
        with pytest.raises(objects.ChangedError):
            objects.swap(root / "lock", b"three", first)
        assert objects.read(root / "lock") == (b"two", second)
        assert [objects.read_range(root / "lock", *part, second) for part in ((0, 3), (1, 2))] == [b"two", b"wo"]
        append_rows(root / "table", pa.table({"value": [3]}, SCHEMA))
        forget(root / "table")
        assert sorted(read_rows(root / "table", SCHEMA).column("value").to_pylist()) == [0, 1, 2, 3]

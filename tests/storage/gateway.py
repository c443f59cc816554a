"""An S3 server that another project wrote, in Go, over a folder."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lowwater.spark.server import LOOPBACK, answers, free_port
from tests.storage.servers import BUCKET

PROGRAM = Path(sys.prefix) / "versitygw" / "bin" / "versitygw"
CHOSEN = os.environ.get("LOWWATER_TEST_STORE") == "versitygw"
"""Whether the tests are to run against it."""

KEY, SECRET = "AKIATESTTESTTESTTEST", "NeverToBeSeen/0123456789abcdefghijklmno"
"""Key of its root, and of the tests."""


@contextmanager
def gateway(folder: Path) -> Iterator[int]:
    """Runs the server over an empty folder; yields its port."""
    (folder / "objects" / BUCKET).mkdir(parents=True)
    port = free_port()
    command = [PROGRAM, "--quiet", "--keep-alive", "--port", f"127.0.0.1:{port}", "posix", folder / "objects"]
    keys = {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET, "VGW_REGION": "us-east-1"}
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")} | keys
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen(command, stdout=log, stderr=log, env=environment, cwd=folder) as process,
    ):
        try:
            deadline = time.monotonic() + 60
            while not answers(LOOPBACK, port):
                assert time.monotonic() < deadline and process.poll() is None, (folder / "log").read_text()
                time.sleep(0.05)
            yield port
        finally:
            process.kill()


def main() -> int:
    """Runs `lowwater doctor --lake` on the server."""
    with tempfile.TemporaryDirectory() as folder, gateway(Path(folder)) as port:
        store = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "AWS_REGION": "us-east-1"}
        keys = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}
        command = [sys.executable, "-m", "lowwater.cli.main", "doctor", "--lake", f"s3://{BUCKET}/checked"]
        return subprocess.run(command, env={**os.environ, **store, **keys}).returncode


if __name__ == "__main__":
    sys.exit(main())

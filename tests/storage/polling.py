"""Publishes a table again and again to a store that fails, while programs of others read it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lowwater.errors import LakeError
from lowwater.instants import HOUR
from lowwater.lake.layout import Lake
from lowwater.lake.results.streams import fingerprint, stream_files
from lowwater.storage.object_paths import ObjectPath
from tests.lake.support import BASE, FIELDS, publish_interval, put_stream, stream
from tests.storage.servers import BUCKET, PACKAGES, Proxy, Rule, proxied, s3_server

HOURS = 3
READERS = {"deltalake": "", "duckdb": str(PACKAGES)}
"""Readers, and the folder of their packages where it is not the usual one."""

FAULTS = (
    Rule("hang", "PUT|GET", times=1, share=0.01),
    Rule("lost", "PUT", share=0.04),
    Rule("500", share=0.02),
    Rule("503", share=0.02),
    Rule("cut", "GET", share=0.02),
    Rule("slow", "GET", share=0.03),
)


def rows_of(number: int) -> int:
    """Number of rows of the version that has this number in all of its rows."""
    return HOURS * (20 + number % 7)


def put_version(lake: Lake, number: int) -> None:
    """Publishes a version: its rows are in several files, all with the same number."""
    end = BASE + HOURS * HOUR
    count = rows_of(number) // HOURS
    rows = [("10.0.0.1", number, 3600.0 * hour + second) for hour in range(HOURS) for second in range(count)]
    put_stream(lake.stream("q"), FIELDS, BASE, end, stream(rows), "set")
    audited = fingerprint(stream_files(lake.stream("q"), BASE, end))
    publish_interval(lake, "set", "q", FIELDS, BASE, end, f"digest {number}", audited)


@dataclass
class Polled:
    """What a reader saw."""

    versions: list[int]
    errors: Counter[str]
    said: Path

    def wait_for(self, number: int) -> None:
        """Waits until the reader has seen a version; a slow one may still be at its first."""
        deadline = time.monotonic() + 240
        while f"[{number}, {number}, " not in self.said.read_text():
            assert time.monotonic() < deadline, f"version {number} is not seen"
            time.sleep(0.2)


@contextmanager
def reading(reader: str, lake: Lake, proxy: Proxy) -> Iterator[Polled]:
    """Lets a program read the published table meanwhile; at the end it is known what it saw."""
    command = [sys.executable, str(Path(__file__).with_name("readers.py")), reader, str(lake.table("q"))]
    environment = {**os.environ, "AWS_ENDPOINT_URL": proxy.url, "PYTHONPATH": READERS[reader]}
    with tempfile.NamedTemporaryFile("w+") as out:
        polled = Polled([], Counter(), Path(out.name))
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, text=True, env=environment) as process:
            try:
                yield polled
            finally:
                assert process.stdin is not None
                process.stdin.close()
                process.wait(300)
        out.seek(0)
        for line in out:
            if line.startswith("!"):
                polled.errors[line.split(":")[0]] += 1
                continue
            least, most, count = json.loads(line)
            assert least == most and count == rows_of(least), f"{reader} saw a version that is not whole: {line}"
            polled.versions.append(least)
    assert polled.versions == sorted(polled.versions), f"{reader} saw an old version after a new one"


def poll(root: ObjectPath, proxy: Proxy, publishes: int) -> dict[str, Polled]:
    """Publishes so many versions, each until it succeeds, while readers read; returns what each saw."""
    lake = Lake(root)
    put_version(lake, 0)
    with reading("deltalake", lake, proxy) as first, reading("duckdb", lake, proxy) as second:
        proxy.breaks(*FAULTS)
        for number in range(1, publishes + 1):
            for _ in range(5):
                try:
                    put_version(lake, number)
                    break
                except LakeError:
                    continue
        proxy.breaks()
        put_version(lake, publishes + 1)  # the faults may have taken all of its tries from the one before
        for polled in (first, second):
            polled.wait_for(publishes + 1)
    return {"deltalake": first, "duckdb": second}


def main(publishes: int) -> None:
    """Polls during so many publishes, and prints what was seen."""
    names = {"AWS_ACCESS_KEY_ID": "polling", "AWS_SECRET_ACCESS_KEY": "polling", "AWS_REGION": "us-east-1"}
    with tempfile.TemporaryDirectory() as folder, s3_server(Path(folder) / "log") as port, proxied(port) as proxy:
        os.environ.update(names, AWS_ENDPOINT_URL=proxy.url, LOWWATER_STORE_TIMEOUT="5")
        for reader, polled in poll(ObjectPath("s3:", BUCKET, "polled"), proxy, publishes).items():
            different = len(set(polled.versions))
            print(f"{reader}: {len(polled.versions)} reads, {different} versions, errors {dict(polled.errors)}")
        print("faults:", dict(Counter(fault for *_, fault in proxy.seen() if fault)))


if __name__ == "__main__":
    main(int(sys.argv[1]))

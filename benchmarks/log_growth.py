"""Measures a table of a lake in an object store that has many commits: seconds, requests and memory.

`python -m benchmarks.log_growth 10000` makes a log with so many commits in a folder and copies it to the S3 server of
the tests. It prints a table for docs/object-stores.md.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa

from lowwater.lake.opened import forget
from lowwater.lake.tables import append_rows, create, open_table
from lowwater.storage import objects, paths
from lowwater.storage.object_paths import ObjectPath
from tests.storage.servers import BUCKET, Proxy, proxied, s3_server

SCHEMA = pa.schema([("interval", pa.int64()), ("rows", pa.int64())])
SINCE = 60
"""Commits since the last checkpoint; Delta makes one every hundred."""

STEPS = ("open", "commit", "checkpoint", "clean-up")


def append(path: Path | ObjectPath) -> None:
    """Commits a file with one row."""
    append_rows(path, pa.table({"interval": [0], "rows": [1]}, SCHEMA))


def grow(path: Path, commits: int) -> None:
    """Makes the log of a table with so many appends, as Delta writes them: its checkpoint is SINCE commits old."""
    from deltalake import DeltaTable

    create(path, SCHEMA)
    append(path)
    log = path / "_delta_log"
    text = (log / f"{1:020d}.json").read_text()
    (name,) = {json.loads(line)["add"]["path"] for line in text.splitlines() if '"add"' in line}
    for version in range(2, commits + 1):
        (log / f"{version:020d}.json").write_text(text.replace(name, f"{version}-{name}"))
        if version == commits - SINCE:
            DeltaTable(str(path)).create_checkpoint()
    forget(path)


def step(name: str, path: ObjectPath) -> None:
    """Does one step on a table that this process has not opened before."""
    options = paths.storage_options(path)
    if name == "open":
        assert open_table(path) is not None
    elif name == "commit":
        open_table(path)
        append(path)
    else:
        from deltalake import DeltaTable

        table = DeltaTable(str(path), storage_options=options)
        if name == "checkpoint":
            table.create_checkpoint()
        else:
            table.alter.set_table_properties({"delta.logRetentionDuration": "interval 0 days"})
            table.create_checkpoint()
            table.cleanup_metadata()
    forget(path)


def measured(name: str, path: ObjectPath, proxy: Proxy) -> str:
    """Does a step in a process of its own; returns a line of the table."""
    proxy.seen()
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.log_growth", name, *path.parts], capture_output=True, text=True, check=True
    )
    requests = proxy.seen()
    lists = sum(method == "GET" and "list-type" in path for method, path, _ in requests)
    return f"| {name} | {' | '.join(done.stdout.split())} | {len(requests)} | {lists} |"


def main(commits: int) -> None:
    """Measures every step after so many commits."""
    os.environ.update(AWS_ACCESS_KEY_ID="growth", AWS_SECRET_ACCESS_KEY="growth", AWS_REGION="us-east-1")
    with tempfile.TemporaryDirectory() as scratch, s3_server(Path(scratch) / "log") as port, proxied(port) as proxy:
        folder, path = Path(scratch) / "table", ObjectPath("s3:", BUCKET, f"growth-{commits}")
        grow(folder, commits)
        os.environ["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{port}"
        for file in sorted((folder / "_delta_log").iterdir()):
            if file.is_file():
                objects.upload(path / "_delta_log" / file.name, file)
        os.environ["AWS_ENDPOINT_URL"] = proxy.url
        begin = time.perf_counter()
        objects.below(path / "_delta_log")
        print(f"a list of the log: {time.perf_counter() - begin:.1f} s, {sum(1 for _ in proxy.seen())} requests")
        print("| step | s | processor s | MiB | requests | of them lists |\n| --- | ---: | ---: | ---: | ---: | ---: |")
        for name in STEPS:
            print(measured(name, path, proxy), flush=True)
        print(f"objects of the log after the clean-up: {len(objects.below(path / '_delta_log'))}")


def one(name: str, path: ObjectPath) -> None:
    """Prints seconds, processor seconds and memory (MiB above that of the imports) of a step."""
    import deltalake  # noqa: F401 - its import is no part of the step

    before = most_memory()
    begin, processor = time.perf_counter(), time.process_time()
    step(name, path)
    print(f"{time.perf_counter() - begin:.2f} {time.process_time() - processor:.2f} {most_memory() - before}")


def most_memory() -> int:
    """Returns the most memory that this process has had, MiB; `getrusage` would count its parent's."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) >> 10


if __name__ == "__main__":
    if sys.argv[1] in STEPS:
        one(sys.argv[1], ObjectPath(*sys.argv[2:]))
    else:
        main(int(sys.argv[1]))

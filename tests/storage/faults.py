"""Commands of library code on one table beside a store that fails in every way, drawn by a seed.

`python -m tests.storage.faults 200` tries so many seeds on the server of the tests; with `--gateway` on versitygw,
which `make store-check` builds and tries for some seeds; `--server HOST:PORT` on another one, whose keys are in the
environment and which has the bucket `lakes`. `make endurance` has the first and the last.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import write_deltalake

from lowwater.lake import open_tables
from lowwater.lake.tables import append_rows, create, read_rows, replace_rows
from lowwater.lake.upkeep import compact
from lowwater.storage import locks, objects, paths
from lowwater.storage.object_paths import ObjectPath
from lowwater.storage.objects import file_cache
from tests.storage import gateway
from tests.storage.servers import ANY, BUCKET, Proxy, proxied, s3_server

SCHEMA = pa.schema([pa.field("part", pa.string(), nullable=False), pa.field("value", pa.int64())])


def as_another_process(path: ObjectPath) -> None:
    """Lets this process know nothing of a table, as one that has just begun."""
    open_tables._MIRRORS.clear()
    for file in file_cache().file_of(path).rglob("*"):
        if file.is_file():
            file.unlink()


def stored(path: ObjectPath) -> list[tuple[str, int]]:
    """The rows of the table, in order."""
    return sorted((row["part"], row["value"]) for row in read_rows(path, SCHEMA).to_pylist())


def _append_by_delta(path: ObjectPath, rows: list[tuple[str, int]], server: int | str) -> None:
    """Appends each row in a commit, as another program does that knows nothing of this one and has no faults."""
    host = server if isinstance(server, str) else f"127.0.0.1:{server}"
    options = {**objects.options(path), "AWS_ENDPOINT_URL": f"http://{host}"}
    for row in rows:
        write_deltalake(str(path), _rows(*row), mode="append", storage_options=options)


def try_seed(root: ObjectPath, proxy: Proxy, seed: int, server: int | str, steps: int = 12) -> Counter[str]:
    """Changes a table in drawn steps, two writers at a time, while the store fails; returns the faults.

    Args:
        root: prefix of the table.
        proxy: the proxy before the server.
        seed: of the steps.
        server: the server itself, as of `proxied`.
        steps: number of steps.

    Raises:
        AssertionError: a row is there twice, or is lost.
    """
    draw, path, expected = random.Random(seed), root / f"table-{seed}", Counter[tuple[str, int]]()
    proxy.breaks(*ANY)
    proxy.seen()
    with ThreadPoolExecutor(2) as writers:
        list(writers.map(lambda _: create(path, SCHEMA, ["part"]), range(2)))
        for step in range(steps):
            values = [(part, draw.randrange(100)) for part in "ab"]
            kind = draw.choice(["append", "rival", "rival", "replace", "compact", "again", "lease"])
            if kind == "append":
                list(writers.map(lambda each: append_rows(path, _rows(*each)), values))
                expected.update(values)
            elif kind == "rival":
                foreign = [("d", draw.randrange(100)) for _ in range(3)]
                going = writers.submit(_append_by_delta, path, foreign, server)
                for each in values:
                    append_rows(path, _rows(*each))
                going.result()
                expected.update([*values, *foreign])
            elif kind == "replace":
                part, value = values[0]
                replace_rows(path, _rows(part, value), pc.field("part") == part)
                expected = Counter({each: n for each, n in expected.items() if each[0] != part})
                expected[part, value] += 1
            elif kind == "compact":
                compact(path)
            elif kind == "again":
                as_another_process(path)
                assert stored(path) == sorted(expected.elements()), (seed, step)
            else:
                with locks.hold_lease(root / "lock", seed, seed + 1) as fence:
                    paths.write(path / "note", str(step).encode())
                    append_rows(path, _rows("c", step), fence)
                expected["c", step] += 1
                assert paths.read(path / "note") == str(step).encode()
    faults = Counter(fault for *_, fault in proxy.seen() if fault)
    proxy.breaks()
    as_another_process(path)
    assert stored(path) == sorted(expected.elements()), seed
    return faults


def _rows(part: str, value: int) -> pa.Table:
    return pa.table({"part": [part], "value": [value]}, SCHEMA)


def main() -> None:
    """Tries seeds, and prints how many faults of each kind they met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seeds", type=int)
    parser.add_argument("--first", type=int, default=1)
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--server", metavar="HOST:PORT", help="a server that runs already")
    where.add_argument("--gateway", action="store_true", help="versitygw, which is started")
    chosen = parser.parse_args()
    keys = (gateway.KEY, gateway.SECRET) if chosen.gateway else ("faults", "faults")
    for name, value in zip(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), keys, strict=True):
        os.environ.setdefault(name, value)
    os.environ.setdefault("AWS_REGION", "us-east-1")
    os.environ["LOWWATER_STORE_TIMEOUT"] = "5"
    root, faults, begin = ObjectPath("s3:", BUCKET, f"faults-{uuid.uuid4().hex[:8]}"), Counter[str](), time.monotonic()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        started = gateway.gateway(folder) if chosen.gateway else s3_server(folder / "log")
        server: int | str = chosen.server or stack.enter_context(started)
        for seed in range(chosen.first, chosen.first + chosen.seeds):
            with proxied(server, seed) as proxy:
                os.environ["AWS_ENDPOINT_URL"] = proxy.url
                faults += try_seed(root, proxy, seed, server)
            print(f"seed {seed}: as expected, {time.monotonic() - begin:.0f} s", flush=True)
    print("faults:", dict(faults.most_common()))


if __name__ == "__main__":
    main()

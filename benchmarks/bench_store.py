"""Measures what commands ask of an object store, by the number of published intervals: requests, seconds, sockets.

`python -m benchmarks.bench_store 3 60 2000` makes lakes with so many published intervals of two tables in a folder,
copies each to the S3 server of the tests, and runs each command in a process of its own behind the proxy that counts.
Intervals run without Spark, which asks nothing of a store. It prints a table for docs/object-stores.md.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path, PurePath
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lowwater import limits
from lowwater.instants import HOUR, format_instant, parse_instant
from lowwater.lake.tables import describe
from lowwater.storage.object_paths import ObjectPath, parse
from tests.capturemaker import pcap_bytes, udp
from tests.storage.servers import BUCKET, Proxy, kinds_of, proxied, s3_server

BEGIN = parse_instant("2026-01-01T00:00:00Z")
QUERIES = """\
DEFINE { query_name 'flows'; }
SELECT tb, srcIP, destIP, count(*) AS cnt FROM main1.DataProtocol GROUP BY time/600 AS tb, srcIP, destIP;
DEFINE { query_name 'bytes'; }
SELECT tb, sum(len) AS bytes FROM main1.DataProtocol GROUP BY time/3600 AS tb
"""
COMMANDS = ("one more", "plan", "status", "rows", "ingest", "another", "maintain")
"""What is measured; `ingest` finds nothing new, `one more` and `another` publish an interval of two tables."""
OTHERS = 10
"""Intervals of `another`, each in a process of its own: ledgers are joined by some of them."""


def write_captures(folder: Path, hours: int) -> None:
    """Writes a capture of some packets for each hour, and the settings of a lake that reads them."""
    captures = folder / "captures"
    captures.mkdir(parents=True, exist_ok=True)
    for hour in range(hours):
        begin = BEGIN + hour * HOUR
        name = format_instant(begin).replace("-", "").replace(":", "")
        frames = [(begin + at * HOUR // 8, udp("10.0.0.1", f"10.0.1.{hour % 250}", 1000, 2000)) for at in range(8)]
        capture = captures / f"main1_{name}.pcap"
        capture.write_bytes(pcap_bytes(frames))
        os.utime(capture, (BEGIN // 10**9, BEGIN // 10**9))  # nobody writes to it any more
    (folder / "queries.gsql").write_text(QUERIES)


def settings(folder: Path) -> bytes:
    """The settings of a lake over the captures of a folder."""
    lines = [f'[query_sets.demo]\nfiles = ["{folder / "queries.gsql"}"]', "[links.main1]"]
    lines += [f'captures = "{folder}/captures/main1_%Y%m%dT%H%M%SZ.pcap"', 'rotation = "1h"', 'skew = "1s"']
    return "\n".join(lines).encode()


def make(folder: Path, published: int) -> Path:
    """Makes a lake with so many published intervals, and captures of more; returns its folder."""
    from lowwater.storage import paths

    limits.LEDGER_FRAGMENTS = limits.LEDGER_FRAGMENTS_OF_STORE  # as in a store
    write_captures(folder, published + OTHERS + 2)
    lake = folder / "lake"
    lake.mkdir(exist_ok=True)
    paths.write(lake / "lowwater.toml", settings(folder))
    ingest(lake)
    publish(lake, BEGIN, BEGIN + min(published, RUN) * HOUR)
    if published > RUN:
        copy_last(lake, range(RUN, published))
    return lake


def copy_last(lake: Path, hours: range) -> None:
    """Publishes further hours by library code: what the last one that ran has in every table, at other times.

    Their captures are ingested and their digests are their own, so commands find them done. Each table gets one commit.
    """
    from lowwater.lake.layout import HEARTBEATS, LATENESS, METRICS, QUALITY, REPLAYS, open_lake
    from lowwater.lake.ledgers.runs import LOW, PUBLISH, read_replays
    from lowwater.lake.results.pins import publishing
    from lowwater.lake.tables import append_rows, open_table, read_rows, table_dataset
    from lowwater.replay.job import Job

    opened, job = open_lake(lake, make=False), Job.open(lake, "demo", Path("queries"))
    last, captures = BEGIN + (RUN - 1) * HOUR, job.captures()
    known = job.known_missing(captures)
    templates = [row for row in read_replays(opened, "demo") if row.interval_start == last]
    names = [query.name for query in job.plan.queries]
    with publishing(opened, "demo", names) as act:
        tables = {query.name: opened.table(query.name) for query in job.plan.queries}
        numbers = {name: copy_published(path, act, hours) for name, path in tables.items()}
    rows = []
    for hour in hours:
        start = BEGIN + hour * HOUR
        inputs = job.inputs(start, start + HOUR, captures, known)
        digests = {query.name: inputs.digest(query) for query in job.plan.queries}
        for row in templates:
            digest = " ".join(digests[name] for name in sorted(digests)) if row.stage == LOW else digests[row.query]
            at = row.finished_at + hour
            copied = replace(row, interval_start=start, interval_end=start + HOUR, digest=digest, finished_at=at)
            rows.append(replace(copied, publication=numbers[row.query]) if row.stage == PUBLISH else copied)
    append_rows(opened.replays, pa.Table.from_pylist([asdict(row) for row in rows], schema=REPLAYS))
    for path, schema, column in (
        (opened.heartbeats, HEARTBEATS, "start"),
        (opened.quality, QUALITY, "interval_start"),
        (opened.metrics, METRICS, "interval_start"),
        (opened.lateness, LATENESS, "interval_start"),
    ):
        stored = read_rows(path, schema).to_pylist()
        stored = [row for row in stored if row[column] >= last]
        append_rows(path, pa.Table.from_pylist([moved(row, hour) for hour in hours for row in stored], schema=schema))
    for path in opened.all_measures():
        if (table := open_table(path)) is not None:
            whole = table_dataset(path, table).to_table()
            stored = [row for row in whole.to_pylist() if row["interval_start"] >= last]
            moved_rows = [moved(row, hour) for hour in hours for row in stored]
            append_rows(path, pa.Table.from_pylist(moved_rows, schema=whole.schema))
    folders = [opened.stream(name) for name in names] + [*(lake / "lfta" / "demo").iterdir()]
    for folder in folders:
        copy_files(folder, last, hours)


def moved(row: dict[str, Any], hour: int) -> dict[str, Any]:
    """A row of a ledger about the last hour that ran, as one about another hour."""
    shift = (hour - RUN + 1) * HOUR
    times = {name: row[name] + shift for name in ("start", "end", "interval_start", "interval_end") if name in row}
    month = {"month": format_instant(times["interval_start"])[:7]} if "month" in row else {}
    return {**row, **times, **month}


def copy_files(folder: PurePath, last: int, hours: range) -> None:
    """Adds the files of the last hour that ran to a table between the stages, as those of other hours."""
    from lowwater.lake.results.streams import stream_files
    from lowwater.lake.tables import interval_label, swap_files

    files = []
    for hour in hours:
        start = BEGIN + hour * HOUR
        label = interval_label(start, start + HOUR)
        for file in stream_files(folder, last, last + HOUR):
            target = Path(folder) / f"interval={label}" / f"copied-{file.name}"
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(Path(file).read_bytes())
            files.append(describe(folder, target, {"interval": label}))
    swap_files(folder, files, lambda _: [])


def copy_published(path: PurePath, act: Any, hours: range) -> int:
    """Adds the rows of the last hour that ran to a published table, at other hours; returns their number."""
    from lowwater.lake.results.published import NOTE, interval_key, next_publication, state_at
    from lowwater.lake.tables import live_files, open_table, swap_files

    table = open_table(path)
    assert table is not None
    newest = max(live_files(table), key=lambda row: row["partition._hour"])
    stored, files = pq.read_table(Path(path) / newest["path"], partitioning=None), []
    for hour in hours:
        shift = (hour - RUN + 1) * HOUR
        at = stored.schema.get_field_index("_last")
        rows = stored.set_column(at, stored.schema.field(at), pc.add(stored.column("_last"), shift))
        name = str(int(newest["partition._hour"]) + hour - RUN + 1)
        target = Path(path) / f"_hour={name}" / "copied.parquet"
        target.parent.mkdir(exist_ok=True)
        pq.write_table(rows, target)
        files.append(describe(path, target, {"_hour": name}))
    number = act.number(table.version() + 1)
    made = {(BEGIN + hour * HOUR, BEGIN + (hour + 1) * HOUR): number for hour in hours}

    def note(newest_table: Any) -> dict[str, str | int]:
        state = state_at(path, newest_table)
        start, end = BEGIN + hours.start * HOUR, BEGIN + hours.stop * HOUR
        said = next_publication(state.note, (), (), start, end, (), {**state.recent, **made}, state.checkpoint)
        return {NOTE: said.text(), **{interval_key(*bounds): number for bounds in made}}

    swap_files(path, files, lambda _: [], note=note)
    return int(number)


RUN = 7
"""Intervals of a lake that are run; more are copies of the last one."""


def ingest(lake: PurePath) -> None:
    """Ingests the new captures of the pattern."""
    run("ingest", "--lake", str(lake))


def publish(lake: PurePath, start: int, end: int) -> None:
    """Runs the intervals that are due in a range."""
    from lowwater.high.process import InProcess
    from lowwater.replay.job import Job
    from lowwater.replay.schedule.backfill import backfill
    from lowwater.replay.schedule.due import DueSelection, due

    job = Job.open(lake, "demo", Path("queries"))
    results = backfill([job], due(job, DueSelection(start, end)), runner=InProcess(2))
    assert all(result.published for result in results), [result.reason for result in results]


def run(*arguments: str) -> None:
    """Runs a command in this process."""
    from lowwater.cli.main import main

    try:
        main(arguments)
    except SystemExit as ended:
        assert not ended.code, (arguments, ended.code)


def upload(lake: Path, root: ObjectPath) -> None:
    """Copies a lake from a folder into a store, with the checkpoints that its logs have there."""
    from deltalake import DeltaTable

    from lowwater.documents import OF_FORMAT_1
    from lowwater.lake.layout import FORMAT
    from lowwater.lake.open_tables import CHECKPOINTS
    from lowwater.storage import objects

    for log in lake.rglob("_delta_log"):
        if log.parent.name in OF_FORMAT_1 and log.parent.parent == lake:
            continue  # no reader may open it
        newest = DeltaTable(str(log.parent)).version()
        if newest >= CHECKPOINTS:
            DeltaTable(str(log.parent), version=newest - newest % CHECKPOINTS).create_checkpoint()
    for file in sorted(lake.rglob("*")):
        name = file.relative_to(lake)
        copied = name.parts[0] in ("streams", "lfta") and file.name.startswith("copied-")  # nobody reads them
        kept = not name.parts[0].startswith("_") or name.parts[0] == FORMAT
        if file.is_file() and kept and file.suffix != ".lock" and not copied:
            objects.upload(root.joinpath(*name.parts), file)


def do(command: str, lake: ObjectPath, published: int) -> None:
    """Does one command; prints wall and processor seconds, and the most sockets and threads that it had."""
    begin, processor = time.perf_counter(), time.process_time()
    most = _watch()
    if command == "one more" or command.startswith("another"):
        later = 0 if command == "one more" else int(command.removeprefix("another"))
        begin_at = BEGIN + (published + later) * HOUR
        publish(lake, begin_at, begin_at + HOUR)
    elif command == "rows":
        run("rows", "flows", "--lake", str(lake), "--limit", "5")
    else:
        run(command, "--lake", str(lake))
    used = time.process_time() - processor
    print(f"\nMEASURED {time.perf_counter() - begin:.1f} {used:.1f} {max(most)}")


def _watch() -> list[int]:
    """Counts the descriptors of this process in a thread; returns the list that gets the counts."""
    import threading

    most = [0]

    def count() -> None:
        while True:
            most.append(len(os.listdir("/proc/self/fd")))
            time.sleep(0.02)

    threading.Thread(target=count, daemon=True).start()
    return most


def measured(command: str, lake: ObjectPath, published: int, proxy: Proxy) -> tuple[list[str], Counter[str]]:
    """Does a command in a process of its own; returns what it took, and its requests by kind."""
    proxy.seen()
    line = [sys.executable, "-m", "benchmarks.bench_store", "--do", command, str(lake), str(published)]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=1800)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    requests = [(method, path) for method, path, _ in proxy.seen()]
    (said,) = [text.split()[1:] for text in done.stdout.splitlines() if text.startswith("MEASURED")]
    if os.environ.get("BENCH_LOG"):
        with open(os.environ["BENCH_LOG"], "a") as log:
            log.writelines(f"{command}\t{published}\t{method}\t{path}\n" for method, path in requests)
    return said, Counter(kinds_of(method, path) for method, path in requests)


def main() -> None:
    """Measures every command at every size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", type=int, nargs="*", default=[3, 60])
    parser.add_argument("--do", nargs=3, metavar=("COMMAND", "LAKE", "PUBLISHED"), help="one command, in this process")
    parser.add_argument("--keep", type=Path, help="folder in which the lakes are kept, and found again")
    parser.add_argument("--only", nargs="*", default=COMMANDS)
    chosen = parser.parse_args()
    if chosen.do:
        command, lake, published = chosen.do
        root = parse(lake)
        assert isinstance(root, ObjectPath)
        do(command, root, int(published))
        return
    os.environ.update(AWS_ACCESS_KEY_ID="bench", AWS_SECRET_ACCESS_KEY="bench", AWS_REGION="us-east-1")
    print("| command | intervals | requests | s | processor s | descriptors | of them |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | --- |")
    for line in lines(chosen.sizes, chosen.keep, chosen.only):
        print(line, flush=True)


def lines(sizes: list[int], keep: Path | None, only: list[str]) -> Iterator[str]:
    """Yields a line of the table for each command and size; of several runs the one with the most requests."""
    with tempfile.TemporaryDirectory() as scratch, s3_server(Path(scratch) / "log") as port, proxied(port) as proxy:
        for size in sizes:
            folder, root = (keep or Path(scratch)) / f"{size}", ObjectPath("s3:", BUCKET, f"lake-{size}")
            lake = folder / "lake" if (folder / "done").exists() else make(folder, size)
            (folder / "done").touch()
            os.environ["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{port}"
            upload(lake, root)
            os.environ["AWS_ENDPOINT_URL"] = proxy.url
            measured("ingest", root, size, proxy)  # the ledger of files names them otherwise in a store
            for command in only:
                each = [f"another {at}" for at in range(1, OTHERS + 1)] if command == "another" else [command]
                found = [measured(one, root, size, proxy) for one in each]
                said, kinds = max(found, key=lambda one: one[1].total())
                totals = sorted({one.total() for _, one in found})
                told = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
                span = f"{totals[0]} to {totals[-1]}" if len(totals) > 1 else f"{totals[0]}"
                yield f"| {command} | {size:,} | {span} | {' | '.join(said)} | {told} |"


if __name__ == "__main__":
    main()

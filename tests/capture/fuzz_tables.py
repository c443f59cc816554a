"""Fuzz of the readers of records: mutated lines, headers and parquet files, and files that grow when they are read.

`python -m tests.capture.fuzz_tables --lines 1000000 --headers 100000 --files 20000 --seed 1`, which `make fuzz` calls.
Every file is read by a child process, so that the end of the process itself is found and named. What must hold of each
file: it is read, or refused with a `CaptureError` that names it and has a hint; every byte of a text is in a record, a
malformed row or the overhead; positions are counted without a gap; the memory of the child stays below `MOST_MEMORY`.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import multiprocessing
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from queue import Empty
from random import Random
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from lowwater.capture.tables.options import TableOptions, TextOptions
from lowwater.capture.tables.reader import RecordReader
from lowwater.capture.tables.sniffing import sniff
from lowwater.errors import CaptureError
from lowwater.lake.files.sample import propose_protocol
from tests.capture.tablemaker import BY_NAME, BY_POSITION, as_csv, as_json, as_parquet, flows, layout
from tests.memory import peak_memory

MOST_MEMORY = 1200 << 20
"""Most memory of a child, bytes: interpreter, Arrow and kernels take 300 MiB of it."""

LINES = 500
"""Lines of a fuzzed file."""

BATCH = 2000
"""Files of a child."""

PIECES = tuple(
    text.encode("latin-1")
    for text in (
        *(
            ",", '"', "\n", "\r\n", "\r", "\0", "\xff", "\xc3\xa9", "''", "-", "0x7f", "nan", "1e999", "9" * 25, "{",
            "}",
        ),
        *("[", ":", "\\u0000", "\\ud800", "true", "null", "2026-01-01T00:00:00Z", "::", '""', ";;", " ", "1767225600"),
        *("99999999999999999999", "\xef\xbb\xbf", "\t", "|"),
    )
)  # fmt: skip


class Item(NamedTuple):
    """A file to read: kind of the link, whether its fields have names, how text is written, and its bytes."""

    kind: str
    named: bool
    text: TextOptions
    data: bytes


def lines(random: Random) -> Item:
    """A file of mutated lines."""
    rows = flows(random.randrange(1 << 30), LINES, disorder=random.randrange(3))
    if random.random() < 0.4:
        data = as_json(rows)
        return Item("json", True, TextOptions(), mutated(random, data, random.randrange(LINES)))
    named, separator = random.random() < 0.5, random.choice(",;\t|")
    quote = random.choice(('"', '"', "", "'"))
    data = as_csv(rows, separator, header=named, end=random.choice(("\n", "\r\n")))
    head, mark, rest = data.partition(b"\n") if named else (b"", b"", data)
    text = TextOptions(separator, quote if quote != separator else "")
    return Item("csv", named, text, head + mark + mutated(random, rest, random.randrange(LINES)))


def mutated(random: Random, data: bytes, changes: int) -> bytes:
    """Bytes with so many places that are changed, left out, doubled, or have a piece of syntax in them."""
    parts, last = [], 0
    for at in sorted(random.randrange(len(data) + 1) for _ in range(changes)):
        if at < last:
            continue
        parts.append(data[last:at])
        size = random.choice((1, 1, 2, 10, 100))
        last = at
        match random.randrange(4):
            case 0:
                parts.append(bytes(random.randrange(256) for _ in range(min(size, len(data) - at))))
                last = at + size
            case 1:
                last = at + size
            case 2:
                parts.append(data[at : at + size])
            case _:
                parts.append(random.choice(PIECES) * random.choice((1, 1, 1, 50)))
    return b"".join([*parts, data[last:]])


def header(random: Random) -> Item:
    """A file whose first line is odd."""
    words = (b"time", b"src", b"bytes", b"host", b"rtt", b"up", *PIECES)
    names = [random.choice(words) for _ in range(random.randrange(9))]
    line = random.choice((b",", b",", b";", b"\t")).join(names)
    if random.random() < 0.02:
        line = random.choice((b",", b'"', b"a,", b'"",', b"time,")) * random.choice((1000, 20_000, 1_000_000))
    elif random.random() < 0.5:
        line = b"time,src,bytes,host,rtt,up"
        line = mutated(random, line, random.randrange(1, 6))
    body = as_csv(flows(random.randrange(1 << 30), 3))
    text = TextOptions(random.choice(",;\t"), random.choice(('"', "")))
    named = random.random() < 0.8
    return Item("csv", named, text, line + random.choice((b"\n", b"\r\n", b"")) + body)


def parquet(random: Random) -> Item:
    """A parquet file whose bytes are changed, more often those of its footer; or one of odd columns."""
    if random.random() < 0.2:
        return Item("parquet", True, TextOptions(), _odd_columns(random))
    data = bytearray(as_parquet(flows(random.randrange(1 << 30), 300)))
    size = int.from_bytes(data[-8:-4], "little")
    first = len(data) - 8 - size if random.random() < 0.7 else 0
    for _ in range(random.choice((1, 1, 2, 5, 30))):
        data[random.randrange(first, len(data))] = random.choice((0, 255, 127, 128, random.randrange(256)))
    if random.random() < 0.1:
        at = random.randrange(len(data))
        del data[at : at + random.randrange(1, 200)]
    return Item("parquet", random.random() < 0.5, TextOptions(), bytes(data))


def _odd_columns(random: Random) -> bytes:
    rows = random.choice((0, 1, 100))
    columns: dict[str, pa.Array] = {}
    kinds = [pa.int8(), pa.uint64(), pa.float32(), pa.decimal128(38, 3), pa.decimal128(5, 0), pa.date32(), pa.binary(),
             pa.timestamp("s"), pa.timestamp("ns", "Asia/Tokyo"), pa.duration("ns"), pa.time64("ns"), pa.large_string(),
             pa.list_(pa.int32()), pa.map_(pa.string(), pa.int32()), pa.struct([("x", pa.struct([("y", pa.int32())]))]),
             pa.dictionary(pa.int8(), pa.string()), pa.null(), pa.bool_(), pa.string()]  # fmt: skip
    for name in ("time", "src", "bytes", "host", "rtt", "up", "", "é", "a.b"):
        if random.random() < 0.9:
            columns[name] = pa.nulls(rows, random.choice(kinds))
    out = io.BytesIO()
    table = pa.table(columns)
    if random.random() < 0.1:
        table = table.rename_columns([random.choice(("time", "host", name)) for name in table.column_names])
    if random.random() < 0.7 and rows:
        table = table.set_column(0, "time", pa.array(range(1767225600, 1767225600 + rows)))
    pq.write_table(table, out)
    return out.getvalue()


MAKERS: dict[str, Callable[[Random], Item]] = {"lines": lines, "headers": header, "files": parquet}


LINE = b"1767225600,10.0.0.1,1,a,0.5,true\n"
REPEATED = {
    "zeros": (b"\0", 256 << 20), "blank lines": (b"\n", 64 << 20), "short lines": (b"1,,,,,\n", 4 << 20),
    "separators": (b",", 64 << 20), "quotes": (b'"', 64 << 20), "an open quote": (b'"' + LINE, 4 << 20),
    "whole lines": (LINE, 4 << 20),
}  # fmt: skip
OBJECTS = {
    "lists": b"[" * 500_000 + b"]" * 500_000,
    "objects in a list": b'{"time": [' + b"{}," * 300_000 + b"{}]}",
    "deep objects": b'{"time":' * 100_000 + b"1" + b"}" * 100_000,
    "a long number": b'{"time": ' + b"9" * 900_000 + b"}",
    "many names": b"{" + b",".join(b'"%d":1' % number for number in range(80_000)) + b"}",
}
BOMBS = [
    *((name, form) for name in REPEATED for form in ("gzip", "zstd")),
    *((name, "json") for name in OBJECTS),
    *(("long texts", form) for form in ("parquet 1.0", "parquet 2.0")),
]
"""Files that are far larger once they are read: what they hold, and how they are written."""


def bomb(name: str, form: str) -> Item:
    """Makes one of BOMBS."""
    if name in REPEATED:
        piece, count = REPEATED[name]
        data = LINE * 1000 + piece * count
        packed = gzip.compress(data, 1) if form == "gzip" else pa.Codec("zstd").compress(data).to_pybytes()
        return Item("csv", False, TextOptions(), packed)
    if name in OBJECTS:
        return Item("json", True, TextOptions(), gzip.compress((OBJECTS[name] + b"\n") * 40, 1))
    texts = pa.array(["x", "y" * (1 << 20), "z" * (3 << 20)])
    hosts = pa.DictionaryArray.from_arrays(pa.array([at % 100 % 3 for at in range(50_000)], pa.int32()), texts)
    others = {name: pa.nulls(50_000, pa.int64()) for name in ("bytes", "rtt", "src", "up")}
    table, out = pa.table({"time": [1767225600] * 50_000, "host": hosts, **others}), io.BytesIO()
    pq.write_table(table, out, compression="zstd", data_page_version=form.rpartition(" ")[2])
    return Item("parquet", True, TextOptions(), out.getvalue())


def read(path: Path, item: Item, proposed: bool = True) -> str:
    """Reads a file, and makes a proposal for it if asked; returns how it went. Asserts what the module says."""
    path.write_bytes(item.data)
    protocol = layout(BY_NAME if item.named else BY_POSITION)
    reader = RecordReader(path, TableOptions(item.kind, protocol, item.text), 10**11, "")
    outcome = "read"
    try:
        rows = sum(batch.num_rows for batch in reader)
        summary, damage = reader.summary, reader.malformed
        assert summary is not None
        reasons = damage["reason"].to_pylist()
        positions = rows + len(reasons) - sum(reason == "compression" for reason in reasons)
        assert max(damage["position"].to_pylist(), default=-1) <= positions, "positions"
        lost = sum(damage["length"].to_pylist())
        if item.kind != "parquet":
            whole = summary.unpacked + summary.skipped
            assert summary.record_bytes + lost + summary.overhead == whole, "bytes are in no account"
    except CaptureError as error:
        assert str(path) in error.message and error.hint, error
        outcome = "refused"
    if not proposed:
        return outcome
    try:
        proposal = propose_protocol(sniff(path), "fuzzed")
        assert len(proposal.fields) >= 1
        return f"{outcome}, proposed"
    except CaptureError as error:
        assert error.hint, error
    return outcome


def _child(maker: str, seed: int, first: int, count: int, folder: str, said: multiprocessing.Queue[object]) -> None:
    outcomes: Counter[str] = Counter()
    for number in range(first, first + count):
        said.put(("at", number))
        item = MAKERS[maker](Random(f"{maker} {seed} {number}"))
        try:
            proposed = maker != "headers" or number % 10 == 0  # they are many, and a proposal reads a file many times
            outcomes[read(Path(folder) / f"file{number}", item, proposed)] += 1
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
            said.put(("found", number, f"{type(error).__name__}: {error}"[:500]))
        (Path(folder) / f"file{number}").unlink(missing_ok=True)
    said.put(("done", dict(outcomes), peak_memory()))


def run(maker: str, seed: int, count: int, folder: Path, patience: float) -> tuple[Counter[str], list[str], int]:
    """Reads so many files in children.

    Args:
        maker: name of one of MAKERS.
        seed: of the files.
        count: number of files.
        folder: where they are written.
        patience: longest time that a file may take, s.

    Returns:
        How many went how, what was found, and the most memory of a child in bytes.
    """
    context = multiprocessing.get_context("spawn")
    outcomes: Counter[str] = Counter()
    found: list[str] = []
    memory, first = 0, 0
    while first < count:
        said: multiprocessing.Queue[object] = context.Queue()
        arguments = (maker, seed, first, min(BATCH, count - first), str(folder), said)
        child = context.Process(target=_child, args=arguments)
        child.start()
        at, done = first, False
        while not done:
            try:
                message = said.get(timeout=patience)
            except Empty:
                why = f"no answer in {patience:.0f} s, or the process ended: {child.exitcode}"
                found.append(f"{maker} {at} of seed {seed}: {why}")
                child.kill()
                break
            match message:
                case ("at", int(number)):
                    at = number
                case ("found", int(number), str(text)):
                    found.append(f"{maker} {number} of seed {seed}: {text}")
                case ("done", dict(counts), int(most)):
                    outcomes.update(counts)
                    memory, done = max(memory, most), True
        child.join()
        first = arguments[2] + arguments[3] if done else at + 1
    return outcomes, found, memory


def _bomb_child(path: Path, item: Item, said: multiprocessing.Queue[object]) -> None:
    before = peak_memory()
    try:
        outcome = read(path, item)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
        outcome = f"FOUND {type(error).__name__}: {error}"[:500]
    said.put((outcome, before, peak_memory()))


def run_bombs() -> list[str]:
    """Reads each of BOMBS in a child. Returns what was found."""
    context = multiprocessing.get_context("spawn")
    findings: list[str] = []
    for name, form in BOMBS:
        said: multiprocessing.Queue[tuple[str, int, int]] = context.Queue()
        with tempfile.TemporaryDirectory(prefix="lowwater-fuzz-") as folder:
            child = context.Process(target=_bomb_child, args=(Path(folder) / "bomb", bomb(name, form), said))
            begin = time.monotonic()
            child.start()
            try:
                outcome, before, most = said.get(timeout=240)
            except Empty:
                findings.append(f"{name}, {form}: no answer in 240 s, or the process ended: {child.exitcode}")
                child.kill()
                continue
            finally:
                child.join(10)
        seconds = time.monotonic() - begin
        print(f"{name}, {form}: {outcome}, {before >> 20} to {most >> 20} MiB, {seconds:.1f} s", flush=True)
        if "FOUND" in outcome or most > MOST_MEMORY:
            findings.append(f"{name}, {form}: {outcome}, {most >> 20:,} MiB")
    return findings


def main() -> int:
    """Prints how many files went how, and every finding; returns 1 with a finding."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in MAKERS:
        parser.add_argument(f"--{name}", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--patience", type=float, default=120, help="seconds that a file may take")
    parser.add_argument("--bombs", action="store_true", help="also files that are far larger once they are read")
    options = parser.parse_args()
    findings: list[str] = []
    with tempfile.TemporaryDirectory(prefix="lowwater-fuzz-") as folder:
        for name in MAKERS:
            wanted = getattr(options, name)
            count = -(-wanted // LINES) if name == "lines" else wanted
            outcomes, found, memory = run(name, options.seed, count, Path(folder), options.patience)
            print(f"{name}: {wanted:,} in {count:,} files, {dict(outcomes)}, at most {memory >> 20:,} MiB", flush=True)
            findings += found + ([f"{name}: {memory >> 20:,} MiB of memory"] if memory > MOST_MEMORY else [])
    findings += run_bombs() if options.bombs else []
    print(json.dumps(findings, indent=2))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())

"""From capture files to published, audited tables: Lowwater as a user starts it, beside peers, in one run.

`make bench-end`, or `python -m benchmarks.bench_end [--packets 1] [--full] [--query NAME] [--peer NAME] [--json FILE]`;
sizes are in millions of packets, about. `--add` goes on with a JSON: what it has of other sizes and queries stays, each
size with its day. Captures are made once and kept in var/bench. Every command is a process of its own,
measured from outside. A cold run has empty folders of generated kernels and of numba's compiled code; the installation,
the recorded classes of Spark and the page cache of the system stay. A warm run is the same again, into another lake.
`python -m benchmarks.performance` makes docs/performance.md of the JSON.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import re
import shutil
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table

from benchmarks import ours
from benchmarks.peers import duck, nfdump
from benchmarks.subjects import ROOT, SUBJECTS
from benchmarks.watch import folder_bytes, watch

FOLDER = ROOT / "var" / "bench"
SIZES = {1: (140, "main1,main2"), 10: (1400, "main1,main2"), 100: (9500, "main1,main2,main3")}
"""Millions of packets, about -> rate of a link (packets/s), links; one hour."""
SAMPLE = 100_000
"""Packets that tshark reads."""
BY_FLOW = ("flows", "hourly")
"""Queries that programs of flows answer from captures; they count a flow in one row, as the second does."""
STREAMED = ("ports", "flows", "hourly")
"""Queries that the streaming peer answers: its outer join would wait for a watermark behind both aggregations."""
OVER_PACKETS = {"duckdb": "duck", "pyspark_batch": "spark_batch", "pyspark_stream": "spark_stream"}
"""Peers that begin after ingest -> their modules."""
FROM_FILES = ("nfdump", "tshark_duckdb")
PEERS = (*OVER_PACKETS, *FROM_FILES)

Say = Callable[[str], None]


def captures(millions: int, folder: Path, say: Say) -> Path:
    """The captures of a size; generated if an earlier run has not left them whole."""
    rate, links = SIZES[millions]
    return generated(folder / f"captures-{millions}m", rate, links, say)


def generated(target: Path, rate: float, links: str, say: Say) -> Path:
    """A folder with one hour of captures; a folder that appears is whole."""
    if not target.is_dir():
        say(f"generating {target.name}")
        part = target.with_name(f"{target.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        part.parent.mkdir(parents=True, exist_ok=True)
        words = [ours.COMMAND, "generate", "--out", part, "--hours", "1", "--links", links]
        watch([*words, "--rate", str(rate), "--seed", "11"])
        part.rename(target)
    return target


def one_query(
    name: str, source: Path, folder: Path, say: Say, empty: bool = True, peers: Collection[str] = PEERS
) -> dict[str, Any]:
    """A query on every engine. Whatever it wrote is removed.

    Args:
        name: the name of the subject.
        source: captures, a folder a link.
        folder: for all work.
        say: told what runs.
        empty: whether a cold run comes first, which begins with empty caches and compiles for half a minute.
        peers: those that run too.
    """
    shutil.rmtree(folder, ignore_errors=True)
    home = ours.Home(folder / "caches" if empty else None, folder / "scratch")
    found: dict[str, Any] = {"lowwater": {}}
    try:
        for state in ("cold", "warm") if empty else ("warm",):
            say(f"{name}: Lowwater, {state}")
            lake = folder / f"lake-{state}"
            found["lowwater"][state] = ours.from_captures(name, source, lake, home)
            if state == "cold":
                shutil.rmtree(lake)
        packets = folder / "lake-warm" / "packets"
        for peer, module in OVER_PACKETS.items():
            if peer not in peers or (peer == "pyspark_stream" and name not in STREAMED):
                continue
            say(f"{name}: {peer}")
            found[peer] = over_packets(name, module, packets, folder / peer)
        if name in BY_FLOW:
            found |= from_files(source, packets, folder, say, peers)
        if name == "flows":
            for form in ("csv", "parquet"):
                say(f"lowwater run, {form}")
                capture = largest(source / "main1")
                found[f"run_{form}"] = ours.run_command(capture, "main1", form, folder / f"run-{form}", home)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    warm = found["lowwater"]["warm"]
    for peer in OVER_PACKETS:
        if peer in found:
            found[peer]["same_answer"] = all(found[peer][key] == warm[key] for key in ("rows", "counted"))
    return found


def over_packets(name: str, module: str, packets: Path, folder: Path) -> dict[str, Any]:
    """A peer that begins after ingest."""
    folder.mkdir(parents=True)
    variables = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    words = [sys.executable, "-m", f"benchmarks.peers.{module}", name, packets, folder / "out"]
    done = watch(words, variables, (folder,))
    found = {**done.figures(), "disk_peak_bytes": done.disk_bytes, **duck.counted(name, folder / "out")}
    if module == "spark_stream":
        found["same_up_to_last_epoch"] = duck.agrees_up_to_its_end(name, packets, folder / "out")
    shutil.rmtree(folder)
    return found


def from_files(source: Path, packets: Path, folder: Path, say: Say, peers: Collection[str]) -> dict[str, Any]:
    """The peers that read captures themselves; None for those that are not installed."""
    found: dict[str, Any] = {peer: None for peer in FROM_FILES if peer in peers}
    if "nfdump" in peers and all(map(shutil.which, nfdump.PROGRAMS)):
        say("nfpcapd, nfdump")
        target = folder / "nfdump"
        done = watch([sys.executable, "-m", "benchmarks.peers.nfdump", source, target], None, (target,))
        answer = json.loads(done.output)
        # The seconds are those of the two programs: reading the CSV back is the benchmark's own check.
        seconds = round(answer["collect"] + answer["aggregate"], 2)
        found["nfdump"] = {**answer, "seconds": seconds, "peak_memory_bytes": done.peak_bytes,
                           "disk_peak_bytes": done.disk_bytes}  # fmt: skip
    if "tshark_duckdb" in peers and shutil.which("tshark"):
        say(f"tshark, DuckDB: {SAMPLE:,} packets")
        capture, target = largest(source / "main1"), folder / "tshark"
        words = [sys.executable, "-m", "benchmarks.peers.tshark", capture, str(SAMPLE), target]
        done = watch(words)
        answer = json.loads(done.output)
        found["tshark_duckdb"] = {**done.figures(), "sample_packets": SAMPLE, **answer}
        found["tshark_duckdb"]["lake"] = duck.sample(packets, capture.name, SAMPLE)
        found["tshark_duckdb"]["same_answer"] = found["tshark_duckdb"]["lake"] == answer
    return found


def largest(folder: Path) -> Path:
    """The largest file of a folder: the hour itself, not the minute that follows it."""
    return max(folder.iterdir(), key=lambda file: file.stat().st_size)


def one_size(
    millions: int, source: Path, query: str, folder: Path, size: dict[str, Any], say: Say, peers: Collection[str]
) -> None:
    """One query over the captures of a size, into the figures of that size.

    Args:
        millions: of packets, about.
        source: captures, a folder a link.
        query: the name of the subject.
        folder: for all work.
        size: the figures of the size; gets those of the query.
        say: told what runs.
        peers: those that run too.
    """
    loaded = round(os.getloadavg()[0], 1)
    found = one_query(query, source, folder / "work", lambda text: say(f"{millions} M, {text}"), peers=peers)
    rate, links = SIZES[millions]
    size |= {
        "millions": millions,
        "date": today(),
        "load_average": loaded,
        "generate": f"--hours 1 --links {links} --rate {rate} --seed 11",
        "packets": found["lowwater"]["warm"]["packets"],
        "capture_bytes": folder_bytes(source),
    }
    size.setdefault("queries", {})[query] = found


def today() -> str:
    """The day, in UTC."""
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def machine() -> dict[str, Any]:
    """The machine and the versions."""
    names = [line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
             if line.startswith("model name")]  # fmt: skip
    return {
        "processor": names[0] if names else platform.machine(),
        "cores": os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "system": f"{platform.system()} {platform.release()}",
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("pyspark", "duckdb", "deltalake", "numba", "pyarrow")},
            **{name: _version(name) for name in ("nfdump", "tshark")},
        },
    }


def _version(program: str) -> str | None:
    if shutil.which(program) is None:
        return None
    option = {"nfdump": "-V"}.get(program, "--version")
    found = re.search(r"\d+(\.\d+)+", watch([program, option]).output)
    return found[0] if found else None


def say(text: str) -> None:
    """A line of progress."""
    print(text, flush=True)


def left_out(found: Sequence[dict[str, Any]]) -> list[str]:
    """What the figures lack, and why."""
    sizes = {size["millions"]: size for size in found}
    texts = [f"{size} million packets: not asked for in this run" for size in SIZES if size not in sizes]
    texts += [
        f"{millions} million packets, query {name}: not asked for in this run"
        for millions, size in sizes.items()
        for name in SUBJECTS
        if name not in size["queries"]
    ]
    texts += [
        f"{size['millions']} million packets, query {name}, {peer}: not asked for in this run"
        for size in found
        for name, answers in size["queries"].items()
        for peer in (PEERS if name in BY_FLOW else OVER_PACKETS)
        if peer not in answers and (peer != "pyspark_stream" or name in STREAMED)
    ]
    for program, key in (("nfpcapd and nfdump", "nfdump"), ("tshark", "tshark_duckdb")):
        if any(key in each and each[key] is None for size in found for each in size["queries"].values()):
            texts.append(f"{program}: not installed")
    texts.append("PySpark streaming of the outer join: not written")
    texts.append("several machines, object stores, Airflow: everything ran on the machine above, from its disk")
    return texts


def _millions(size: Mapping[str, Any]) -> int:
    return int(size["millions"])


def show(figures: dict[str, Any]) -> None:
    """A table a size on the terminal."""
    console = Console()
    for size in figures["sizes"]:
        table = Table(title=f"{size['packets']:,} packets, {size['capture_bytes'] / 1e6:,.0f} MB")
        for title in ("query", "engine", "seconds", "packets/s", "rows", "peak MiB", "stages"):
            table.add_column(title, justify="left" if title in ("query", "engine", "stages") else "right")
        for name, engines in size["queries"].items():
            entries = {f"lowwater {state}": each for state, each in engines["lowwater"].items()}
            entries |= {key: each for key, each in engines.items() if key != "lowwater" and each}
            for engine, each in entries.items():
                packets = each.get("sample_packets") or (None if engine.startswith("run_") else size["packets"])
                speed = f"{packets / each['seconds']:,.0f}" if packets else ""
                stages = ", ".join(f"{key} {value:.1f}" for key, value in each.get("stages_seconds", {}).items())
                row = (name, engine, f"{each['seconds']:.1f}", speed, f"{each['rows']:,}")
                table.add_row(*row, f"{each['peak_memory_bytes'] >> 20:,}", stages)
        console.print(table)
    for text in figures["not_measured"]:
        console.print(f"not measured: {text}")


def main() -> None:
    """Runs the sizes, prints tables and writes the JSON after each query: a run that is stopped keeps what it has."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packets", type=int, action="append", choices=SIZES, help="millions; repeats (1 and 10)")
    parser.add_argument("--full", action="store_true", help="also 100 million")
    parser.add_argument("--query", action="append", choices=SUBJECTS, help="repeats (all)")
    parser.add_argument("--peer", action="append", choices=PEERS, help="repeats (all)")
    parser.add_argument("--add", action="store_true", help="to the figures that the JSON has")
    parser.add_argument(
        "--folder", type=Path, default=FOLDER, help="captures are kept there, and all work is done there"
    )
    parser.add_argument("--json", type=Path, help="of the figures (FOLDER/end.json)")
    options = parser.parse_args()
    sizes = [*(options.packets or ([] if options.add else [1, 10])), *([100] if options.full else [])]
    queries = options.query or list(SUBJECTS)
    target = options.json or options.folder / "end.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    earlier = json.loads(target.read_text(encoding="utf-8"))["sizes"] if options.add and target.is_file() else []
    figures: dict[str, Any] = {"machine": machine(), "sizes": earlier}
    for millions in sizes:
        source = captures(millions, options.folder, say)
        size = next((size for size in earlier if size["millions"] == millions), {"millions": millions})
        figures["sizes"] = sorted([*(other for other in figures["sizes"] if other is not size), size], key=_millions)
        for query in queries:
            one_size(millions, source, query, options.folder, size, say, options.peer or PEERS)
            figures["not_measured"] = left_out(figures["sizes"])
            target.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    show(figures)


if __name__ == "__main__":
    main()

"""The questions of `lowwater ask` over real captures beside tshark: rows of both, and processor seconds of both.

Run `python -m benchmarks.bench_answers [--captures FOLDER] [--capture FILE] [--question NAME] [--markdown]`.
Each command is a process of its own, whose start counts. The rows of tshark are made of its fields by the oracles of
`tests/docs/test_on_captures.py`; its seconds are those of the command that somebody would type, in `PEERS`. Questions
that compare two links have no peer here: a test of that file takes packets out of a capture for them. nfdump reads no
capture without nfpcapd, and is compared in `benchmarks/bench_run.py` where it is installed.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import platform
import resource
import shlex
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from lowwater.cli.asking import recipes
from tests.docs.test_on_captures import CAPTURES, ORACLES, in_seconds, packets_of, shown

ROOT = Path(__file__).resolve().parent.parent
_HOSTS = "-T fields -e frame.time_epoch -e frame.len -e ip.src -e ipv6.src -e ip.dst -e ipv6.dst"
_TCP = f"-Y tcp {_HOSTS} -e tcp.srcport -e tcp.dstport"
_SYNS = f"-Y tcp.flags.syn==1 {_HOSTS} -e tcp.srcport -e tcp.dstport -e tcp.flags.ack -e tcp.seq_raw -e tcp.ack_raw"
_HELLOS = "-Y tls.handshake.type==1 -T fields -e frame.time_epoch -e ip.src -e ipv6.src"
PEERS = {
    "largest": _HOSTS,
    "talkers": _HOSTS,
    "pairs": "-q -z conv,ip -z conv,ipv6",
    "shares": f"{_TCP}",
    "days": _HOSTS,
    "protocols": "-q -z io,phs",
    "percentile": "-q -z io,stat,300",
    "scans": _SYNS,
    "round_trips": _SYNS,
    "unanswered": _SYNS,
    "answered": _SYNS,
    "new_hosts": _TCP,
    "conversations": "-q -z conv,tcp",
    "handshake_times": "-Y tcp.analysis.initial_rtt&&!tcp.flags.reset "
    "-T fields -e tcp.stream -e tcp.analysis.initial_rtt",
    "repeated": "-Y tcp.analysis.retransmission -T fields -e tcp.stream -e tcp.srcport -e tcp.dstport",
    "dns_times": "-q -z dns,tree",
    "dns_failures": "-Y dns.flags.rcode>0 -T fields -e ip.src -e dns.qry.name -e dns.flags.rcode",
    "slow_http": "-Y http.response -T fields -e ip.src -e http.time",
    "beacons": _SYNS,
    "connections": f"{_TCP} -e tcp.flags.fin",
    "names": f"{_HELLOS} -e tls.handshake.extensions_server_name",
    "lonely": f"{_HELLOS} -e tls.handshake.ja3",
}
"""Question -> what tshark is told behind `-n -r FILE`."""
_WIDEST = 80


def processor(command: list[str]) -> tuple[str, float]:
    """What a command prints, and its processor seconds with those of its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return done.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def answers(printed: str) -> Counter[tuple[str, ...]]:
    """The rows of a CSV without the columns that say when an epoch of numbers begins."""
    header, *rows = csv.reader(io.StringIO(printed))
    kept = [at for at, name in enumerate(header) if not name.endswith("_start")]
    return Counter(tuple(in_seconds(row[at]) for at in kept) for row in rows)


def compared(name: str, path: Path, packets: list[Any]) -> dict[str, Any]:
    """One question over one capture."""
    ours = [sys.executable, "-m", "lowwater.cli.main", "ask", name, "--capture", str(path), "--format", "csv"]
    printed, seconds = processor(ours)
    _, peer = processor(["tshark", "-n", "-r", str(path), *shlex.split(PEERS[name])])
    found, wanted = answers(printed), shown(ORACLES[name](packets))
    return {
        "question": name, "capture": path.name, "rows": sum(found.values()), "peer_rows": sum(wanted.values()),
        "equal": found == wanted, "processor_s": round(seconds, 2), "peer_s": round(peer, 2),
        "apart": [*(wanted - found).elements()][:2] + [*(found - wanted).elements()][:2],
    }  # fmt: skip


def markdown(runs: list[dict[str, Any]]) -> str:
    """The runs as a table, a line for each question."""
    lines = [
        "| question | tshark | rows, each capture | rows of tshark | processor s | of tshark |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for name in dict.fromkeys(run["question"] for run in runs):
        own = [run for run in runs if run["question"] == name]
        rows = ", ".join(f"{run['rows']:,}" for run in own)
        same = "equal" if all(run["equal"] for run in own) else ", ".join(f"{run['peer_rows']:,}" for run in own)
        ours, theirs = (sum(run[key] for run in own) / len(own) for key in ("processor_s", "peer_s"))
        command = PEERS[name] if len(PEERS[name]) <= _WIDEST else f"{PEERS[name][:_WIDEST].rpartition(' -e')[0]} ..."
        lines.append(f"| `{name}` | `{command}` | {rows} | {same} | {ours:.1f} | {theirs:.1f} |")
    return "\n".join(lines)


def main() -> int:
    """Prints a line for each question and capture; 1 if rows differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    folder = os.environ.get("LOWWATER_CAPTURES") or ROOT.parent / "shared" / "captures"
    parser.add_argument("--captures", type=Path, default=Path(folder))
    parser.add_argument("--capture", action="append", help="in that folder; default: those of the test")
    parser.add_argument("--question", action="append", choices=[*PEERS], help="default: all")
    parser.add_argument("--json", type=Path, help="also write the figures there")
    parser.add_argument("--markdown", action="store_true", help="also print the table of the cookbook")
    options = parser.parse_args()
    assert {recipe.name for recipe in recipes() if not recipe.compares} == {*PEERS}, "each question has a peer"
    paths = [options.captures / name for name in options.capture or CAPTURES]
    if not all(path.is_file() for path in paths):
        print("no real captures there: give --captures")
        return 0
    figures: dict[str, Any] = {"machine": f"{platform.machine()}, {os.cpu_count()} cores", "runs": []}
    for path in paths:
        packets = packets_of(path)
        for name in options.question or PEERS:
            found = compared(name, path, packets)
            figures["runs"].append(found)
            print(", ".join(f"{key} {value}" for key, value in found.items() if value != []), flush=True)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    if options.markdown:
        print(markdown(figures["runs"]))
    return int(not all(run["equal"] for run in figures["runs"]))


if __name__ == "__main__":
    sys.exit(main())

"""How each program imports captures, and the rows that it then holds.

A program is driven as its manual shows it: one process a file where it takes one file, all into one place. No option
tunes it to this comparison, and nothing is deleted between an import that was killed and the next one.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from benchmarks.exactness.inputs import Captures

Rows = list[str]
Import = Callable[[Captures, Path], dict[str, Rows]]

_KILLED_AFTER = {"tshark": 0.4, "pmacctd": 3.0}
"""Time from the start of a process to its death, s, where it needs long to start: pmacctd waits for 2 s, then reads."""
_SOON = 0.006
"""The time of the others: the file of a minute takes some 10 ms."""
_LIMIT = 400
_TUPLE = ("proto", "srcip", "dstip", "srcport", "dstport")


@dataclass(frozen=True)
class Program:
    """A program of the comparison.

    Attributes:
        name: as the page calls it.
        needs: executables.
        version: command that prints the version.
        commands: commands of an import, as the page shows them.
        about: what the program is for, and what the figures are.
        take: imports captures into a folder; returns the rows by figure, in any order.
    """

    name: str
    needs: tuple[str, ...]
    version: tuple[str, ...]
    commands: tuple[str, ...]
    about: str
    take: Import


class Killed(Exception):
    """The import was killed."""


def call(words: list[str], kill: bool = False, into: IO[str] | None = None) -> str:
    """Runs a command and returns what it prints.

    Args:
        words: the command.
        kill: kills it and its children shortly after the start, unless it ended before.
        into: a file for what it prints; None returns it.

    Raises:
        Killed: if `kill` is set.
        RuntimeError: the command failed.
    """
    process = subprocess.Popen(
        words, stdout=into or subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    if kill:
        time.sleep(_KILLED_AFTER.get(words[0], _SOON))
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise Killed
    out, error = process.communicate(timeout=_LIMIT)
    if process.returncode:
        raise RuntimeError(f"{' '.join(words)} ended with {process.returncode}: {error[-500:]}")
    return out or ""


def each_file(captures: Captures, take: Callable[[str, Path, bool], None], at_once: int = 1) -> None:
    """Imports file after file, all links at once.

    Where the import is to be killed: half of the files of each link, one of them in part, then all of them again.

    Args:
        captures: files to import.
        take: imports one file: link, file, whether to kill the process.
        at_once: files of a link that are imported at once.
    """

    def take_link(link: str) -> None:
        files = captures.files[link]
        if captures.killed:
            half = len(files) // 2
            take_all(link, files[:half])
            with contextlib.suppress(Killed):
                take(link, files[half], True)
        take_all(link, files)

    def take_all(link: str, files: list[Path]) -> None:
        with ThreadPoolExecutor(at_once) as pool:
            list(pool.map(lambda file: take(link, file, False), files))

    with ThreadPoolExecutor(len(captures.files)) as pool:
        list(pool.map(take_link, captures.files))


def _nfdump(captures: Captures, out: Path) -> dict[str, Rows]:
    def take(link: str, file: Path, kill: bool) -> None:
        (out / link).mkdir(parents=True, exist_ok=True)
        call(["nfpcapd", "-r", str(file), "-w", str(out / link)], kill)

    each_file(captures, take)
    rows: dict[str, Rows] = {"flow records": [], "five-tuples": []}
    shown = "fmt:%ts,%te,%pr,%sa,%sp,%da,%dp,%pkt,%byt"
    for link in captures.files:
        asked = ["nfdump", "-q", "-N", "-R", str(out / link), "-n", "0", "-o", shown]
        rows["flow records"] += [f"{link},{line}" for line in call(asked).splitlines()]
        summed = [*asked[:-1], "fmt:%pr,%sa,%sp,%da,%dp,%pkt,%byt", "-A", ",".join(_TUPLE)]
        rows["five-tuples"] += [f"{link},{line}" for line in call(summed).splitlines()]
    return rows


def _argus(captures: Captures, out: Path) -> dict[str, Rows]:
    def take(link: str, file: Path, kill: bool) -> None:
        out.mkdir(parents=True, exist_ok=True)
        # -X: no configuration of the machine; argus appends to the file.
        call(["argus", "-X", "-r", str(file), "-w", str(out / f"{link}.argus")], kill)

    each_file(captures, take)
    rows: dict[str, Rows] = {"flow records": [], "five-tuples": []}
    for link in captures.files:
        read = ["-X", "-r", str(out / f"{link}.argus"), "-n", "-u", "-c", ","]
        five = ["proto", "saddr", "sport", "daddr", "dport", "pkts", "bytes"]
        records = call(["ra", *read, "-s", "stime", "ltime", *five, "-", "not", "man"])
        summed = call(["racluster", *read, "-s", *five, "-", "not", "man"])
        rows["flow records"] += [f"{link},{line}" for line in records.splitlines()]
        rows["five-tuples"] += [f"{link},{line}" for line in summed.splitlines()]
    return rows


_PMACCT = """daemonize: false
pcap_savefile: {file}
plugins: print
aggregate: src_host,dst_host,src_port,dst_port,proto
print_output: csv
print_output_file: {out}
print_refresh_time: 3600
"""
_PMACCTD_AT_ONCE = 15
"""It waits for some 20 s behind each file."""


def _pmacct(captures: Captures, out: Path) -> dict[str, Rows]:
    def take(link: str, file: Path, kill: bool) -> None:
        (out / link).mkdir(parents=True, exist_ok=True)
        settings = out / link / f"{file.stem}.conf"
        settings.write_text(_PMACCT.format(file=file, out=settings.with_suffix(".csv")))
        call(["pmacctd", "-f", str(settings)], kill)

    each_file(captures, take, _PMACCTD_AT_ONCE)
    lines: Rows = []
    for link in captures.files:
        for file in sorted((out / link).glob("*.csv")):
            lines += [f"{link},{line}" for line in file.read_text().splitlines()[1:]]
    return {"lines": lines, "five-tuples": summed(lines)}


def _tshark(captures: Captures, out: Path) -> dict[str, Rows]:
    fields = ("frame.time_epoch", "frame.len", "ip.proto", "ip.src", "ip.dst", "ipv6.src", "ipv6.dst")
    fields += ("tcp.srcport", "tcp.dstport", "udp.srcport", "udp.dstport", "tcp.stream", "udp.stream")

    def take(link: str, file: Path, kill: bool) -> None:
        (out / link).mkdir(parents=True, exist_ok=True)
        words = ["tshark", "-n", "-r", str(file), "-T", "fields", "-E", "separator=,", "-E", "occurrence=f"]
        with (out / link / f"{file.stem}.csv").open("w") as target:
            call([*words, *(part for name in fields for part in ("-e", name))], kill, target)

    each_file(captures, take)
    packets, sessions = [], []
    for link in captures.files:
        for file in sorted((out / link).iterdir()):
            streams: set[str] = set()
            for line in file.read_text().splitlines():
                *packet, tcp, udp = line.split(",")
                packets.append(f"{link},{','.join(packet)}")
                streams |= {f"tcp {tcp}"} if tcp else {f"udp {udp}"} if udp else set()
            sessions += [f"{link},{file.stem},{stream}" for stream in streams]
    return {"packets": packets, "TCP and UDP streams": sessions}


def summed(rows: Rows) -> Rows:
    """Sums packets and bytes, the last two columns of a row, over equal other columns."""
    packets: Counter[str] = Counter()
    octets: Counter[str] = Counter()
    for row in rows:
        key, packet, octet = row.rsplit(",", 2)
        packets[key] += int(packet)
        octets[key] += int(octet)
    return [f"{key},{packets[key]},{octets[key]}" for key in packets]


def _softflowd(captures: Captures, out: Path) -> dict[str, Rows]:
    from benchmarks.exactness.netflow import collector

    out.mkdir(parents=True)
    records: Rows = []

    def take(link: str, file: Path, kill: bool) -> None:
        with collector() as (port, received):
            words = ["softflowd", "-r", str(file), "-d", "-m", "1000000", "-v", "5", "-n", f"127.0.0.1:{port}"]
            words += ["-p", str(out / f"{link}.pid"), "-c", "none"]  # with a control socket it stays after the file
            try:
                call(words, kill)
            finally:
                records.extend(f"{link},{row}" for row in received())

    each_file(captures, take)
    return {"flow records": records, "five-tuples": summed(records)}


def _lowwater(captures: Captures, out: Path) -> dict[str, Rows]:
    from benchmarks.exactness.lake import published

    return published(captures, out)


def version(program: Program) -> str:
    """The version that a program tells."""
    done = subprocess.run(program.version, capture_output=True, text=True, timeout=60)
    numbers = re.search(r"\d+(\.\d+)+[\w.-]*", done.stdout + done.stderr)
    return numbers[0].rstrip(".") if numbers else "unknown"


PROGRAMS = {
    program.name: program
    for program in (
        Program(
            "Lowwater",
            (),
            (sys.executable, "-m", "lowwater.cli.main", "--version"),
            ("lowwater ingest --lake LAKE", "lowwater backfill --lake LAKE"),
            "tables that are a function of the packets. Figures: packets per five-tuple and ten seconds "
            "(`queries/flows.gsql`), TCP handshakes, a join of both links (`queries/handshakes.gsql`)",
            _lowwater,
        ),
        Program(
            "nfdump",
            ("nfpcapd", "nfdump"),
            ("nfdump", "-V"),
            ("nfpcapd -r FILE -w FLOWS", "nfdump -R FLOWS -n 0 -o fmt:...", "nfdump -R FLOWS -A proto,srcip,..."),
            "flows of routers and captures, kept in files of five minutes and asked by filters. Figures: its flow "
            "records, and these summed to five-tuples",
            _nfdump,
        ),
        Program(
            "argus",
            ("argus", "ra", "racluster"),
            ("argus", "-h"),
            ("argus -r FILE -w RECORDS", "ra -r RECORDS", "racluster -r RECORDS"),
            "two-way flow records of a live sensor, with state reports at intervals. Figures: its records, and these "
            "merged by racluster",
            _argus,
        ),
        Program(
            "softflowd",
            ("softflowd",),
            ("softflowd", "-h"),
            ("softflowd -r FILE -d -c none -m 1000000 -v 5 -n 127.0.0.1:PORT",),
            "NetFlow export of an interface. NetFlow 5 has IPv4 only; a socket of ours collects. Figures: exported "
            "records, and these summed to five-tuples",
            _softflowd,
        ),
        Program(
            "pmacct",
            ("pmacctd",),
            ("pmacctd", "-V"),
            ("pmacctd -f SETTINGS (plugin print, print_refresh_time: 3600, a CSV each file)",),
            "accounting of live traffic, into files, tables and message queues. Figures: lines of its CSV, and these "
            "summed to five-tuples",
            _pmacct,
        ),
        Program(
            "tshark",
            ("tshark",),
            ("tshark", "--version"),
            ("tshark -r FILE -T fields -e ... > FILE.csv",),
            "the dissection of packets, one by one. Figures: packets, and its TCP and UDP streams, whose numbers begin "
            "anew in each file",
            _tshark,
        ),
    )
}  # fmt: skip


def missing(program: Program) -> Iterator[str]:
    """The executables of a program that are not here."""
    import shutil

    yield from (name for name in program.needs if shutil.which(name, path=PATH) is None)


PATH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))
"""Debian keeps argus, softflowd and pmacctd in /usr/sbin."""
os.environ["PATH"] = PATH

"""Derives the row of this evidence again: `python3 check.py [--captures FOLDER]`, in the folder of the evidence.

It needs Python 3.10, and what `evidence.json` names under `derive`: `duckdb` is tshark and the Python package duckdb,
`reference` is the program that made the evidence (`lowwater`). With --captures it also looks for the captures by their
digests, and for each packet in them. Exit code 0 if the row is derived, 1 if anything differs, 2 if a program is
missing.
"""

from __future__ import annotations

import argparse
import hashlib
import ipaddress
import json
import math
import shutil
import struct
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HERE = Path(__file__).resolve().parent
SETTINGS = (
    "ip.defragment:FALSE",
    "ipv6.defragment:FALSE",
    "tcp.desegment_tcp_streams:FALSE",
    "tcp.relative_sequence_numbers:FALSE",
    "udp.try_heuristic_first:FALSE",
)
"""Each packet is read by itself."""
EXTENSIONS = ("ipv6.hopopts", "ipv6.routing", "ipv6.fraghdr", "ipv6.dstopts", "ah")
PORTED = {"tcp": "tcp", "udp": "udp", "sctp": "sctp", "dccp": "dccp", "udplite": "udp"}
FIELDS = (
    "frame.protocols", "frame.time_epoch", "frame.len", "frame.cap_len", "ip.src", "ip.dst", "ipv6.src", "ipv6.dst",
    "ip.proto", "ipv6.nxt", "ipv6.hopopts.nxt", "ipv6.routing.nxt", "ipv6.fraghdr.nxt", "ipv6.dstopts.nxt",
    "ah.next_header", "ip.len", "ipv6.plen", "ip.ttl", "ipv6.hlim", "tcp.srcport", "tcp.dstport", "udp.srcport",
    "udp.dstport", "sctp.srcport", "sctp.dstport", "dccp.srcport", "dccp.dstport", "tcp.flags", "tcp.seq_raw",
    "tcp.ack_raw", "tcp.window_size_value", "icmp.type", "icmp.code", "icmpv6.type", "icmpv6.code", "dns.id",
    "dns.qry.name", "dns.qry.type", "dns.flags.response", "dns.flags.rcode", "dns.count.answers",
)  # fmt: skip
TEXTS = ("srcIP", "destIP", "dns_query")
"""Columns with texts; an address is hexadecimal: its version, then its bytes."""


class Refused(Exception):
    """The evidence does not hold; the message says why."""


def main() -> int:
    """Checks the evidence beside this file; returns the exit code."""
    parser = argparse.ArgumentParser(description="Derives the row of this evidence again.")
    parser.add_argument(
        "--captures", type=Path, metavar="FOLDER", help="where the captures lie: are the packets in them?"
    )
    options = parser.parse_args()
    try:
        require_files()
        about = json.loads((HERE / "evidence.json").read_text(encoding="utf-8"))
        found = derived_by_duckdb(about) if about["derive"] == "duckdb" else derived_by_lowwater(about)
        if found < about["times"]:
            raise Refused(f"the packets give the row {found} times, not {about['times']}: {json.dumps(about['row'])}")
        print(f"the row of {about['query']} is derived: {json.dumps(about['row'])}")
        if options.captures is not None:
            require_captures(about, options.captures)
    except Refused as refused:
        print(f"refused: {refused}", file=sys.stderr)
        return 1
    except (FileNotFoundError, ImportError) as error:
        print(f"cannot check: {error}", file=sys.stderr)
        return 2
    return 0


def require_files() -> None:
    """Every file is the one that the manifest has, and there is no other."""
    manifest = json.loads((HERE / "manifest.json").read_text(encoding="utf-8"))
    for name, digest in manifest["sha256"].items():
        path = HERE / name
        if not path.is_file():
            raise Refused(f"{name} is missing")
        if digest_of(path) != digest:
            raise Refused(f"{name} is not the file that the manifest has: its SHA-256 differs")
    for path in sorted((HERE / "packets").glob("*")):
        if f"packets/{path.name}" not in manifest["sha256"]:
            raise Refused(f"packets/{path.name} is not in the manifest")


def digest_of(path: Path) -> str:
    """Returns the SHA-256 of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for part in iter(lambda: file.read(1 << 20), b""):
            digest.update(part)
    return digest.hexdigest()


def derived_by_duckdb(about: dict[str, Any]) -> int:
    """How often tshark and DuckDB give the row."""
    import duckdb  # evidence that another program derives needs none

    columns = ["link", "number", *about["columns"]]
    database = duckdb.connect()
    database.execute("SET error_on_division_by_zero = false")
    kinds = [f'"{name}" {"VARCHAR" if name in (*TEXTS, "link") else "BIGINT"}' for name in columns]
    database.execute(f"CREATE TABLE packets ({', '.join(kinds)})")
    for link, name in sorted(about["packets"].items()):
        rows = [[packet.get(column) for column in columns] for packet in packets_of(HERE / name, link)]
        for at in range(0, len(rows), 10_000):
            database.executemany(
                f"INSERT INTO packets VALUES ({', '.join('?' * len(columns))})", rows[at : at + 10_000]
            )
    try:
        derived = database.execute((HERE / "derive.sql").read_text(encoding="utf-8")).fetchall()
    except duckdb.Error as error:
        raise Refused(f"DuckDB cannot evaluate derive.sql: {error}") from error
    return sum(same(row, about["values"]) for row in derived)


def derived_by_lowwater(about: dict[str, Any]) -> int:
    """How often the reference engine gives the row."""
    if shutil.which("lowwater") is None:
        raise FileNotFoundError("there is no program lowwater: pip install lowwater")
    with tempfile.TemporaryDirectory() as folder:
        command = ["lowwater", "run", "query.gsql", "--query", about["query"], "--engine", "reference"]
        command += ["--links", "lowwater.toml", "--format", "json", "--out", folder]
        command += [word for pair in about["parameters"] for word in ("--param", pair)]
        given = dict(about["packets"])
        for number, link in enumerate(sorted(about["captures"].keys() - given.keys())):
            empty = Path(folder) / f"{number}.pcap"  # a link that the query reads, and that had no packet then
            empty.write_bytes(struct.pack("<IHHIIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
            given[link] = str(empty)
        command += [word for link, name in sorted(given.items()) for word in ("--capture", f"{link}={name}")]
        done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Refused(f"{' '.join(command)}: {done.stderr.strip()}")
        text = (Path(folder) / f"{about['query']}.json").read_text(encoding="utf-8")
    wanted = list(about["row"].values())
    return sum(same(list(json.loads(line).values()), wanted) for line in text.splitlines())


def same(row: Sequence[Any], wanted: Sequence[Any]) -> bool:
    """Whether two rows are equal; floats to nine digits."""
    return len(row) == len(wanted) and all(map(equal, row, wanted))


def equal(found: Any, wanted: Any) -> bool:
    """Whether two values are equal; floats to nine digits."""
    if isinstance(found, float) and isinstance(wanted, (int, float)):
        return math.isclose(found, wanted, rel_tol=1e-9)
    return bool(found == wanted) and (found is None) == (wanted is None)


def packets_of(path: Path, link: str) -> Iterator[dict[str, Any]]:
    """Yields the packets of a file as tshark reads them."""
    for number, told in enumerate(tshark(path, FIELDS, SETTINGS)):
        yield {"link": link, "number": number, **decoded(told)}


def tshark(path: Path, fields: Sequence[str], settings: Sequence[str]) -> Iterator[dict[str, str]]:
    """Yields what tshark says of each packet, the first value of each field."""
    if shutil.which("tshark") is None:
        raise FileNotFoundError("there is no program tshark: it comes with Wireshark")
    command = ["tshark", "-n", "-r", str(path), "-T", "fields", "-E", "occurrence=f"]
    for setting in settings:
        command += ["-o", setting]
    for name in fields:
        command += ["-e", name]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        raise Refused(f"tshark cannot read {path.name}: {done.stderr.strip()}")
    for line in done.stdout.split("\n")[:-1]:
        yield dict(zip(fields, line.split("\t"), strict=True))


def decoded(told: dict[str, str]) -> dict[str, Any]:
    """The columns of a packet: those of the outermost IP header, and of the header directly above it."""
    seconds, _, part = told["frame.time_epoch"].partition(".")
    found: dict[str, Any] = {
        "timestamp": int(seconds) * 1_000_000_000 + int(part.ljust(9, "0")[:9] or 0),
        "len": int(told["frame.len"]),
        "caplen": int(told["frame.cap_len"]),
    }
    layers = told["frame.protocols"].split(":")
    depth = next((at for at, layer in enumerate(layers) if layer in ("ip", "ipv6")), None)
    if depth is None:
        return found
    above = depth + 1
    if layers[depth] == "ip":
        found.update(ipversion=4, srcIP=address(told["ip.src"]), destIP=address(told["ip.dst"]))
        found.update(protocol=number(told["ip.proto"]), total_length=number(told["ip.len"]), ttl=number(told["ip.ttl"]))
    else:
        length = number(told["ipv6.plen"])
        found.update(ipversion=6, srcIP=address(told["ipv6.src"]), destIP=address(told["ipv6.dst"]))
        found.update(total_length=None if length is None else length + 40, ttl=number(told["ipv6.hlim"]))
        following = "ipv6.nxt"
        while above < len(layers) and layers[above] in EXTENSIONS:
            following = "ah.next_header" if layers[above] == "ah" else f"{layers[above]}.nxt"
            above += 1
        found["protocol"] = number(told[following])
    layer = layers[above] if above < len(layers) else ""
    if layer in PORTED:
        found["srcPort"] = number(told[f"{PORTED[layer]}.srcport"])
        found["destPort"] = number(told[f"{PORTED[layer]}.dstport"])
    if layer == "tcp":
        flags = number(told["tcp.flags"])
        found["flags"] = None if flags is None else flags & 0xFF
        found.update(sequence_number=number(told["tcp.seq_raw"]), ack_number=number(told["tcp.ack_raw"]))
        found["window"] = number(told["tcp.window_size_value"])
    if layer in ("icmp", "icmpv6"):
        found.update(icmp_type=number(told[f"{layer}.type"]), icmp_code=number(told[f"{layer}.code"]))
    if layer in PORTED and above + 1 < len(layers) and layers[above + 1] in ("dns", "mdns", "llmnr"):
        found.update(dns_id=number(told["dns.id"]), dns_query=told["dns.qry.name"] or None)
        found.update(dns_type=number(told["dns.qry.type"]), dns_response=number(told["dns.flags.response"]))
        found.update(dns_rcode=number(told["dns.flags.rcode"]), dns_answers=number(told["dns.count.answers"]))
    return found


def number(text: str) -> int | None:
    """Returns a number as tshark writes it; None for no value."""
    if text in ("True", "False"):
        return int(text == "True")
    return int(text, 0) if text else None


def address(text: str) -> str | None:
    """Returns an address as DuckDB has it here; None for no value."""
    if not text:
        return None
    found = ipaddress.ip_address(text)
    return f"{found.version:02x}{found.packed.hex()}"


def require_captures(about: dict[str, Any], folder: Path) -> None:
    """Every packet is in a capture with the digest that the evidence names."""
    files: dict[str, Path] = {}
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        files.setdefault(digest_of(path), path)
    for link, captures in sorted(about["captures"].items()):
        present: list[Path] = []
        for capture in captures:
            if capture["sha256"] not in files:
                raise Refused(f"{folder} has no capture with the SHA-256 {capture['sha256']} ({capture['path']})")
            present.append(files[capture["sha256"]])
        if link in about["packets"]:
            there = Counter[str]()
            for path in present:
                there.update(frames(path))
            mine = Counter(frames(HERE / about["packets"][link]))
            if mine - there:
                raise Refused(f"link {link}: {sum((mine - there).values())} packets are in none of its captures")
            print(f"link {link}: {sum(mine.values())} packets are in its {len(present)} captures")


def frames(path: Path) -> Iterator[str]:
    """Yields of each packet its time, length and the MD5 of its captured bytes."""
    names = ("frame.time_epoch", "frame.len", "frame.md5_hash")
    for told in tshark(path, names, ("frame.generate_md5_hash:TRUE",)):
        yield " ".join(told.values())


if __name__ == "__main__":
    sys.exit(main())

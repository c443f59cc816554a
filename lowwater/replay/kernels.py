"""Compiles the kernels of the readers and the audit at set-up, by reading a small capture of each kind of link."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from lowwater import caches, errors, instants, limits, terminal
from lowwater.capture import digests, inspect, interpretation
from lowwater.capture.content import applications
from lowwater.capture.content.hello import hello_columns
from lowwater.capture.formats import capture_file
from lowwater.capture.headers.links import LAYERS
from lowwater.capture.headers.packet import UNKNOWN_LINK
from lowwater.capture.tables import reader, sniffing
from lowwater.catalog.time import Skews
from lowwater.config import Config, Link
from lowwater.lake.files.sample import propose_protocol
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.captures import read_captures
from lowwater.lake.packets import PacketFiles, packet_files
from lowwater.quality.links import scan_link
from lowwater.storage.locks import hold_file

# `make setup` runs `python -m lowwater.replay.kernels`, and `lowwater doctor --prepare` does the same. Otherwise
# `capture.interpretation` runs it for one kind of link, beside the first process that reads more than some of it.


ARP = bytes.fromhex("ffffffffffff020000000001 0806 0001080006040001 020000000001 0a000001 000000000000 0a000002")
"""A frame that also needs the kernel for rare packets."""

DAMAGE = bytes(range(1, 61))
"""Bytes that are no record; the reader searches for the next record after them."""


RECORDS = b'time,src,of\n1767225600,10.0.0.1,"a"\n1767225601,10.0.0.2,b\n'
"""Records that are no packets, with a quoted value and addresses."""


def compile_kernels(folder: Path, link: int | None = None) -> None:
    """Reads a small capture of each kind of link and format, through `inspect`, `ingest` and the audit, and a table.
    Raises LowwaterError if the folder cannot be written. `link`: the only link type whose captures are read, by
    `inspect` and `ingest` alone; None for all."""
    with interpretation.compiling():
        _read_captures(folder, link)


def _read_captures(folder: Path, link: int | None) -> None:
    lake = open_lake(folder / "lake")
    kept = Link.model_validate({"applications": list(applications.NAMES), "payload": "all", "duplicates": "drop 1ms"})
    for name, content in _captures(link):
        path = folder / f"{name}.{'pcapng' if name == 'ng' else 'pcap'}"
        try:
            path.write_bytes(content)
        except OSError as error:
            raise errors.LowwaterError(f"{path} cannot be written: {error.strerror}", "make room on the disk") from None
        inspect.inspect(path, Link().jump, Link().skew)
        ingest(lake, name, [path], Config(), (0, instants.HOUR))
        if link is not None or name == f"link{capture_file.ETHERNET}":
            ingest(lake, f"kept_{name}", [path], Config(links={f"kept_{name}": kept}), (0, instants.HOUR))
    hello_columns(np.zeros(100, np.uint8), np.zeros(1, np.int64), np.full(1, 100), "t")
    if link is not None:
        return
    table = folder / "records.csv"
    table.write_bytes(RECORDS)
    reader.inspect_records(table, propose_protocol(sniffing.sniff(table), "records").options, Link().jump, Link().skew)
    name = f"link{UNKNOWN_LINK}"
    read = packet_files(PacketFiles.of(lake), name, read_captures(lake, [name])[name], Link(), 0, 0, instants.HOUR)
    scan_link(read, Skews(0))
    digests.row_digests([pa.array(["text"])], 1)


def _captures(link: int | None) -> Iterator[tuple[str, bytes]]:
    """A link and a capture of it: of one link type; else of all, of a pcapng, and of both formats with damage."""
    numbers = [next(iter(layer.link_types)) for layer in LAYERS]
    for number in (*numbers, UNKNOWN_LINK) if link is None else (link,):
        yield f"link{number}", capture_file.pcap_header(number, True) + _records(0)
    if link is not None:
        return
    sections = capture_file.pcapng_header([capture_file.WrittenInterface("", number) for number in numbers])
    packets = [capture_file.pcapng_record(at, at, 64, ARP) for at in range(len(numbers))]
    yield "ng", sections + b"".join(packets)
    yield "damaged", capture_file.pcap_header(capture_file.ETHERNET, True) + _records(0) + DAMAGE + _records(1)


def _records(second: int) -> bytes:
    stamps = (second * 1_000_000_000 + at for at in range(5))
    return b"".join(capture_file.pcap_record(stamp, 64, ARP, True) for stamp in stamps)


def main() -> None:
    """Entry of `python -m lowwater.replay.kernels`; with a link type it compiles what captures of that need."""
    work = caches.make_folder("lowwater-kernels-")
    link = int(sys.argv[1]) if len(sys.argv) > 1 else None
    try:
        if link is None:
            compile_kernels(work)
        else:  # beside a command: several of them begin this at once
            os.nice(5)
            with hold_file(caches.cache_folder() / f"kernels-{link}.lock", wait=limits.COMPILE_WAIT):
                compile_kernels(work, link)
    except errors.LowwaterError as error:
        # Only time is lost: the first reader of such a capture compiles.
        terminal.say(f"the kernels are not compiled, the first capture of a kind waits: {error}", err=True)
    finally:
        caches.remove_folder(work)


if __name__ == "__main__":
    main()

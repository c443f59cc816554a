"""Compiles the kernels of the readers and the audit at set-up, by reading a small capture of each kind of link.

`make setup` runs `python -m lowwater.replay.setup.kernels`, and `lowwater doctor --prepare` does the same. Otherwise
the first capture of more than a few packets waits ten seconds for the compiler, once for each kind of link. All kinds
together take thirty, since they share most code."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from lowwater.capture.digests import row_digests
from lowwater.capture.formats.header import ETHERNET
from lowwater.capture.formats.write import WrittenInterface, pcap_header, pcap_record, pcapng_header, pcapng_record
from lowwater.capture.headers.links import LAYERS
from lowwater.capture.inspect import inspect
from lowwater.capture.interpretation import compiling
from lowwater.capture.tables.facts import inspect_records
from lowwater.capture.tables.sniffing.tables import sniff
from lowwater.catalog.skews import Skews
from lowwater.config import Config, Link
from lowwater.errors import LowwaterError
from lowwater.instants import HOUR
from lowwater.lake.files.protocols import propose_protocol
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.captures import read_captures
from lowwater.lake.packets import PacketFiles, packet_files
from lowwater.quality.links.packet_scan import scan_link
from lowwater.tempfolders import make_folder, remove_folder
from lowwater.terminal import say

UNKNOWN_LINK = 147
"""A link type without a decoder: the first of the numbers reserved for private use."""

ARP = bytes.fromhex("ffffffffffff020000000001 0806 0001080006040001 020000000001 0a000001 000000000000 0a000002")
"""A frame that also needs the kernel for rare packets."""

DAMAGE = bytes(range(1, 61))
"""Bytes that are no record; the reader searches for the next record after them."""


RECORDS = b'time,src,of\n1767225600,10.0.0.1,"a"\n1767225601,10.0.0.2,b\n'
"""Records that are no packets, with a quoted value and addresses."""


def compile_kernels(folder: Path) -> None:
    """Reads a small capture of each kind of link and format, through `inspect`, `ingest` and the audit, and a table.

    Raises:
        LowwaterError: if the folder cannot be written.
    """
    with compiling():
        _read_captures(folder)


def _read_captures(folder: Path) -> None:
    lake = open_lake(folder / "lake")
    for name, content in _captures():
        path = folder / f"{name}.{'pcapng' if name == 'ng' else 'pcap'}"
        try:
            path.write_bytes(content)
        except OSError as error:
            raise LowwaterError(f"{path} cannot be written: {error.strerror}", "make room on the disk") from None
        inspect(path, Link().jump, Link().skew)
        ingest(lake, name, [path], Config(), (0, HOUR))
    table = folder / "records.csv"
    table.write_bytes(RECORDS)
    inspect_records(table, propose_protocol(sniff(table), "records").options, Link().jump, Link().skew)
    link = f"link{UNKNOWN_LINK}"
    read = packet_files(PacketFiles.of(lake), link, read_captures(lake, [link])[link], Link(), 0, 0, HOUR)
    scan_link(read, Skews(0))
    row_digests([pa.array(["text"])], 1)


def _captures() -> Iterator[tuple[str, bytes]]:
    """A link and a capture of it: of each kind of link, of a pcapng, and of either format with damage."""
    numbers = [next(iter(layer.link_types)) for layer in LAYERS]
    for number in (*numbers, UNKNOWN_LINK):
        yield f"link{number}", pcap_header(number, True) + _records(0)
    sections = pcapng_header([WrittenInterface("", number) for number in numbers])
    packets = [pcapng_record(at, at, 64, ARP) for at in range(len(numbers))]
    yield "ng", sections + b"".join(packets)
    yield "damaged", pcap_header(ETHERNET, True) + _records(0) + DAMAGE + _records(1)


def _records(second: int) -> bytes:
    stamps = (second * 1_000_000_000 + at for at in range(5))
    return b"".join(pcap_record(stamp, 64, ARP, True) for stamp in stamps)


def main() -> None:
    """Entry of `python -m lowwater.replay.setup.kernels`."""
    work = make_folder("lowwater-kernels-")
    try:
        compile_kernels(work)
    except LowwaterError as error:
        # Only time is lost: the first reader of such a capture compiles.
        say(f"the kernels are not compiled, the first capture of a kind waits: {error}", err=True)
    finally:
        remove_folder(work)


if __name__ == "__main__":
    main()

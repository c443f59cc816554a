"""Reading captures into Arrow: where packets enter, from files to batches of `catalog.schemas.RECORD`.

It needs neither Spark nor Airflow. Slow imports wait for the first use, so that `--help` stays quick.

`read` takes a pcap or pcapng, plain or compressed, as a path or a stream, and yields Arrow batches. Bytes that are no
sane record are listed with offset, length and reason (`Malformed`):

    import sys
    from lowwater.capture import read

    reader = read(sys.stdin.buffer, max_jump=61_000_000_000)  # or read("main1.pcapng.zst", ...)
    for interface, batch in reader.by_interface():
        print(interface.name, batch.num_rows, batch.column("len").slice(0, 3))
    for bad in reader.malformed:
        print(bad.offset, bad.length, bad.reason)
    print(reader.summary.packets, reader.summary.ended_cleanly, reader.summary.sha256)

`read(..., content=ContentOptions(payload=256, applications=("dns",)))` adds payloads and DNS fields, or replaces
addresses. `open_capture` reads the file header alone. `lowwater.capture.reader` divides a plain file into
chunks; `read_chunk` decodes a chunk by itself, in any process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lowwater.capture.content.retention import DECODER_VERSION
    from lowwater.capture.reader import (
        BATCH,
        CaptureFile,
        CaptureReader,
        CaptureSummary,
        ContentOptions,
        Interface,
        InterfaceSummary,
        Malformed,
        digest,
        open_capture,
        read,
    )

__all__ = [
    "BATCH",
    "DECODER_VERSION",
    "CaptureFile",
    "CaptureReader",
    "CaptureSummary",
    "ContentOptions",
    "Interface",
    "InterfaceSummary",
    "Malformed",
    "digest",
    "open_capture",
    "read",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from lowwater.capture import reader

        return getattr(reader, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

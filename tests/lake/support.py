"""Small captures and streams for the tests of the lake."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from lowwater.catalog.expr import Type
from lowwater.catalog.streams import PUNCTUATION, ROW
from lowwater.catalog.values import pack_ip
from lowwater.instants import HOUR, SECOND
from lowwater.lake.layout import stream_schema
from lowwater.plan.nodes import Field
from tests.capturemaker import ethernet, pcap_bytes

BASE = 500_000 * HOUR
"""2027-01-15T08:00:00Z: tests count seconds from it."""

FIELDS = (Field("addr", Type.IP), Field("mac", Type.MAC), Field("n", Type.INT))


def at(seconds: float) -> int:
    """ns since the epoch, `seconds` after BASE."""
    return BASE + round(seconds * SECOND)


def capture(path: Path, seconds: Iterable[float], cut: int = 0) -> Path:
    """A capture with one small frame a timestamp; `cut` bytes are missing at its end."""
    frames = [(at(second), ethernet(index.to_bytes(20, "big"), 0x88B5)) for index, second in enumerate(seconds)]
    data = pcap_bytes(frames, nanoseconds=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data[: len(data) - cut])
    return path


def stream(rows: Iterable[tuple[str | None, int, float]]) -> pa.Table:
    """Stream rows (address, number, seconds of `_last`), and one punctuation at the end."""
    made = [
        {"addr": None if a is None else pack_ip(a), "mac": 2, "n": n, "_last": at(s), "_kind": ROW, "_tick": at(s)}
        for a, n, s in rows
    ]
    made.append({"addr": None, "mac": None, "n": None, "_last": at(1e6), "_kind": PUNCTUATION, "_tick": at(1e6)})
    for row in made:
        row |= {"_until": row["_tick"], "_period": 0, "interval": ""}
    return pa.Table.from_pylist(made, schema=stream_schema(FIELDS)).drop_columns(["interval"])

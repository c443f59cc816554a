"""The malformed records of links that are no packets, as `lowwater run` writes them: file, line, offset and reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.dataset as pads

from lowwater.lake.layout import MALFORMED, Lake
from lowwater.lake.ledgers.captures import Capture
from lowwater.lake.tables import read_rows

COLUMNS = pa.schema(
    [
        pa.field("link", pa.string()),
        pa.field("path", pa.string()),
        pa.field("line", pa.int64()),
        pa.field("offset", pa.int64()),
        pa.field("length", pa.int64()),
        pa.field("reason", pa.string()),
        pa.field("arrival", pa.int64()),
    ]
)


def malformed_rows(lake: Lake, links: Sequence[str], captures: Mapping[str, Sequence[Capture]]) -> pa.Table:
    """Reads the malformed records of some links, ordered by link, path and offset.

    Args:
        lake: the lake of the run.
        links: names of the links.
        captures: link -> its captures.
    """
    rows = read_rows(lake.malformed, MALFORMED, pads.field("link").isin(pa.array(links, pa.string())))
    paths = {(row.link, row.attempt): row.path for link in links for row in captures[link]}
    named = zip(rows.column("link").to_pylist(), rows.column("attempt").to_pylist(), strict=True)
    table = rows.append_column("path", pa.array([paths[key] for key in named], pa.string()))
    order = [("link", "ascending"), ("path", "ascending"), ("offset", "ascending")]
    return table.select(COLUMNS.names).cast(COLUMNS).sort_by(order)

"""Evaluates a query text over packets of a lake with the reference engine: what runs in the bounded process.

`process` starts it. The rows are those of `lowwater run` over the packets of the range, as if the links had no others.
The range ends where enough packets are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import PurePath
from typing import Any

import numpy as np
import pyarrow as pa

from lowwater.capture.addresses import published
from lowwater.config import Config, load_config
from lowwater.errors import LakeError
from lowwater.instants import SECOND
from lowwater.lake.layout import Lake
from lowwater.lake.ledgers.captures import Captures, read_captures
from lowwater.lake.packets import PacketFiles, packet_files
from lowwater.low import Policy
from lowwater.plan.operators import Field
from lowwater.plan.queryset import Plan, plan_texts
from lowwater.plan.temporal import END_OF_TIME
from lowwater.replay.checks import require_affordable, require_lowered
from lowwater.replay.preview.texts import FILE, preview_context
from lowwater.replay.row_files import csv_values
from lowwater.replay.stages.engines import LowInputs, reference_stage
from lowwater.storage import paths

MOST_PACKETS = 100_000
"""Most packets that a preview reads, of all links together."""
MOST_ROWS = 200
"""Most rows of a query that are given."""
LONGEST_VALUE = 500
"""Most characters of a value."""


@dataclass(frozen=True)
class PreviewRequest:
    """What is tried; crosses the process as JSON.

    Attributes:
        lake: folder or address of the lake.
        text: the query text.
        query_set: query set whose protocols, functions and parameters it may use; empty for none.
        links: links that it may read.
        start: first instant, ns since the epoch.
        end: end of the range, ns, exclusive.
    """

    lake: str
    text: str
    query_set: str
    links: tuple[str, ...]
    start: int
    end: int


@dataclass(frozen=True)
class TriedQuery:
    """The rows of one output query.

    Attributes:
        name: name of the query.
        columns: its columns.
        rows: the first rows, values as text; None for NULL.
        count: number of all rows.
    """

    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | None, ...], ...]
    count: int


@dataclass(frozen=True)
class Preview:
    """What came of a preview.

    Attributes:
        start: first instant, ns since the epoch.
        end: end of the range that was evaluated, ns, exclusive.
        cut: whether it ends before the range that was asked for, since enough packets were read.
        packets: packets with a timestamp in the range, of all links.
        late: packets that no query sees, since they came later than the skew of their link.
        queries: the output queries.
    """

    start: int
    end: int
    cut: bool
    packets: int
    late: int
    queries: tuple[TriedQuery, ...] = field(default=())


def preview_text(request: PreviewRequest, most: int = MOST_PACKETS) -> Preview:
    """Evaluates a text over the packets of a range.

    Args:
        request: what is tried.
        most: most packets that are read.

    Raises:
        QueryError: the text has a mistake.
        UnsupportedError: the reference engine does not run the query, for example since it calls Python of a user.
        LakeError: the links have no packets in the range, or the lake cannot be read.
        ValueOverflowError: a sum does not fit 64 bits.
    """
    lake = Lake(paths.lake_path(request.lake))
    config = load_config(lake.root)
    context = preview_context(lake, config, request.query_set, request.links)
    plan = plan_texts([(FILE, request.text)], context.links, None, context)
    require_lowered(plan, "reference")
    require_affordable(plan, config.replay.copies)
    captures = read_captures(lake, plan.links)
    end, count = _bounded(lake, config, plan, captures, request, most)
    # The range is the life of the links, so every group comes out; captures after it need not be opened.
    alone = _living(config, plan.links, request.start, end)
    begun = {link: Captures(row for row in rows if (row.smallest or 0) < end) for link, rows in captures.items()}
    inputs = LowInputs(lake, plan, alone, request.start, END_OF_TIME, begun, dict.fromkeys(plan.links, end))
    outcome = reference_stage(inputs, SECOND, Policy.PERIODIC)
    late = sum(scan.violations.num_rows for scan in outcome.scans)
    tried = tuple(_tried(query.name, outcome.rows[query.name], query.logical.fields) for query in plan.queries)
    return Preview(request.start, end, end < request.end, count, late, tried)


def _living(config: Config, links: Sequence[str], start: int, end: int) -> Config:
    """Returns the settings with links that live from `start` to `end`, ns."""
    life = {"since": start, "until": end}
    lives = {link: config.link(link).model_copy(update=life) for link in links}
    return config.model_copy(update={"links": {**config.links, **lives}})


def _bounded(
    lake: Lake, config: Config, plan: Plan, captures: Mapping[str, Captures], request: PreviewRequest, most: int
) -> tuple[int, int]:
    """Returns the end of the range in which at most `most` packets lie, on a whole second if it can be, and their
    number."""
    stamps: list[np.ndarray] = []
    for link in plan.links:
        files = PacketFiles.of_table(lake.table_of(link, config.link(link).kind != "pcap"))
        read = packet_files(files, link, captures[link], config.link(link), request.start, request.start, request.end)
        held = 0
        for batch in read.batches():
            values = batch.column("timestamp").to_numpy()
            inside = values[(values >= request.start) & (values < request.end)]
            stamps.append(inside)
            held += len(inside)
            if held > 2 * most:  # arrivals are in order, so a link has no many more before
                break
    every = np.sort(np.concatenate(stamps)) if stamps else np.empty(0, np.int64)
    if not len(every):
        raise LakeError(
            f"no packets of {', '.join(plan.links)} lie in the range", "choose another hour or another link"
        )
    if len(every) <= most:
        return request.end, len(every)
    limit = int(every[most])
    whole = limit // SECOND * SECOND
    end = whole if whole > request.start else max(limit, request.start + 1)
    return end, int(np.searchsorted(every, end))


def _tried(name: str, rows: pa.Table, fields: Sequence[Field]) -> TriedQuery:
    columns = tuple(each.name for each in fields)
    first = rows.slice(0, MOST_ROWS).combine_chunks()
    shown = [csv_values(published(_array(first, each.name), each.type)) for each in fields]
    values = zip(*shown, strict=True)
    return TriedQuery(name, columns, tuple(tuple(_text(value) for value in row) for row in values), rows.num_rows)


def _array(rows: pa.Table, name: str) -> pa.Array:
    column = rows.column(name)
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)


def _text(value: object) -> str | None:
    if value is None:
        return None
    text = str(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}..."


def as_json(preview: Preview) -> dict[str, Any]:
    """Returns a preview as JSON has it."""
    return asdict(preview)


def from_json(document: Mapping[str, Any]) -> Preview:
    """Returns the preview of `as_json`."""
    queries = tuple(
        TriedQuery(each["name"], tuple(each["columns"]), tuple(map(tuple, each["rows"])), each["count"])
        for each in document["queries"]
    )
    return Preview(**{**document, "queries": queries})


def lake_of(root: PurePath) -> str:
    """Returns the text by which another process finds a lake."""
    return str(paths.lake_path(root))

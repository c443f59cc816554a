"""Traces of heartbeats: the promises of every node, with the newest heartbeat of the sources at that time.

`lowwater run --traces` writes them (`replay.command.run_command`). Over a lake, the review pages draw the same from
`lfta/` and `streams/` (000, section 6.2).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from lowwater.catalog.streams import PUNCTUATION
from lowwater.catalog.time import ticks_up_to

Numbers = npt.NDArray[np.int64]
NO_TICK = -1

TRACES = pa.schema(
    [
        pa.field("trace", pa.int64()),  # newest tick of an LFTA that a query had seen, ns; the own one of an LFTA
        pa.field("level", pa.string()),  # lfta or query
        pa.field("producer", pa.string()),
        pa.field("link", pa.string()),  # of an LFTA
        pa.field("tick", pa.int64()),  # when the node said it, ns of the replay's clock; `until` the last of a lull
        pa.field("until", pa.int64()),
        pa.field("period", pa.int64()),  # between the ticks of a lull
        pa.field("promise", pa.int64()),  # at `tick`
        pa.field("lag", pa.int64()),  # of the promise behind the tick, ns; the last promise, of the end, has none
    ]
)
PUNCTUATION_COLUMNS = {"tick": "_tick", "until": "_until", "period": "_period", "promise": "_last"}


def traces(
    lftas: Mapping[tuple[str, str], Sequence[str]], queries: Mapping[str, tuple[Iterable[str], Sequence[str]]]
) -> pa.Table:
    """Builds the heartbeats of one interval in order of ticks, LFTAs before their readers.

    Args:
        lftas: (LFTA, link) -> files of its stream.
        queries: query -> (LFTAs that it reads, files of its stream).
    """
    heartbeats = {key: _punctuation(files) for key, files in lftas.items()}
    tables = [_trace_rows(rows, rows["tick"], "lfta", name, link) for (name, link), rows in heartbeats.items()]
    for name, (sources, files) in queries.items():
        rows, read = _punctuation(files), set(sources)
        newest_ticks = [_newest(heard, rows["tick"]) for (lfta, _), heard in heartbeats.items() if lfta in read]
        newest = np.maximum.reduce([np.full(len(rows["tick"]), NO_TICK), *newest_ticks])
        tables.append(_trace_rows(rows, pa.array(newest, mask=newest == NO_TICK), "query", name, ""))
    order = [(name, "ascending") for name in ("tick", "level", "producer", "link")]
    return pa.concat_tables([TRACES.empty_table(), *tables]).sort_by(order)


def _newest(heard: Mapping[str, Numbers], at: Numbers) -> Numbers:
    """The newest tick of some heartbeats at some instants; NONE before the first."""
    place = np.searchsorted(heard["tick"], at, side="right") - 1
    if not len(heard["tick"]):
        return np.full(len(at), NO_TICK)
    tick, until, period = (heard[name][np.maximum(place, 0)] for name in ("tick", "until", "period"))
    ticks: Numbers = np.where(place < 0, NO_TICK, ticks_up_to(at, tick, until, period))
    return ticks


def _punctuation(files: Sequence[str]) -> dict[str, Numbers]:
    filters = [("_kind", "=", PUNCTUATION)]
    tables = [pq.read_table(Path(file), columns=list(PUNCTUATION_COLUMNS.values()), filters=filters) for file in files]
    schema = pa.schema([(name, pa.int64()) for name in PUNCTUATION_COLUMNS.values()])
    rows = pa.concat_tables([schema.empty_table(), *(table.select(schema.names).cast(schema) for table in tables)])
    return {name: rows.column(column).to_numpy() for name, column in PUNCTUATION_COLUMNS.items()}


def _trace_rows(rows: Mapping[str, Numbers], trace: object, level: str, producer: str, link: str) -> pa.Table:
    size = len(rows["tick"])
    texts = {"level": level, "producer": producer, "link": link}
    columns = {"trace": trace, **rows, "lag": np.maximum(rows["tick"] - rows["promise"], 0)}
    columns |= {name: pa.array([text] * size, pa.string()) for name, text in texts.items()}
    return pa.table([pa.array(columns[f.name], f.type) for f in TRACES], schema=TRACES)

"""Removes promises that no query waits for from the streams of the low stage.

The last step of `low` under the policy `on-demand`. `demand` selects the promises that stay. Rows do not change.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lowwater.catalog.streams import ROW
from lowwater.errors import LakeError
from lowwater.low.runtime.heartbeat import PunctuationRun, in_order, punctuation_batch
from lowwater.plan.operators import Lfta, LftaInput, Node
from lowwater.plan.properties.schemas import stream_schema
from lowwater.plan.tree import walk
from lowwater.replay.stages.demand import Demand, Promises, StreamName, fewest_ticks
from lowwater.replay.stages.low_tasks import LowOutcome, StreamWriter
from lowwater.storage.paths import lake_path, locals_of

StayingTicks = Mapping[int, tuple[int, int]]
"""Number of a stored run of promises -> first and last tick of it that stay."""


def on_demand(outcomes: Sequence[LowOutcome], lftas: Sequence[Lfta], plans: Sequence[Node]) -> tuple[LowOutcome, ...]:
    """Rewrites the streams of the low stage so that they keep only needed promises; returns the new outcomes.

    Args:
        outcomes: outcomes of the low stage under periodic heartbeats, one for each link.
        lftas: LFTAs that were run.
        plans: high plans of the output queries.

    Raises:
        LakeError: a stream cannot be read or written.
    """
    try:
        outcomes = [_near(outcome) for outcome in outcomes]
        files = {
            (name, outcome.result.link): [Path(path) for path in paths]
            for outcome in outcomes
            for name, paths in outcome.files.items()
        }
        promises = {name: _promises(paths) for name, paths in files.items()}
        demands = [_demand(plan, files, promises) for plan in plans]
        spared: dict[StreamName, int] = {}
        for lfta in lftas:
            for name in files.keys() & {(lfta.name, link) for link in lfta.links}:
                spans = [span for demand in demands if name in demand.streams for span in demand.tick_spans(name)]
                staying = promises[name].runs_to_keep(fewest_ticks(spans))
                spared[name] = _thin(lfta, files[name], staying, promises[name])
    except (OSError, pa.ArrowException) as error:
        raise LakeError(
            f"surplus punctuation cannot be removed from the streams of the low stage: {error}", "make room on the disk"
        ) from None
    return tuple(_counted(outcome, spared) for outcome in outcomes)


def _near(outcome: LowOutcome) -> LowOutcome:
    """Brings the files that tasks left in the lake to this machine, where they are rewritten."""
    files = {
        name: tuple(map(str, locals_of(lake_path(path) for path in paths))) for name, paths in outcome.files.items()
    }
    return replace(outcome, files=files)


def _promises(paths: Sequence[Path]) -> Promises:
    runs: list[tuple[int, int, int, int]] = []
    names = ["_tick", "_until", "_period", "_last"]
    for batch in _batches(paths, ["_kind", *names]):
        marks = batch.filter(pc.not_equal(batch["_kind"], ROW))
        runs += zip(*(marks[name].to_pylist() for name in names), strict=True)
    return Promises.of(runs)


def _batches(paths: Sequence[Path], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    for path in paths:
        with pq.ParquetFile(path) as file:
            yield from file.iter_batches(columns=list(columns))


def _demand(plan: Node, files: Mapping[StreamName, Sequence[Path]], promises: Mapping[StreamName, Promises]) -> Demand:
    leaves = {leaf.lfta.name: leaf.lfta for leaf in walk(plan) if isinstance(leaf, LftaInput)}
    read = [(lfta.name, link) for lfta in leaves.values() for link in lfta.links]
    demand = Demand(plan, {name: promises[name] for name in read} if len(read) > 1 else {})
    for name in demand.streams:
        for batch in _batches(files[name], ["_kind", "_last"]):
            rows = batch.filter(pc.equal(batch["_kind"], ROW))
            demand.add(name[0], rows["_last"].to_numpy())
    return demand


def _thin(lfta: Lfta, paths: Sequence[Path], requested: StayingTicks, promises: Promises) -> int:
    """Rewrites a stream; returns the number of promises removed. The closing one stays (SEMANTICS T6)."""
    total, number = len(promises.first), 0
    staying = {**requested, total - 1: (int(promises.first[-1]), int(promises.until[-1]))}
    for path in paths:
        number = _thin_file(lfta, path, staying, promises, number)
    return total - len(staying)


def _thin_file(lfta: Lfta, path: Path, staying: StayingTicks, promises: Promises, number: int) -> int:
    """Rewrites a file whose first promise has this number; returns the number after its last promise."""
    folder = path.with_suffix(".demand")
    sink = StreamWriter(folder, path.stem, stream_schema(lfta.fields))
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches():
            is_row = np.asarray(pc.equal(batch["_kind"], ROW))
            marks = np.flatnonzero(~is_row)
            before = {number + at: int(place) - at for at, place in enumerate(marks)}
            punctuation = [_part(promises, staying[at], at, rows) for at, rows in before.items() if at in staying]
            for part in _joined(lfta, batch.filter(pa.array(is_row)), punctuation, promises):
                sink.write(part)
            number += len(marks)
    sink.close()
    os.replace(sink.path, path)
    folder.rmdir()
    return number


def _part(promises: Promises, ticks: tuple[int, int], run: int, before: int) -> PunctuationRun:
    """The part of a run of promises between two ticks."""
    return PunctuationRun(before, int(promises.promise[run]) + ticks[0] - int(promises.first[run]), *ticks)


def _joined(
    lfta: Lfta, rows: pa.RecordBatch, punctuation: list[PunctuationRun], promises: Promises
) -> Iterator[pa.RecordBatch]:
    if not punctuation:
        yield from [rows] if rows.num_rows else []
        return
    batch = punctuation_batch(lfta, punctuation, int(promises.period.max()))
    yield from in_order(rows, batch, [part.before for part in punctuation])


def _counted(outcome: LowOutcome, spared: Mapping[StreamName, int]) -> LowOutcome:
    """The outcome with the counts of the remaining promises."""
    statistics = []
    for counts in outcome.result.statistics:
        out = spared[counts.lfta, outcome.result.link]
        statistics.append(replace(counts, punctuations=counts.punctuations - out, spared=out))
    return replace(outcome, result=replace(outcome.result, statistics=tuple(statistics)))

"""Tries the text of a query on packets of a lake, in a process of its own, with bounds on packets, rows, time and
memory.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import PurePath
from typing import Any

import numpy as np
import pyarrow as pa

from lowwater import errors, instants, processes
from lowwater.columns.addresses import published
from lowwater.config import Config, load_config
from lowwater.lake.layout import Lake
from lowwater.lake.ledgers.captures import Captures, read_captures
from lowwater.lake.packets import PacketFiles, packet_files
from lowwater.low import Policy
from lowwater.plan import operators as ops, temporal
from lowwater.plan.context import Context
from lowwater.plan.queryset import Plan, plan_texts
from lowwater.replay import checks, row_files
from lowwater.replay.names import lake_links, set_context
from lowwater.replay.stages.engines import reference_stage
from lowwater.replay.stages.inputs import LowInputs
from lowwater.storage import paths

# Which names a query that is only tried may use: links, protocols and functions, no files and no Python of users.
# Read by the page on which queries are written, for its checks, and by `evaluation`, for the preview itself.

LONGEST = 12_000
"""Most characters of a text."""
FILE = "/dev/null/query.gsql"
"""Name of the file of a text. A query may read files beside its own: beside this one there can be none."""


def preview_context(lake: Lake, config: Config, query_set: str, links: Iterable[str]) -> Context:
    """Returns the names that a tried query may use, with those of a query set; empty for none."""
    every, allowed = lake_links(config, lake), set(links)
    known = every.names if every.names is not None else ()
    names = tuple(name for name in known if name in allowed or allowed & set(every.interfaces.get(name, ())))
    sets = {name: members for name, members in every.sets.items() if set(members) <= {*names}}
    limited = replace(every, names=names, sets=sets)
    return replace(set_context(config, query_set, python=False), links=limited, folders=())


# Evaluates a query text over packets of a lake with the reference engine: what runs in the bounded process. `process`
# starts it. The rows are those of `lowwater run` over the packets of the range, as if the links had no others. The
# range ends where enough packets are read.

MOST_PACKETS = 100_000
"""Most packets that a preview reads, of all links together."""
MOST_ROWS = 200
"""Most rows of a query that are given."""
LONGEST_VALUE = 500
"""Most characters of a value."""


@dataclass(frozen=True)
class PreviewRequest:
    """What is tried; crosses the process as JSON."""

    lake: str
    text: str
    query_set: str  # query set whose protocols, functions and parameters it may use; empty for none
    links: tuple[str, ...]
    start: int
    end: int


@dataclass(frozen=True)
class TriedQuery:
    """The rows of one output query."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | None, ...], ...]  # the first rows, values as text; None for NULL
    count: int


@dataclass(frozen=True)
class Preview:
    """What came of a preview."""

    start: int
    end: int  # end of the range that was evaluated, ns, exclusive
    cut: bool  # whether it ends before the range that was asked for, since enough packets were read
    packets: int  # packets with a timestamp in the range, of all links
    late: int  # packets that no query sees, since they came later than the skew of their link
    queries: tuple[TriedQuery, ...] = ()


def preview_text(request: PreviewRequest, most: int = MOST_PACKETS) -> Preview:
    """Evaluates a text over the packets of a range.
    Raises QueryError if the text has a mistake, UnsupportedError if the reference engine does not run the query, for
    example since it calls Python of a user, LakeError if the links have no packets in the range, or the lake cannot be
    read, and ValueOverflowError if a sum does not fit 64 bits."""
    lake = Lake(paths.lake_path(request.lake))
    config = load_config(lake.root)
    context = preview_context(lake, config, request.query_set, request.links)
    plan = plan_texts([(FILE, request.text)], context.links, None, context)
    checks.require_lowered(plan, "reference")
    checks.require_affordable(plan, config.replay.copies)
    captures = read_captures(lake, plan.links, config)
    end, count = _bounded(lake, config, plan, captures, request, most)
    # The range is the life of the links, so every group comes out; captures after it need not be opened.
    alone = _living(config, plan.links, request.start, end)
    begun = {link: Captures(row for row in rows if (row.smallest or 0) < end) for link, rows in captures.items()}
    ends = dict.fromkeys(plan.links, end)
    inputs = LowInputs(lake, plan, alone, request.start, temporal.END_OF_TIME, begun, ends, files_are_life=True)
    outcome = reference_stage(inputs, instants.SECOND, Policy.PERIODIC)
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
        hint = "choose another hour or another link"
        raise errors.LakeError(f"no packets of {', '.join(plan.links)} lie in the range", hint)
    if len(every) <= most:
        return request.end, len(every)
    limit = int(every[most])
    whole = limit // instants.SECOND * instants.SECOND
    end = whole if whole > request.start else max(limit, request.start + 1)
    return end, int(np.searchsorted(every, end))


def _tried(name: str, rows: pa.Table, fields: Sequence[ops.Field]) -> TriedQuery:
    columns = tuple(each.name for each in fields)
    first = rows.slice(0, MOST_ROWS)
    shown = [row_files.csv_values(published(first.column(each.name).combine_chunks(), each.type)) for each in fields]
    values = zip(*shown, strict=True)
    return TriedQuery(name, columns, tuple(tuple(map(shortened, row)) for row in values), rows.num_rows)


def shortened(value: object) -> str | None:
    """Returns a value as text of bounded length; None for NULL."""
    if value is None:
        return None
    text = str(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}..."


def _from_json(document: Mapping[str, Any]) -> Preview:
    queries = tuple(
        TriedQuery(each["name"], tuple(each["columns"]), tuple(map(tuple, each["rows"])), each["count"])
        for each in document["queries"]
    )
    return Preview(**{**document, "queries": queries})


def lake_of(root: PurePath) -> str:
    """Returns the text by which another process finds a lake."""
    return str(paths.lake_path(root))


# Tries a query text in a process of its own, which is ended where it takes too long or too much memory. Between the
# page on which queries are written and `evaluation`. `python -m` it is that process.


@dataclass(frozen=True)
class Limits:
    """Bounds of an answer."""

    seconds: int = 30  # of the clock and of the processor
    megabytes: int = 1024  # resident memory, MiB


def run_preview(request: PreviewRequest, limits: Limits | None = None) -> Preview:
    """Tries a query text in a process of its own.
    Raises LowwaterError if the text, the range or the lake is wrong, or the preview exceeds a bound."""
    found = ask_alone(__name__, "the preview", asdict(request), limits or Limits(), "://" in request.lake)
    return _from_json(found)


def ask_alone(program: str, what: str, request: Mapping[str, Any], bounds: Limits, in_store: bool) -> Mapping[str, Any]:
    """Asks a module of ours, which answers by `answer_alone`, in a process of its own, and returns what it made.
    Raises LowwaterError if that failed, or exceeds a bound. `what`: as messages name it."""
    child = processes.Process(program, bounds.megabytes, in_store)
    asked = {"request": request, "cpu": bounds.seconds, "megabytes": bounds.megabytes, "what": what}
    try:
        (document,) = child.ask({**asked, "seconds": 2 * bounds.seconds}, bounds.seconds)  # should this one be gone
    except processes.EndedError as ended:
        said = str(ended) if str(ended).startswith("it took ") else "it ended without a result"
        hint = "choose a shorter range, or make the query smaller"
        raise errors.LowwaterError(f"{what} was ended: {said}", hint) from None
    finally:
        child.end()
    if "error" in document:
        raise errors.LowwaterError(document["error"], document["hint"])
    made: Mapping[str, Any] = document["made"]
    return made


def answer_alone(
    asked: Mapping[str, Any], make: Callable[[Mapping[str, Any]], dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Answers a request of `ask_alone` in its process."""
    resource.setrlimit(resource.RLIMIT_CPU, (asked["cpu"], asked["cpu"] + 1))
    memory = 4 * asked["megabytes"] << 20  # of addresses; the parent counts exactly
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    os.chdir("/")
    try:
        yield {"made": make(asked["request"])}
    except errors.LowwaterError as error:
        yield {"error": error.message, "hint": error.hint}
    except MemoryError:
        yield {"error": f"{asked['what']} needs more memory than it may have", "hint": "choose a shorter range"}


def _previewed(asked: Mapping[str, Any]) -> dict[str, Any]:
    return asdict(preview_text(PreviewRequest(**{**asked, "links": tuple(asked["links"])})))


def _answers(asked: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from answer_alone(asked, _previewed)


if __name__ == "__main__":
    processes.serve(_answers)

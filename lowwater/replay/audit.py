"""The audits of an interval: its streams and ledgers held against the law before anything is published.

Between the high stage and publishing; `quality` finds the rows that break a rule, here they become one clear error.
"""

from __future__ import annotations

from typing import Any

import pyarrow.compute as pc

from lowwater.catalog.streams import ROW
from lowwater.config import format_instant
from lowwater.errors import LawError
from lowwater.lake.ledger import malformed_between
from lowwater.lake.records import read_heartbeats, read_violations
from lowwater.lake.streams import stream_files
from lowwater.quality.checks import control_columns, is_closed, rows_below_a_promise, rows_not_owned
from lowwater.replay.job import Job
from lowwater.replay.summary import OUTCOMES


def audit_stream(job: Job, query: str, start: int, end: int, made: int | None) -> int:
    """Audits the stream of one query over [start, end), ns.

    Args:
        job: the query set.
        query: name of the output query.
        start: of the interval; `end` its end.
        made: rows that the high stage said it made.

    Returns:
        Its rows.

    Raises:
        LawError: a row that the interval does not own, or that an earlier promise excludes; a stream that is not
            closed; rows that came or went since the high stage.
    """
    stream = control_columns(stream_files(job.lake.stream(query), start, end))
    broken = {
        "rows that the interval does not own": rows_not_owned(stream, start, end),
        "rows below an earlier promise": rows_below_a_promise(stream),
    }
    for what, found in broken.items():
        if found.num_rows:
            first = found.slice(0, 1).to_pylist()[0]
            raise _broken(query, start, end, f"{found.num_rows} {what}; the first: {first}")
    if not is_closed(stream, end):
        raise _broken(query, start, end, "the stream is not closed by the promise of the interval's end")
    rows: int = pc.sum(pc.equal(stream.column("_kind"), ROW)).as_py() or 0
    if rows != made:
        raise _broken(query, start, end, f"{rows} rows in the stream, {made} were made")
    return rows


def audit_accounts(job: Job, start: int, end: int) -> dict[str, Any]:
    """The accounting of [start, end), ns, from the ledgers (SEMANTICS A1).

    Returns:
        Per link read, malformed, violating and sane; per LFTA and link the outcomes.

    Raises:
        LawError: the outcomes of an LFTA do not add up to its sane records, or two LFTAs of a link saw different ones.
    """
    beats = read_heartbeats(job.lake, job.query_set, start, end)
    captures = job.captures()
    sane: dict[str, int] = {}
    lftas: dict[str, dict[str, int]] = {}
    for row in beats.group_by(["lfta", "link"]).aggregate([(name, "sum") for name in OUTCOMES]).to_pylist():
        counts = {name: row[f"{name}_sum"] for name in OUTCOMES}
        lfta, link = row["lfta"], row["link"]
        if counts["sane"] != sum(counts[name] for name in OUTCOMES[1:]):
            raise _broken(lfta, start, end, f"on link {link} the counts do not add up: {counts}")
        if sane.setdefault(link, counts["sane"]) != counts["sane"]:
            raise _broken(lfta, start, end, f"on link {link} it saw {counts['sane']} sane records, not {sane[link]}")
        lftas[f"{lfta} on {link}"] = counts
    links = {}
    for link in job.plan.links:
        malformed = malformed_between(job.lake, link, captures[link], start, end)
        violating = read_violations(job.lake, link, job.config.link(link).skew, start, end).num_rows
        counted = {"malformed": malformed, "violating": violating, "sane": sane.get(link, 0)}
        links[link] = {"read": sum(counted.values()), **counted}
    return {"links": links, "lftas": lftas}


def _broken(what: str, start: int, end: int, message: str) -> LawError:
    interval = f"{format_instant(start)} to {format_instant(end)}"
    return LawError(f"{what}, interval {interval}: {message}", "nothing was published; please report this")

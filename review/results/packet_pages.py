"""Routes to packets, decoded and as a pcapng: those that a row counted, with its evidence, and those that an LFTA left
out or took.

Rows of `pages` and the accounts of an interval link here. A row is named by its values, so the address stays good when
a table is replaced.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import Response, StreamingResponse

from lowwater.catalog.expr import show
from lowwater.catalog.value_names import kind_of
from lowwater.catalog.values import format_ip, ip_from_words
from lowwater.errors import LakeError, LowwaterError
from lowwater.instants import parse_instant
from lowwater.lake.tables import safe_name
from lowwater.low.predicate import Predicate
from lowwater.plan.readings import Cell, Reading, cells_of
from lowwater.replay.accounts import OUTCOME_WORDS
from lowwater.replay.evidence import find_row, gather, write
from lowwater.replay.packets import (
    FOUND_AGAIN,
    SHOWN,
    RowPackets,
    SourceCondition,
    find_packets,
    outcome_packets,
    row_packets,
    select,
    write_selection,
)

from ..accounting import Outcome
from ..ledgers import Ledgers
from ..pages import fill_template
from .answers import computed
from .pages import METHODS, Shown, answer_of, pieces
from .pictures import Chosen

LONGEST_ROW = 16_384
"""Most characters of a row in an address."""
MOST_EXPORTED = 1_000_000
"""Most packets of a download."""


def add_packets(router: APIRouter, ledgers: Ledgers, permission: Any, page: Shown, headers: dict[str, str]) -> None:
    """Adds the routes of packets. `permission`: FastAPI dependency that returns the query sets that a user may see."""

    async def answer(
        set_name: str,
        query: str,
        request: Request,
        sees: Any,
        make: Callable[[Chosen, Asked, Callable[[int], None]], Response],
    ) -> Any:
        asked = _asked(request.query_params)
        unnamed = "The address names no packets: give the columns and values of a row as JSON, `row={...}`."

        def made(watch: Callable[[int], None]) -> Response:
            def found(chosen: Chosen) -> Response:
                return page(unnamed, 400) if asked is None else make(chosen, asked, watch)

            return answer_of(ledgers, sees, (set_name, query), page, found)

        return await computed(request, made, page)

    @router.api_route("/results/{set_name}/{query}/packets", methods=METHODS)
    async def packets(set_name: str, query: str, request: Request, sees: Any = permission) -> Any:
        return await answer(set_name, query, request, sees, lambda *parts: page(_page(*parts), 200))

    @router.api_route("/results/{set_name}/{query}/packets.pcapng", methods=METHODS)
    async def download(set_name: str, query: str, request: Request, sees: Any = permission) -> Any:
        return await answer(set_name, query, request, sees, partial(_download, page=page, headers=headers))

    @router.api_route("/results/{set_name}/{query}/evidence.zip", methods=METHODS)
    async def evidence(set_name: str, query: str, request: Request, sees: Any = permission) -> Any:
        evidence = partial(_evidence, page=page, headers=headers)
        return await answer(set_name, query, request, sees, evidence)


Asked = dict[str, Any] | Outcome
"""A row by its columns, or packets by what became of them."""


def _asked(given: Mapping[str, str]) -> Asked | None:
    if "outcome" not in given:
        return _row(given.get("row", ""))
    try:
        start, end = (parse_instant(given.get(name, "")) for name in ("from", "to"))
    except ValueError:
        return None
    return Outcome(given.get("lfta", ""), given.get("link", ""), given["outcome"], start, end)


def _wanted(chosen: Chosen, asked: Asked) -> RowPackets:
    """Finds the conditions of the packets that an address asks for. Raises LakeError if there is no such LFTA."""
    if not isinstance(asked, Outcome):
        return row_packets(chosen.query, asked)
    lfta = next((lfta for lfta in chosen.query.lftas if lfta.name == asked.lfta), None)
    if lfta is None or asked.link not in lfta.links or asked.outcome not in FOUND_AGAIN or asked.end <= asked.start:
        raise LakeError("the address names no packets of this query", "choose a number on the page of an interval")
    return outcome_packets(lfta, asked.link, asked.outcome, asked.start, asked.end)


def _row(text: str) -> dict[str, Any] | None:
    if len(text) > LONGEST_ROW:
        return None
    try:
        row = json.loads(text)
        json.dumps(row, ensure_ascii=False).encode()  # halves of characters can be shown nowhere
    except (ValueError, RecursionError):
        return None
    scalar = str | int | float | bool | None
    return row if isinstance(row, dict) and all(isinstance(value, scalar) for value in row.values()) else None


def _page(chosen: Chosen, asked: Asked, watch: Callable[[int], None]) -> str:
    values: dict[str, Any] = {"name": chosen.job.query_set, "query": chosen.query.name, "refused": ""}
    if isinstance(asked, Outcome):
        values |= {"outcome": asked, "words": OUTCOME_WORDS.get(asked.outcome, ""), "row": {}, "evidence": ""}
        address = asked.address
    else:
        cells, address = cells_of(chosen.query.logical), urlencode({"row": json.dumps(asked)})
        values |= {"outcome": None, "row": {name: cells(name, value) for name, value in asked.items()}}
        values["evidence"] = f"evidence.zip?{address}"
    try:
        values |= _found(chosen, _wanted(chosen, asked), watch)
        values["download"] = f"packets.pcapng?{address}"
    except LowwaterError as error:
        values["refused"] = str(error)
    return fill_template(chosen.snapshot, "packets.html", "Results", "../../../", values, True)


def _found(chosen: Chosen, wanted: RowPackets, watch: Callable[[int], None]) -> dict[str, Any]:
    packets = find_packets(chosen.snapshot.lake, chosen.snapshot.config, wanted, watch=watch)
    return {
        "found": packets,
        "packets": [(packet, [_cell(packet, column) for column in SHOWN]) for packet in packets.first],
        "columns": SHOWN,
        "start": wanted.start,
        "end": wanted.end,
        "conditions": [_shown(condition) for condition in wanted.conditions],
    }


def _shown(condition: SourceCondition) -> str:
    """Returns a condition as text, after the links and the protocol of its packets."""
    links, protocol, unless = ", ".join(condition.source.links), condition.source.protocol, condition.unless
    parts = " AND ".join(show(part, 2) for part in condition.parts)
    if unless is not None:
        member = f"NOT {protocol}" if condition.source.member is None else protocol
        parts = f"NOT ({show(unless.condition)})" if unless.condition is not None else ""
        return f"{links}, {member}: {parts}".removesuffix(": ")
    return f"{links}, {protocol}: {parts}".removesuffix(": ")


def _cell(packet: dict[str, Any], column: str) -> Cell:
    value = packet.get(column)
    if column in ("srcIP", "destIP"):
        words = packet.get("ipversion"), packet.get(f"{column}_hi"), packet.get(f"{column}_lo")
        value = None if None in words else format_ip(ip_from_words(*words))  # type: ignore[arg-type]
    return Cell("" if value is None else str(value), Reading(kind_of(column)).text(value))


def _evidence(
    chosen: Chosen, asked: Asked, watch: Callable[[int], None], page: Shown, headers: dict[str, str]
) -> Response:
    if isinstance(asked, Outcome):
        return page("Evidence is of a row: give its columns and values as JSON, `row={...}`.", 400)
    found = gather(find_row(chosen.job, chosen.query, asked), MOST_EXPORTED, watch)
    file = tempfile.TemporaryFile()  # noqa: SIM115 - closed once it is sent
    write(found, file)
    watch(0)
    name = f'attachment; filename="{safe_name(chosen.query.name)}-evidence.zip"'
    return StreamingResponse(
        pieces(file), media_type="application/zip", headers=headers | {"Content-Disposition": name}
    )


def _download(
    chosen: Chosen, asked: Asked, watch: Callable[[int], None], page: Shown, headers: dict[str, str]
) -> Response:
    lake, config = chosen.snapshot.lake, chosen.snapshot.config
    wanted = _wanted(chosen, asked)
    packets = find_packets(lake, config, wanted, 0, watch)
    if not packets.count:
        return page("The lake has no such packet.", 404)
    if packets.count > MOST_EXPORTED:
        return page(
            f"{packets.count:,} packets are more than a download has, {MOST_EXPORTED:,}: `lowwater export`.", 413
        )
    everything = Predicate(None, None)
    selection = select(
        lake, config, list(packets.links), everything, wanted.start, wanted.end, admitted=packets.admitted
    )
    file = tempfile.TemporaryFile()  # noqa: SIM115 - closed once it is sent

    def write(data: bytes) -> None:
        watch(0)
        file.write(data)

    write_selection(selection, "pcapng", write)
    what = asked.outcome if isinstance(asked, Outcome) else "row"
    name = f'attachment; filename="{safe_name(chosen.query.name)}-{what}.pcapng"'
    return StreamingResponse(
        pieces(file), media_type="application/x-pcapng", headers=headers | {"Content-Disposition": name}
    )

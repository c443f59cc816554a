"""Routes from a row to its packets: the packets that it counted, decoded, all of them as a pcapng, and its evidence.

Beside `pages`, whose rows link here. A row is named by its values, so the address stays good
when a table is replaced.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import Response, StreamingResponse

from lowwater.catalog.expr import show
from lowwater.catalog.values import format_ip, ip_from_words
from lowwater.errors import LowwaterError
from lowwater.lake.tables import safe_name
from lowwater.low.predicate import Predicate
from lowwater.replay.evidence import find_row, gather, write
from lowwater.replay.packets import (
    SHOWN,
    RowPackets,
    SourceCondition,
    find_packets,
    row_packets,
    select,
    write_selection,
)

from ..ledgers import Ledgers
from ..pages import fill_template
from .answers import computed
from .pages import METHODS, Chosen, Shown, answer_of, pieces

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
        make: Callable[[Chosen, dict[str, Any], Callable[[int], None]], Response],
    ) -> Any:
        row = _row(request.query_params.get("row", ""))
        unnamed = "The address names no row: give its columns and values as JSON, `row={...}`."

        def made(watch: Callable[[int], None]) -> Response:
            def found(chosen: Chosen) -> Response:
                return page(unnamed, 400) if row is None else make(chosen, row, watch)

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
        return await answer(set_name, query, request, sees, partial(_evidence, headers=headers))


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


def _page(chosen: Chosen, row: dict[str, Any], watch: Callable[[int], None]) -> str:
    asked = urlencode({"row": json.dumps(row)})
    values: dict[str, Any] = {"name": chosen.job.query_set, "query": chosen.query.name, "row": row, "refused": ""}
    values["evidence"] = f"evidence.zip?{asked}"
    try:
        wanted = row_packets(chosen.query, row)
        values |= _found(chosen, wanted, watch)
        values["download"] = f"packets.pcapng?{asked}"
    except LowwaterError as error:
        values["refused"] = str(error)
    return fill_template(chosen.snapshot, "packets.html", "Results", "../../../", values, True)


def _found(chosen: Chosen, wanted: RowPackets, watch: Callable[[int], None]) -> dict[str, Any]:
    packets = find_packets(chosen.snapshot.lake, chosen.snapshot.config, wanted, watch=watch)
    return {
        "found": packets,
        "packets": [_decoded(packet) for packet in packets.first],
        "columns": SHOWN,
        "start": wanted.start,
        "end": wanted.end,
        "conditions": [_shown(condition) for condition in wanted.conditions],
    }


def _shown(condition: SourceCondition) -> str:
    """Returns a condition as text, after the links and the protocol of its packets."""
    parts = " AND ".join(show(part, 2) for part in condition.parts)
    return f"{', '.join(condition.source.links)}, {condition.source.protocol}: {parts}"


def _decoded(packet: dict[str, Any]) -> dict[str, Any]:
    decoded = dict(packet)
    for name in ("srcIP", "destIP"):
        words = packet.get("ipversion"), packet.get(f"{name}_hi"), packet.get(f"{name}_lo")
        decoded[name] = None if None in words else format_ip(ip_from_words(*words))  # type: ignore[arg-type]
    return decoded


def _evidence(chosen: Chosen, row: dict[str, Any], watch: Callable[[int], None], headers: dict[str, str]) -> Response:
    found = gather(find_row(chosen.job, chosen.query, row), MOST_EXPORTED, watch)
    file = tempfile.TemporaryFile()  # noqa: SIM115 - closed once it is sent
    write(found, file)
    watch(0)
    name = f'attachment; filename="{safe_name(chosen.query.name)}-evidence.zip"'
    return StreamingResponse(
        pieces(file), media_type="application/zip", headers=headers | {"Content-Disposition": name}
    )


def _download(
    chosen: Chosen, row: dict[str, Any], watch: Callable[[int], None], page: Shown, headers: dict[str, str]
) -> Response:
    lake, config = chosen.snapshot.lake, chosen.snapshot.config
    wanted = row_packets(chosen.query, row)
    packets = find_packets(lake, config, wanted, 0, watch)
    if not packets.count:
        return page("No packet of the lake is of this row.", 404)
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
    name = f'attachment; filename="{safe_name(chosen.query.name)}-row.pcapng"'
    return StreamingResponse(
        pieces(file), media_type="application/x-pcapng", headers=headers | {"Content-Disposition": name}
    )

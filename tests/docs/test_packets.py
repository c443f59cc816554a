"""The page of the packet schema has every column of the catalog, in its order and with its type."""

from __future__ import annotations

import re

from lowwater.capture.headers.tunnels import NAMES
from lowwater.catalog.protocols import ALIASES, PROTOCOLS
from lowwater.catalog.schemas import ADDRESSES, COLUMNS, KEPT
from tests.docs.book import ROOT

PAGE = (ROOT / "docs" / "packets.md").read_text(encoding="utf-8")
COLUMNS_OF_ETH = PROTOCOLS["ETH"].columns


def table(name: str) -> list[list[str]]:
    """The cells of a marked table, without its head."""
    text = PAGE.split(f"<!-- {name} -->\n")[1].split("<!-- end -->")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()[2:]]


def names(cell: str) -> list[str]:
    return re.findall(r"`([^`]*)`", cell)


def test_stored_columns() -> None:
    rows = table("stored")
    found = [(name, row[1]) for row in rows for name in names(row[0])]
    assert found == [(field.name, str(field.type)) for field in COLUMNS]
    assert all(len(row) == 6 and all(row) for row in rows)
    never = {name for row in rows for name in names(row[0]) if row[4] == "never"}
    assert never == {field.name for field in COLUMNS if not field.nullable}


def test_kept_columns() -> None:
    rows = table("kept")
    assert [(*names(row[0]), row[1]) for row in rows] == [(field.name, str(field.type)) for field in KEPT]
    assert all(len(row) == 3 and all(row) for row in rows)


def test_computed_columns() -> None:
    rows = table("computed")
    known = {*COLUMNS.names, *KEPT.names, *ALIASES}
    expected = [name for name in COLUMNS_OF_ETH if name not in known]
    assert [(*names(row[0]), row[1]) for row in rows] == [(name, COLUMNS_OF_ETH[name].type.value) for name in expected]
    stored = {names(row[0])[0]: names(row[2]) for row in rows}
    assert {name: stored[name] for name in ADDRESSES} == {
        name: [f"{name}_hi", f"{name}_lo", version] for name, version in ADDRESSES.items()
    }


def test_every_port_of_a_tunnel_is_named() -> None:
    rows = PAGE.split("## Tunnels")[1].split("\n\n")[1].splitlines()[2:]
    numbers = {int(number) for row in rows for number in row.split("|")[1].split(",")}
    assert numbers == set(NAMES)

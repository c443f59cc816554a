"""The reference of protocols, made from the catalog: what belongs to each, and the columns that a query may name."""

from __future__ import annotations

from collections.abc import Iterable

from lowwater.catalog.expr import show
from lowwater.catalog.protocols import ALIASES, PROTOCOLS, READY, Protocol
from website.tables import code, table

HEAD = """What `FROM link.PROTOCOL` reads. Protocols of packets have the same columns; they differ in packets and in
what `*` gives; a column that a packet lacks is NULL. [Packets](../docs/packets.md) says what each column means,
[sources](../docs/language/sources.md) how FROM is written. Ready protocols are of logs of other tools
([logs](../docs/logs.md)). [Protocols of your own](../docs/language/protocols.md) are declared.
"""


def page() -> str:
    """Returns the whole page without its heading."""
    return HEAD + "".join((_packets(), _columns(), *map(_ready, READY.values())))


def _packets() -> str:
    star = "`SELECT *` also gives"
    rows = [
        (code(name), "every packet" if protocol.member is None else code(show(protocol.member)), _more(protocol))
        for name, protocol in PROTOCOLS.items()
    ]
    return "\n## Protocols of packets\n\n" + table(("protocol", "packets with", star), rows)


def _more(protocol: Protocol) -> str:
    """The columns of `*` that `ETH` does not give, by their common prefix."""
    added = PROTOCOLS["ETH"].hidden - protocol.hidden
    return ", ".join(code(f"{prefix}_...") for prefix in sorted({name.partition("_")[0] for name in added}))


def _columns() -> str:
    everything = PROTOCOLS["ETH"].columns
    others: dict[str, list[str]] = {}
    for alias, name in ALIASES.items():
        others.setdefault(name, []).append(alias)
    rows = [
        (code(name), str(expr.type.value), ", ".join(map(code, others.get(name, ()))))
        for name, expr in everything.items()
        if name not in ALIASES
    ]
    return "\n## Columns of packets\n\n" + table(("column", "type", "other names"), rows)


def _ready(protocol: Protocol) -> str:
    clock = f"Clock: `{protocol.clock.name}`. " if protocol.clock else ""
    rows: Iterable[tuple[str, ...]] = (
        (code(name), str(expr.type.value)) for name, expr in protocol.columns.items() if name not in protocol.hidden
    )
    kinds = f'Links of kind `"{protocol.kind}"`. {clock}\n\n'
    return f"\n## {protocol.name}\n\n{kinds}" + table(("column", "type"), rows)

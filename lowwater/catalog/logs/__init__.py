"""The ready protocols: logs of Zeek, Suricata and nfdump, which a query names without a PROTOCOL block of its own.

A module for each tool lists its fields. `capture.tables.logs` reads the files (ADR 63).
"""

from __future__ import annotations

from lowwater.catalog.logs import nfdump, suricata, zeek
from lowwater.catalog.protocols import PROTOCOLS, Protocol

READY: dict[str, Protocol] = {
    protocol.name: protocol for protocol in (*zeek.PROTOCOLS, *suricata.PROTOCOLS, *nfdump.PROTOCOLS)
}
"""Name -> ready protocol."""

LOG_KINDS: tuple[str, ...] = tuple(dict.fromkeys(protocol.kind for protocol in READY.values()))
"""Kinds of links that hold logs: a kind names the tool that wrote the file."""

BUILTIN: dict[str, Protocol] = {**PROTOCOLS, **READY}
"""All protocols that a query may name without declaring them."""

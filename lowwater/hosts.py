"""Names by which a server on this machine alone is asked: a page of another site cannot use one of its own.

A site may give its name the address of loopback, and its pages then read what listens there. Below every stage.
"""

from __future__ import annotations

import ipaddress

LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
"""Names of loopback in the header `Host`."""


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a host.

    Example:
        >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0"), is_loopback("::1")
        (True, True, False, True)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def known_names(host: str) -> frozenset[str] | None:
    """Returns the names of a server that listens on a host; None for every name, where others reach it."""
    return LOOPBACK | {f"[{host}]" if ":" in host else host.lower()} if is_loopback(host) else None


def is_known(header: str, names: frozenset[str] | None) -> bool:
    """Whether a header `Host` has one of the names.

    Example:
        >>> is_known("127.0.0.1:8000", LOOPBACK), is_known("[::1]:8000", LOOPBACK), is_known("evil.example", LOOPBACK)
        (True, True, False)
    """
    name = header[: header.rfind("]") + 1] if header.startswith("[") else header.partition(":")[0]
    return names is None or name.lower() in names

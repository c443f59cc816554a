"""A collector of NetFlow 5 on the loopback interface, for softflowd."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from ipaddress import IPv4Address

_HEADER, _RECORD = 24, struct.Struct(">IIIHHIIIIHHBBBBHHBBH")
_ROOM = 1 << 26
"""Bytes of the buffer of the socket: one import fits in, so that nothing is lost."""
_FORCE = 33  # SO_RCVBUFFORCE, which Python has no name for


@contextlib.contextmanager
def collector() -> Iterator[tuple[int, Callable[[], list[str]]]]:
    """Collects on a free port.

    Yields:
        The port, and a function that returns the records: `protocol,source,port,destination,port,packets,bytes`.
    """
    datagrams: list[bytes] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listening:
        try:
            listening.setsockopt(socket.SOL_SOCKET, _FORCE, _ROOM)
        except PermissionError:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _ROOM)
        listening.bind(("127.0.0.1", 0))
        listening.settimeout(0.2)
        over = threading.Event()

        def receive() -> None:
            while True:
                try:
                    datagrams.append(listening.recv(1 << 16))
                except TimeoutError:
                    if over.is_set():
                        return

        receiving = threading.Thread(target=receive)
        receiving.start()

        def received() -> list[str]:
            over.set()
            receiving.join()
            return [row for datagram in datagrams for row in _records(datagram)]

        try:
            yield listening.getsockname()[1], received
        finally:
            over.set()
            receiving.join()


def _records(datagram: bytes) -> Iterator[str]:
    version, count = struct.unpack_from(">HH", datagram)
    assert version == 5, f"NetFlow {version}"
    for number in range(count):
        fields = _RECORD.unpack_from(datagram, _HEADER + number * _RECORD.size)
        source, destination = IPv4Address(fields[0]), IPv4Address(fields[1])
        yield f"{fields[13]},{source},{fields[9]},{destination},{fields[10]},{fields[5]},{fields[6]}"

"""Bytes of small pcapng captures for tests: one function a block, options as pairs of code and value."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass

COMMENT, IF_NAME, IF_TSRESOL, IF_TSOFFSET = 1, 2, 9, 14
Options = Iterable[tuple[int, bytes]]


@dataclass(frozen=True)
class Section:
    """Makes the blocks of a section in its byte order."""

    byte_order: str = "little"

    def pack(self, form: str, *numbers: int) -> bytes:
        """As `struct.pack`, in the order of the section."""
        return struct.pack(("<" if self.byte_order == "little" else ">") + form, *numbers)

    def options(self, pairs: Options) -> bytes:
        """Options and their end; nothing where there are none."""
        made = b"".join(self.pack("HH", code, len(value)) + _padded(value) for code, value in pairs)
        return made + bytes(4) if made else b""

    def block(self, kind: int, body: bytes) -> bytes:
        """Any block; the body is padded."""
        size = 12 + len(_padded(body))
        return self.pack("II", kind, size) + _padded(body) + self.pack("I", size)

    def header(self, length: int = -1, options: Options = ()) -> bytes:
        """The section header, with the length of the section."""
        return self.block(0x0A0D0D0A, self.pack("IHHq", 0x1A2B3C4D, 1, 0, length) + self.options(options))

    def interface(
        self,
        name: str = "",
        link: int = 1,
        snaplen: int = 0,
        resolution: int | None = None,
        offset: int | None = None,
        options: Options = (),
    ) -> bytes:
        """An interface description; `resolution` is the byte of if_tsresol, `offset` in seconds."""
        pairs = [(IF_NAME, name.encode())] if name else []
        pairs += [] if resolution is None else [(IF_TSRESOL, bytes([resolution]))]
        pairs += [] if offset is None else [(IF_TSOFFSET, self.pack("q", offset))]
        return self.block(1, self.pack("HHI", link, 0, snaplen) + self.options([*pairs, *options]))

    def packet(
        self, ticks: int, frame: bytes, interface: int = 0, wire: int | None = None, options: Options = ()
    ) -> bytes:
        """An enhanced packet block."""
        head = self.pack("IIIII", interface, ticks >> 32, ticks & 0xFFFFFFFF, len(frame), self._wire(frame, wire))
        return self.block(6, head + _padded(frame) + self.options(options))

    def old_packet(self, ticks: int, frame: bytes, interface: int = 0, drops: int = 0) -> bytes:
        """An obsolete packet block."""
        head = self.pack("HHIIII", interface, drops, ticks >> 32, ticks & 0xFFFFFFFF, len(frame), len(frame))
        return self.block(2, head + frame)

    def statistics(self, ticks: int, interface: int = 0, **counts: int) -> bytes:
        """An interface statistics block: `start` and `end` in ticks, and the counters by their names in the draft."""
        names = ("start", "end", "ifrecv", "ifdrop", "filteraccept", "osdrop", "usrdeliv")
        pairs = [
            (
                code,
                self.pack("II", counts[name] >> 32, counts[name] & 0xFFFFFFFF)
                if code < 4
                else self.pack("Q", counts[name]),
            )
            for code, name in enumerate(names, 2)
            if name in counts
        ]
        head = self.pack("III", interface, ticks >> 32, ticks & 0xFFFFFFFF)
        return self.block(5, head + self.options(pairs))

    def dropping(self, ticks: int, frame: bytes, drops: int, interface: int = 0) -> bytes:
        """An enhanced packet block that says how many packets were lost before it."""
        return self.packet(ticks, frame, interface, options=[(1, b"c"), (4, self.pack("Q", drops))])

    def simple(self, frame: bytes) -> bytes:
        """A simple packet block, which has no time."""
        return self.block(3, self.pack("I", len(frame)) + frame)

    @staticmethod
    def _wire(frame: bytes, wire: int | None) -> int:
        return len(frame) if wire is None else wire


OTHERS = {
    4: "name resolution", 5: "interface statistics", 10: "decryption secrets", 9: "systemd journal export",
    0x0BAD: "custom", 0x40000BAD: "custom", 0x12345: "unknown",
}  # fmt: skip
"""Blocks that are no packets, and what the summary calls them."""


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)

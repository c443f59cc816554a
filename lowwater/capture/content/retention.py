"""What a link keeps of its packets beside their headers, and how their times are read: options of its settings, which
the ledger of captures stores as text; and the key of the anonymisation. `stored` makes the columns.
"""

from __future__ import annotations

import hmac
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from lowwater import config, instants
from lowwater.catalog.schemas import BATCH, FRAME, HEAD, KEPT, PACKET_HASH
from lowwater.errors import ConfigError

DECODER_VERSION = 14
"""Changes whenever the same file would decode to other rows (SEMANTICS T7): each new link type and tunnel adds one, as
each change of the rows of one of them. A test holds it against their number."""

KEY_BYTES = 32

_HINT = "make one: `openssl rand -hex 32 > KEY; chmod 600 KEY`"
_MOST = 1024  # bytes of a key file


def read_key(path: str | Path) -> bytes:
    """Reads a key: 32 bytes, or 64 hexadecimal digits with white space around them.
    Raises ConfigError if the file cannot be read, holds no key, or is open to every user of the machine."""
    try:
        with open(path, "rb", opener=_open_nonblocking) as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read(_MOST + 1) if stat.S_ISREG(mode) else b""
    except (OSError, ValueError) as error:
        cause = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(f"{path}: the key cannot be read: {cause}", _HINT) from None
    if mode & stat.S_IRWXO:
        raise ConfigError(f"{path}: the key is open to every user of this machine", f"chmod o= {path}")
    if len(content) == KEY_BYTES:
        return content
    try:
        key = bytes.fromhex(content.decode("ascii").strip())
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise ConfigError(f"{path}: no key: neither {KEY_BYTES} bytes nor {2 * KEY_BYTES} hexadecimal digits", _HINT)
    return key


def _open_nonblocking(path: str, flags: int) -> int:
    # Opening a FIFO would wait for a writer.
    return os.open(path, flags | os.O_NONBLOCK)


def key_digest(key: bytes) -> str:
    """Returns 16 bytes in hex that identify a key in the ledger; captures under another digest are stale."""
    return hmac.digest(key, b"lowwater: which key", "sha256")[:16].hex()


EVERYTHING = -1
"""Value of `keep` for whole frames."""

_HASH = "hash of "
"""Begin of the part of the options, as the ledger stores them, that names the compared bytes."""


_UNTIMED = "times of the file"
"""Begin of the part that says that packets without a time take one of their file."""

_RESOLUTION = "times in "
"""Begin of the part that says in which unit times are read, whatever the file says."""

RESOLUTIONS = {"file": "", "microseconds": "us", "nanoseconds": "ns"}
"""Values of the setting `resolution` -> resolution as in `capture_file.CaptureFile`."""

WITH_RESOLUTION = ("pcap", "pcapng", "snoop")
"""Formats of which a link may set the unit of times. ERF has one unit."""


@dataclass(frozen=True)
class ContentOptions:
    """Content that a link stores beside the headers; picklable.

    Attributes:
        payload: bytes of every payload that are stored behind the headers of its frame; EVERYTHING for whole frames;
            None for no frames.
        applications: names of applications whose fields are stored, such as `dns` and `tls`.
        sampling: whether a digest of the first bytes of every frame is stored, for sampling.
        compared: bytes of a packet whose hash is stored, to find copies: `content`, `packet`, or empty for no hash.
        key: key of the anonymisation, 32 bytes; None for true addresses.
        untimed: time (ns) that simple packet blocks of a pcapng take before its first packet with a time, behind which
            they take that of the packet before them; -1 for none there. None: they are malformed.
        resolution: unit of the times of a pcap, pcapng or snoop capture, `us` or `ns`; empty for that of the file.
    """

    payload: int | None = None
    applications: tuple[str, ...] = ()
    sampling: bool = False
    compared: str = ""
    key: bytes | None = field(default=None, repr=False)
    untimed: int | None = None
    resolution: str = ""

    @property
    def schema(self) -> pa.Schema:
        """Schema of the batches: `BATCH`, and the stored content columns of `KEPT`."""
        names = {FRAME} if self.payload is not None else set()
        names |= {HEAD} if self.sampling else set()
        names |= set(PACKET_HASH) if self.compared else set()
        columns = [name for name in KEPT.names if name in names or name.partition("_")[0] in self.applications]
        return pa.schema([*BATCH, *(KEPT.field(name) for name in columns)])

    @staticmethod
    def of(link: config.Link) -> ContentOptions:
        """Reads the options from the settings of a link. Raises ConfigError if its key cannot be read."""
        payload = EVERYTHING if link.payload == "all" else link.payload
        key = None if link.anonymise is None else read_key(link.anonymise)
        untimed = -1 if link.untimed == "file" else None
        resolution = RESOLUTIONS[link.resolution]
        applications = tuple(sorted(set(link.applications)))
        return ContentOptions(payload, applications, link.sampling, link.compared, key, untimed, resolution)

    def __str__(self) -> str:
        """The options as text, as the ledger stores them.

        Example:
            >>> str(ContentOptions(256, ("dns", "http")))
            'payload 256, dns, http'
            >>> str(ContentOptions(untimed=0))
            'times of the file from 1970-01-01T00:00:00Z'
        """
        payload = [] if self.payload is None else [f"payload {'all' if self.payload == EVERYTHING else self.payload}"]
        digests = [*(["sampling"] if self.sampling else []), *([f"{_HASH}{self.compared}"] if self.compared else [])]
        times = [] if self.untimed is None else [_UNTIMED]
        if self.untimed is not None and self.untimed >= 0:
            times = [f"{_UNTIMED} from {instants.format_instant(self.untimed)}"]
        if self.resolution:
            times.append(f"{_RESOLUTION}{self.resolution}")
        return ", ".join([*payload, *self.applications, *digests, *times])

    @property
    def key_digest(self) -> str:
        """Digest of the key for the ledger; empty without a key."""
        return "" if self.key is None else key_digest(self.key)


def hash_of(stored: str | None) -> str:
    """Returns the compared bytes in options as the ledger stores them; empty without hashes.

    Example:
        >>> hash_of("dns, hash of content"), hash_of("dns"), hash_of(None)
        ('content', '', '')
    """
    return next((part.removeprefix(_HASH) for part in (stored or "").split(", ") if part.startswith(_HASH)), "")


def contents_of(stored: str | None) -> set[str]:
    """Returns what options, as the ledger stores them, keep of a packet beside its headers.

    Example:
        >>> sorted(contents_of("payload 256, dns")), contents_of(None) - {""}
        (['dns', 'payload'], set())
    """
    return {part.partition(" ")[0] for part in (stored or "").split(", ")}


def kept_for_rows(stored: str | None) -> str:
    """Returns stored options without the hashes of packets, of which no row depends unless copies are dropped.

    Example:
        >>> kept_for_rows("dns, hash of content"), kept_for_rows("hash of content"), kept_for_rows(None)
        ('dns', '', '')
    """
    return ", ".join(part for part in (stored or "").split(", ") if not part.startswith(_HASH))


def has_times_of_file(stored: str | None) -> bool:
    """Whether options, as the ledger stores them, give packets without a time one of their file.

    Example:
        >>> has_times_of_file("dns, times of the file"), has_times_of_file(None)
        (True, False)
    """
    return any(part.startswith(_UNTIMED) for part in (stored or "").split(", "))


def resolution_of(stored: str | None) -> str:
    """Returns the unit in which times were read, in options as the ledger stores them; empty for that of the file.

    Example:
        >>> resolution_of("dns, times in ns"), resolution_of("times of the file"), resolution_of(None)
        ('ns', '', '')
    """
    parts = (part for part in (stored or "").split(", ") if part.startswith(_RESOLUTION))
    return next((part.removeprefix(_RESOLUTION) for part in parts), "")


NOTHING = ContentOptions()
"""Headers only, with true addresses."""

"""What is kept of packets beside their headers, and what is hidden of them.

After decoding, in the reader and in `formats.division.read_chunk`: the beginning of frames (`frames`), fields of DNS
and HTTP (`applications`), addresses replaced (`anonymise`), as the section of a link says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lowwater.capture.content.anonymise import Pan, key_digest, read_key
from lowwater.capture.content.applications import application_fields
from lowwater.capture.content.frames import EVERYTHING, kept_frames
from lowwater.capture.content.heads import heads
from lowwater.capture.formats.header import RECORD_HEADER
from lowwater.capture.headers.batches import WHOLE, shape_of
from lowwater.capture.headers.columns import BATCH
from lowwater.catalog.packets import FRAME, HEAD, KEPT
from lowwater.config import Link
from lowwater.errors import ConfigError


@dataclass(frozen=True)
class Keeping:
    """What a link keeps; picklable.

    Attributes:
        payload: bytes of each payload that are kept behind the headers of its frame, EVERYTHING for whole frames; None
            where frames are not kept.
        applications: `dns`, `http`, both or none.
        sampling: whether a digest of the beginning of each frame is kept, by which packets are sampled.
        key: the key of the anonymisation, 32 bytes; None for true addresses.
    """

    payload: int | None = None
    applications: tuple[str, ...] = ()
    sampling: bool = False
    key: bytes | None = field(default=None, repr=False)

    @property
    def schema(self) -> pa.Schema:
        """That of the batches: `BATCH`, and of `KEPT` what is asked for."""
        asked = {FRAME} if self.payload is not None else set()
        asked |= {HEAD} if self.sampling else set()
        names = [name for name in KEPT.names if name in asked or name.partition("_")[0] in self.applications]
        return pa.schema([*BATCH, *(KEPT.field(name) for name in names)])

    @staticmethod
    def of(link: Link) -> Keeping:
        """That of a link's settings.

        Raises:
            ConfigError: its key cannot be read.
        """
        payload = EVERYTHING if link.payload == "all" else link.payload
        key = None if link.anonymise is None else read_key(link.anonymise)
        return Keeping(payload, tuple(sorted(set(link.applications))), link.sampling, key)

    def __str__(self) -> str:
        """What is kept, as the ledger says it.

        Example:
            >>> str(Keeping(256, ("dns", "http")))
            'payload 256, dns, http'
        """
        payload = [] if self.payload is None else [f"payload {'all' if self.payload == EVERYTHING else self.payload}"]
        return ", ".join([*payload, *self.applications, *(["sampling"] if self.sampling else [])])

    @property
    def key_digest(self) -> str:
        """What the ledger says of the key; empty without one."""
        return "" if self.key is None else key_digest(self.key)


NOTHING = Keeping()
"""Headers only, with their addresses."""


_COUNTED = "ipversion"
"""The column that a reader counts, whatever is asked for."""


class Keeper:
    """Adds to the batches of one reader what is to be kept.

    Args:
        keeping: what that is.
        columns: names of those that are asked for; None for all.

    Attributes:
        shape: what is to be decoded.

    Raises:
        ConfigError: if there is no such column, or it is asked for twice.
    """

    def __init__(self, keeping: Keeping, columns: Sequence[str] | None = None) -> None:
        self._keeping = keeping
        self._schema = keeping.schema
        self._asked = None if columns is None else _known(columns, self._schema)
        self.shape = WHOLE
        if self._asked is not None and keeping == NOTHING:
            self.shape = shape_of(tuple(dict.fromkeys([*self._asked, _COUNTED])))
        self._pan = None if keeping.key is None else Pan(keeping.key)

    def asked(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Of a batch the columns that are asked for, in that order."""
        return batch if self._asked is None else batch.select(self._asked)

    def batch(self, buffer: NDArray[np.uint8], offsets: NDArray[np.int64], batch: pa.RecordBatch) -> pa.RecordBatch:
        """A decoded batch with what is kept of its packets.

        Args:
            buffer: holds the frames.
            offsets: shape (n), of their records in it: each frame begins RECORD_HEADER behind it.
            batch: n rows of the shape.

        Returns:
            n rows of the keeping's schema; of the shape's, where nothing is kept.
        """
        keeping, kept = self._keeping, {}
        if keeping == NOTHING:
            return batch
        begins = offsets + RECORD_HEADER
        if keeping.payload is not None:
            # Frames that one buffer holds are fewer bytes than one binary array takes.
            kept[FRAME] = kept_frames(buffer, begins, batch, keeping.payload).chunk(0)
        if keeping.sampling:
            kept[HEAD] = heads(buffer, begins, batch)
        if keeping.applications:
            found = application_fields(buffer, begins, batch)
            kept |= {name: found.column(name) for name in found.schema.names}
        if self._pan is not None:
            batch = self._pan.batch(batch)
        extra = self._schema.names[len(BATCH) :]
        return pa.RecordBatch.from_arrays([*batch.columns, *(kept[name] for name in extra)], schema=self._schema)


def _known(columns: Sequence[str], schema: pa.Schema) -> list[str]:
    unknown = [name for name in columns if name not in schema.names]
    if unknown:
        near = get_close_matches(unknown[0], schema.names, 3) or schema.names
        raise ConfigError(f"{unknown[0]!r} is no column of a packet that is kept", f"columns are {', '.join(near)}")
    if len(set(columns)) < len(columns):
        raise ConfigError(f"of the columns {', '.join(columns)} one is asked for twice", "name each once")
    return list(columns)

"""TLS over TCP (RFC 8446, RFC 5246): the hello at the beginning of a segment.

Segments are not put together, nor are records. A hello that goes on in the next segment or in a second record is cut
there. A hello of SSL 2.0 is not read, and DTLS is not TLS over TCP.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lowwater.capture.content.hello import hello_columns
from lowwater.capture.content.starts import CHANGE_CIPHER_SPEC, CHANGED, RECORD_HEADER, SHORTEST


def tls_columns(buffer: NDArray[np.uint8], begins: NDArray[np.int64], ends: NDArray[np.int64]) -> dict[str, pa.Array]:
    """Reads the hellos of segments.

    Args:
        buffer: the bytes of the frames.
        begins: shape (n), index of payloads that begin as `starts.begins_hello` says.
        ends: shape (n), index behind their captured bytes.

    Returns:
        Column -> n values.
    """
    at = begins + np.where(buffer[begins] == CHANGE_CIPHER_SPEC, CHANGED, 0)
    one, two, three, four = (buffer[at + place].astype(np.int32) for place in range(1, RECORD_HEADER))
    hello, length = at + RECORD_HEADER, three << 8 | four
    found = hello_columns(buffer, hello, np.minimum(ends, hello + length), "t")
    version = pa.array(one << 8 | two, mask=length < SHORTEST)
    return {"tls_record_version": version} | {f"tls_{name}": column for name, column in found.items()}

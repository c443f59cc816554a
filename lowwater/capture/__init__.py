"""Reading captures into Arrow, and writing synthetic ones.

First stage of the pipeline: capture files in, batches of `catalog.packets.RECORD` out. Nothing heavy is imported
before it is asked for, so that `import lowwater` and `--help` stay quick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lowwater.capture.reader import DECODER_VERSION, CaptureReader, digest, open_capture, read

__all__ = ["DECODER_VERSION", "CaptureReader", "digest", "open_capture", "read"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from lowwater.capture import reader

        return getattr(reader, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

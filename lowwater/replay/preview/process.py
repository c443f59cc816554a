"""Tries a query text in a process of its own, which is ended where it takes too long or too much memory.

Between the page on which queries are written and `evaluation`. `python -m` it is that process.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from lowwater.answering import EndedError, Process, serve
from lowwater.errors import LowwaterError
from lowwater.replay.preview.evaluation import Preview, PreviewRequest, as_json, from_json, preview_text


@dataclass(frozen=True)
class Limits:
    """Bounds of an answer."""

    seconds: int = 30  # of the clock and of the processor
    megabytes: int = 1024  # resident memory, MiB


def run_preview(request: PreviewRequest, limits: Limits | None = None) -> Preview:
    """Tries a query text in a process of its own.

    Raises:
        LowwaterError: the text, the range or the lake is wrong, or the preview exceeds a bound.
    """
    bounds = limits or Limits()
    child = Process(__name__, bounds.megabytes, "://" in request.lake)
    asked = {"request": asdict(request), "cpu": bounds.seconds, "megabytes": bounds.megabytes}
    try:
        (document,) = child.ask({**asked, "seconds": 2 * bounds.seconds}, bounds.seconds)  # should this one be gone
    except EndedError as ended:
        said = str(ended) if str(ended).startswith("it took ") else "it ended without a result"
        raise LowwaterError(
            f"the preview was ended: {said}", "choose a shorter range, or make the query smaller"
        ) from None
    finally:
        child.end()
    if "error" in document:
        raise LowwaterError(document["error"], document["hint"])
    return from_json(document["preview"])


def _answers(asked: dict[str, Any]) -> Iterator[dict[str, Any]]:
    resource.setrlimit(resource.RLIMIT_CPU, (asked["cpu"], asked["cpu"] + 1))
    memory = 4 * asked["megabytes"] << 20  # of addresses; the parent counts exactly
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    os.chdir("/")
    try:
        request = PreviewRequest(**{**asked["request"], "links": tuple(asked["request"]["links"])})
        yield {"preview": as_json(preview_text(request))}
    except LowwaterError as error:
        yield {"error": error.message, "hint": error.hint}
    except MemoryError:
        yield {"error": "the preview needs more memory than it may have", "hint": "choose a shorter range"}


if __name__ == "__main__":
    serve(_answers)

"""The bounded process of a preview: a request as JSON on standard input, the rows or the error on standard output."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from typing import Any

from lowwater.errors import LowwaterError
from lowwater.replay.preview.evaluation import PreviewRequest, as_json, preview_text


def main() -> None:
    """Reads a request with its limits, and answers it."""
    given = json.loads(sys.stdin.readline())
    seconds, megabytes = given.pop("seconds"), given.pop("megabytes")
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_DATA, (4 * megabytes << 20, 4 * megabytes << 20))  # the parent counts exactly
    signal.alarm(2 * seconds)  # should the parent be gone
    answer, sys.stdout = sys.stdout, sys.stderr
    os.chdir("/")
    try:
        request = PreviewRequest(**{**given, "links": tuple(given["links"])})
        document: dict[str, Any] = {"preview": as_json(preview_text(request))}
    except LowwaterError as error:
        document = {"error": error.message, "hint": error.hint}
    except MemoryError:
        document = {"error": "the preview needs more memory than it may have", "hint": "choose a shorter range"}
    answer.write(json.dumps(document) + "\n")


if __name__ == "__main__":
    main()

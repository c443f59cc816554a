"""From the exception of a streaming query to one clear error.

Between Spark and whoever called `run_high`.
"""

from __future__ import annotations

import base64
import json
import re

from pyspark.errors import PySparkException

from lowwater.errors import LowwaterError, ValueOverflowError
from lowwater.high.buckets import ERROR

_UNSTARTED = "Python worker failed to connect back"
_MARKED = re.compile(ERROR + r":([A-Za-z0-9+/=]+):")
_FAILED = re.compile(r"^\[STREAM_FAILED\].*? terminated with exception: (.*?)(?: SQLSTATE: \w+)?$", re.MULTILINE)
_NOISE = re.compile(r"^\s*(at |\.\.\. \d+ more|=== Streaming|Traceback|File \")")
_CAUSE = re.compile(r"^(?:Caused by: )?(?:[\w.$]+(?:Exception|Error)): ?(.*)$")


class UnstartedError(LowwaterError):
    """A process of Python that a streaming query needs was not there in the ten seconds that Spark waits for it."""


def translate(query: str, error: PySparkException) -> LowwaterError:
    """The error of the interface that stands for a failed streaming query.

    Args:
        query: name of the output query.
        error: what Spark raised; its text holds the texts of its causes.
    """
    text = str(error)
    carried = _MARKED.search(text)
    if carried:
        overflows, message, hint = json.loads(base64.b64decode(carried.group(1)))
        return (ValueOverflowError if overflows else LowwaterError)(message, hint)
    kind = UnstartedError if _UNSTARTED in text else LowwaterError
    return kind(f"query {query}: Spark failed: {_root(text)}", "with --debug the whole trace is shown")


def _root(text: str) -> str:
    """The innermost cause that a text names, else what Spark says of the query, on one line."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not _NOISE.match(line)]
    causes = [match.group(1) for match in map(_CAUSE.match, lines) if match and match.group(1)]
    # After what Spark says comes the plan, which is no cause.
    said = _FAILED.findall(text)
    return (causes or said or lines or ["no message"])[-1][:500]

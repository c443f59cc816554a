"""Translates the exception of a Spark query into one clear error.

Callers of `run_high` and `shared_keys` see this error only.
"""

from __future__ import annotations

import re

from pyspark.errors import PySparkException

from lowwater.errors import LowwaterError

_FAILED = re.compile(r"^\[STREAM_FAILED\].*? terminated with exception: (.*?)(?: SQLSTATE: \w+)?$", re.MULTILINE)
_NOISE = re.compile(r"^\s*(at |\.\.\. \d+ more|=== Streaming|Traceback|File \")")
_CAUSE = re.compile(r"^(?:Caused by: )?(?:[\w.$]+(?:Exception|Error)): ?(.*)$")


def translate(query: str, error: PySparkException) -> LowwaterError:
    """Builds the error for a failed Spark query.

    Args:
        query: name of the output query.
        error: exception of Spark; its text contains the texts of its causes.
    """
    return LowwaterError(f"query {query}: Spark failed: {_root(str(error))}", "with --debug the whole trace is shown")


def _root(text: str) -> str:
    """The innermost cause in a text, otherwise Spark's message about the query, on one line."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not _NOISE.match(line)]
    causes = [match.group(1) for match in map(_CAUSE.match, lines) if match and match.group(1)]
    # Spark prints the plan after its message; the plan is no cause.
    spark_messages = _FAILED.findall(text)
    return (causes or spark_messages or lines or ["no message"])[-1][:500]

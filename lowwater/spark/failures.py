"""Translates the exception of a Spark query into one clear error, and notes sessions whose server is gone."""

from __future__ import annotations

import re
from weakref import WeakKeyDictionary, WeakSet

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lowwater.errors import AwayError, LowwaterError

AGAIN = "start it again, then run the command again: what is published stays, and all else is made anew"
"""What to do where a server is gone."""
_FAILED = re.compile(r"^\[STREAM_FAILED\].*? terminated with exception: (.*?)(?: SQLSTATE: \w+)?$", re.MULTILINE)
_NOISE = re.compile(r"^\s*(at |\.\.\. \d+ more|=== Streaming|Traceback|File \")")
_CAUSE = re.compile(r"^(?:Caused by: )?(?:[\w.$]+(?:Exception|Error)): ?(.*)$")
_DETAILS = re.compile(r'^\s*details = "(.*)"$', re.MULTILINE)
"""The cause in what a client says of a failed request."""
_FORGOTTEN = re.compile(r"\[(INVALID_HANDLE|NO_ACTIVE_SESSION|RESPONSE_ALREADY_RECEIVED|SESSION_NOT_SAME)")
"""What a server says of sessions of the one before it, and a client of one that it has given up."""
_places: WeakKeyDictionary[SparkSession, str] = WeakKeyDictionary()
_lost: WeakSet[SparkSession] = WeakSet()


def name(session: SparkSession, place: str) -> None:
    """Says how errors call the Spark of a session, such as `the Spark at sc://host:15002`."""
    _places[session] = place


def lost(session: SparkSession) -> bool:
    """Whether the server of a session has gone: another session may find it started again."""
    return session in _lost


def translate(what: str, error: PySparkException, session: SparkSession) -> LowwaterError:
    """Builds the error for a failed Spark query.

    Args:
        what: what the query did, as a stage or the high level of some queries.
        error: exception of Spark; its text contains the texts of its causes.
        session: its session.
    """
    place = _places.get(session, "Spark")
    if _gone(error):
        _lost.add(session)
        return AwayError(f"{what}: {place} has ended, or was started again", AGAIN)
    return LowwaterError(f"{what}: {place} failed: {cause_of(str(error))}", "with --debug the whole trace is shown")


def _gone(error: PySparkException) -> bool:
    status = getattr(error, "getGrpcStatusCode", lambda: None)()  # of the client's own exceptions
    return getattr(status, "name", "") == "UNAVAILABLE" or _FORGOTTEN.search(str(error)) is not None


def cause_of(text: str) -> str:
    """Returns the innermost cause in a text, otherwise Spark's message about the query, on one line."""
    if details := _DETAILS.search(text):
        return details[1][:500]
    lines = [line.strip() for line in text.splitlines() if line.strip() and not _NOISE.match(line)]
    causes = [match.group(1) for match in map(_CAUSE.match, lines) if match and match.group(1)]
    # Spark prints the plan after its message; the plan is no cause.
    spark_messages = _FAILED.findall(text)
    return (causes or spark_messages or lines or ["no message"])[-1][:500]

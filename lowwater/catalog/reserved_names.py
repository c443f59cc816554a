"""Names that Lowwater uses beside those of queries, in one place; no query may have one of them.

The binder refuses these names, and `replay.run_command` writes files with them. A lake has no such conflict:
`tables/`, `streams/`, `lfta/` and `state/` hold queries only, and the ledgers lie beside these folders.
"""

from __future__ import annotations

VIOLATIONS = "skew_violations"
HEARTBEATS = "heartbeats"
MALFORMED = "malformed"
SUMMARY = "summary"

RESERVED = {
    VIOLATIONS: "the packets that were refused",
    HEARTBEATS: "what every node promised",
    MALFORMED: "the records that cannot be read",
    SUMMARY: "the counts of the run",
}
"""File names in the folder of `lowwater run`, of any format, and their content."""

MAX_QUERY_NAME = 120
"""Most characters of a query name. With the suffixes that stages add, it stays below 255, the limit of file names."""

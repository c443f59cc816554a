"""Names that Lowwater writes beside those of queries, in one place: no query may have one of them.

Read by the binder, which refuses them, and by `replay.command.run_command`, which writes them. In a lake nothing lies
beside the tables of queries: `tables/`, `streams/`, `lfta/` and `state/` are theirs alone, and the ledgers lie above
these.
"""

from __future__ import annotations

VIOLATIONS = "skew_violations"
HEARTBEATS = "heartbeats"
SUMMARY = "summary"

RESERVED = {
    VIOLATIONS: "the packets that were refused",
    HEARTBEATS: "what every node promised",
    SUMMARY: "the counts of the run",
}
"""Files of the folder of `lowwater run`, in whatever format, and what they hold."""

LONGEST = 120
"""Most characters of the name of a query: with what is added to it, it stays one name of a file everywhere (255)."""

"""Names of states that commands and DAG files offer, which load nothing slow."""

from __future__ import annotations

KINDS = ("missing", "failed", "stale", "damaged")
"""Reasons for an interval to be due; one that is half published, or audited only, counts as missing."""

WAITING = "waiting"
"""State of an interval that does not run: its links have not reported, or an earlier interval of its chain failed, or
is not published."""
SKIPPED, UNREPORTED = "skipped", "unreported"
"""States of an interval that does not run: it is in no state that was asked for, or its links may still report."""

"""Names of states that commands and DAG files offer, which load nothing slow."""

from __future__ import annotations

KINDS = ("missing", "failed", "stale", "damaged", "provisional", "incomplete")
"""Reasons for an interval to be due; one that is half published, or audited only, counts as missing. One that is
provisional or incomplete is due where it would be done, or less would be missing."""

WAITING = "waiting"
"""State of an interval that does not run: its links have not reported, or an earlier interval of its chain failed, or
is not published."""
SKIPPED, UNREPORTED = "skipped", "unreported"
"""States of an interval that does not run: it is in no state that was asked for, or its links may still report."""

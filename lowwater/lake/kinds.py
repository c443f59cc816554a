"""Names of states that commands and DAG files offer, which load nothing slow."""

from __future__ import annotations

KINDS = ("missing", "failed", "stale", "damaged")
"""Reasons for an interval to be due; one that is half published, or audited only, counts as missing."""

"""Lowwater replays packet captures through stream queries, exactly."""

__version__ = "0.2.0"

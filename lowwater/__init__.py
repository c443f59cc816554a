"""Lowwater replays packet captures through stream queries, exactly."""

__version__ = "0.1.0"

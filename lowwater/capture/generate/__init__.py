"""Synthetic captures; the same seed gives the same bytes.

They are input for `ingest`, so that tests, demo, tutorial and benchmarks need no real traffic.
"""

from lowwater.capture.generate.writer import GeneratedCapture, generate, write_story

__all__ = ["GeneratedCapture", "generate", "write_story"]

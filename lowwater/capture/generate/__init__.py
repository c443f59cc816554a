"""Synthetic captures; the same seed gives the same bytes.

They are input for `ingest`, so that tests, demo and benchmarks need no real traffic.
"""

from lowwater.capture.generate.writer import GeneratedCapture, generate

__all__ = ["GeneratedCapture", "generate"]

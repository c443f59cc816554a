"""Synthetic captures: the same bytes for the same seed.

Beside the reader: writes what `ingest` reads, so that tests, demo and benchmarks need no real traffic.
"""

from lowwater.capture.generate.writer import GeneratedCapture, generate

__all__ = ["GeneratedCapture", "generate"]

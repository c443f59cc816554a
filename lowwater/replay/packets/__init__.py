"""Selects packets of a lake by a condition and writes them as a capture."""

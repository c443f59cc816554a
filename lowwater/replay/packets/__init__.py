"""Packets of a lake by a condition, and back as a capture."""

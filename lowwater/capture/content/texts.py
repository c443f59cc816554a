"""Texts of application fields: bounded, one character a byte."""

LONGEST_TEXT = 2048
"""Most bytes of a text field; the rest is dropped."""


def text(value: bytes) -> str:
    """Returns the first LONGEST_TEXT bytes, one character a byte."""
    return value[:LONGEST_TEXT].decode("latin-1")

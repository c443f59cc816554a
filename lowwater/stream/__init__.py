"""Operators that take one row or punctuation at a time. The reference engine runs them, and slices run those with a
state."""

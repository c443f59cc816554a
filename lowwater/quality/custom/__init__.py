"""Suites that users write for the rows of their queries."""

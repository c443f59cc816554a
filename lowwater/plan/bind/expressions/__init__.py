"""Binds expressions: resolves the names, types and functions of a syntax tree to expressions of the catalog."""

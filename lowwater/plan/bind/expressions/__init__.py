"""Binds expressions: names, types and functions of the text become bound expressions of the catalog."""

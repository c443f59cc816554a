"""Reads a lake into Arrow, pandas, polars and DuckDB: `from lowwater import Lake`."""

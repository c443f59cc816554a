"""Parquet files of numbers, written without a call for every value: encodings, footer, file.

Below `ingestion.packing`. For a nullable column of small numbers, Arrow's writer takes longer than decoding the packets
(`docs/adr/0015`). Arrow, Spark and DuckDB read these files.
"""

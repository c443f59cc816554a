"""Parquet files of numbers, written without a call a value: encodings, footer, file.

Below `ingestion.packing`. Arrow's own writer takes longer for a nullable column of small numbers than decoding the
packet did (`docs/adr/0015`); what is read is read by Arrow, Spark and DuckDB.
"""

"""Files of records that are no packets: delimited text, JSON lines and parquet, read with the readers of Arrow.

`reader` yields batches like those of packets, with the columns of a `catalog.records.RecordLayout`. `blocks` finds the
records of a text file and makes typed columns, `delimited` and `logs` parse text, `columnar` reads parquet.
"""

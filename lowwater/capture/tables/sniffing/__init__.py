"""Proposals for files of records that nobody has described: format, columns, types, clock.

`tables.sniff` gives a proposal from a sample of a file. `pieces` reads the sample, `delimited` and `objects` split it
into columns, `kinds` finds their types with the conversions of the reader, and `clocks` chooses the clock.
"""

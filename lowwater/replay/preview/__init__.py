"""Tries the text of a query on packets of a lake, with bounds on packets, rows, time and memory. Writes nothing."""

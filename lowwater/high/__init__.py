"""The high level: evaluates groups and joins over the rows of the low level, slice by slice."""

"""The rules of files, coverage and states of intervals, over plain values: what is kept, and two functions of it."""

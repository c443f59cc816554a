"""Operators over rows and punctuation, a tuple at a time: what the reference engine and Spark's Python workers
share."""

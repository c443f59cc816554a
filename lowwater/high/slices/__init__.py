"""Slices of a replay, which need no state: what a promise closes is evaluated at once, over Arrow columns, by a task.

Beside the lowering. Imported by Spark's Python workers, so nothing here imports Spark's functions.
"""

"""Slices of a replay: what a promise closes is evaluated at once by a task, over Arrow columns.

Where a state goes from slice to slice they are evaluated in order. Imported by Spark's Python workers, so nothing here
imports Spark's functions.
"""

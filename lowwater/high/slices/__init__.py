"""Slices of a replay: a task evaluates the rows of a closed slice over Arrow columns.

Slices of a plan with a state are evaluated in order. Spark's Python workers import this package, so nothing here
imports Spark's functions.
"""

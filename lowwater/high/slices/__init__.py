"""Slices of a replay: a part of a query is evaluated over Arrow columns once its slice of time is closed.

Slices of a plan with a state are evaluated in order. Workers of Spark import this package.
"""

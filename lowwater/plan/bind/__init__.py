"""Binding: turns syntax trees into the logical plan by resolving names, types and clauses.

`queries` is the entry for the rest of the planner, and binds statements. The other modules bind one clause or one kind
of expression.
"""

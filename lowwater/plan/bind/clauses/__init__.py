"""Binds the clauses of a statement: turns sources, windows, joins and groups into operators of the logical plan."""

"""Binds the clauses of a statement: sources, windows, joins and groups become operators of the logical plan."""

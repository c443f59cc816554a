"""From syntax trees to the logical plan: names, types, clauses.

`binder` is the door: it binds a query with what it reads and asks the others for their clause.
"""

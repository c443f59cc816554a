"""The papers' experiments, one module a figure: `python -m experiments.ID` measures it, `python -m experiments` all.

They use the package as anybody would; nothing of it knows them. `frame` is common to all, `page` makes
`docs/experiments.md` and its figures from the results.
"""

"""The papers' experiments, one file a figure: `python -m experiments.NAME` prints verdicts and draws the figure.

They use the package as anybody would; nothing of it knows them.
"""

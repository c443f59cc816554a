"""Checks before a run: constructs that no engine runs, excessive costs, columns that no link stores."""

"""A lake: its captures, packets, ledgers and published tables in Delta's format."""

"""Captures into the lake: surveyed, divided, decoded into `packets/`, and made visible by the ledger."""

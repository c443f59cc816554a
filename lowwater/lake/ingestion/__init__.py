"""Ingest: captures are surveyed, divided, decoded into `packets/`, and made visible by the ledger."""

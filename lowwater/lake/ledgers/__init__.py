"""Ledgers of a lake: captures, runs and audits, and the coverage and status that follow from them."""

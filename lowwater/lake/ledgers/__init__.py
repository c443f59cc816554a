"""The ledgers of a lake: captures, runs, audits, and what follows from them of coverage and status."""

"""Metrics and traces of a lake for monitoring systems, read from its ledgers; off unless a command asks for them."""

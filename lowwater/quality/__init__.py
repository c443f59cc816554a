"""Audits of an interval's results before they are published."""

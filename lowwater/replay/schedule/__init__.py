"""Finds intervals that are due, estimates the work, and runs them."""

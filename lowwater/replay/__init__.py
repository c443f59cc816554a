"""Runs of intervals: their stages, and when and by what they run."""

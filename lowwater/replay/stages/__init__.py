"""The stages of one interval as functions of their inputs: low, high, audit."""

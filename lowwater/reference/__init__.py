"""The reference engine: evaluates logical plans one tuple at a time in virtual time.

It is the oracle of `low` and `high`, and shares only the operators of `stream/` with them.
"""

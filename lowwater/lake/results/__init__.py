"""Results of queries in a lake: streams between the stages, published tables, and states of intervals."""

"""What queries leave in a lake: streams between the stages, published tables, states of intervals."""

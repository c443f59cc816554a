"""Which intervals are due, how much work they are, and running them."""

"""Plans of queries: bound, rewritten, cut into a low and a high level, and explained."""

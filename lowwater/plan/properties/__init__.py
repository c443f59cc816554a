"""Facts about plans: order, keys, progress, state, cost, read ranges, schemas."""

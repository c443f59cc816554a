"""What holds of plans: time, order, keys, progress, state, cost, ranges, schemas."""

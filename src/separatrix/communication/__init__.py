"""What provably cannot be done: two-party problems, matrices, reductions, bounds, protocols."""

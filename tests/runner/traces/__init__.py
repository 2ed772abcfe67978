"""Files of profilers: their sums and their timelines."""

"""Show runs and reports on a terminal."""

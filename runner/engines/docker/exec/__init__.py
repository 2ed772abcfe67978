"""Commands in the container: start, follow, limit."""

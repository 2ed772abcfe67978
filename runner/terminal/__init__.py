"""Show runs and reports on a terminal; the only place that imports rich."""

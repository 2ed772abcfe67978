"""The terminal: the only place that imports rich."""

"""Processes that carry out runs apart from their clients."""

"""The container of a run: its volumes, limits, disk and memory use, and its removal."""

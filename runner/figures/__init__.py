"""Figures of runs as one table (table.py), and the names of commands."""

"""Runs measured beside each other: all of `rai bench` except its display.

sides.py (folders or commits, to runs that are checked and can start)
    -> interleaving.py (their rounds, in random order within each pair)
"""

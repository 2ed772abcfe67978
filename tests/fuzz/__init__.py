"""Fuzzing: what reads hostile bytes, and what must hold whatever they are."""

"""The command line: one command, one file."""

from runner.cli.main import main

__all__ = ["main"]

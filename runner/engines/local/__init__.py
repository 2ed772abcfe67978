"""Run commands in a sandbox on this machine, by bubblewrap or else unshare."""

from runner.engines.local.engine import LocalEngine

__all__ = ["LocalEngine"]

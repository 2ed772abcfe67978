"""Commands in a sandbox of this machine: bubblewrap, else unshare."""

from runner.engines.local.engine import LocalEngine

__all__ = ["LocalEngine"]

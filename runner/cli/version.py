"""`rai version`."""

from __future__ import annotations

import platform
from importlib import metadata

from runner.cli.settings import JsonFlag, print_json


def version(as_json: JsonFlag = False) -> None:
    """Show the version of rai and of Python."""
    known = {"rai": metadata.version("rai"), "python": platform.python_version()}
    if as_json:
        print_json(known)
    else:
        print(f"rai {known['rai']} (Python {known['python']})")

"""`rai version`."""

from __future__ import annotations

import platform

from runner import __version__
from runner.cli.common import JsonFlag, print_json


def version(as_json: JsonFlag = False) -> None:
    """Show the versions of rai and Python."""
    versions = {"rai": __version__, "python": platform.python_version()}
    if as_json:
        print_json(versions)
    else:
        print(f"rai {versions['rai']} (Python {versions['python']})")

"""`rai version`."""

from __future__ import annotations

import platform

from runner import __version__
from runner.cli.common import JsonFlag, print_json
from runner.terminal.streams import say


def version(as_json: JsonFlag = False) -> None:
    """Show the versions of rai and Python."""
    versions = {"rai": __version__, "python": platform.python_version()}
    if as_json:
        print_json(versions)
    else:
        say(f"rai {versions['rai']} (Python {versions['python']})")

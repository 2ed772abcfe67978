"""The command line of a sandbox by util-linux's ``unshare``. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import asdict

from runner.engines.local.layout import HOSTNAME, Layout

INIT = Path(__file__).with_name("init.py")


def argv(
    layout: Layout, me: tuple[int, int], python: Path, command: Sequence[str]
) -> list[str]:
    """Return the command line; ``me`` are the caller's user and group ids."""
    return [
        # Dies with the rai process.
        *("setpriv", "--pdeathsig", "KILL", "--"),
        *("unshare", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child"),
        *([] if layout.owner else ["--user", "--map-root-user"]),
        *([] if layout.network else ["--net"]),
        *("--", str(python), "-I", "-S", str(INIT), _text(layout, me)),
        *command,
    ]


def _text(layout: Layout, me: tuple[int, int]) -> str:
    """Return the layout as JSON for the sandbox's first process."""
    binds = [(bind.source, bind.target, bind.writable) for bind in layout.binds]
    return json.dumps(asdict(layout) | {"binds": binds, "me": me, "hostname": HOSTNAME})

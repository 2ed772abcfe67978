"""A sandbox made by util-linux's ``unshare``: its command line. Pure."""

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
    """Give the words that run a command in a sandbox; ``me`` is who calls."""
    return [
        # Ends with the process that runs rai, however that ends.
        *("setpriv", "--pdeathsig", "KILL", "--"),
        *("unshare", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child"),
        *([] if layout.owner else ["--user", "--map-root-user"]),
        *([] if layout.network else ["--net"]),
        *("--", str(python), "-I", "-S", str(INIT), _text(layout, me)),
        *command,
    ]


def _text(layout: Layout, me: tuple[int, int]) -> str:
    """Say to the sandbox's first process what it needs to know."""
    binds = [(bind.source, bind.target, bind.writable) for bind in layout.binds]
    return json.dumps(asdict(layout) | {"binds": binds, "me": me, "hostname": HOSTNAME})

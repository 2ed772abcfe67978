"""The control group of an image build, which root makes on the engine's machine.

The engine makes the containers of all steps in it. Its API can limit their memory, but
not their processes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec.structs import replace

from runner.core import Limits
from runner.engines.docker.endpoint import Endpoint
from runner.engines.docker.facts import Info, can_group_builds
from runner.engines.local.cgroup import Group


@contextmanager
def made(info: Info, endpoint: Endpoint, limits: Limits) -> Iterator[Group | None]:
    """Make a build's group; at the end kill what is in it, and remove it.

    None where this user may not make one.
    """
    group = None
    if can_group_builds(info, endpoint):
        try:
            own = replace(limits, pids=limits.build_pids)
            group = Group(f"build-{os.urandom(4).hex()}", own, at_top=True)
        except OSError:
            group = None
    try:
        yield group
    finally:
        if group is not None:
            group.close()


def parent(group: Group | None) -> str:
    """Return a group as the engine takes it; "" without one."""
    return f"/{group.name}" if group else ""

"""Units for systemd: a server and its workers, each as a user of its own.

They lie in the folder ``units``, with ``${names}`` where a machine decides. What their
keys do: systemd.exec(5), systemd.service(5) and systemd.resource-control(5).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from string import Template

SERVER_UNIT = "rai-server.service"
SOCKET_UNIT = "rai-worker.socket"
WORKER_UNIT = "rai-worker@.service"
USERS = "rai.conf"
"""What systemd-sysusers reads: the users of the units."""

UNITS = Path(__file__).with_name("units")
_SERVE = (
    *("server", "serve", "--state", "/var/lib/rai-server"),
    *("--socket", "/run/rai/server.sock", "--workers", "/run/rai-worker.sock"),
    *("--home", "/var/lib/rai-runs"),
)


def unit_files(
    rai: str, python: str, options: Sequence[str], *, docker: bool
) -> dict[str, str]:
    """Return the files by name; ``rai`` and ``python`` are the programs' whole paths.

    ``options`` are those of `rai server serve`; with ``docker`` the workers' user is
    of the group that may use the Docker Engine.
    """
    decided = {
        "serve": " ".join(map(_quoted, (rai, *_SERVE, *options))),
        "python": _quoted(python),
        "docker_service": " docker.service" if docker else "",
        "docker_group": "SupplementaryGroups=docker\n" if docker else "",
        "docker_member": "m rai-worker docker\n" if docker else "",
    }
    return {
        name: Template((UNITS / name).read_text()).substitute(decided)
        for name in (SERVER_UNIT, SOCKET_UNIT, WORKER_UNIT, USERS)
    }


def _quoted(word: str) -> str:
    r"""Write a word of a command line as systemd reads it: "" \ % and $ doubled."""
    doubled = word.replace("\\", "\\\\").replace("%", "%%").replace("$", "$$")
    if doubled and not set(doubled) & set(" \t\n'\""):
        return doubled
    return '"' + doubled.replace('"', '\\"').replace("\n", "\\n") + '"'

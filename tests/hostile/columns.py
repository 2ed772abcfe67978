"""The columns of the table: an engine as it confines, and who runs rai."""

from __future__ import annotations

import grp
import os
import shlex
import sys
from pathlib import Path

from msgspec import Struct

from tests.hostile.case import Case, Site
from tests.kit.needs import ROOT

USER = 4321
SOCKET = Path("/var/run/docker.sock")
PROGRAM = str(Path(sys.prefix) / "bin" / "rai")


class Column(Struct, frozen=True):
    """An engine, how it confines (its profile or its kind), and a user.

    The name's words are all that cases name columns by.
    """

    engine: str
    how: str
    user: str

    @property
    def name(self) -> str:
        return f"{self.engine} {self.how} {self.user}"

    @property
    def options(self) -> list[str]:
        """The options of ``rai run``."""
        profile = self.how if self.engine == "docker" else "strict"
        return ["--engine", self.engine, "--profile", profile]

    @property
    def ids(self) -> tuple[int, int]:
        """The user and group that rai has."""
        return (0, 0) if self.user == "root" else (USER, USER)


COLUMNS = tuple(
    Column(engine, how, user)
    for engine, kinds in {
        "docker": ("strict", "compatible"),
        "local": ("bubblewrap", "unshare"),
    }.items()
    for how in kinds
    for user in ("root", "user")
)


def argv(column: Column, case: Case, site: Site, words: list[str]) -> list[str]:
    """Return what starts rai with these arguments as the column's user.

    All is set up in a mount namespace of its own: bubblewrap is hidden for the sake
    of unshare, root's home is hidden from the ordinary user, and a policy is written.
    The program itself is exec'd, so its process is the one that was started.
    """
    lines = ["set -e"]
    if column.how == "unshare":
        lines.append('mount --bind /dev/null "$(command -v bwrap || echo /dev/null)"')
    if case.policy is not None:
        lines += _policy(site)
    if case.shell:
        lines.append(f"set -- sh -c {shlex.quote(case.shell)} sh " + '"$@"')
    if column.user == "user":
        lines += _hide_home(site)
        groups = f"--groups {_engine_group()}" if column.engine == "docker" else ""
        user = f"--reuid {USER} --regid {USER} {groups or '--clear-groups'}"
        lines.append(f'set -- setpriv {user} -- "$@"')
    lines.append('exec "$@"')
    script = "\n".join(lines)
    return ["unshare", "--mount", "bash", "-c", script, "bash", PROGRAM, *words]


def environment(site: Site) -> dict[str, str]:
    """Return rai's environment: homes and temporary folders of the case's own."""
    kept = ("PATH", "LANG", "DOCKER_HOST")
    own = {name: os.environ[name] for name in kept if name in os.environ}
    return own | {
        "HOME": str(site.home),
        "TMPDIR": str(site.tmp),
        "RAI_HOME": str(site.rai_home),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def _policy(site: Site) -> list[str]:
    """Lay a folder with the policy over /etc, in this namespace alone."""
    return [
        f"mkdir -p {site.root}/etc/rai {site.root}/etc-work",
        f"cp {site.root}/policy.yml {site.root}/etc/rai/policy.yml",
        f"chmod -R a+rX {site.root}/etc",
        f"mount -t overlay -o lowerdir={site.root}/etc:/etc overlay /etc",
    ]


def _hide_home(site: Site) -> list[str]:
    """Show of root's home, at its place, only what rai's program needs."""
    wanted = {str(ROOT), sys.prefix, sys.base_prefix}
    hidden = sorted(path for path in wanted if Path(path).is_relative_to("/root"))
    held = site.root / "held"
    lines = []
    for n, path in enumerate(hidden):
        shown = shlex.quote(path)
        lines.append(f"mkdir -p {held}/{n}; mount --bind {shown} {held}/{n}")
    lines.append("mount -t tmpfs -o mode=755 tmpfs /root")
    for n, path in enumerate(hidden):
        lines.append(f"mkdir -p {shlex.quote(path)}")
        lines.append(f"mount --move {held}/{n} {shlex.quote(path)}")
    return [*lines, f"rm -rf --one-file-system {held}"]


def _engine_group() -> str:
    """Return the group that may use the engine's socket."""
    group = SOCKET.stat().st_gid if SOCKET.exists() else grp.getgrnam("docker").gr_gid
    return str(group)

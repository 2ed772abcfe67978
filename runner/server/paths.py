"""Where a server keeps what it remembers, and where it is reached on its machine."""

from __future__ import annotations

import os
import site
import sys
from collections.abc import Mapping
from pathlib import Path

import platformdirs
from msgspec import Struct

from runner.core import Problem
from runner.core.errors import UsageError

ROOTS_STATE = Path("/var/lib/rai-server")
ROOTS_SOCKET = Path("/run/rai/server.sock")
STATE_VARIABLE = "RAI_SERVER_STATE"
DATABASE_VARIABLE = "RAI_DATABASE_URL"
SHOWN = ("bin", "etc", "lib", "lib32", "lib64", "libx32", "opt", "sbin", "sys", "usr")
"""What sandboxes have of the machine's root, as ``engines.local.host`` has it."""

MOST_SOCKET_BYTES = 107
"""The longest name of a Unix socket that Linux takes (sun_path, unix(7))."""


class ServerFolder(Struct, frozen=True):
    """The files of one server, in a folder that only its user can open."""

    root: Path

    @property
    def rules(self) -> Path:
        """Its settings: roles, ceilings, how long things are kept."""
        return self.root / "server.yml"

    @property
    def database(self) -> Path:
        """The store, unless RAI_DATABASE_URL names another."""
        return self.root / "store.sqlite"

    @property
    def uploads(self) -> Path:
        """Packed projects that were sent."""
        return self.root / "uploads"

    @property
    def certificate(self) -> Path:
        """The certificate that the server made for itself."""
        return self.root / "tls" / "certificate.pem"

    @property
    def key(self) -> Path:
        """The private key of that certificate."""
        return self.root / "tls" / "key.pem"

    @property
    def lock(self) -> Path:
        """Locked by the server that serves this folder."""
        return self.root / "lock"

    @property
    def reached(self) -> Path:
        """Where the server that was started last is reached, for `rai server` itself.

        JSON of a ``ReachedAt``.
        """
        return self.root / "reached.json"

    @property
    def home(self) -> Path:
        """The home of the runs, unless `--home` names another."""
        return self.root / "home"


def state(given: Path | None, environ: Mapping[str, str]) -> ServerFolder:
    """Return the folder that an option, a variable or the default names."""
    if named := given or (
        Path(environ[STATE_VARIABLE]) if environ.get(STATE_VARIABLE) else None
    ):
        return ServerFolder(named.expanduser().absolute())
    if os.geteuid() == 0:
        return ServerFolder(ROOTS_STATE)
    return ServerFolder(
        Path(platformdirs.user_state_dir("rai-server", appauthor=False))
    )


def socket(
    given: Path | None, folder: ServerFolder, environ: Mapping[str, str]
) -> Path:
    """Return where a server listens for programs of its machine.

    A folder that is not the usual one has its socket in it, so that two servers of one
    machine do not meet.
    """
    if given:
        return checked(given.absolute())
    if folder.root == ROOTS_STATE:
        return ROOTS_SOCKET
    usual = state(None, {}).root == folder.root
    if usual and (runtime := environ.get("XDG_RUNTIME_DIR")):
        return checked(Path(runtime, "rai", "server.sock"))
    return checked(folder.root / "server.sock")


def refuse_shown(*wanted: Path) -> None:
    """Refuse places that a sandbox of the local engine shows to the runs in it.

    A run there may have the very user to whom a server's folder and sockets are open.

    Raises:
        UsageError: one of them is in such a place.
    """
    shown = [Path("/", name) for name in SHOWN]
    shown += [Path(sys.prefix), Path(sys.base_prefix), Path(site.getusersitepackages())]
    for path in wanted:
        for folder in shown:
            if path.resolve().is_relative_to(folder.resolve()):
                text = f"{path} lies in {folder}, which runs can see"
                hint = "name another place, such as below /var/lib, /srv or a home"
                raise UsageError(Problem(text, hint=hint))


def checked(path: Path) -> Path:
    """Refuse a socket's name that is too long for the kernel."""
    if len(os.fsencode(path)) > MOST_SOCKET_BYTES:
        text = f"the name of the socket is too long: {path}"
        hint = f"name one of at most {MOST_SOCKET_BYTES} bytes by --socket"
        raise UsageError(Problem(text, hint=hint))
    return path

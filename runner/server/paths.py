"""Where a server keeps what it remembers, and where it is reached."""

from __future__ import annotations

import hashlib
import os
import re
import site
import stat
import sys
from collections.abc import Mapping
from itertools import product
from pathlib import Path

import platformdirs
from msgspec import Struct, json

from runner.core import Problem
from runner.core.errors import UsageError
from runner.store.paths import Home
from runner.system import files

ROOTS_STATE = Path("/var/lib/rai-server")
ROOTS_SOCKET = Path("/run/rai/server.sock")
STATE_VARIABLE = "RAI_SERVER_STATE"
DATABASE_VARIABLE = "RAI_DATABASE_URL"
SHOWN = ("bin", "etc", "lib", "lib32", "lib64", "libx32", "opt", "sbin", "sys", "usr")
"""What sandboxes have of the machine's root, as ``engines.local.host`` has it."""

MOST_SOCKET_BYTES = 107
"""The longest name of a Unix socket that Linux takes (sun_path, unix(7))."""

MOST_REACHED_BYTES = 64 << 10
SHA256 = re.compile("[0-9a-f]{64}")
CLOSED = (
    "No other user can open the server's socket: serve with --listen HOST:PORT --tls"
    " self, or with --socket in a folder that they can enter, such as /run/rai"
)


class ReachedAt(Struct, frozen=True):
    """The addresses of a server as it was last started, for the commands beside it.

    ``home`` is the folder of the runs, ``workers`` the socket at which systemd starts
    workers, if it does. ``url`` is what people log in to, ``fingerprint`` that of the
    server's own certificate, "" where others vouch for it. ``elsewhere`` says that the
    store is the one that RAI_DATABASE_URL named.
    """

    url: str
    socket: str
    home: str
    workers: str = ""
    fingerprint: str = ""
    elsewhere: bool = False
    certificate: str = ""

    @property
    def for_others(self) -> bool:
        """Whether other users can reach the address that people log in to."""
        return self.url != f"unix://{self.socket}" or self.openable

    @property
    def openable(self) -> bool:
        """Whether every user of this machine can get to the socket."""
        try:
            folders = Path(self.socket).parents
            return all(up.stat().st_mode & stat.S_IXOTH for up in folders)
        except OSError:
            return False


class ServerFolder:
    """The files of one server, in a folder that only its user can open."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.rules = root / "server.yml"
        self.database = root / "store.sqlite"  # unless RAI_DATABASE_URL names another
        self.uploads = root / "uploads"
        self.certificate = root / "tls" / "certificate.pem"  # the server's own
        self.key = root / "tls" / "key.pem"
        self.lock = root / "lock"  # held by the server that serves this folder
        self.reached = root / "reached.json"  # a ReachedAt of the last start
        self.home = root / "home"  # of the runs, unless `--home` names another

    def reached_at(self) -> ReachedAt | None:
        """Return how the server is reached; None if it was never started."""
        try:
            data = files.read(self.reached, MOST_REACHED_BYTES)
            return json.decode(data, type=ReachedAt)
        except (OSError, ValueError):
            return None

    def home_of_runs(self) -> Home:
        """Return the home of the runs of the server that was started last."""
        known = self.reached_at()
        return Home(Path(known.home) if known else self.home)

    def database_url(self, environ: Mapping[str, str]) -> str:
        """Return the URL of the store.

        Raises:
            UsageError: the server uses another database, whose URL this process lacks.
        """
        if url := environ.get(DATABASE_VARIABLE, "").strip():
            return url
        known = self.reached_at()
        if known and known.elsewhere:
            text = f"this server's store is the database that {DATABASE_VARIABLE} names"
            hint = "set it as the server has it, as in /etc/rai/server.env"
            raise UsageError(Problem(text, hint=hint))
        return sqlite_url(self.database)


def sqlite_url(file: Path) -> str:
    """Return the URL of a store in a file."""
    return f"sqlite:///{file}"


def upload_path(uploads: Path, team: str, sha256: str) -> Path:
    """Return where an upload is kept; no name that a client chose is part of it."""
    folder = hashlib.sha256(team.encode()).hexdigest()[:16]
    return uploads / folder / f"{sha256}.tar.zst"


def arriving_folder(uploads: Path) -> Path:
    """Return where uploads are while they come; a start of the server empties it."""
    return uploads / "arriving"


def state(given: Path | None, environ: Mapping[str, str]) -> ServerFolder:
    """Return the folder that an option, a variable or the default names."""
    if given or environ.get(STATE_VARIABLE):
        named = given or Path(environ[STATE_VARIABLE])
        return ServerFolder(named.expanduser().absolute())
    if os.geteuid() == 0:
        return ServerFolder(ROOTS_STATE)
    return ServerFolder(platformdirs.user_state_path("rai-server", appauthor=False))


def socket(
    given: Path | None, folder: ServerFolder, environ: Mapping[str, str]
) -> Path:
    """Return where a server listens for programs of its machine.

    A folder that is not the usual one has its socket in it, so that two servers of one
    machine do not meet.

    Raises:
        UsageError: its name is too long for the kernel.
    """
    usual = state(None, {}).root == folder.root
    if given:
        path = given.absolute()
    elif folder.root == ROOTS_STATE:
        path = ROOTS_SOCKET
    elif usual and (runtime := environ.get("XDG_RUNTIME_DIR")):
        path = Path(runtime, "rai", "server.sock")
    else:
        path = folder.root / "server.sock"
    if len(os.fsencode(path)) > MOST_SOCKET_BYTES:
        text = f"the name of the socket is too long: {path}"
        hint = f"name one of at most {MOST_SOCKET_BYTES} bytes by --socket"
        raise UsageError(Problem(text, hint=hint))
    return path


def refuse_shown(*wanted: Path) -> None:
    """Refuse places that a sandbox of the local engine shows to the runs in it.

    A run there may have the very user to whom a server's folder and sockets are open.

    Raises:
        UsageError: one of them is in such a place.
    """
    shown = [Path("/", name) for name in SHOWN]
    shown += [Path(sys.prefix), Path(sys.base_prefix), Path(site.getusersitepackages())]
    for path, folder in product(wanted, shown):
        if path.resolve().is_relative_to(folder.resolve()):
            text = f"{path} lies in {folder}, which runs can see"
            hint = "name another place, such as below /var/lib, /srv or a home"
            raise UsageError(Problem(text, hint=hint))

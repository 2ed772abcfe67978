"""How a server that was started is reached, for the commands beside it."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, json

from runner import files
from runner.core import Problem
from runner.core.errors import UsageError
from runner.server.paths import DATABASE_VARIABLE, ServerFolder
from runner.store.paths import Home

MOST_BYTES = 64 << 10


class ReachedAt(Struct, frozen=True):
    """The addresses of a server as it was last started.

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
        return self.url != f"unix://{self.socket}" or openable(Path(self.socket))


CLOSED = (
    "No other user can open the server's socket: serve with --listen HOST:PORT --tls"
    " self, or with --socket in a folder that they can enter, such as /run/rai"
)


def openable(socket: Path) -> bool:
    """Whether every user of this machine can get to a socket."""
    try:
        return all(up.stat().st_mode & stat.S_IXOTH for up in socket.parents)
    except OSError:
        return False


def write(folder: ServerFolder, facts: ReachedAt) -> None:
    """Leave the addresses for other commands."""
    files.write(folder.reached, json.encode(facts) + b"\n")


def read(folder: ServerFolder) -> ReachedAt | None:
    """Return how the server is reached; None if it was never started."""
    try:
        return json.decode(files.read(folder.reached, MOST_BYTES), type=ReachedAt)
    except (OSError, ValueError):
        return None


def home(folder: ServerFolder) -> Home:
    """Return the home of a server's runs."""
    known = read(folder)
    return Home(Path(known.home) if known else folder.home)


def database_url(folder: ServerFolder, environ: Mapping[str, str]) -> str:
    """Return the URL of a server's store.

    Raises:
        UsageError: the server uses another database, whose URL this process lacks.
    """
    if url := environ.get(DATABASE_VARIABLE, "").strip():
        return url
    known = read(folder)
    if known and known.elsewhere:
        text = f"this server's store is the database that {DATABASE_VARIABLE} names"
        hint = "set it as the server has it, as in /etc/rai/server.env"
        raise UsageError(Problem(text, hint=hint))
    return sqlite_url(folder.database)


def sqlite_url(file: Path) -> str:
    """Return the URL of a store in a file."""
    return f"sqlite:///{file}"

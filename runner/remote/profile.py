"""The user's logins, in ``~/.rai_profile``, and which server a run goes to.

The file is YAML: ``host`` is the server that runs go to, ``servers`` has a token for
each. The original rai keeps a user's name there too, under other keys, which stay.
"""

from __future__ import annotations

import os
import stat
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from runner import files
from runner.core import Problem
from runner.core.errors import ConfigError, UsageError
from runner.remote import profile_text
from runner.remote.entries import Logins, ProfileEntry
from runner.remote.problems import LoginNeededError
from runner.slurm import target
from runner.wire import addresses

if TYPE_CHECKING:
    from runner.store.settings import Settings

MOST_BYTES = 256 << 10
FILE = "RAI_PROFILE_FILE"
"""The variable that names another file."""

TOKEN = "RAI_TOKEN"
FINGERPRINT = "RAI_FINGERPRINT"
"""These serve a program without a file, such as a job of CI."""


def path(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the path of the profile."""
    named = environ.get(FILE)
    return Path(named).expanduser() if named else Path.home() / ".rai_profile"


def read(file: Path) -> Logins:
    """Return the logins of a file, none if it is absent or not for this rai.

    A file with tokens that others may read is closed to them, with a warning.
    """
    raw = _raw(file)
    logins, problems = profile_text.parse(raw, str(file))
    if problems and b"servers" in raw:
        warnings.warn(f"no login is read: {problems[0]}", stacklevel=2)
    if logins.servers:
        _close(file)
    return logins


def to_change(file: Path) -> Logins:
    """Return the logins of a file that can be changed; else raise ConfigError."""
    folder = file.resolve().parent
    if not os.access(folder, os.W_OK | os.X_OK):
        hint = f"log in as the user whose it is, or name another file: {FILE}"
        raise ConfigError(Problem(f"no file can be kept in {folder}", hint=hint))
    logins, problems = profile_text.parse(_raw(file), str(file))
    if problems:
        raise ConfigError(*problems)
    return logins


def keep(entry: ProfileEntry, file: Path) -> Logins:
    """Add a login, or replace that of the same server; return what there is then.

    The first one becomes the host.

    Raises:
        ConfigError: the file is another program's, or wrong; it stays as it is.
    """
    found = to_change(file)
    logins = Logins(found.host or entry.url, {**found.servers, entry.url: entry})
    _write(file, logins)
    return logins


def forget(url: str, file: Path) -> None:
    """Remove the login at a server, and the host if it is that; else do nothing."""
    found = to_change(file)
    if url not in (*found.servers, found.host):
        return
    kept = {name: entry for name, entry in found.servers.items() if name != url}
    _write(file, Logins("" if found.host == url else found.host, kept))


def chosen(
    on: str | None, settings: Settings, environ: Mapping[str, str] = os.environ
) -> ProfileEntry | None:
    """Return the server that a run goes to; None if it goes to none.

    What is given with ``--on`` counts before the setting ``server``, and that before
    the profile's host.

    Raises:
        UsageError: ``on`` is no address.
        LoginNeededError: the user is not logged in there.
    """
    if target.parse(on or settings.server or ""):
        return None
    url = address(on) if on else settings.server
    if url == addresses.HERE:
        return None
    logins = read(path(environ))
    url = url or logins.host
    if not url:
        return None
    entry = logins.servers.get(url, ProfileEntry(url))
    # A token of the environment is for the server that the settings name.
    if (token := environ.get(TOKEN, "").strip()) and settings.server in (None, url):
        entry = replace(entry, token=token, fingerprint=_pin(environ, entry))
    if not entry.token:
        text = f"you are not logged in at {url}"
        raise LoginNeededError(url, text)
    return entry


def address(text: str) -> str:
    """Return the address that a command line names, or "here".

    Raises:
        UsageError: it is none.
    """
    if text.strip().lower() == addresses.HERE:
        return addresses.HERE
    try:
        return addresses.normal(text)
    except ValueError as error:
        raise UsageError(f"{text} is no server's address: {error}") from error


def _pin(environ: Mapping[str, str], entry: ProfileEntry) -> str:
    if not (given := environ.get(FINGERPRINT, "").strip()):
        return entry.fingerprint
    if (pin := addresses.fingerprint(given)) is None:
        text = f"{FINGERPRINT} is no fingerprint; expected SHA256: and 64 digits"
        raise ConfigError(text)
    return pin


def _raw(file: Path) -> bytes:
    try:
        return files.read(file, MOST_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return b""
    except OSError as error:
        raise ConfigError(files.problem(error)) from error


def _close(file: Path) -> None:
    """Let nobody but the user read the file."""
    mode = stat.S_IMODE(file.stat().st_mode)
    if not mode & 0o077:
        return
    try:
        file.chmod(0o600)
    except OSError as error:
        text = f"others may read {file}, which has tokens, and it cannot be closed"
        warnings.warn(f"{text}: {error.strerror}", stacklevel=3)
        return
    text = f"others could read {file} (mode {mode:04o}), which has tokens"
    warnings.warn(f"{text}; it is now yours only", stacklevel=3)


def _write(file: Path, logins: Logins) -> None:
    """Write the file, through a link that leads to it."""
    text = profile_text.changed(_raw(file), logins, str(file))
    if text is None:
        what = f"{file} has something that a login would change"
        raise ConfigError(Problem(what, hint=f"move it aside, or name another: {FILE}"))
    files.write(file.resolve(), text.encode(), private=True)

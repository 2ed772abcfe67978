"""The user's logins, in ``~/.rai_profile``, and which server a run goes to."""

from __future__ import annotations

import os
import stat
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from runner.client.problems import LoginNeededError
from runner.core import Problem, addresses
from runner.core.errors import ConfigError, UsageError
from runner.spec import yamlfile
from runner.spec.yamlfile import Node, Problems, ScalarNode, compose, decode, dump, kind
from runner.system import files

if TYPE_CHECKING:
    from runner.store.settings import Settings


MOST_BYTES = 256 << 10
FILE = "RAI_PROFILE_FILE"
"""The variable that names another file."""

TOKEN = "RAI_TOKEN"
FINGERPRINT = "RAI_FINGERPRINT"
"""These serve a program without a file, such as a job of CI."""

OURS = ("host", "servers")
_KEPT = ("token", "fingerprint", "team", "person")


class ProfileEntry(Struct, frozen=True):
    """A server, the token for it, and whose it is.

    ``url`` is as ``core.addresses.normal`` returns it. ``fingerprint`` is that of the
    only certificate that is accepted, "" where the system's certificates decide.
    """

    url: str
    token: str = ""
    fingerprint: str = ""
    team: str = ""
    person: str = ""

    def __repr__(self) -> str:
        return f"ProfileEntry({self.url!r}, person={self.person!r})"  # and no token


class Logins(Struct, frozen=True):
    """The servers that one is logged in at, and the one that runs go to, "" if none."""

    host: str = ""
    servers: dict[str, ProfileEntry] = {}


def path(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the path of the profile."""
    named = environ.get(FILE)
    return Path(named).expanduser() if named else Path.home() / ".rai_profile"


def read(file: Path) -> Logins:
    """Return the logins of a file, none if it is absent or not for this rai.

    A file with tokens that others may read is closed to them, with a warning.
    """
    raw = _raw(file)
    logins, problems = parse(raw, str(file))
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
    logins, problems = parse(_raw(file), str(file))
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
    if addresses.slurm_target(on or settings.server or ""):
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
        given = environ.get(FINGERPRINT, "").strip()
        pin = addresses.fingerprint(given) if given else entry.fingerprint
        if pin is None:
            text = f"{FINGERPRINT} is no fingerprint; expected SHA256: and 64 digits"
            raise ConfigError(text)
        entry = replace(entry, token=token, fingerprint=pin)
    if not entry.token:
        raise LoginNeededError(url, f"you are not logged in at {url}")
    return entry


def login() -> ProfileEntry | None:
    """Return the user's login at the server that runs go to; None if there is none."""
    try:
        return chosen(None, settings())
    except LoginNeededError:
        return None


def settings() -> Settings:
    """Return the user's settings, without a command's options."""
    from runner.store import settings

    return settings.load(os.environ, settings.settings_files(), {})[0]


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
    what = "it is now yours only"
    try:
        file.chmod(0o600)
    except OSError as error:
        what = f"it cannot be closed: {error.strerror}"
    text = f"others could read {file} (mode {mode:04o}), which has tokens; {what}"
    warnings.warn(text, stacklevel=3)


def _write(file: Path, logins: Logins) -> None:
    """Write the file, through a link that leads to it."""
    text = changed(_raw(file), logins, str(file))
    if text is None:
        what = f"{file} has something that a login would change"
        raise ConfigError(Problem(what, hint=f"move it aside, or name another: {FILE}"))
    files.write(file.resolve(), text.encode(), private=True)


def parse(raw: bytes, file: str) -> tuple[Logins, list[Problem]]:
    """Return the logins in a profile; with problems, if it cannot be used or changed.

    An entry with a malformed address or token is ignored.
    """
    found = Problems()
    node = _document(raw, file, found)
    if node is None or found.fatal:
        return Logins(), found.in_file_order() if found.fatal else []
    if not isinstance(node, yamlfile.MappingNode):
        hint = "it is no profile of this rai; move it aside"
        return Logins(), [Problem(f"{kind(node)} is no mapping", node.place, hint)]
    servers = {}
    given = node.get("servers")
    for key, value in given.entries if isinstance(given, yamlfile.MappingNode) else ():
        url = addresses.spelled(key.text)
        if isinstance(value, yamlfile.MappingNode) and url and url != addresses.HERE:
            servers[url] = ProfileEntry(url, **_texts(value))
    host = node.get("host")
    named = addresses.spelled(host.text) if isinstance(host, ScalarNode) else None
    # Of a file without logins it may be somebody else's.
    return Logins((named or "") if given is not None else "", servers), []


def changed(raw: bytes, logins: Logins, file: str) -> str | None:
    """Return a profile's text with other logins; None if more of it would change."""
    found = Problems()
    before = _document(raw, file, found)
    text = raw.decode(errors="replace")
    if isinstance(before, yamlfile.MappingNode):
        text = _without(text, before)
    if text and not text.endswith("\n"):
        text += "\n"
    servers = {
        entry.url: {key: value for key in _KEPT if (value := getattr(entry, key))}
        for entry in logins.servers.values()
    }
    host = {"host": logins.host} if logins.host else {}
    text += dump({**host, "servers": servers}) if servers or host else ""
    after = _document(text.encode(), file, found)
    same = _others(before) == _others(after) and not found.fatal
    return text if same and parse(text.encode(), file)[0] == logins else None


def _document(raw: bytes, file: str, problems: Problems) -> Node | None:
    text = decode(raw, file, problems)
    return compose(text, file, problems) if text is not None else None


def _texts(node: yamlfile.MappingNode) -> dict[str, str]:
    values = {key: node.get(key) for key in _KEPT}
    texts = {k: v.text.strip() for k, v in values.items() if isinstance(v, ScalarNode)}
    pin = addresses.fingerprint(texts.pop("fingerprint", ""))
    return {**texts, "fingerprint": pin or ""}


def _without(text: str, node: yamlfile.MappingNode) -> str:
    """Return the text without the lines of our keys; comments before others stay."""
    lines = text.splitlines(keepends=True)
    starts = [key.place.line - 1 for key, _ in node.entries]
    gone: set[int] = set()
    for (key, _), start in zip(node.entries, starts, strict=True):
        if key.text in OURS:
            end = min((s for s in starts if s > start), default=len(lines))
            while end > start + 1 and not lines[end - 1].partition("#")[0].strip():
                end -= 1
            gone |= set(range(start, end))
    return "".join(line for at, line in enumerate(lines) if at not in gone)


def _others(node: Node | None) -> list[str]:
    """Return the keys that are not ours."""
    entries = node.entries if isinstance(node, yamlfile.MappingNode) else ()
    return [key.text for key, _ in entries if key.text not in OURS]

"""A project's commit, and whether its files differ from it."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from runner import files, process
from runner.core import GitState, Stream
from runner.core.cancel import Cancel
from runner.core.errors import EngineError
from runner.core.events import Output
from runner.git import repository as parts
from runner.git.repository import COMMIT, GIT, SMALL_BYTES, Repository

TIME_S = 5.0
DETACHED = "(detached)"

_SETTINGS = (
    "core.autocrlf",
    "core.checkstat",
    "core.eol",
    "core.filemode",
    "core.ignorecase",
    "core.precomposeunicode",
    "core.symlinks",
    "core.trustctime",
    "status.showuntrackedfiles",
)
"""The settings that affect which files differ; their values are plain words."""

_WORD = re.compile("[A-Za-z0-9]*")
_IGNORED = "core.excludesfile"


def state(project: Path) -> GitState | None:
    """Return the project's commit; None outside a repository or before the first."""
    found = parts.around(project)
    head = _head(found) if found else None
    return GitState(*head, _dirty(found, head[0])) if found and head else None


def _head(repository: Repository) -> tuple[str, str] | None:
    """Return the commit and the branch."""
    text, branch = parts.followed(repository, "HEAD")
    if not COMMIT.fullmatch(text) or not branch.isprintable():
        return None
    return text, branch or DETACHED


def _dirty(repository: Repository, commit: str) -> bool | None:
    """Whether files differ from the commit; None if that is not known."""
    try:
        with parts.emptied(commit) as own:
            _ignore(own, repository)
            argv = [*GIT, *_options(own, repository), "status", "-z"]
            argv += ["--porcelain", "--ignore-submodules=all"]
            environment = parts.environment(own, repository) | {
                "GIT_WORK_TREE": str(repository.tree),
                "GIT_INDEX_FILE": str(repository.own / "index"),
            }
            return _prints_anything(argv, environment)
    except (OSError, EngineError):
        return None


def _ignore(own: Path, repository: Repository) -> None:
    """Ignore what the project's info/exclude says."""
    with suppress(FileNotFoundError):
        ignored = files.read_below(repository.shared, "info/exclude", SMALL_BYTES)
        (own / "info" / "exclude").write_bytes(ignored)


def _options(own: Path, repository: Repository) -> list[str]:
    """Return options for the harmless settings of the user, then the project."""
    users = _settings([], {**os.environ, "GIT_DIR": str(own)})
    try:
        text = files.read_below(repository.shared, "config", SMALL_BYTES)
    except FileNotFoundError:
        text = b""
    # Do not read the files that it includes.
    where = ["--no-includes", "--file", "-"]
    projects = _settings(where, dict(os.environ), text or b"\n")
    both = {
        name: value for name, value in (users | projects).items() if name != _IGNORED
    }
    kept = {name: value for name, value in both.items() if _WORD.fullmatch(value)}
    usual = f"{os.environ.get('XDG_CONFIG_HOME') or '~/.config'}/git/ignore"
    kept[_IGNORED] = str(Path(users.get(_IGNORED) or usual).expanduser())
    return [word for pair in kept.items() for word in ("-c", "=".join(pair))]


def _settings(
    where: list[str], environment: dict[str, str], text: bytes | None = None
) -> dict[str, str]:
    # By name: the list of all settings could be far larger.
    names = "|".join(map(re.escape, (*_SETTINGS, _IGNORED)))
    argv = ["git", "config", "-z", *where, "--get-regexp", f"^({names})$"]
    done = process.run(argv, input=text, timeout_s=TIME_S, env=environment)
    pairs = (item.partition("\n") for item in os.fsdecode(done.stdout).split("\0"))
    # A name without `=` stands for true.
    return {name: value if equals else "true" for name, equals, value in pairs if name}


def _prints_anything(argv: list[str], environment: dict[str, str]) -> bool | None:
    """Whether a program prints anything to stdout; None if it fails first."""
    running = process.stream(
        argv,
        timeout_s=TIME_S,
        cancel=Cancel(),
        room=process.room(SMALL_BYTES),
        grace_s=0.0,
        env=environment,
    )
    while True:
        try:
            event = next(running)
        except StopIteration as end:
            ended: process.Ended = end.value
            return False if ended.exit_code == 0 and not ended.reason else None
        if isinstance(event, Output) and event.stream is Stream.STDOUT:
            running.close()
            return True

"""Read a project's commit without starting any program that the project names.

The settings of a repository and its submodules can name programs: hooks, filters,
transports, monitors. So git is never run with them. HEAD and the refs are read here.
Whether files differ is found by git in an empty temporary repository that uses the
project's objects and index.
"""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

from msgspec import Struct

from runner import files, machine, process
from runner.core import GitState, Stream
from runner.core.cancel import Cancel
from runner.core.errors import EngineError
from runner.core.events import Output

TIME_S = 5.0
SMALL_BYTES = 1 << 20
PACKED_REFS_BYTES = 1 << 26
MEMORY_KIB = 4 << 20
MOST_REFS = 5
DETACHED = "(detached)"

_COMMIT = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")
_SHA256_DIGITS = 64

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

_WITHIN_LIMITS = ("/bin/sh", "-c", f'ulimit -v {MEMORY_KIB} 2>/dev/null; exec "$@"')
_STATUS = (
    "git",
    # Map large packs piece by piece, to stay below the memory limit.
    *("-c", "core.packedGitWindowSize=32m"),
    *("-c", "core.packedGitLimit=512m"),
)


class _Repository(Struct, frozen=True):
    """The paths of a working tree, its own git folder and the shared one."""

    tree: Path
    own: Path
    shared: Path


def state(project: Path) -> GitState | None:
    """Return the project's commit; None outside a repository or before the first."""
    for folder in (project, *project.parents):
        found = _repository(folder)
        if found is not None:
            head = _head(found)
            return GitState(*head, _dirty(found, head[0])) if head else None
    return None


def _repository(folder: Path) -> _Repository | None:
    try:
        own = Path(os.path.realpath(folder / ".git"))
        if not own.is_dir():
            word, _, place = _text(folder, ".git").partition(": ")
            if word != "gitdir":
                return None
            own = Path(os.path.realpath(folder / place))
        _text(own, "HEAD")
        try:
            shared = Path(os.path.realpath(own / _text(own, "commondir")))
        except FileNotFoundError:
            shared = own
    except (OSError, ValueError):
        return None
    return _Repository(folder, own, shared)


def _head(repository: _Repository) -> tuple[str, str] | None:
    """Return the commit and the branch."""
    text, branch = _ref(repository, "HEAD"), ""
    for _ in range(MOST_REFS):
        if not text.startswith("ref: refs/"):
            break
        name = text.removeprefix("ref: ")
        branch = branch or name.removeprefix("refs/heads/")
        text = _ref(repository, name)
    if not _COMMIT.fullmatch(text) or not branch.isprintable():
        return None
    return text, branch or DETACHED


def _ref(repository: _Repository, name: str) -> str:
    for folder in (repository.own, repository.shared):
        try:
            return _text(folder, name)
        except (OSError, ValueError):
            continue
    try:
        packed = files.read_below(repository.shared, "packed-refs", PACKED_REFS_BYTES)
    except OSError:
        return ""
    line = rb"^([0-9a-f]+) " + re.escape(os.fsencode(name)) + b"$"
    match = re.search(line, packed, re.MULTILINE)
    return match[1].decode() if match else ""


def _text(folder: Path, name: str) -> str:
    return os.fsdecode(files.read_below(folder, name, SMALL_BYTES)).strip()


def _dirty(repository: _Repository, commit: str) -> bool | None:
    """Whether files differ from the commit; None if that is not known."""
    try:
        prefix = f"rai-git-{machine.this_process().tag}-"
        with tempfile.TemporaryDirectory(prefix=prefix) as folder:
            own = Path(folder)
            _make_empty(own, repository, commit)
            options = _options(own, repository)
            argv = [*_WITHIN_LIMITS, "rai", *_STATUS, *options, "status", "-z"]
            argv += ["--porcelain", "--ignore-submodules=all"]
            return _prints_anything(argv, _environment(own, repository))
    except (OSError, EngineError):
        return None


def _make_empty(own: Path, repository: _Repository, commit: str) -> None:
    """Make a repository with only HEAD and the project's info/exclude."""
    for name in ("info", "objects", "refs"):
        (own / name).mkdir()
    (own / "HEAD").write_text(f"{commit}\n")
    if len(commit) == _SHA256_DIGITS:
        version = "[core]\nrepositoryformatversion = 1\n"
        (own / "config").write_text(f"{version}[extensions]\nobjectFormat = sha256\n")
    try:
        ignored = files.read_below(repository.shared, "info/exclude", SMALL_BYTES)
    except FileNotFoundError:
        return
    (own / "info" / "exclude").write_bytes(ignored)


def _options(own: Path, repository: _Repository) -> list[str]:
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


def _environment(own: Path, repository: _Repository) -> dict[str, str]:
    hidden = ("GIT_", "XDG_CONFIG_HOME")
    kept = {name: v for name, v in os.environ.items() if not name.startswith(hidden)}
    return kept | {
        "HOME": str(own),
        "GIT_DIR": str(own),
        "GIT_WORK_TREE": str(repository.tree),
        "GIT_INDEX_FILE": str(repository.own / "index"),
        "GIT_OBJECT_DIRECTORY": str(repository.shared / "objects"),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "none",
    }


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

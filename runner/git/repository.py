"""A project's commit, and whether its files differ: git in an empty repository.

The settings of a repository and its submodules can name programs: hooks, filters,
transports, monitors. So git is never run with them. HEAD and the refs are read here,
and git runs in an empty temporary repository that uses the project's objects.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from runner import files, machine, process
from runner.core import GitState, Stream
from runner.core.cancel import Cancel
from runner.core.errors import EngineError
from runner.core.events import Output

SMALL_BYTES = 1 << 20
PACKED_REFS_BYTES = 1 << 26
MEMORY_KIB = 4 << 20
MOST_REFS = 5

ALTERNATES = "info/alternates"
"""Where a repository lists others whose objects are its own too."""

COMMIT = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")
_SHA256_DIGITS = 64

_WITHIN_LIMITS = ("/bin/sh", "-c", f'ulimit -v {MEMORY_KIB} 2>/dev/null; exec "$@"')
GIT = (
    *_WITHIN_LIMITS,
    *("rai", "git"),
    # Map large packs piece by piece, to stay below the memory limit.
    *("-c", "core.packedGitWindowSize=32m"),
    *("-c", "core.packedGitLimit=512m"),
)
"""The beginning of a command line that runs git within a limit of memory."""

STATUS_S = 5.0
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


class Repository(Struct, frozen=True):
    """The paths of a working tree, its own git folder and the shared one."""

    tree: Path
    own: Path
    shared: Path


def around(project: Path) -> Repository | None:
    """Return the repository that a folder is in; None outside of any."""
    folders = (project, *project.parents)
    return next(filter(None, map(_repository, folders)), None)


def _repository(folder: Path) -> Repository | None:
    try:
        own = Path(os.path.realpath(folder / ".git"))
        if not own.is_dir():
            word, _, place = text_below(folder, ".git").partition(": ")
            if word != "gitdir":
                return None
            own = Path(os.path.realpath(folder / place))
        text_below(own, "HEAD")
        try:
            shared = Path(os.path.realpath(own / text_below(own, "commondir")))
        except FileNotFoundError:
            shared = own
    except (OSError, ValueError):
        return None
    return Repository(folder, own, shared)


def followed(repository: Repository, name: str) -> tuple[str, str]:
    """Return what a ref leads to, and the branch that it names on the way, if any."""
    text, branch = _ref(repository, name), ""
    for _ in range(MOST_REFS):
        if not text.startswith("ref: refs/"):
            break
        name = text.removeprefix("ref: ")
        branch = branch or name.removeprefix("refs/heads/")
        text = _ref(repository, name)
    return text, branch


def _ref(repository: Repository, name: str) -> str:
    for folder in (repository.own, repository.shared):
        try:
            return text_below(folder, name)
        except (OSError, ValueError):
            continue
    try:
        packed = files.read_below(repository.shared, "packed-refs", PACKED_REFS_BYTES)
    except OSError:
        return ""
    line = rb"^([0-9a-f]+) " + re.escape(os.fsencode(name)) + b"$"
    match = re.search(line, packed, re.MULTILINE)
    return match[1].decode() if match else ""


def text_below(folder: Path, name: str) -> str:
    """Return a small text file of a git folder; raise OSError if there is none."""
    return os.fsdecode(files.read_below(folder, name, SMALL_BYTES)).strip()


def borrows(repository: Repository) -> bool:
    """Whether git would read objects elsewhere, wherever a list or a link of it leads.

    So a project could name any file on this machine that git can read.
    """
    objects = repository.shared / "objects"
    if os.path.lexists(objects / ALTERNATES):
        try:
            if text_below(objects, ALTERNATES):
                return True
        except OSError:
            return True
    return objects.is_symlink() or _has_links(objects) or _has_links(objects / "pack")


def _has_links(folder: Path) -> bool:
    try:
        with os.scandir(folder) as entries:
            return any(entry.is_symlink() for entry in entries)
    except OSError:
        return False


@contextmanager
def emptied(commit: str) -> Iterator[Path]:
    """Make a repository with nothing but a HEAD, for a while."""
    prefix = f"rai-git-{machine.this_process().tag}-"
    with tempfile.TemporaryDirectory(prefix=prefix) as folder:
        own = Path(folder)
        _make_empty(own, commit)
        yield own


def _make_empty(own: Path, commit: str) -> None:
    for name in ("info", "objects", "refs"):
        (own / name).mkdir()
    (own / "HEAD").write_text(f"{commit}\n")
    if len(commit) == _SHA256_DIGITS:
        version = "[core]\nrepositoryformatversion = 1\n"
        (own / "config").write_text(f"{version}[extensions]\nobjectFormat = sha256\n")


def environment(own: Path, repository: Repository) -> dict[str, str]:
    """Return the variables for git in an empty repository with another's objects."""
    hidden = ("GIT_", "XDG_CONFIG_HOME")
    kept = {name: v for name, v in os.environ.items() if not name.startswith(hidden)}
    return kept | {
        "HOME": str(own),
        "GIT_DIR": str(own),
        "GIT_OBJECT_DIRECTORY": str(repository.shared / "objects"),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "none",
    }


def state(project: Path) -> GitState | None:
    """Return the project's commit; None outside a repository or before the first."""
    found = around(project)
    head = _head(found) if found else None
    return GitState(*head, _dirty(found, head[0])) if found and head else None


def _head(repository: Repository) -> tuple[str, str] | None:
    """Return the commit and the branch."""
    text, branch = followed(repository, "HEAD")
    if not COMMIT.fullmatch(text) or not branch.isprintable():
        return None
    return text, branch or DETACHED


def _dirty(repository: Repository, commit: str) -> bool | None:
    """Whether files differ from the commit; None if that is not known."""
    try:
        with emptied(commit) as own:
            _ignore(own, repository)
            argv = [*GIT, *_options(own, repository), "status", "-z"]
            argv += ["--porcelain", "--ignore-submodules=all"]
            variables = environment(own, repository) | {
                "GIT_WORK_TREE": str(repository.tree),
                "GIT_INDEX_FILE": str(repository.own / "index"),
            }
            return _prints_anything(argv, variables)
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
    done = process.run(argv, input=text, timeout_s=STATUS_S, env=environment)
    pairs = (item.partition("\n") for item in os.fsdecode(done.stdout).split("\0"))
    # A name without `=` stands for true.
    return {name: value if equals else "true" for name, equals, value in pairs if name}


def _prints_anything(argv: list[str], environment: dict[str, str]) -> bool | None:
    """Whether a program prints anything to stdout; None if it fails first."""
    running = process.stream(
        argv,
        timeout_s=STATUS_S,
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

"""A project's commits: git in an empty repository, which starts nothing it names."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from runner.core import GitState, Problem, Reason, Stream
from runner.core.errors import Cancel, EngineError, RaiError, UsageError
from runner.core.events import Output
from runner.core.screen import printable
from runner.system import child, files, machine, process

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
        for name in ("info", "objects", "refs"):
            (own / name).mkdir()
        (own / "HEAD").write_text(f"{commit}\n")
        if len(commit) == _SHA256_DIGITS:
            text = "[core]\nrepositoryformatversion = 1\n"
            text += "[extensions]\nobjectFormat = sha256\n"
            (own / "config").write_text(text)
        yield own


def git_environment(own: Path, repository: Repository) -> dict[str, str]:
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
    if (found := around(project)) is None:
        return None
    commit, branch = followed(found, "HEAD")
    if not COMMIT.fullmatch(commit) or not branch.isprintable():
        return None
    return GitState(commit, branch or DETACHED, _dirty(found, commit))


def _dirty(repository: Repository, commit: str) -> bool | None:
    """Whether files differ from the commit; None if that is not known."""
    try:
        with emptied(commit) as own:
            with suppress(FileNotFoundError):
                where = repository.shared
                ignored = files.read_below(where, "info/exclude", SMALL_BYTES)
                (own / "info" / "exclude").write_bytes(ignored)
            argv = [*GIT, *_options(own, repository), "status", "-z"]
            argv += ["--porcelain", "--ignore-submodules=all"]
            variables = git_environment(own, repository) | {
                "GIT_WORK_TREE": str(repository.tree),
                "GIT_INDEX_FILE": str(repository.own / "index"),
            }
            room = process.room(SMALL_BYTES)
            with closing(_printed(argv, variables, STATUS_S, room, Cancel())) as status:
                try:
                    next(status)
                except StopIteration as end:
                    ended: child.Ended = end.value[0]
                    return None if ended.exit_code or ended.reason else False
            return True
    except (OSError, EngineError):
        return None


def _printed(
    argv: list[str],
    environment: dict[str, str],
    timeout_s: float,
    room: process.Room,
    cancel: Cancel,
    cwd: Path | None = None,
) -> Generator[bytes, None, tuple[child.Ended, str]]:
    """Yield what a program prints to stdout; return how it ended, and its stderr."""
    said = b""
    running = process.stream(
        argv,
        timeout_s=timeout_s,
        cancel=cancel,
        room=room,
        grace_s=0.0,
        env=environment,
        cwd=cwd,
    )
    with closing(running):
        while True:
            try:
                event = next(running)
            except StopIteration as end:
                return end.value, said.decode(errors="replace")
            if isinstance(event, Output) and event.stream is Stream.STDOUT:
                yield event.data
            elif isinstance(event, Output):
                said += event.data


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


LOOK_UP_S = 30.0
READ_S = 600.0
STDERR_BYTES = 1 << 16
LONGEST_NAME = 1000

_NAME = re.compile(r"([^~^:?*\[\\\s\x00-\x1f\x7f]+)((?:[~^][0-9]{0,6})*)")
"""A ref or the beginning of a hash, then steps to parents; no other form of git's."""

_HASH = re.compile("[0-9a-f]{4,64}")
_AT_THE_TOP = re.compile("[A-Z_]+|refs/.*")
_BRANCHES = "refs/heads/", "refs/remotes/"
_PLACES = (
    "{}",
    "refs/{}",
    "refs/tags/{}",
    "refs/heads/{}",
    "refs/remotes/{}",
    "refs/remotes/{}/HEAD",
)
"""Where git looks for a ref of a short name, in its order."""

RAW = "* -export-ignore -export-subst -text -eol -ident -filter -working-tree-encoding"
"""Attributes that give each file as it was committed; they override the project's."""


class ProjectCommit(Struct, frozen=True):
    """A commit; ``folder`` is the project's in it, "" for the whole repository.

    ``tree`` is the working tree of the repository. ``submodules`` says whether the
    commit has any, whose files are not its own.
    """

    asked: str
    state: GitState
    tree: Path
    folder: str = ""
    submodules: bool = False

    @property
    def short(self) -> str:
        """The beginning of its hash, as git shows it."""
        return self.state.commit[:10]


def find(project: Path, name: str) -> ProjectCommit | None:
    """Return the commit of the project's repository that has a name; None if none has.

    The name is a branch, a tag, another ref, a hash or its beginning, with ``~N`` and
    ``^N`` for its parents.

    Raises:
        UsageError: the project is in no repository, or not in that commit; or git is
            not installed.
    """
    project = project.resolve()
    repository = around(project)
    if repository is None:
        text = f"{project} is in no git repository, so {printable(name)} is no commit"
        raise UsageError(Problem(text, hint="name a folder"))
    if shutil.which("git") is None:
        text = f"git is not installed, which {printable(name)} needs"
        raise UsageError(Problem(text, hint="install it, or name a folder"))
    _refuse_borrowed(repository)
    found = _named(repository, name)
    if found is None:
        return None
    start, branch = found
    branch = branch if branch.isprintable() else ""
    commit = _asked(repository, "rev-parse", "--verify", "--quiet", start)
    if not COMMIT.fullmatch(commit):
        return None
    folder = "/".join(project.relative_to(repository.tree).parts)
    kind = folder and _asked(repository, "cat-file", "-t", f"{commit}:{folder}")
    if folder and kind != "tree":
        raise UsageError(f"commit {commit[:10]} has no folder {printable(folder)}")
    modules = _asked(repository, "cat-file", "-t", f"{commit}:.gitmodules")
    state = GitState(commit, branch or DETACHED)
    return ProjectCommit(name, state, repository.tree, folder, modules == "blob")


def unknown(project: Path, name: str) -> Problem:
    """Return the problem of a name that no commit has, and what to do."""
    repository = around(project.resolve())
    text = f"{printable(name)} is neither a folder nor a commit of this repository"
    if repository and (repository.shared / "shallow").exists():
        hint = (
            "it is a shallow clone, which lacks older commits: `git fetch --unshallow`"
            " gets them; in CI say `fetch-depth: 0` (GitHub) or `GIT_DEPTH: 0` (GitLab)"
        )
        return Problem(text, hint=hint)
    return Problem(text, hint="`git log` lists the commits; `git fetch` gets new ones")


def files_of(
    commit: ProjectCommit, most_bytes: int, cancel: Cancel
) -> Generator[bytes, None, None]:
    """Yield a commit's files as an uncompressed tar stream of ``most_bytes`` at most.

    They are as they were committed: nothing is filtered or converted, no line ending
    changed. A submodule is an empty folder. Closing the iterator early ends git.

    Raises:
        UsageError: git cannot read them, or they are larger.
        RaiError: it was cancelled (cancelled).
    """
    repository = around(commit.tree)
    if repository is None:
        raise UsageError(f"{commit.tree} is no git repository any more")
    _refuse_borrowed(repository)
    only = [f":(top,literal){commit.folder}"] if commit.folder else []
    argv = [*GIT, "-c", "tar.umask=0022", "archive", "--format=tar"]
    argv += [commit.state.commit, "--", *only]
    with emptied(commit.state.commit) as own:
        (own / "info" / "attributes").write_text(f"{RAW}\n")
        environment = git_environment(own, repository)
        room = {Stream.STDOUT: most_bytes, Stream.STDERR: STDERR_BYTES}
        found = _printed(argv, environment, READ_S, room, cancel, own)
        ended, said = yield from found
    _refuse_failed(commit, ended, said)


def _refuse_borrowed(repository: Repository) -> None:
    if borrows(repository):
        text = f"the repository of {repository.tree} borrows files of another one"
        hint = (
            "check the commit out with `git worktree add`, and name that folder; or"
            " make a whole clone, without --shared or --reference"
        )
        raise UsageError(Problem(text, hint=hint))


def _named(repository: Repository, name: str) -> tuple[str, str] | None:
    """Return what a name begins with as git understands it here, and its branch."""
    match = _NAME.fullmatch(name) if len(name) <= LONGEST_NAME else None
    if match is None:
        return None
    base, steps = match.groups()
    base = "HEAD" if base == "@" else base
    if "@{" in base or ".." in base or base[0] in "-/":
        return None
    text, branch = (
        ("", "") if COMMIT.fullmatch(base) else _target_of_ref(repository, base)
    )
    if not COMMIT.fullmatch(text):
        text, branch = base, ""
    if not _HASH.fullmatch(text):
        return None
    return f"{text}{steps}^{{commit}}", "" if steps else branch


def _target_of_ref(repository: Repository, name: str) -> tuple[str, str]:
    """Return what a ref of a short name leads to, and its branch if it is one."""
    for place in _PLACES:
        full = place.format(name)
        if place == "{}" and not _AT_THE_TOP.fullmatch(full):
            continue
        text, branch = followed(repository, full)
        if COMMIT.fullmatch(text):
            begin = next((b for b in _BRANCHES if full.startswith(b)), "")
            return text, branch or (full.removeprefix(begin) if begin else "")
    return "", ""


def _asked(repository: Repository, *words: str) -> str:
    """Return the line that git prints; "" if it fails."""
    # Its HEAD says which kind of hashes it has.
    with emptied(followed(repository, "HEAD")[0]) as own:
        environment = git_environment(own, repository)
        argv = [*GIT, *words]
        try:
            done = process.run(argv, timeout_s=LOOK_UP_S, env=environment, cwd=own)
        except EngineError as error:
            text = f"git cannot read the repository of {repository.tree}: {error}"
            raise UsageError(Problem(text, hint="`git fsck` checks it")) from error
    return done.stdout.decode(errors="replace").strip() if not done.exit_code else ""


def _refuse_failed(commit: ProjectCommit, ended: child.Ended, said: str) -> None:
    where = f"commit {commit.short} of {commit.tree}"
    if ended.reason is Reason.OUTPUT_LIMIT:
        text = f"{where} holds more than rai takes out of a repository"
        hint = "check it out with `git worktree add`, and name that folder"
        raise UsageError(Problem(text, hint=hint))
    if ended.reason is Reason.CANCELLED:
        raise RaiError("reading the commit was cancelled", reason=Reason.CANCELLED)
    if ended.reason or ended.exit_code:
        why = printable(said.strip().rpartition("\n")[2]) or "git failed"
        hint = "`git fsck` checks the repository; a partial clone lacks files"
        raise UsageError(Problem(f"{where} cannot be read: {why}", hint=hint))

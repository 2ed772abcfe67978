"""A commit of a project's repository by its name, and its files as a tar stream.

Refs are read here; git reads objects only, in an empty repository, so that no filter,
hook, setting or submodule of the project counts.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Generator
from contextlib import closing
from pathlib import Path

from msgspec import Struct

from runner import process
from runner.core import GitState, Problem, Reason, Stream
from runner.core.cancel import Cancel
from runner.core.errors import EngineError, RaiError, UsageError
from runner.core.events import Output
from runner.core.screen import printable
from runner.git import repository as parts
from runner.git.repository import COMMIT, DETACHED, GIT, Repository

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
    repository = parts.around(project)
    if repository is None:
        text = f"{project} is in no git repository, so {printable(name)} is no commit"
        raise UsageError(Problem(text, hint="name a folder"))
    _refuse_without_git(name)
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
    repository = parts.around(project.resolve())
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
    repository = parts.around(commit.tree)
    if repository is None:
        raise UsageError(f"{commit.tree} is no git repository any more")
    _refuse_borrowed(repository)
    only = [f":(top,literal){commit.folder}"] if commit.folder else []
    argv = [*GIT, "-c", "tar.umask=0022", "archive", "--format=tar"]
    argv += [commit.state.commit, "--", *only]
    said = b""
    with parts.emptied(commit.state.commit) as own:
        (own / "info" / "attributes").write_text(f"{RAW}\n")
        running = process.stream(
            argv,
            timeout_s=READ_S,
            cancel=cancel,
            room={Stream.STDOUT: most_bytes, Stream.STDERR: STDERR_BYTES},
            grace_s=0.0,
            env=parts.environment(own, repository),
            cwd=own,
        )
        with closing(running):
            while True:
                try:
                    event = next(running)
                except StopIteration as end:
                    ended: process.Ended = end.value
                    break
                if isinstance(event, Output) and event.stream is Stream.STDOUT:
                    yield event.data
                elif isinstance(event, Output):
                    said += event.data
    _refuse_failed(commit, ended, said.decode(errors="replace"))


def _refuse_without_git(name: str) -> None:
    if shutil.which("git") is None:
        text = f"git is not installed, which {printable(name)} needs"
        raise UsageError(Problem(text, hint="install it, or name a folder"))


def _refuse_borrowed(repository: Repository) -> None:
    if parts.borrows(repository):
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
    text, branch = ("", "") if COMMIT.fullmatch(base) else _ref(repository, base)
    if not COMMIT.fullmatch(text):
        text, branch = base, ""
    if not _HASH.fullmatch(text):
        return None
    return f"{text}{steps}^{{commit}}", "" if steps else branch


def _ref(repository: Repository, name: str) -> tuple[str, str]:
    """Return what a ref of a short name leads to, and its branch if it is one."""
    for place in _PLACES:
        full = place.format(name)
        if place == "{}" and not _AT_THE_TOP.fullmatch(full):
            continue
        text, branch = parts.followed(repository, full)
        if COMMIT.fullmatch(text):
            begin = next((b for b in _BRANCHES if full.startswith(b)), "")
            return text, branch or (full.removeprefix(begin) if begin else "")
    return "", ""


def _asked(repository: Repository, *words: str) -> str:
    """Return the line that git prints; "" if it fails."""
    # Its HEAD says which kind of hashes it has.
    with parts.emptied(parts.followed(repository, "HEAD")[0]) as own:
        environment = parts.environment(own, repository)
        argv = [*GIT, *words]
        try:
            done = process.run(argv, timeout_s=LOOK_UP_S, env=environment, cwd=own)
        except EngineError as error:
            text = f"git cannot read the repository of {repository.tree}: {error}"
            raise UsageError(Problem(text, hint="`git fsck` checks it")) from error
    return done.stdout.decode(errors="replace").strip() if not done.exit_code else ""


def _refuse_failed(commit: ProjectCommit, ended: process.Ended, said: str) -> None:
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

"""The files that an image build sees, and their checksum."""

from __future__ import annotations

import hashlib
import os
import posixpath
import re
import stat
import tarfile
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

from docker.utils.fnmatch import translate
from msgspec import Struct

from runner.core import Problem
from runner.core.errors import ImageError
from runner.pack import Project
from runner.spec import patterns
from runner.system import files
from runner.system.files import MOST_LINKS

MOST_BYTES = 1 << 20


def names(project: Project, dockerfile: str) -> list[str]:
    """List what is sent and .dockerignore leaves, sorted, the Dockerfile first."""
    folder, sent = project.folder, project.names()
    ignore = DockerIgnore(read_text(folder, IGNORE_FILE) or "", dockerfile)
    first = posixpath.normpath(dockerfile)
    there = [first] if os.path.lexists(folder / first) else []
    return [*there, *sorted(ignore.left(sent) - {first})]


def checksum(project: Path, names: list[str]) -> str:
    """Return a checksum of names, kinds, execute bits and contents, not of times."""
    total = hashlib.sha256()
    for name in names:
        try:
            kind = _kind(project, name).encode(errors="surrogateescape")
        except OSError as error:
            raise _changed(name, error) from error
        total.update(name.encode(errors="surrogateescape") + b"\0" + kind + b"\n")
    return total.hexdigest()


def archive(project: Path, names: list[str], dockerfile: str, text: str) -> IO[bytes]:
    """Pack the files of a build into a file that has no name.

    buildx looks at the first 1,024 bytes to tell an archive from a Dockerfile, which is
    why no extended header may come first: GNU's format, and whole seconds.

    Raises:
        ImageError: a file cannot be read, or the Dockerfile is not ``text`` any more,
            which was checked.
    """
    with files.naming(Path(tempfile.gettempdir())), ExitStack() as stack:
        packed = stack.enter_context(tempfile.TemporaryFile())
        contents: dict[str, tuple[int, int]] = {}
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as tar:
            for name in names:
                try:
                    _add(tar, project, name, contents)
                except OSError as error:
                    if error.errno in files.FULL:
                        raise
                    raise _changed(name, error) from error
            links = {m.name: m.linkname for m in tar.getmembers() if m.issym()}
        start, size = contents.get(_followed(dockerfile, links), (0, 0))
        packed.seek(start)
        if packed.read(min(size, MOST_BYTES + 1)).decode(errors="replace") != text:
            raise changed(dockerfile)
        packed.seek(0)
        stack.pop_all()  # the caller closes it
        return packed


def read_text(project: Path, name: str) -> str | None:
    """Read a file that says how to build; None where there is none, else ImageError."""
    try:
        return files.read_below(project, name, MOST_BYTES).decode(errors="replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        text = f"`{name}` cannot be read: {error.strerror}"
        raise ImageError(text) from error


def changed(dockerfile: str) -> ImageError:
    """Return the error for a Dockerfile that is not the one that was checked."""
    text = f"`{dockerfile}` was changed while its build was prepared"
    return ImageError(Problem(text, hint="start the run again"))


def _changed(name: str, error: OSError) -> ImageError:
    text = f"{name!r} cannot be packed for the build: {error.strerror or error}"
    return ImageError(Problem(text, hint="try again, if it changed meanwhile"))


def _kind(project: Path, name: str) -> str:
    path = project / name
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        return f"link {path.readlink()}"
    if not stat.S_ISREG(mode):
        return "folder" if stat.S_ISDIR(mode) else "other"
    with files.open_below(project, name) as file:
        content = hashlib.file_digest(file, "sha256").hexdigest()
    return f"{'program' if mode & stat.S_IXUSR else 'file'} {content}"


def _add(
    tar: tarfile.TarFile,
    project: Path,
    name: str,
    contents: dict[str, tuple[int, int]],
) -> None:
    """Add a file; note where its content begins, and its size."""
    member: tarfile.TarInfo | None = tar.gettarinfo(project / name, name)
    if member is None:  # a socket
        return
    # Forget who owns a file here: the builder's cache would count it.
    member.uid = member.gid = 0
    member.mtime = int(member.mtime)
    member.uname = member.gname = ""
    if member.isreg():
        with files.open_below(project, name) as file:
            tar.addfile(member, file)
        padded = -(-member.size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
        contents[name] = tar.offset - padded, member.size
    elif member.isdir() or member.issym() or member.islnk():
        tar.addfile(member)
    if member.islnk():  # to one that was added before
        contents[name] = contents[member.linkname]


def _followed(name: str, links: Mapping[str, str]) -> str:
    """Return the name that the links of an archive lead to, as its root is the top."""
    ahead, at, left = posixpath.normpath(name).split("/")[::-1], list[str](), MOST_LINKS
    while ahead:
        part = ahead.pop()
        if part in ("", "."):
            continue
        if part == "..":
            at = at[:-1]
            continue
        target = links.get("/".join((*at, part)))
        if target is None or not left:
            at.append(part)
            continue
        left -= 1
        at = [] if target.startswith("/") else at
        ahead += target.split("/")[::-1]
    return "/".join(at)


IGNORE_FILE = ".dockerignore"
MOST_PATTERNS = 1000
LONGEST = 1000


class _Rule(Struct, frozen=True):
    """One line: what it says of a path, and how many folders deep it reaches."""

    path: str
    brings_back: bool
    compiled: Any

    @property
    def depth(self) -> int:
        return self.path.count("/") + 1


class DockerIgnore:
    """The rules of a .dockerignore, as Docker's client reads them.

    The Dockerfile and the file itself are always sent. Upper and lower case are the
    same, as for the SDK, whose translation of patterns this uses.
    """

    def __init__(self, text: str, dockerfile: str) -> None:
        """Read the lines; raise ImageError if they are too many or too complex."""
        lines = [line.strip() for line in text.splitlines()]
        lines = [line for line in lines if line and not line.startswith("#")]
        if len(lines) > MOST_PATTERNS:
            text = f"{IGNORE_FILE} has over {MOST_PATTERNS:,} patterns"
            raise ImageError(Problem(text, hint="let some of them name folders"))
        lines += [f"!{dockerfile}", f"!{IGNORE_FILE}"]
        self._rules = [rule for line in lines if (rule := _rule(line))]
        self._closed: dict[str, bool] = {"": False}

    def left(self, names: Iterable[str]) -> set[str]:
        """Return the names that are not left out."""
        return {
            name
            for name in names
            if not self._is_closed(posixpath.dirname(name)) and not self._ignores(name)
        }

    def _is_closed(self, folder: str) -> bool:
        """Whether a folder is left out, and no rule brings back anything in it."""
        if folder not in self._closed:
            lower = folder.lower()
            self._closed[folder] = self._is_closed(posixpath.dirname(folder)) or (
                self._ignores(folder)
                and not any(
                    rule.brings_back and rule.path.startswith(lower)
                    for rule in self._rules
                )
            )
        return self._closed[folder]

    def _ignores(self, name: str) -> bool:
        plain = name.lower().encode(errors="replace").decode()
        folders = plain.split("/")[:-1]
        # The last rule that fits decides.
        for rule in reversed(self._rules):
            if rule.compiled.match(plain) or (
                rule.depth <= len(folders)
                and rule.compiled.match("/".join(folders[: rule.depth]))
            ):
                return not rule.brings_back
        return False


def _rule(line: str) -> _Rule | None:
    path = posixpath.normpath("/" + line.removeprefix("!").strip())[1:].lower()
    path = path.removeprefix("/")
    if not path:
        return None
    expression = translate(re.sub(r"\*{3,}", "**", path))
    compiled = patterns.linear(expression) if len(path) <= LONGEST else None
    if compiled is None:
        raise ImageError(f"{IGNORE_FILE}: the pattern `{line[:200]}` is too complex")
    return _Rule(path, line.startswith("!"), compiled)

"""Look at a project's folder: the required files, the team's, and plan.json."""

from __future__ import annotations

import errno
import os
import re
import stat
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import islice
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from runner.core import MIB, Problem, Severity, plan_reader, work
from runner.core.errors import UsageError
from runner.core.milestone import Milestone, RequiredFile, TeamParts
from runner.core.plan import SubmissionPlan
from runner.core.work import Caps
from runner.pack import FolderProject, MemberKind
from runner.pack.ignore import secret
from runner.pack.read import HostileNameError, Tree
from runner.system import files, trees

MOST_LISTED = 100_000
"""The most names that are looked at below the team's folder."""

MOST_NAME = 1024
"""The most bytes of a file's name, with its folders."""

MOST_NAMES = 128 << 10
"""The most bytes of all their names, which a measurement keeps."""

_SHOWN = 100  # characters of a name in a problem

NAMED = 5
"""How many files of one problem are named."""

_SOURCE_BYTES = 16 * MIB
"""The most bytes of a file whose digest alone is taken."""

_PDF, _PDF_END, _PDF_TAIL = b"%PDF-", b"%%EOF", 2048
_REPORT = "print the page of `rai report latest --open` to it as PDF"

_PLAN = "`rai init --milestone m3 DIR` writes one to begin with; of rai's own kernels"
_PLAN += " `python project/plan.py` does"

_OWN = re.compile(r"\$RAI_SOURCE_DIR/(\S+)")
"""A file of the project that a command names."""

_Named = tuple[str, str]
"""A name, and what is wrong with it, "" if nothing; without a name, with all."""


class SubmittedFile(Struct, frozen=True):
    """A file of the project, as it was read.

    ``path`` is relative to the project, ``name`` to the folder it is staged in.
    """

    path: str
    name: str
    content: bytes
    sha256: str
    executable: bool = False

    @property
    def size_bytes(self) -> int:
        """The bytes of its content."""
        return len(self.content)


class Submitted(Struct, frozen=True):
    """What a project sends for a milestone, and every problem found.

    ``plan`` is None where the milestone has none, or it is wrong. ``digests`` has the
    SHA-256 of each file that the plan names, by its path; a file that cannot be read is
    absent there. With a plan that has ``sources``, ``team`` is these files alone.
    """

    project: Path
    required: tuple[SubmittedFile, ...] = ()
    team: tuple[SubmittedFile, ...] = ()
    plan: SubmissionPlan | None = None
    digests: dict[str, str] = {}
    problems: tuple[Problem, ...] = ()


def caps(milestone: Milestone) -> Caps:
    """Return what an archive of a submission may hold."""
    most = milestone.team.most_bytes + plan_reader.MOST_BYTES
    most += sum(file.most_bytes for file in milestone.required)
    return Caps(most, 2 * milestone.team.most_files + 100, most)


def placed(project: Path, milestone: Milestone) -> Milestone:
    """Return a milestone whose team's files are where a project has them.

    A handout has no folder of the milestone's for them: they lie at its top.
    """
    team = milestone.team
    if not team.below or os.path.lexists(project / team.below):
        return milestone
    own = tuple(pattern.removeprefix("**/") for pattern in team.patterns)
    asked = (*own, *((plan_reader.FILE,) if milestone.planned else ()))
    try:
        with os.scandir(project) as inside:
            names = [entry.name for entry in islice(inside, MOST_LISTED)]
    except OSError:
        return milestone
    if not any(glob_matches(pattern, name) for pattern in asked for name in names):
        return milestone
    return replace(milestone, team=replace(team, below="", patterns=own))


def look(project: Path, milestone: Milestone, home: str = "") -> Submitted:
    """Read what a milestone asks of a project; all problems are in the result.

    ``home`` is the name of rai's own home folder, if it is there.

    Raises:
        UsageError: there is no such folder.
    """
    if not project.is_dir():
        hint = "name the project's folder with -p"
        raise UsageError(Problem(f"{project} is not a folder", hint=hint))
    project = project.resolve()
    wanted = _wanted(milestone)
    if wanted and not any(os.path.lexists(project / name) for name in wanted):
        return Submitted(project, problems=(_nothing(project, milestone, wanted),))
    problems: list[Problem] = []
    required = tuple(_required(project, milestone.required, problems))
    team = tuple(_team(project, milestone.team, home, problems))
    plan = _plan(project, problems) if milestone.planned else None
    if plan and plan.sources is not None:
        team = tuple(file for file in team if file.path in plan.sources)
    known = {file.path: file.sha256 for file in team}
    if plan:
        asked = {*(plan.sources or ()), *plan.registry_files} - set(known)
        known |= _digests(project, asked)
    return Submitted(project, required, team, plan, known, tuple(problems))


def _wanted(milestone: Milestone) -> tuple[str, ...]:
    """Return the names of files or folders of which a submission has one at least."""
    if milestone.team.whole:
        lines = (line for run in milestone.runs for line in run.commands)
        return tuple(dict.fromkeys(m[1] for line in lines for m in _OWN.finditer(line)))
    return (*((plan_reader.FILE,) if milestone.planned else ()), milestone.team.below)


def _nothing(project: Path, milestone: Milestone, wanted: tuple[str, ...]) -> Problem:
    """Return the problem of a folder that has nothing of what a milestone asks for."""
    parts = milestone.team
    files = f": {', '.join(parts.patterns)}" if parts.patterns else ""
    takes = f"{' and '.join(wanted)}{files}"
    hint = "rai's own repository has a working example of each milestone (its"
    hint += " project/ and plan.json), and docs/submit.md says what each takes"
    if not parts.whole:
        hint = f"`rai init --milestone {milestone.name} DIR` writes one to begin with"
    text = f"{project} is no submission to {milestone.name}, which takes {takes}"
    return Problem(text, hint=hint)


def _digests(project: Path, names: Iterable[str]) -> dict[str, str]:
    """Return the SHA-256 of files of a project, by name; leave out what has none."""
    found: dict[str, str] = {}
    for name in sorted(names):
        try:
            content, _ = _content(project, name, _SOURCE_BYTES)
        except OSError:
            continue
        found[name] = work.digest_of(content)
    return found


def _required(
    project: Path, wanted: tuple[RequiredFile, ...], problems: list[Problem]
) -> Iterator[SubmittedFile]:
    for file in wanted:
        try:
            content, _ = _content(project, file.path, file.most_bytes)
        except OSError as error:
            missing = isinstance(error, FileNotFoundError | NotADirectoryError)
            why = "is missing" if missing else f"cannot be sent: {error.strerror}"
            problems.append(_warning(f"{file.path} {why}", _REPORT))
            continue
        if twins := _twins(project, file.path):
            text = f"{file.path} and {', '.join(twins)} differ only by case"
            problems.append(_warning(text, "remove one, so that it is clear"))
        if why := _not_a_pdf(content):
            problems.append(_warning(f"{file.path} {why}", _REPORT))
        yield SubmittedFile(file.path, file.path, content, work.digest_of(content))


def _warning(text: str, hint: str) -> Problem:
    """Return what is wrong with a file that the judge does without."""
    return Problem(text, hint=hint, severity=Severity.WARNING)


def _not_a_pdf(content: bytes) -> str:
    """Return what keeps bytes from being a PDF, "" if they may be one."""
    if not content:
        return "is empty"
    if not content.startswith(_PDF):
        return f"is not a PDF: it does not begin with {_PDF.decode()}"
    if _PDF_END not in content[-_PDF_TAIL:]:
        return f"is not a whole PDF: it does not end with {_PDF_END.decode()}"
    return ""


def _plan(project: Path, problems: list[Problem]) -> SubmissionPlan | None:
    name = plan_reader.FILE
    try:
        content, _ = _content(project, name, plan_reader.MOST_BYTES)
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        why = "is missing" if missing else f"cannot be read: {error.strerror}"
        problems.append(Problem(f"{name} {why}", hint=_PLAN))
        return None
    plan, found = plan_reader.read(content)
    problems += found
    return plan


def _team(
    project: Path,
    parts: TeamParts,
    home: str,
    problems: list[Problem],
) -> Iterator[SubmittedFile]:
    """Yield the team's files, sorted by name; add what is wrong with them."""
    named = _whole(project, home) if parts.whole else _named(project, parts)
    prefix = f"{parts.below}/" if parts.below else ""
    left = parts.most_bytes
    for name in _suitable(named, parts, problems):
        path = prefix + name
        try:
            content, executable = _content(project, path, left)
        except OSError as error:
            if error.errno == errno.EFBIG:
                text = f"the team's files are larger than {parts.most_bytes:,} bytes"
                hint = (
                    f"{path} is the first that is too much; remove what is not needed"
                )
                problems.append(Problem(text, hint=hint))
                return
            problems.append(Problem(f"{path!r} cannot be sent: {error.strerror}"))
            continue
        left -= len(content)
        yield SubmittedFile(path, name, content, work.digest_of(content), executable)


def _whole(project: Path, home: str) -> Iterator[_Named]:
    """Yield what `rai run` would pack of a project."""
    found = FolderProject(project, home=home).survey()
    for problem in found.problems:
        if problem.severity is Severity.ERROR:
            yield "", problem.message
    for member in found.members:
        if member.kind is MemberKind.LINK:
            yield member.name, "is a link"
        elif member.kind is MemberKind.FILE:
            yield member.name, ""


def _named(project: Path, parts: TeamParts) -> Iterator[_Named]:
    """Yield the names below the team's folder that match, each with what is wrong."""
    if link := _link(project, parts.below):
        yield "", f"{link} is a link; put the folder itself there"
        return
    try:
        deepest = None if any("/" in each for each in parts.patterns) else 0
        root = project / parts.below
        for entry in trees.entries(root, deepest=deepest, most=MOST_LISTED):
            name = "/".join((*entry.above, entry.name))
            mode = entry.info.st_mode
            if stat.S_ISDIR(mode):
                continue
            if any(glob_matches(pattern, name) for pattern in parts.patterns):
                what = "is a link" if stat.S_ISLNK(mode) else "is not a regular file"
                yield name, "" if stat.S_ISREG(mode) else what
    except trees.TooManyError:
        text = f"{parts.below or '.'} holds more than {MOST_LISTED:,} files and folders"
        yield "", f"{text}; remove what is not needed"
    except OSError as error:
        shown = f"the folder {parts.below or '.'}"
        yield "", f"{shown} cannot be read: {error.strerror}"


def _suitable(
    named: Iterable[_Named], parts: TeamParts, problems: list[Problem]
) -> list[str]:
    """Return the names that can be sent; add what is wrong with the others."""
    tree = Tree(any_case=True)
    found: list[str] = []
    wrong: dict[str, list[str]] = {}
    before = len(problems)
    for name, why in named:
        if not name:
            problems.append(Problem(why))
            continue
        if not (name.isprintable() and files.is_text(name)):
            why = "has a name with characters that cannot be shown"
        elif not parts.whole and secret(name, folder=False):
            why = "has a name as a secret has, which is never sent"
        if not why and len(os.fsencode(name)) > MOST_NAME:
            why = f"has a name of more than {MOST_NAME:,} bytes"
        try:
            if not why:
                tree.claim(unicodedata.normalize("NFC", name), MemberKind.FILE)
        except HostileNameError as error:
            problems.append(Problem(str(error), hint="rename one"))
            continue
        if why:
            wrong.setdefault(why, []).append(name)
        else:
            found.append(name)
    for why, names in wrong.items():
        shown = ", ".join(_short(ascii(name)[1:-1]) for name in names[:NAMED])
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        hint = "put a regular file there, or remove it"
        problems.append(Problem(f"{shown}{more}: {why}", hint=hint))
    if len(found) > parts.most_files:
        text = f"there are {len(found):,} files; at most {parts.most_files:,} are sent"
        problems.append(Problem(text, hint="remove what is not needed"))
        return []
    if sum(len(os.fsencode(name)) for name in found) > MOST_NAMES:
        text = f"the names of the files have more than {MOST_NAMES:,} bytes"
        problems.append(
            Problem(text, hint="shorten them, or remove what is not needed")
        )
        return []
    if not found and len(problems) == before:
        wanted = ", ".join(parts.patterns) or "anything"
        text = f"no file of the team is here: {wanted} in {parts.below or '.'}"
        problems.append(Problem(text, hint="name the project's folder with -p"))
    return found


def _short(name: str) -> str:
    return name if len(name) <= _SHOWN else f"{name[:_SHOWN]}..."


def _content(project: Path, name: str, most_bytes: int) -> tuple[bytes, bool]:
    """Return a regular file's bytes, and whether it is executable.

    Raises:
        OSError: it is absent, a link or in one, special, or larger.
    """
    if link := _link(project, name):
        raise OSError(errno.ELOOP, f"{link} is a link; put the file itself there")
    handle = files.descriptor(project, name)
    try:
        executable = bool(os.fstat(handle).st_mode & stat.S_IXUSR)
        return files.content(handle, most_bytes, name), executable
    finally:
        os.close(handle)


def _link(project: Path, name: str) -> str:
    """Return the first link on the way to a name, "" if there is none."""
    at = project
    for part in Path(name).parts:
        at = at / part
        if at.is_symlink():
            return at.relative_to(project).as_posix()
    return ""


def _twins(project: Path, name: str) -> list[str]:
    """Return the other names beside a file that differ from its own only by case."""
    own = Path(name).name
    try:
        with os.scandir((project / name).parent) as inside:
            names = (entry.name for entry in islice(inside, MOST_LISTED))
            same = own.casefold()
            return sorted(n for n in names if n != own and n.casefold() == same)
    except OSError:
        return []


def glob_matches(pattern: str, name: str) -> bool:
    """Whether a relative name with slashes matches a pattern.

    `*.cu` matches names without a folder, `**/*.cu` those in any folder or none.
    """
    return _regex(pattern).fullmatch(name) is not None


@cache
def _regex(pattern: str) -> re.Pattern[str]:
    text, at = "", 0
    while at < len(pattern):
        for mark, means in _MARKS:
            if pattern.startswith(mark, at):
                text, at = text + means, at + len(mark)
                break
        else:
            text, at = text + re.escape(pattern[at]), at + 1
    return re.compile(text, re.DOTALL)


_MARKS = (
    ("**/", "(?:[^/]+/)*"),
    ("**", ".*"),
    ("*", "[^/]*"),
    ("?", "[^/]"),
)

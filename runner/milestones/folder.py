"""A milestone's own folder: `milestone.yml`, and beside it `staff/` and `handout/`.

`staff/` is laid over the team's files where these are compiled and timed, and is never
sent to a client.
"""

from __future__ import annotations

import stat
from pathlib import Path

from msgspec import Struct

from runner import buildfile, files, trees
from runner.core import BuildSpec, GpuRequest, Problem, Severity
from runner.core.errors import ConfigError, SpecError
from runner.core.units import MIB
from runner.milestones.runs import PATH

FILE = "milestone.yml"
BUILD_FILE = "rai_build.yml"
_NAMES = "use letters, digits, `_`, `-`, `+` and `.`, and up to 200 of them"


class FolderBounds(Struct, frozen=True):
    """The name of a folder, and the most that it may hold."""

    name: str
    files: int
    size_bytes: int


STAFF = FolderBounds("staff", 500, 64 * MIB)
HANDOUT = FolderBounds("handout", 8, 1 * MIB)


class Staff(Struct, frozen=True):
    """What `staff/` asks for, and every problem; ``spec`` is None where it is wrong."""

    spec: BuildSpec | None = None
    problems: tuple[Problem, ...] = ()


def staff(folder: Path) -> Staff:
    """Look at the `staff/` of a milestone's folder, and read its build file."""
    found, problems = _names(folder / STAFF.name, STAFF)
    file = folder / STAFF.name / BUILD_FILE
    if not problems and BUILD_FILE not in found:
        hint = "it compiles, checks and times what a team sends: docs/assignments.md"
        problems.append(Problem(f"{file} is missing", hint=hint))
    if problems:
        return Staff(None, tuple(problems))
    try:
        raw = files.read_below(file.parent, file.name, 256 << 10)
        spec, _ = buildfile.parse(buildfile.decode(raw, str(file)), str(file))
    except OSError as error:
        return Staff(None, (Problem(f"{file} cannot be read: {error.strerror}"),))
    except SpecError as error:
        fatal = (one for one in error.problems if one.severity is Severity.ERROR)
        return Staff(None, tuple(fatal))
    gpu, image = spec.gpu or GpuRequest(), spec.build_image
    if gpu.count != 1 or gpu.optional:
        text = f"{file}: a submission is timed on one GPU, or always without"
        problems.append(Problem(text, hint="write `gpu: {count: 1}`, or leave it out"))
    if not spec.commands:
        problems.append(Problem(f"{file} has no commands", hint="add `commands.build`"))
    if image is not None and image.dockerfile not in found:
        text = f"{file} builds {image.dockerfile}, which is not in {STAFF.name}/"
        problems.append(Problem(text, hint="add it there: a team's is never used"))
    return Staff(spec, tuple(problems))


def read(folder: Path, bounds: FolderBounds) -> dict[str, bytes]:
    """Return the files of a folder, by name.

    Raises:
        ConfigError: it cannot be read, holds links or too much; carries every problem.
    """
    names, problems = _names(folder, bounds)
    if problems:
        raise ConfigError(*problems)
    try:
        return {n: files.read_below(folder, n, bounds.size_bytes) for n in names}
    except OSError as error:
        raise ConfigError(f"{folder} cannot be read: {error.strerror}") from error


def _names(folder: Path, bounds: FolderBounds) -> tuple[list[str], list[Problem]]:
    """Return the names of a folder's files, and what is wrong with it.

    What begins with a dot is left out, with all below it.
    """
    found: list[str] = []
    problems: list[Problem] = []
    size = 0
    try:
        for entry in trees.entries(folder, most=10 * bounds.files):
            parts, mode = (*entry.above, entry.name), entry.info.st_mode
            name = "/".join(parts)
            if stat.S_ISDIR(mode) or any(part.startswith(".") for part in parts):
                continue
            if not stat.S_ISREG(mode):
                text = f"{folder / name} is a link, or no regular file"
                problems.append(Problem(text, hint="put the file itself there"))
            elif PATH.parse(name) is None:
                text = f"{str(folder / name)!r} is a name that rai does not take here"
                problems.append(Problem(text, hint=_NAMES))
            found.append(name)
            size += entry.info.st_size
    except OSError as error:
        problems.append(Problem(f"{folder} cannot be read: {error.strerror}"))
    except trees.TooManyError:
        size = bounds.size_bytes + 1
    if len(found) > bounds.files or size > bounds.size_bytes:
        most = f"{bounds.files} files of {bounds.size_bytes >> 20} MiB"
        text = f"{folder} holds more than {most}"
        problems.append(Problem(text, hint="remove what is not needed"))
    return found, problems

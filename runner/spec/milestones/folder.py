"""A milestone's own folder, and ``runs``: what each run of it holds and does."""

from __future__ import annotations

import re
import stat
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from runner.core import MIB, BuildSpec, GpuRequest, Limits, Problem, Severity
from runner.core.errors import ConfigError, SpecError
from runner.core.milestone import Held, HeldKind, MilestoneRun
from runner.core.quantities import COUNT, SIZE, Kind, one_of
from runner.spec import buildfile, resources
from runner.spec.commands import read_env
from runner.spec.fields import Fields
from runner.spec.yamlfile import Node, ScalarNode, SequenceNode, kind
from runner.system import files, trees

_Value = TypeVar("_Value")

_PATH = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*(?:/[A-Za-z0-9_][A-Za-z0-9_.+-]*)*")
_PATTERN = re.compile(r"[A-Za-z0-9_*?.+-]+(?:/[A-Za-z0-9_*?.+-]+)*")
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_HOLDS = '[job, team, {golden: ["*.py"]}, {build: compile, files: ["*.cubin"]}]'
_IMAGE = one_of(("golden", "team"))

RESERVED = ("team", "runner", "job.json", "rai_build.yml", "Dockerfile")
"""Names at the top of a run's folder that no build's files go to."""


def _whole_match(regex: re.Pattern[str], words: str) -> Kind[str]:
    def parse(text: str) -> str | None:
        if len(text) > 200 or not regex.fullmatch(text) or ".." in text.split("/"):
            return None
        return text

    return Kind(words, parse)


PATH = _whole_match(_PATH, "a relative path with slashes")
PATTERN = _whole_match(_PATTERN, "a pattern of file names")
WORD = _whole_match(_WORD, "a word of letters, digits, `_`, `-` and `.`")
LINE = Kind(
    "a line of text",
    lambda text: text if text.isprintable() and len(text) <= 200 else None,
)
SIZE_OF_1 = Kind(
    "a whole number from 1 to 1000000",
    lambda text: n if 1 <= (n := COUNT.parse(text) or 0) <= 1_000_000 else None,
)


def needed(
    fields: Fields, key: str, wanted: Kind[_Value], example: str
) -> _Value | None:
    """Read a value that must be there; its absence is a problem."""
    before = len(fields.problems.found)
    found = fields.read(key, None, wanted, example)
    if found is None and len(fields.problems.found) == before:
        where = f" in {fields.path}" if fields.path else ""
        hint = f"add it, e.g. `{key}: {example}`"
        fields.problems.error(f"no `{key}`{where}", fields.place(), hint)
    return found


def listed(
    fields: Fields, key: str, example: str, wanted: Kind[_Value]
) -> tuple[_Value, ...]:
    """Read a list of values of a kind."""
    found = []
    for path, node in fields.items(key, example):
        text = node.text.strip() if isinstance(node, ScalarNode) else ""
        if value := wanted.parse(text) if text else None:
            found.append(value)
            continue
        hint = f"expected {wanted.words}, e.g. `{key}: {example}`"
        fields.problems.error(f"{path} is {kind(node)}", node.place, hint)
    return tuple(found)


def read_runs(fields: Fields) -> tuple[MilestoneRun, ...]:
    """Parse the runs, in order; a run can hold what those before it built."""
    found: list[MilestoneRun] = []
    for item in fields.mappings("runs", "[{name: compile, ...}]"):
        if run := _run(item, tuple(run.name for run in found)):
            found.append(run)
    if not found:
        hint = "add `runs:` with a list; each has `name`, `target` and `commands`"
        fields.problems.error("no runs", fields.place("runs"), hint)
    return tuple(found)


def _run(item: Fields, earlier: tuple[str, ...]) -> MilestoneRun | None:
    name = needed(item, "name", WORD, "compile")
    target = needed(item, "target", WORD, "compile")
    commands = listed(item, "commands", "[make]", LINE)
    if not commands:
        item.error("", "has no commands", "add `commands:` with a list")
    if name in earlier:
        item.problems.error(f"two runs {name}", item.place("name"), "rename one")
    run = MilestoneRun(
        name=name or "",
        target=target or "",
        commands=commands,
        holds=tuple(
            held
            for path, node in item.items("holds", _HOLDS)
            if (held := _held(item, path, node, earlier))
        ),
        gpu=item.boolean("gpu", False),
        limits=resources.read_limits(item.section("limits"), Limits()),
        data=resources.data(item),
        env=read_env(item),
        own_image=item.read("image", "golden", _IMAGE, "golden") == "team",
    )
    return run if name else None


def _held(item: Fields, path: str, node: Node, earlier: tuple[str, ...]) -> Held | None:
    if isinstance(node, ScalarNode) and node.text.strip() in ("job", "team"):
        return Held(HeldKind(node.text.strip()))
    if isinstance(node, ScalarNode | SequenceNode):
        hint = f"expected e.g. `holds: {_HOLDS}`"
        item.problems.error(f"{path} is {kind(node)}", node.place, hint)
        return None
    fields = item.item(node, path)
    if fields is None:
        return None
    if fields.has("golden"):
        patterns = listed(fields, "golden", '["*.py"]', PATTERN)
        return Held(HeldKind.GOLDEN, patterns=patterns)
    of = needed(fields, "build", WORD, "compile")
    if of is None:
        return None
    if of not in earlier:
        hint = f"runs before it are {', '.join(earlier)}" if earlier else "none is"
        text = f"{fields.name('build')}: no run {of} comes before this one"
        fields.problems.error(text, fields.place("build"), hint)
    into = fields.read("into", of, PATH, "compiled")
    if into.partition("/")[0] in RESERVED:
        hint = f"choose another than {', '.join(RESERVED)}"
        fields.error("into", f"is {into}", hint)
    patterns = listed(fields, "files", '["*.cubin"]', PATTERN)
    if not patterns:
        fields.error("", "has no `files`", 'add it, e.g. `files: ["*.cubin"]`')
    most = fields.read("size", Held(HeldKind.BUILD).most_bytes, SIZE, "64MiB")
    return Held(HeldKind.BUILD, of, patterns, into, most)


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
        hint = "it compiles, checks and times what a team sends: docs/teach.md"
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


def read_folder(folder: Path, bounds: FolderBounds) -> dict[str, bytes]:
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

"""A project's folder and its build file."""

from __future__ import annotations

from pathlib import Path

import runner
from runner.core import BuildSpec, GitState, Problem, Severity
from runner.core.errors import UsageError
from runner.pack import FolderProject, PackCache, Project
from runner.spec import buildfile, image_names
from runner.store import outputs
from runner.store.paths import BUILD_FILES
from runner.store.settings import Settings
from runner.system import files

MISNAMED = ("rai_build.yaml", "rai-build.yaml")
MOST_BYTES = 1 << 20


def build_file(path: Path) -> Path:
    """Return the build file of a project's folder, or the file itself.

    Raises:
        UsageError: there is none; the message names a folder above that has one.
    """
    if path.is_file():
        return path
    if not path.is_dir():
        hint = "name the project's folder, or its build file"
        raise UsageError(Problem(f"{path} does not exist", hint=hint))
    for name in BUILD_FILES:
        if (path / name).is_file():
            return path / name
    full = path.resolve()
    for name in MISNAMED:
        if (path / name).is_file():
            text = f"{full} has no {BUILD_FILES[0]}, but a {name}"
            raise UsageError(Problem(text, hint=f"rename it to {BUILD_FILES[0]}"))
    for folder in full.parents:
        if any((folder / name).is_file() for name in BUILD_FILES):
            hint = f"{folder} has one: use -p {folder}"
            raise UsageError(f"{full} has no {BUILD_FILES[0]}; {hint}")
    raise UsageError(f"{full} has no {BUILD_FILES[0]}; `rai init` creates one")


def folder_project(
    project: Path,
    settings: Settings,
    cache: PackCache | None = None,
    staged: Path | None = None,
    commit: GitState | None = None,
) -> FolderProject:
    """Return a project's folder with what of it these settings send.

    ``staged`` is a folder that was made of the project, and is sent instead; ``commit``
    is the one that it was made of, if any.
    """
    folder = staged or project
    home = outputs.home_within(settings.home, folder)
    return FolderProject(folder, settings.project_caps, home, cache, project, commit)


def image_source(project: Project, spec: BuildSpec) -> tuple[Project, BuildSpec]:
    """Return the project that an image is built from, and the spec that says how.

    They are rai's own for an image that it makes in place of one that is gone.
    """
    if not image_names.made_here(spec):
        return project, spec
    installed = Path(runner.__file__).parent / "images"
    folder = installed if installed.is_dir() else installed.parents[1]
    return FolderProject(folder), image_names.making(spec)


def read_spec(
    path: Path, *, staged: bool = False
) -> tuple[BuildSpec, list[Problem], str]:
    """Parse a project's build file; return the spec, its warnings, and its text.

    Of a ``staged`` folder, which is gone later, places name the file alone.

    Raises:
        UsageError: the file is absent or cannot be read.
        SpecError: it has errors; carries every problem found.
    """
    file = build_file(path)
    shown = file.name if staged else str(file)
    try:
        raw = files.read_below(file.parent, file.name, MOST_BYTES)
    except OSError as error:
        raise UsageError(f"{shown} cannot be read: {error.strerror}") from error
    text = buildfile.decode(raw, shown)
    spec, problems = buildfile.parse(text, shown)
    return spec, [*problems, *_ignored(file)], text


def _ignored(file: Path) -> list[Problem]:
    """Warn of a second build file, which is not read."""
    others = [file.with_name(name) for name in BUILD_FILES if name != file.name]
    if file.name not in BUILD_FILES or not any(other.is_file() for other in others):
        return []
    text = f"ignoring {others[0]}: {file.name} takes precedence"
    return [Problem(text, severity=Severity.WARNING)]

"""Shared by the image commands: a project, and tables of the images that rai built."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from runner.core import BuildSpec, BuiltImage, ImageAction, ImagePlan, Origin, Problem
from runner.core.errors import ImageError, UsageError
from runner.core.quantities import size
from runner.engines.docker import DockerEngine
from runner.report import Table, ago
from runner.run.project import build_file, folder_project, read_spec
from runner.spec import image_names, images
from runner.store.settings import Settings

NO_SPEC = BuildSpec("")
"""The spec to choose an engine with if there is no project."""


class ImageProject(Struct, frozen=True):
    """A project's folder, and how its runs would get their image now.

    There is a plan, or a problem, for each target of a run.
    """

    origin: Origin
    plans: tuple[ImagePlan, ...]
    problems: tuple[Problem, ...] = ()

    def outdated(self, built: Sequence[BuiltImage]) -> list[BuiltImage]:
        """Return the project's builds that later ones replaced."""
        return image_names.outdated(built, self.origin, self.plans)


def built(store: DockerEngine) -> list[BuiltImage]:
    """Return the images that rai built on an engine, newest first."""
    return sorted(store.built_images(), key=lambda image: -image.created_at)


def spec(path: Path | None) -> BuildSpec | None:
    """Parse a folder's build file; None if no folder is given and none is here."""
    try:
        build_file(path or Path())
    except UsageError:
        if path is not None:
            raise
        return None
    return read_spec(path or Path())[0]


def project(store: DockerEngine, spec: BuildSpec, settings: Settings) -> ImageProject:
    """Ask the engine how runs of a project would get their image."""
    folder = Path(spec.file).parent
    facts = store.image_facts(folder_project(folder, settings), spec)
    plans: dict[ImagePlan, None] = {}
    problems: dict[Problem, None] = {}
    for gpu in (False, True):
        try:
            plans[images.plan(spec.built_for(gpu), facts)] = None
        except ImageError as error:
            problems |= dict.fromkeys(error.problems)
    return ImageProject(store.origin(folder), tuple(plans), tuple(problems))


HEADS = ("image", "target", "size", "built", "project")


def table(
    images: Sequence[BuiltImage],
    machine: str,
    head: str,
    last: Callable[[BuiltImage], str],
) -> Table:
    """Return a table with a row for each image; omit the last column if it is empty.

    ``machine`` is this machine: images built from another one are marked.
    """
    now = time.time()
    rows = tuple(
        (
            image_names.reference(image),
            image_names.target(image),
            size(image.size_bytes),
            ago(now - image.created_at),
            project_name(image, machine),
            last(image),
        )
        for image in images
    )
    if any(row[-1] for row in rows):
        return Table("", (*HEADS, head), rows, frozenset({2}))
    return Table("", HEADS, tuple(row[:-1] for row in rows), frozenset({2}))


def contents(images: Sequence[BuiltImage]) -> Table | None:
    """Return a table of the shared sizes, versions and other names that are known."""
    rows = tuple(
        (
            image_names.reference(image),
            size(image.shared_bytes),
            ", ".join(_known(image)),
        )
        for image in images
        if image.shared_bytes or _known(image)
    )
    heads = ("image", "shared", "versions and other names")
    return Table("", heads, rows, frozenset({1})) if rows else None


def project_name(image: BuiltImage, machine: str) -> str:
    """Return the name of an image's project, marked if on another machine."""
    if image.origin is None:
        return "unknown"
    elsewhere = image.origin.machine != machine
    return f"{image.origin.name} (elsewhere)" if elsewhere else image.origin.name


def target(plan: ImagePlan) -> str:
    """Return the stage that a run would use, "" for the last."""
    return plan.build.target or "" if plan.build else ""


def source(plan: ImagePlan) -> str:
    """Return how a run would get its image."""
    match plan.action:
        case ImageAction.REUSE:
            return f"{plan.reference}: {plan.why}"
        case ImageAction.PULL:
            return f"{plan.reference} would be pulled: {plan.why}"
        case ImageAction.BUILD:
            return f"would be built: {plan.why}"


def _known(image: BuiltImage) -> list[str]:
    versions = [f"{name} {version}" for name, version in image.versions]
    keys = [tag for tag in image.tags if tag != image_names.reference(image)]
    return [*versions, *keys]

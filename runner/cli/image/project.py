"""A project in the image commands, and how its runs get their image."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from runner import images
from runner.core import BuildSpec, BuiltImage, ImagePlan, Origin, Problem
from runner.core.errors import ImageError, UsageError
from runner.images import inventory
from runner.session.project import build_file, folder_project, read_spec
from runner.store.settings import Settings

if TYPE_CHECKING:
    from runner.engines.docker import DockerEngine

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
        return inventory.outdated(built, self.origin, self.plans)


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

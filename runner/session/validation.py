"""A project's build file, checked without an engine."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from runner import images, job
from runner.core import BuildSpec, ImagePlan, Place, Problem, Severity, Step
from runner.core.errors import SpecError
from runner.session.project import read_spec


class Validation(Struct, frozen=True):
    """What a build file would do, and every problem found in it.

    ``spec``, ``image`` and ``steps`` are absent where the file has errors.
    """

    problems: tuple[Problem, ...]
    spec: BuildSpec | None = None
    image: ImagePlan | None = None
    steps: tuple[Step, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the file has no errors; it may have warnings."""
        return self.spec is not None


def validate(path: Path) -> Validation:
    """Read a project's build file and plan its run.

    Raises:
        UsageError: there is no build file.
    """
    try:
        spec, problems, _ = read_spec(path)
    except SpecError as error:
        return Validation(error.problems)
    found = (*problems, *_missing_dockerfile(spec))
    return Validation(found, spec, images.plan(spec, None), job.steps(spec, gpu=True))


def _missing_dockerfile(spec: BuildSpec) -> list[Problem]:
    if spec.names_image:
        return []
    name = spec.build_image.dockerfile if spec.build_image else "Dockerfile"
    if (Path(spec.file).parent / name).is_file():
        return []
    place = spec.build_image.place if spec.build_image else Place(spec.file, 1, 1)
    text = f"the docker engine would build the image of {name}, which is not there"
    hint = "add it, or name an image in `rai.image`"
    return [Problem(text, place, hint, Severity.WARNING)]

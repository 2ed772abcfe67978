"""Check a project's build file without running anything."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from runner import engines
from runner.core import (
    BuildImage,
    BuildSpec,
    ImagePlan,
    Problem,
    Reason,
    Severity,
    Step,
    policy,
)
from runner.core.errors import EngineError, ImageError, NotAllowedError, SpecError
from runner.engines import KEEPING
from runner.execution.preparation import steps
from runner.execution.prepare import (
    NONE_GIVEN,
    WITHOUT_IMAGES,
    Options,
    in_ci,
    in_image,
    refusals,
    settings,
)
from runner.execution.project import read_spec
from runner.spec import image_names, images
from runner.store import policy as policies
from runner.system import machine


class Validation(Struct, frozen=True):
    """The plan of a build file, and every problem found in it.

    ``spec``, ``image`` and ``steps`` are absent if there are errors; ``reason`` is then
    the reason that a run would end with. ``without_image`` is the engine asked for that
    uses this machine's programs; ``image`` is then absent.
    """

    problems: tuple[Problem, ...]
    spec: BuildSpec | None = None
    image: ImagePlan | None = None
    steps: tuple[Step, ...] = ()
    without_image: str = ""
    reason: Reason = Reason.DONE

    @property
    def ok(self) -> bool:
        """Whether there are no errors; there may be warnings."""
        return self.reason is Reason.DONE


def validate(path: Path, options: Options = NONE_GIVEN) -> Validation:
    """Parse a project's build file and plan its run; needs no engine.

    Only for a project without a Dockerfile and a named image the result depends on the
    engine that a run would choose, by ``options`` and the settings.

    Raises:
        UsageError: there is no build file, or the image's name is not valid.
        ConfigError: the settings or the site's policy are wrong.
    """
    try:
        spec, problems, _ = read_spec(path)
        found, _ = settings(options)
        spec = in_image(spec, found, options)
        problems += _of_another_architecture(spec, found.engine)
        instead, warned = _without_dockerfile(spec, found.engine)
        if instead == KEEPING:
            raise ImageError(*problems, *warned, reason=Reason.IMAGE_NOT_FOUND)
        problems += [replace(one, severity=Severity.WARNING) for one in warned]
        rules = policies.read()
        profile = found.profile or spec.profile
        spec = replace(spec, limits=policy.fit(spec.limits, rules))
        if refused := refusals(spec, profile, rules, found.engine):
            raise NotAllowedError(*problems, *refused)
        imageless = found.engine if found.engine in WITHOUT_IMAGES else instead
        if imageless:
            refused = engines.make(imageless).check(spec)
            # That this machine lacks the engine is no problem of the file.
            if of_file := [problem for problem in refused if problem.place]:
                raise SpecError([*problems, *of_file])
        plan = None if imageless else images.plan(image_names.making(spec), None)
    except (SpecError, ImageError, NotAllowedError) as error:
        return Validation(error.problems, reason=error.reason)
    planned = steps(spec, gpu=True)
    return Validation(tuple(problems), spec, plan, planned, without_image=imageless)


def _of_another_architecture(spec: BuildSpec, wanted: str) -> list[Problem]:
    """Warn of an architecture that the engine of a run would not have.

    Engines are asked only if it is not this machine's, which is all that most need.
    """
    asked = spec.cpu_architecture
    if not images.differ(asked, machine.architecture()):
        return []
    try:
        engine = engines.choose(wanted, spec, ci=in_ci()).engines[0]
        own = engine.facts().architecture or machine.architecture()
    except EngineError:
        return []
    if not images.differ(asked, own):
        return []
    text = f"resources.cpu.architecture is {asked}, and commands would run on"
    hint = "an image for that architecture does not start without an emulator"
    where = f"{images.normal(own)}, by the {engine.name} engine"
    return [Problem(f"{text} {where}", hint=hint, severity=Severity.WARNING)]


def _without_dockerfile(
    spec: BuildSpec, wanted: str
) -> tuple[str, tuple[Problem, ...]]:
    """Return the engine that a run would take, and why there is no image for it.

    Both are empty if the build file names an image, or its Dockerfile is there.
    """
    dockerfile = (spec.build_image or BuildImage()).dockerfile
    if spec.names_image or (Path(spec.file).parent / dockerfile).is_file():
        return "", ()
    missing = images.without_dockerfile(spec).problems
    try:
        return engines.choose(wanted, spec, ci=in_ci()).engines[0].name, missing
    except EngineError:
        return KEEPING if wanted in ("auto", KEEPING) else wanted, missing

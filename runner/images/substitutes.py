"""Another image in place of the one that a build file names. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from runner.core import BuildSpec, ImagePlan, Place, Problem, Substitute
from runner.core.errors import ImageError, UsageError
from runner.images.names import fits, repository, valid

OPTION = "--image"
EXAMPLE = "someone/project:1"


class Rule(Struct, frozen=True):
    """One line of the setting ``images``: a pattern of names, and the image to use."""

    pattern: str
    image: str
    place: Place


def decide(
    spec: BuildSpec, given: str | None, rules: Sequence[Rule]
) -> Substitute | None:
    """Return what stands in for the spec's image; None if the spec decides.

    ``given`` is the option's value, and wins; then the first rule that fits the name of
    an image that is not built.

    Raises:
        UsageError: ``given`` is not a valid name.
    """
    asked = (spec.image or "") if spec.names_image else ""
    if given is not None:
        if not valid(given):
            text = f'{OPTION} is "{given}", which is not a valid image name'
            hint = f"expected e.g. `{EXAMPLE}`, in lower case"
            raise UsageError(Problem(text, hint=hint))
        return Substitute(asked, given, OPTION)
    for rule in rules:
        if asked and fits(rule.pattern, asked):
            return Substitute(asked, rule.image, f"images in {rule.place}")
    return None


def applied(spec: BuildSpec, substitute: Substitute | None) -> BuildSpec:
    """Return the spec of a run in the image that was decided; nothing is built."""
    if substitute is None:
        return spec
    return replace(spec, image=substitute.used, build_image=None, substitute=substitute)


def explained(error: ImageError, plan: ImagePlan) -> ImageError:
    """Return the error for an image that the plan gives in place of another's name."""
    first, *more = error.problems
    asked = f" in place of {plan.asked}" if plan.asked else ""
    text = f"{first.message} ({plan.named_by} names it{asked})"
    named = Problem(text, first.place, first.hint)
    return ImageError(named, *more, reason=error.reason)


def elsewhere(error: ImageError, engine: str) -> ImageError:
    """Return the error of an image, with an engine that could run without it."""
    first, *more = error.problems
    use = f"or `--engine {engine}` to use this machine's programs"
    hint = "; ".join(filter(None, (first.hint, use)))
    told = Problem(first.message, first.place, hint)
    return ImageError(told, *more, reason=error.reason)


def advice(reference: str) -> str:
    """Return what to do about an image that cannot be pulled."""
    name = repository(reference)
    return (
        "check its name, and that its registry can be reached from here; to use another"
        f" image, give `{OPTION} NAME`, or write under `images:` in your settings file:"
        f' `"{name}:*": NAME`'
    )

"""Whether a policy allows the images of a run, built or not. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from runner.core import BuildImage, BuildSpec, Place, Problem
from runner.core.policy import AllowList, Policy
from runner.images.names import fits
from runner.images.pulls import Pull, pulls

_SHOWN = 80


def problems(
    spec: BuildSpec, policy: Policy, text: str | None = None, platform: str = ""
) -> list[Problem]:
    """Return what of a spec's images is not allowed.

    ``text`` is the Dockerfile of one that is built, None if it is not known.
    """
    found: list[Problem] = []
    for allowed in policy.images:
        found += _refused(spec, allowed, text, platform)
    return found


def _refused(
    spec: BuildSpec, allowed: AllowList, text: str | None, platform: str
) -> list[Problem]:
    if spec.names_image:
        return list(_named(spec, allowed))
    build = spec.build_image or BuildImage()
    found = list(_tags(build, allowed))
    if text is not None:
        args = dict(build.args)
        for pull in pulls(text, args, platform):
            found += _pulled(pull, build, allowed)
    return found


def other(name: str, policy: Policy) -> list[Problem]:
    """Return why an image may not be used by this name; empty if it may."""
    return [
        Problem(
            f"the image {name} is not allowed by {allowed.place}", hint=_hint(allowed)
        )
        for allowed in policy.images
        if not admits(allowed, name)
    ]


def admits(allowed: AllowList, name: str) -> bool:
    """Whether a pattern of the list fits the name of an image."""
    return any(fits(pattern, name) for pattern in allowed.patterns)


def _named(spec: BuildSpec, allowed: AllowList) -> Iterator[Problem]:
    image = spec.image or ""
    if admits(allowed, image):
        return
    by = f"{spec.substitute.by} names" if spec.substitute else "rai.image is"
    text = f"{by} {image}, which is not allowed by {allowed.place}"
    yield Problem(text, hint=_hint(allowed))


def _tags(build: BuildImage, allowed: AllowList) -> Iterator[Problem]:
    """Yield the names of the list that a build would give to something else."""
    pushed = build.push.image_name if build.push else None
    for key, name in (("image_name", build.image_name), ("push.image_name", pushed)):
        if name and admits(allowed, name):
            text = (
                f"build_image.{key} is {name}: no build may take a name of the images"
                f" that {allowed.place} allows"
            )
            yield Problem(text, build.place, "choose another name")


def _pulled(pull: Pull, build: BuildImage, allowed: AllowList) -> Iterator[Problem]:
    place = Place(build.dockerfile, pull.line, 1) if pull.line else build.place
    shown = pull.text if len(pull.text) <= _SHOWN else f"{pull.text[:_SHOWN]}..."
    if not pull.clear:
        text = f"`{shown}`: which image it uses cannot be told, and only some are"
        hint = "write it plainly: a whole name, or a variable that an ARG gives a value"
        if "<<" in pull.text:
            hint = "write a here-document as `<<WORD`, or copy a file instead"
        yield Problem(f"{text} allowed by {allowed.place}", place, hint)
    elif not admits(allowed, pull.image):
        text = f"`{shown}` is not allowed by {allowed.place}"
        yield Problem(text, place, _hint(allowed))


def _hint(allowed: AllowList) -> str:
    if not allowed.patterns:
        return "no image is allowed"
    return f"allowed are {', '.join(allowed.patterns)}"

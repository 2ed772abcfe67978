"""Whether a policy allows the images of a run, built or not. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from runner.core import BuildImage, BuildSpec, Problem
from runner.core.policy import BUILD, AllowList, Policy
from runner.images.names import fits


def problems(spec: BuildSpec, policy: Policy, *, builds: bool = True) -> list[Problem]:
    """Return what of a spec's images is not allowed.

    Without ``builds`` a build itself is no problem: an engine without images makes
    none.
    """
    found: list[Problem] = []
    for listed in policy.images:
        found += _named(spec, listed) if spec.names_image else _tags(spec, listed)
        if builds and not spec.names_image and BUILD not in listed.patterns:
            text = f"building an image is not allowed by {listed.place}"
            hint = f"name an image in `rai.image`: {_hint(listed)}"
            found.append(Problem(text, hint=hint))
    return found


def other(name: str, policy: Policy) -> list[Problem]:
    """Return why an image may not be used by this name; empty if it may."""
    return [
        Problem(
            f"the image {name} is not allowed by {listed.place}", hint=_hint(listed)
        )
        for listed in policy.images
        if not _admits(listed, name)
    ]


def _admits(listed: AllowList, name: str) -> bool:
    return any(fits(pattern, name) for pattern in _patterns(listed))


def _patterns(listed: AllowList) -> list[str]:
    return [pattern for pattern in listed.patterns if pattern != BUILD]


def _named(spec: BuildSpec, listed: AllowList) -> Iterator[Problem]:
    image = spec.image or ""
    if _admits(listed, image):
        return
    by = f"{spec.substitute.by} names" if spec.substitute else "rai.image is"
    text = f"{by} {image}, which is not allowed by {listed.place}"
    yield Problem(text, hint=_hint(listed))


def _tags(spec: BuildSpec, listed: AllowList) -> Iterator[Problem]:
    """Yield the names of the list that a build would give to something else."""
    build = spec.build_image or BuildImage()
    pushed = build.push.image_name if build.push else None
    for key, name in (("image_name", build.image_name), ("push.image_name", pushed)):
        if name and _admits(listed, name):
            text = (
                f"build_image.{key} is {name}: no build may take a name of the images"
                f" that {listed.place} allows"
            )
            yield Problem(text, build.place, "choose another name")


def _hint(listed: AllowList) -> str:
    patterns = _patterns(listed)
    return f"allowed are {', '.join(patterns)}" if patterns else "no image is allowed"

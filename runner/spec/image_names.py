"""Names of images, substitutes for them, labels and lists of those that rai built."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from runner.core import (
    BuildImage,
    BuildSpec,
    BuiltImage,
    DataResource,
    ImageAction,
    ImageParts,
    ImagePlan,
    Origin,
    Place,
    Problem,
    Substitute,
)
from runner.core.errors import ImageError, UsageError

KEY_REPOSITORY = "rai-build"
"""The repository of rai's own tags, which are keys of the images' inputs."""

_OWN = "rai/"
RESERVED = (KEY_REPOSITORY, _OWN)

_PART = r"[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*"
_HOST = r"(?:[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+(?::\d+)?|[A-Za-z0-9-]+:\d+|localhost)"
_NAME = (
    rf"(?:{_HOST}/)?{_PART}(?:/{_PART})*(?::[\w][\w.-]{{0,127}})?"
    r"(?:@sha256:[0-9a-f]{64})?"
)
_DEFAULT_HOSTS = ("docker.io/", "index.docker.io/", "registry-1.docker.io/")


def valid(name: str) -> bool:
    """Whether Docker accepts the name."""
    return len(name) <= 255 and re.fullmatch(_NAME, name, re.ASCII) is not None


def reserved(name: str) -> bool:
    """Whether only rai may give the name."""
    return normalise(name).startswith(RESERVED)


def normalise(tag: str) -> str:
    """Return a name as an engine lists it: with a tag, without Docker Hub's host."""
    tag = without_hub(tag)
    if "@" in tag or ":" in tag.rpartition("/")[2]:
        return tag
    return f"{tag}:latest"


def without_hub(name: str) -> str:
    """Return a name without Docker Hub's host, which is the default."""
    for host in _DEFAULT_HOSTS:
        if name.startswith(host):
            name = name.removeprefix(host).removeprefix("library/")
    return name


def fits(pattern: str, name: str) -> bool:
    """Whether a pattern fits a name: one without a tag, or with `*`, fits every tag.

    A wildcard of the tag fits no host with a port: `debian:*` is not `debian:5000/x`.
    """
    pattern, full = without_hub(pattern), normalise(name)
    wanted, given = repository(pattern), repository(full)
    tag = pattern.removeprefix(wanted)
    if not fnmatchcase(given, wanted):
        return False
    return tag in ("", ":*") or fnmatchcase(full.removeprefix(given), tag)


def repository(reference: str) -> str:
    """Return a name without its tag and digest."""
    name = reference.partition("@")[0]
    head, _, tag = name.rpartition(":")
    # A colon before a slash is that of a registry's port.
    return head if head and "/" not in tag else name


OPTION = "--image"
EXAMPLE = "someone/project:1"


class Rule(Struct, frozen=True):
    """One line of the setting ``images``: a pattern of names, and the image to use."""

    pattern: str
    image: str
    place: Place


GONE = (
    ("cwpearson/*ece408_mxnet_docker", "course"),
    ("illinoisimpact/ece408_mxnet_docker*", "course"),
    ("*/ece408_minidnn_docker*", "minidnn"),
)
"""Images of a course that no registry has, and the targets that do what they did."""

_FOLDER = "/data/fashion-mnist"
_HOST = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
_TEST_IMAGES = tuple(
    DataResource(_FOLDER, name, f"{_HOST}/{name}", md5)
    for name, md5 in (
        ("t10k-images-idx3-ubyte.gz", "bef4ecab320f06d8554ea6380940ec79"),
        ("t10k-labels-idx1-ubyte.gz", "bb300cfdad3c16e7a12a480ee83cd310"),
    )
)
"""What these images contained, which is not ours to put into one."""


def decide(
    spec: BuildSpec, given: str | None, rules: Sequence[Rule]
) -> Substitute | None:
    """Return what stands in for the spec's image; None if the spec decides.

    ``given`` is the option's value, and wins; then the first rule that fits the name of
    an image that is not built; then rai's own for images that are gone.

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
    for pattern, target in GONE:
        if asked and fits(pattern, asked):
            return Substitute(asked, f"{_OWN}{target}", "rai")
    return None


def made_here(spec: BuildSpec) -> str:
    """Return the target of rai's own Dockerfile that a run needs; "" if it needs none.

    The name of the image says so, which the site's list has to allow. A file that
    builds an image of its own names only its tag.
    """
    name = normalise(spec.image or "")
    target = next((t for _, t in GONE if name == f"{_OWN}{t}:latest"), "")
    return target if spec.build_image in (None, BuildImage(target=target)) else ""


def own(name: str) -> bool:
    """Whether only rai makes images of this name, which no registry may give."""
    return normalise(name).startswith(_OWN)


def making(spec: BuildSpec) -> BuildSpec:
    """Return the spec of a run that builds the image which rai makes, if it does."""
    if target := made_here(spec):
        return replace(spec, build_image=BuildImage(target=target))
    return spec


def applied(spec: BuildSpec, substitute: Substitute | None) -> BuildSpec:
    """Return the spec of a run in the image that was decided; nothing is built."""
    if substitute is not None:
        spec = replace(
            spec, image=substitute.used, build_image=None, substitute=substitute
        )
    if not made_here(spec):
        return spec
    gpu = spec.gpu
    if gpu and substitute:
        # What needs no GPU runs without one: such files ask for one for all they do.
        gpu = replace(gpu, optional=True)
    return replace(spec, gpu=gpu, data=spec.data or _TEST_IMAGES)


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


BUILD = "rai.build"
VERSIONS = ("cuda", "mxnet", "numpy", "pycuda", "cudnn")
"""Versions that a Dockerfile may state, e.g. `LABEL rai.numpy=1.23.5`."""


class Label(Struct, frozen=True):
    """The label's JSON; ``names`` are those that the build file asked for."""

    key: str
    names: tuple[str, ...] = ()
    parts: ImageParts | None = None
    project: Origin | None = None


def label(plan: ImagePlan) -> dict[str, str]:
    """Return the labels to set on a plan's image."""
    pushed = plan.build.push if plan.build else None
    names = (*plan.tags, *([normalise(pushed.image_name)] if pushed else []))
    label = Label(plan.key, tuple(dict.fromkeys(names)), plan.parts, plan.origin)
    return {BUILD: msgspec.json.encode(label).decode()}


def read_label(
    image_id: str,
    tags: Iterable[str],
    labels: Mapping[str, str],
    size_bytes: int,
    created_at: float,
) -> BuiltImage | None:
    """Return the record of an image that rai built; None for any other image.

    Images that are built on such an image inherit its label, and pulled ones carry it:
    so an image that has names must have one that rai gave.
    """
    names = tuple(tags)
    try:
        label = msgspec.json.decode(labels.get(BUILD, ""), type=Label)
    except msgspec.DecodeError:
        return None
    if names and not any(map(is_key, names)):
        return None
    found = ((version, labels.get(f"rai.{version}", "")) for version in VERSIONS)
    return BuiltImage(
        id=image_id,
        tags=names,
        size_bytes=size_bytes,
        created_at=created_at,
        origin=label.project,
        parts=label.parts,
        names=label.names,
        versions=tuple((version, value) for version, value in found if value),
    )


def is_key(tag: str) -> bool:
    """Whether a name is a tag that rai made from a key."""
    return tag.startswith(f"{KEY_REPOSITORY}:")


class Kept(Struct, frozen=True):
    """An image that is not removed, and why."""

    image: BuiltImage
    why: str


class Prune(Struct, frozen=True):
    """The images to remove, and those to keep."""

    removals: tuple[BuiltImage, ...]
    kept: tuple[Kept, ...]


def reference(image: BuiltImage) -> str:
    """Return the name that rai gave an image, else the start of its id."""
    keys = [tag for tag in image.tags if is_key(tag)]
    return keys[0] if keys else image.id.removeprefix("sha256:")[:12]


def other_names(image: BuiltImage) -> tuple[str, ...]:
    """Return the names that are not keys."""
    return tuple(tag for tag in image.tags if not is_key(tag))


def target(image: BuiltImage) -> str:
    """Return the stage that was built; "" for the last one, or if it is not known."""
    return image.parts.target if image.parts else ""


def current(image: BuiltImage, plans: Iterable[ImagePlan]) -> bool:
    """Whether a run of the project as it is now would start from this image."""
    reused = (plan for plan in plans if plan.action is ImageAction.REUSE)
    return any(plan.reference in image.tags for plan in reused)


def outdated(
    built: Sequence[BuiltImage], origin: Origin, plans: Sequence[ImagePlan]
) -> list[BuiltImage]:
    """Return the builds of a project that a later one has replaced.

    Of each target in the plans the current build is kept, or the newest if none is
    current. Builds of other targets are outdated if any build is kept. Without plans
    every target counts as planned.
    """
    own = [image for image in built if image.origin == origin]
    targets = {plan.build.target or "" for plan in plans if plan.build}
    targets = targets if plans else {target(image) for image in own}
    keep = [image for image in own if current(image, plans)]
    newest_first = sorted(own, key=lambda image: -image.created_at)
    for name in targets - {target(image) for image in keep}:
        keep += [image for image in newest_first if target(image) == name][:1]
    keep = keep or newest_first[:1]
    return [image for image in own if image not in keep]


def replaced(
    built: Sequence[BuiltImage], origins: Iterable[Origin], before: float
) -> list[BuiltImage]:
    """Return the builds of projects, made before a time, that later ones replaced."""
    old = [image for origin in origins for image in outdated(built, origin, ())]
    return [image for image in old if image.created_at < before]


def prune(images: Iterable[BuiltImage], *, everything: bool) -> Prune:
    """Sort images into those to remove and those to keep.

    An image is kept if a container uses it or if it has a name of the user's own.
    A name from the build file also keeps an image, unless ``everything``.
    """
    removals, kept = [], []
    for image in images:
        given = image.names if everything else ()
        foreign = [name for name in other_names(image) if name not in given]
        if image.containers:
            count = "a container uses" if image.containers == 1 else "containers use"
            kept.append(Kept(image, f"{count} it"))
        elif foreign:
            kept.append(Kept(image, f"it is named {', '.join(foreign)}"))
        else:
            removals.append(image)
    return Prune(tuple(removals), tuple(kept))


def least_freed_bytes(removals: Iterable[BuiltImage]) -> int:
    """Return the bytes that no other image shares: at least these are freed."""
    return sum(image.size_bytes - (image.shared_bytes or 0) for image in removals)

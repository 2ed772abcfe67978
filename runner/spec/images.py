"""The image of a run: pull, build or reuse, and why; whether it may and can run."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from runner.core import (
    BuildImage,
    BuildSpec,
    ImageAction,
    ImageFacts,
    ImagePlan,
    ImageUsed,
    Place,
    Problem,
    Reason,
)
from runner.core.errors import ImageError, NotAllowedError, SpecError
from runner.core.policy import BUILD, NO_POLICY, AllowList, Policy
from runner.spec import dockerfile, image_names
from runner.spec.image_names import KEY_REPOSITORY, fits, normalise, repository


def not_allowed(
    spec: BuildSpec, policy: Policy, *, builds: bool = True
) -> list[Problem]:
    """Return what of a spec's images is not allowed.

    Without ``builds`` a build itself is no problem: an engine without images makes
    none.
    """
    found: list[Problem] = []
    for listed in policy.images:
        image = spec.image or ""
        named = spec.names_image or bool(image_names.made_here(spec))
        if named and not _admits(listed, image):
            by = f"{spec.substitute.by} names" if spec.substitute else "rai.image is"
            text = f"{by} {image}, which is not allowed by {listed.place}"
            found.append(Problem(text, hint=_hint(listed)))
        elif not named:
            found += _tags(spec, listed)
        if builds and not named and BUILD not in listed.patterns:
            text = f"building an image is not allowed by {listed.place}"
            hint = f"name an image in `rai.image`: {_hint(listed)}"
            found.append(Problem(text, hint=hint))
    return found


def other(name: str, policy: Policy) -> list[Problem]:
    """Return why an image may not be used by this name; empty if it may."""
    text = f"the image {name} is not allowed by"
    return [
        Problem(f"{text} {listed.place}", hint=_hint(listed))
        for listed in policy.images
        if not _admits(listed, name)
    ]


def _admits(listed: AllowList, name: str) -> bool:
    return any(fits(pattern, name) for pattern in _patterns(listed))


def _patterns(listed: AllowList) -> list[str]:
    return [pattern for pattern in listed.patterns if pattern != BUILD]


def _tags(spec: BuildSpec, listed: AllowList) -> Iterator[Problem]:
    """Yield the names of the list that a build would give to something else."""
    build = spec.build_image or BuildImage()
    pushed = build.push.image_name if build.push else None
    for key, name in (("image_name", build.image_name), ("push.image_name", pushed)):
        if name and _admits(listed, name):
            text = f"build_image.{key} is {name}: no build may take a name of the"
            text += f" images that {listed.place} allows"
            yield Problem(text, build.place, "choose another name")


def _hint(listed: AllowList) -> str:
    patterns = _patterns(listed)
    return f"allowed are {', '.join(patterns)}" if patterns else "no image is allowed"


def plan(
    spec: BuildSpec, facts: ImageFacts | None, policy: Policy = NO_POLICY
) -> ImagePlan:
    """Decide how the run gets its image; without facts, as far as the spec tells.

    Raise ImageError if there can be no image, SpecError if a name is reserved, and
    NotAllowedError if the policy does not allow an image that it uses.
    """
    if wrong := name_problems(spec):
        raise SpecError(wrong)
    if facts is not None and facts.dockerfile is not None:
        dockerfile.check_variables(facts.dockerfile, spec.build_image or BuildImage())
    _check(spec, facts, policy)
    found = replace(_plan(spec, facts), limits=spec.limits)
    if instead := spec.substitute:
        return replace(found, asked=instead.asked, named_by=instead.by)
    return found


def _plan(spec: BuildSpec, facts: ImageFacts | None) -> ImagePlan:
    if spec.build_image is not None:
        return _built(spec.build_image, spec, facts)
    if spec.image is not None:
        place = None if spec.substitute else spec.image_place
        found = _named(spec.image, place, facts)
        return replace(found, place=place, asked=spec.image)
    if facts is None or facts.dockerfile is not None:
        return _built(BuildImage(), spec, facts)
    raise without_dockerfile(spec)


def same(
    spec: BuildSpec, facts: ImageFacts, used: ImageUsed, policy: Policy = NO_POLICY
) -> ImagePlan:
    """Plan to start from the very image that an earlier run used.

    One that the engine no longer has is pulled by its digest, or built again if rai had
    built it. The policy holds for it as for any other.

    Raises:
        NotAllowedError: it does not allow an image that is used.
    """
    found = _same(spec, facts, used, policy)
    if found.build is None:
        if used.reference.startswith(f"{KEY_REPOSITORY}:") and not spec.names_image:
            _check(spec, facts, policy)
        elif refused := other(found.reference, policy):
            raise NotAllowedError(*refused)
    return found


def _same(
    spec: BuildSpec, facts: ImageFacts, used: ImageUsed, policy: Policy
) -> ImagePlan:
    here = {
        name: image_id
        for name, image_id in facts.present.items()
        if image_id == used.digest or name.endswith(f"@{used.digest}")
    }
    again = ImagePlan(
        ImageAction.REUSE,
        used.reference,
        "the earlier run used it",
        asked=used.asked,
        named_by=used.named_by,
        limits=spec.limits,
    )
    if here:
        if facts.present.get(used.reference) in here.values():
            return again
        name = min(here, key=lambda name: (name == here[name], name))
        return replace(again, reference=name)
    if used.reference.startswith(f"{KEY_REPOSITORY}:"):
        build = replace(spec.build_image or BuildImage(), push=None)
        return plan(replace(spec, build_image=build), facts, policy)
    if not used.digest:  # the earlier run's engine did not know it
        why = "the earlier run used this name"
        return replace(again, action=ImageAction.PULL, why=why)
    reference = f"{repository(used.reference)}@{used.digest}"
    why = "the engine no longer has it"
    return replace(again, action=ImageAction.PULL, reference=reference, why=why)


def built_again(used: ImageUsed, run_id: str) -> str:
    """Return the warning for a built image of an earlier run that is gone."""
    return (
        f"the image of run {run_id}, {used.digest}, is gone; using one that is built"
        " from the same project"
    )


def gone(used: ImageUsed, run_id: str, why: ImageError) -> ImageError:
    """Return the error for an image of an earlier run that cannot be had again."""
    text = (
        f"run {run_id} used the image {used.reference} ({used.digest}), which this"
        " engine no longer has and cannot pull"
    )
    hint = "load or push that image again; `rai run` uses the image of that name now"
    causes = [Problem(problem.message, problem.place) for problem in why.problems]
    return ImageError(Problem(text, hint=hint), *causes, reason=why.reason)


def ignored(spec: BuildSpec, engine: str) -> str:
    """Return the warning for an image that is named for an engine without images."""
    image = spec.image
    if instead := spec.substitute:
        own = image_names.made_here(spec)
        image = instead.asked if own else f"{instead.used} of {instead.by}"
    return (
        f"ignoring the image {image}: the {engine} engine uses this machine's programs"
    )


def without_dockerfile(spec: BuildSpec) -> ImageError:
    """Return the error for a project whose Dockerfile is needed and does not exist."""
    build = spec.build_image
    if build is not None:
        hint = "check the path: it is relative to the project's folder"
        message = f"the Dockerfile `{build.dockerfile}` does not exist"
        return ImageError(Problem(message, build.place, hint))
    message = "the build file names no image and the project has no Dockerfile"
    hint = (
        "name an image in `rai.image` or add a Dockerfile; `--engine local` uses this"
        " machine's programs"
    )
    problem = Problem(message, Place(spec.file, 1, 1), hint)
    return ImageError(problem, reason=Reason.IMAGE_NOT_FOUND)


def name_problems(spec: BuildSpec) -> list[Problem]:
    """Return the problems of the names that the spec gives to the image it builds."""
    build = spec.build_image
    if build is None:
        return []
    wrong = []
    if (name := build.image_name) and image_names.reserved(name):
        hint = "choose a name with another beginning, e.g. with your own name"
        message = f"build_image.image_name is `{name}`, which is reserved for rai"
        wrong.append(Problem(message, build.place, hint))
    pushed = build.push.image_name if build.push else None
    for key_, tag in (("image_name", name), ("push.image_name", pushed)):
        if tag and not image_names.valid(tag):
            message = f"build_image.{key_} `{tag}` is not a valid image name"
            hint = "expected lower-case letters and digits, e.g. `someone/project:1`"
            wrong.append(Problem(message, build.place, hint))
    return wrong


def _check(spec: BuildSpec, facts: ImageFacts | None, policy: Policy) -> None:
    """Raise NotAllowedError for images that the policy does not allow."""
    there = facts is None or facts.dockerfile is not None
    if refused := not_allowed(spec, policy, builds=there):
        raise NotAllowedError(*refused)


def _named(image: str, place: Place | None, facts: ImageFacts | None) -> ImagePlan:
    if not image_names.valid(image):
        hint = "expected e.g. `someone/project:1`, in lower case"
        wrong = Problem(f'"{image}" is not a valid image name', place, hint)
        raise ImageError(wrong, reason=Reason.IMAGE_NOT_FOUND)
    reference = normalise(image)
    if image_names.own(image):
        hint = "rai makes rai/course and rai/minidnn; name another image"
        wrong = Problem(f"no registry has the image {image}", place, hint)
        raise ImageError(wrong, reason=Reason.IMAGE_NOT_FOUND)
    if facts is None:
        return ImagePlan(ImageAction.PULL, reference, "unless the engine has it")
    if reference in map(normalise, facts.present):
        return ImagePlan(ImageAction.REUSE, reference, "the engine has it")
    return ImagePlan(ImageAction.PULL, reference, "the engine does not have it")


def _built(build: BuildImage, spec: BuildSpec, facts: ImageFacts | None) -> ImagePlan:
    tags = (normalise(build.image_name),) if build.image_name else ()
    if facts is None:
        whose = "rai's own " if image_names.made_here(spec) else ""
        why = f"from {whose}{build.dockerfile}, unless nothing that goes into it has"
        why += " changed"
        if spec.build_image is None:
            why = f"no image is named: from the project's {build.dockerfile}"
        reference = tags[0] if tags else spec.image or KEY_REPOSITORY
        return ImagePlan(ImageAction.BUILD, reference, why, build, tags=tags)
    if facts.dockerfile is None:
        raise without_dockerfile(spec)
    bases = _bases(build, facts.dockerfile, facts.platform)
    inputs = dockerfile.of(build, facts, bases)
    reference = dockerfile.reference(inputs)
    action = ImageAction.BUILD
    if build.no_cache:
        why = "no_cache asks for a build"
    elif reference in facts.present:
        action, why = ImageAction.REUSE, "nothing that goes into it has changed"
    else:
        why = dockerfile.reason(inputs, facts.origin, facts.built)
    return ImagePlan(
        action,
        reference,
        why,
        build,
        dockerfile.key(inputs),
        tags,
        inputs,
        bases,
        facts.origin,
    )


def _bases(build: BuildImage, text: str, platform: str) -> tuple[str, ...]:
    """Return the images that the Dockerfile starts from.

    Raise ImageError if it lacks the target.
    """
    found = dockerfile.stages(text, dict(build.args), platform)
    named = [stage.name for stage in found if stage.name]
    target = (build.target or "").lower()
    if target and target not in named and not target.isdigit():
        choices = ", ".join(f"`{name}`" for name in named) or "none"
        message = f"{build.dockerfile} has no stage `{build.target}`"
        raise ImageError(Problem(message, build.place, f"its stages are: {choices}"))
    return dockerfile.bases(found)


ALIASES = {
    "x86_64": "amd64",
    "x64": "amd64",
    "aarch64": "arm64",
    "armv6l": "arm",
    "armv7l": "arm",
    "armhf": "arm",
    "i386": "386",
    "i686": "386",
    "powerpc64le": "ppc64le",
}
"""What kernels and people call an architecture, and what images call it."""

RUN_TOO = {"amd64": ("386",), "arm64": ("arm",)}
"""The architectures whose programs another one runs without an emulator."""

EMULATED_AS = {"amd64": "x86_64", "arm64": "aarch64", "386": "i386"}
"""What QEMU calls an architecture, where images call it something else."""


def normal(name: str) -> str:
    """Return an architecture's name as images have it; "" stays."""
    name = name.strip().lower()
    return ALIASES.get(name, name)


def differ(wanted: str, machine: str) -> bool:
    """Whether a machine needs an emulator for an architecture; not if one is ""."""
    wanted, machine = normal(wanted), normal(machine)
    if not (wanted and machine) or wanted == machine:
        return False
    return wanted not in RUN_TOO.get(machine, ())


def emulator(wanted: str) -> str:
    """Return the name that QEMU's emulator of an architecture is registered by."""
    name = normal(wanted)
    return f"qemu-{EMULATED_AS.get(name, name)}"


def emulated(image: str, wanted: str, machine: str) -> str:
    """Return the warning for an image that may only run emulated."""
    return (
        f"the image {image} is for {normal(wanted)}, and the engine's machine is"
        f" {normal(machine)}: it runs only with an emulator, and far slower"
    )


def unsuitable(image: str, wanted: str, machine: str) -> ImageError:
    """Return the error for an image that a machine cannot run."""
    wanted, machine = normal(wanted), normal(machine)
    text = (
        f"the image {image} is for {wanted}, and the engine's machine is {machine},"
        f" which cannot run it: no emulator ({emulator(wanted)}) is registered"
    )
    hint = (
        f"use an image for {machine}: `--image NAME`, or `images:` in your settings"
        f" file; or register an emulator of {wanted}"
    )
    return ImageError(Problem(text, hint=hint), reason=Reason.IMAGE_NOT_FOUND)

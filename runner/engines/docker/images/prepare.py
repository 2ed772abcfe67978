"""List an engine's images, and carry out a plan for one."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from msgspec.structs import replace

from runner import machine
from runner.archive import Project
from runner.core import (
    BuildImage,
    BuildSpec,
    ImageAction,
    ImageFacts,
    ImagePlan,
    ImageUsed,
    Limits,
    Reason,
)
from runner.core.cancel import Cancel
from runner.core.errors import EngineError, ImageError
from runner.core.events import BuildStarted, Event, ImageReady, Warned
from runner.engines.cgroup import Group
from runner.engines.docker.client import Client, NotFound, failing, image
from runner.engines.docker.endpoint import Endpoint, EngineProbe
from runner.engines.docker.facts import Info, can_group_builds, is_here
from runner.engines.docker.images import buildx, built, classic, context, transfer
from runner.engines.docker.images.build_run import BuildRun
from runner.images import architecture, fetches, parts, substitutes


def image_facts(client: Client, project: Project, spec: BuildSpec) -> ImageFacts:
    """Return the engine's images and the inputs of a build."""
    with failing("list its images"):
        version = client.version()
        found = client.images()
    present = _present(found)
    platform = f"{version['Os']}/{version['Arch']}"
    if spec.names_image:
        return ImageFacts(present, platform)
    dockerfile = (spec.build_image or BuildImage()).dockerfile
    text = context.read_text(project.folder, dockerfile)
    if text is None:
        return ImageFacts(present, platform)
    names = context.names(project, dockerfile)
    return ImageFacts(
        present,
        platform,
        text,
        context.checksum(project.folder, names),
        built.origin(project.shown),
        built.recognised(found),
    )


def prepare(
    client: Client,
    probe: EngineProbe,
    info: Info,
    plan: ImagePlan,
    project: Project,
    cancel: Cancel,
) -> Iterator[Event]:
    """Pull or build as planned; the last event is ImageReady."""
    if plan.action is ImageAction.PULL:
        try:
            yield from transfer.pull(probe, plan, cancel)
        except ImageError as error:
            if not plan.named_by:
                raise
            raise substitutes.explained(error, plan) from error
    elif plan.action is ImageAction.BUILD:
        yield from _build(probe, info, plan, project, cancel)
        if not cancel.requested:
            _tag(client, plan)
            _tag_for_the_next_run(client, plan)
    else:
        _tag(client, plan)
    if cancel.requested:
        return
    if plan.action is ImageAction.BUILD and plan.build and plan.build.push:
        yield from transfer.push(
            probe,
            plan.reference,
            plan.build.push.image_name,
            cancel,
            plan.limits.build_time_s,
        )
    found = _found(client, plan)
    yield from _suited(plan.reference, found, info, probe)
    yield ImageReady(_used(plan, found))


def _present(found: list[dict[str, Any]]) -> dict[str, str]:
    """Map the names and the ids of images to their ids."""
    return {
        name: each["Id"] for each in found for name in (*built.names(each), each["Id"])
    }


def _tag_for_the_next_run(client: Client, plan: ImagePlan) -> None:
    """Tag a build by the key that it has now that its bases are on the engine.

    The key of the plan lacks a base that the build itself pulled. Files edited since
    are not in the image, so only the bases are looked up again.
    """
    if plan.parts is None:
        return
    with failing(f"tag the image {plan.reference}"):
        now = parts.checksum_of_bases(plan.bases, _present(client.images()))
        later = parts.reference(replace(plan.parts, bases=now))
        if later != plan.reference:
            client.tag(plan.reference, later)


def _found(client: Client, plan: ImagePlan) -> dict[str, Any]:
    with failing(f"look at the image {plan.reference}"):
        try:
            return image(client, plan.reference)
        except NotFound as error:
            text = f"the image {plan.reference} is no longer on the engine"
            raise ImageError(text, reason=Reason.IMAGE_NOT_FOUND) from error


def _suited(
    name: str, found: Mapping[str, Any], info: Info, probe: EngineProbe
) -> Iterator[Event]:
    """Compare the architectures of an image and its engine; warn of an emulator's.

    Whether another machine has an emulator shows only when the image is started.

    Raises:
        ImageError: this machine has none.
    """
    wanted = found.get("Architecture") or ""
    own = info.get("Architecture") or ""
    if not architecture.differ(wanted, own):
        return
    if is_here(info, probe.endpoint) and not machine.emulates(
        architecture.emulator(wanted)
    ):
        raise architecture.unsuitable(name, wanted, own)
    yield Warned(architecture.emulated(name, wanted, own))


def _used(plan: ImagePlan, found: Mapping[str, Any]) -> ImageUsed:
    digests = found.get("RepoDigests") or ()
    digest = digests[0].partition("@")[2] if digests else found["Id"]
    return ImageUsed(
        plan.reference,
        digest,
        plan.action,
        plan.why,
        cuda_version(found["Config"]),
        plan.asked,
        plan.named_by,
    )


def cuda_version(config: Mapping[str, Any]) -> str:
    """Return an image's CUDA version: from rai's label, else from CUDA_VERSION."""
    labels = config.get("Labels") or {}
    variables = dict(line.partition("=")[::2] for line in config.get("Env") or ())
    return str(labels.get("rai.cuda") or variables.get("CUDA_VERSION") or "")


def _build(
    probe: EngineProbe, info: Info, plan: ImagePlan, project: Project, cancel: Cancel
) -> Iterator[Event]:
    """Build and tag the image; raise ImageError with the step that failed."""
    asked = plan.build
    if asked is None:
        raise EngineError(f"a plan to build {plan.reference} has no build")
    until = time.monotonic() + plan.limits.build_time_s
    text = context.read_text(project.folder, asked.dockerfile) or ""
    if plan.parts and plan.parts.dockerfile != parts.of_dockerfile(text):
        raise context.changed(asked.dockerfile)
    with _group(info, probe.endpoint, plan.limits) as group:
        run = BuildRun(probe, plan, asked, text, until, group, cancel)
        builder = buildx.found(probe.endpoint, grouped=group is not None)
        fetches.check(text, asked, buildkit=builder is not None)
        if builder is None:
            yield from classic.build(run, info, project)
        else:
            missing = builder.unenforced
            yield BuildStarted(plan.reference, plan.why, builder.name, missing)
            yield from buildx.build(run, project)


@contextmanager
def _group(info: Info, endpoint: Endpoint, limits: Limits) -> Iterator[Group | None]:
    """Make the control group of a build; at the end kill what is in it, and remove it.

    The engine makes the containers of all steps in it: its API can limit their memory,
    but not their processes. None where this user may not make one.
    """
    group = None
    if can_group_builds(info, endpoint):
        own = replace(limits, pids=limits.build_pids)
        with suppress(OSError):
            group = Group(f"build-{os.urandom(4).hex()}", own, at_top=True)
    try:
        yield group
    finally:
        if group is not None:
            group.close()


def _tag(client: Client, plan: ImagePlan) -> None:
    """Add the plan's other tags to an image that is there."""
    with failing(f"tag the image {plan.reference}"):
        for name in plan.tags:
            client.tag(plan.reference, name)

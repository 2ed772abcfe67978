"""Build an image, with BuildKit if the docker command line has it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec.structs import replace

from runner.archive import Project
from runner.core import ImagePlan, Limits
from runner.core.cancel import Cancel
from runner.core.errors import EngineError
from runner.core.events import BuildStarted, Event
from runner.engines.docker.client import Client, failing
from runner.engines.docker.endpoint import Endpoint, EngineProbe
from runner.engines.docker.facts import Info, can_group_builds
from runner.engines.docker.images import buildx, classic, context
from runner.engines.docker.images.build_run import BuildRun
from runner.engines.docker.images.options import all_tags
from runner.engines.local.cgroup import Group
from runner.images import fetches, parts


def build(
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
        try:
            own = replace(limits, pids=limits.build_pids)
            group = Group(f"build-{os.urandom(4).hex()}", own, at_top=True)
        except OSError:
            group = None
    try:
        yield group
    finally:
        if group is not None:
            group.close()


def tag(client: Client, plan: ImagePlan) -> None:
    """Add the plan's other tags to an image that is there."""
    with failing(f"tag the image {plan.reference}"):
        for name in all_tags(plan)[1:]:
            client.tag(plan.reference, name)

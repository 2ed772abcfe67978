"""`rai image build [-p DIR]`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from msgspec.structs import replace

from runner import engines
from runner.cli import common
from runner.core import BuildImage, BuildSpec, ImageAction, Reason
from runner.core.errors import Cancel, UsageError
from runner.core.events import BuildStarted
from runner.core.quantities import size
from runner.engines import KEEPING, base
from runner.engines.docker import DockerEngine
from runner.run import prepare
from runner.run.project import folder_project
from runner.spec import images
from runner.terminal.console import Console
from runner.terminal.streams import problems, say

DONE = {
    ImageAction.BUILD: "was built",
    ImageAction.PULL: "was pulled",
    ImageAction.REUSE: "exists",
}
"""How the engine got the image."""


def build(
    path: Annotated[
        Path, typer.Option("--path", "-p", help="The project's folder.")
    ] = Path(),
    target: Annotated[
        str | None,
        typer.Option(help="The Dockerfile's stage; overrides the build file."),
    ] = None,
    gpu: Annotated[
        bool | None,
        typer.Option(
            "--gpu/--no-gpu",
            help="Build for a run with, or without, a GPU.  [default: as here]",
        ),
    ] = None,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Build without Docker's cache.")
    ] = False,
) -> None:
    """Build or pull the image without running.

    An image is built again only if something has changed. Its reference is the only
    line on stdout.
    """
    prepared = prepare.prepare(path, prepare.Options())
    request, settings = prepared.request, prepared.settings
    console = Console(to_stderr=True)
    problems(prepared.warnings)
    store = engines.store(settings.engine, request.spec)
    spec = _wanted(request.spec, store, target, gpu, no_cache)
    project = folder_project(request.project, settings)
    plan = images.plan(spec, store.image_facts(project, spec), request.policy)
    cancel = Cancel()
    with common.cancel_on_signals(cancel, console):
        for event in store.prepare(plan, project, cancel):
            if isinstance(event, BuildStarted):
                missing, by = event.unenforced, request.strict_limits
                base.check_build(KEEPING, missing, by)
            console.show(event)
    console.close()
    if cancel.requested:
        raise typer.Exit(Reason.CANCELLED.exit_code)
    large = size(store.image_bytes(plan.reference))
    text = f"Image {plan.reference} ({large}) {DONE[plan.action]}: {plan.why}."
    console.line(text, "green")
    say(plan.reference)


def _wanted(
    spec: BuildSpec,
    store: DockerEngine,
    target: str | None,
    gpu: bool | None,
    no_cache: bool,
) -> BuildSpec:
    """Return the spec of the image to build."""
    if spec.names_image:
        if target or no_cache or gpu is not None:
            text = (
                f"there is nothing to build: {spec.file} names the image {spec.image}"
            )
            raise UsageError(text)
        return spec
    build = spec.build_image or BuildImage()
    if target:
        build = replace(build, target=target, gpu_target=None)
    if no_cache:
        build = replace(build, no_cache=True)
    if build != BuildImage():
        spec = replace(spec, build_image=build)
    if build.gpu_target is None:
        return spec
    return spec.built_for(_given_here(spec, store) if gpu is None else gpu)


def _given_here(spec: BuildSpec, store: DockerEngine) -> bool:
    """Whether a run here would get a GPU."""
    if spec.gpu is None:
        return False
    return not spec.gpu.optional or store.gpus().any

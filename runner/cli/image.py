"""`rai image build|ls|prune`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from msgspec import Struct
from msgspec.structs import replace

from runner import engines
from runner.cli import common
from runner.core import (
    BuildImage,
    BuildSpec,
    BuiltImage,
    EngineFacts,
    ImageAction,
    ImagePlan,
    Origin,
    Problem,
    Reason,
    record,
)
from runner.core.errors import Cancel, ImageError, UsageError
from runner.core.events import BuildStarted
from runner.core.quantities import size
from runner.engines import base
from runner.engines.docker import DockerEngine
from runner.execution import prepare
from runner.execution.project import (
    build_file,
    folder_project,
    image_source,
    read_spec,
)
from runner.report.blocks import Block, Pairs, Table
from runner.report.phrases import ago
from runner.spec import image_names, images
from runner.spec.image_names import Kept
from runner.store.settings import Settings
from runner.terminal.console import Console
from runner.terminal.layout import blocks
from runner.terminal.streams import problems, say

DONE = {
    ImageAction.BUILD: "was built",
    ImageAction.PULL: "was pulled",
    ImageAction.REUSE: "exists",
}
"""How the engine got the image."""

HEADS = ("image", "target", "size", "built", "project")

image = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Build a project's image; list and remove built images.",
)


@image.command()
def build(
    path: common.ProjectFolder = None,
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
    prepared = prepare.prepare(path or Path(), prepare.Options())
    request, settings = prepared.request, prepared.settings
    console = Console(to_stderr=True)
    problems(prepared.warnings)
    store = engines.store(settings.engine, request.spec)
    spec = _wanted(request.spec, store, target, gpu, no_cache)
    project, spec = image_source(folder_project(request.project, settings), spec)
    plan = images.plan(spec, store.image_facts(project, spec), request.policy)
    cancel = Cancel()
    with common.cancel_on_signals(cancel, console):
        for event in store.prepare(plan, project, cancel):
            if isinstance(event, BuildStarted):
                facts = EngineFacts(store.name, unenforced=event.unenforced)
                base.check(facts, request.strict_limits, builds=True)
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
            text = "there is nothing to build"
            raise UsageError(f"{text}: {spec.file} names the image {spec.image}")
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
    if gpu is None:  # as a run here would have one
        asked = spec.gpu
        gpu = asked is not None and (not asked.optional or store.gpus().any)
    return spec.built_for(gpu)


@image.command()
def ls(path: common.ProjectFolder = None, as_json: common.JsonFlag = False) -> None:
    """List the images that rai built, and the image that a run would use.

    If the project's image would be built again, the reason is shown.
    """
    settings, spec = common.settings(), _spec(path)
    store = engines.store(settings.engine, spec or BuildSpec(""))
    built = _built(store)
    project = _project(store, spec, settings) if spec else None
    if as_json:
        common.print_json(_plain(built, project))
        return
    if not built:
        say("No images built on this engine yet: rai image build -p DIR")
    blocks(_shown(built, project, store.origin(Path()).machine))


def _shown(
    built: Sequence[BuiltImage], project: ImageProject | None, machine: str
) -> list[Block]:
    plans = project.plans if project else ()
    old = project.outdated(built) if project else []

    def state(image: BuiltImage) -> str:
        current = "current" if image_names.current(image, plans) else ""
        older = "older" if image in old else ""
        used = "in use" if image.containers else ""
        return ", ".join(filter(None, (current or older, used)))

    shown: list[Block] = [_table(built, machine, "state", state)] if built else []
    shown += _contents(built)
    if project:
        name = project.origin.name
        rows = [
            (f"{name} {p.build.target or '' if p.build else ''}".rstrip(), _source(p))
            for p in plans
        ]
        rows += [(name, str(problem)) for problem in project.problems]
        shown.append(Pairs(tuple(rows)))
    return shown


def _plain(built: Sequence[BuiltImage], project: ImageProject | None) -> dict[str, Any]:
    plans = project.plans if project else ()
    old = project.outdated(built) if project else []
    images = [
        {
            "reference": image_names.reference(image),
            "current": image_names.current(image, plans),
            "older": image in old,
            **record.plain(image),
        }
        for image in built
    ]
    return {"images": images, "project": project}


@image.command()
def prune(
    path: common.ProjectFolder = None,
    everything: Annotated[
        bool,
        typer.Option(
            "--all",
            help="All images that rai built; with -p, all of the project.",
        ),
    ] = False,
    dry_run: common.DryRun = False,
    yes: common.Yes = False,
) -> None:
    """Remove a project's builds that later ones replaced.

    Images that a container uses, or that have a name of your own, are kept. --all also
    removes images with the name that a build file gave them.
    """
    if not (yes or dry_run or sys.stdin.isatty()):
        raise UsageError("cannot ask for confirmation here: add --yes or --dry-run")
    settings = common.settings()
    spec = None if everything and path is None else _spec(path or Path())
    store = engines.store(settings.engine, spec or BuildSpec(""))
    found = _built(store)
    if spec is not None:
        project = _project(store, spec, settings)
        own = [image for image in found if image.origin == project.origin]
        found = own if everything else project.outdated(found)
    chosen = image_names.prune(found, everything=everything)
    _show_kept(chosen.kept)
    if not chosen.removals:
        say("Nothing to remove.")
        return

    def names(image: BuiltImage) -> str:
        return ", ".join(image_names.other_names(image))

    machine = store.origin(Path()).machine
    blocks([_table(chosen.removals, machine, "names", names)])
    least = size(image_names.least_freed_bytes(chosen.removals))
    count = _images(len(chosen.removals))
    say(f"{count} to remove; at least {least} to free")
    if dry_run:
        return
    common.confirm(f"Remove {count}?", yes=yes)
    done = store.remove_images(chosen.removals)
    _show_kept(done.kept)
    freed = "" if done.freed_bytes is None else f", {size(done.freed_bytes)} freed"
    say(f"{_images(len(chosen.removals) - len(done.kept))} removed{freed}")


def _show_kept(kept: Sequence[Kept]) -> None:
    for one in kept:
        say(f"Keeping {image_names.reference(one.image)}: {one.why}")


def _images(number: int) -> str:
    return "1 image" if number == 1 else f"{number} images"


class ImageProject(Struct, frozen=True):
    """A project's folder, and how its runs would get their image now.

    There is a plan, or a problem, for each target of a run.
    """

    origin: Origin
    plans: tuple[ImagePlan, ...]
    problems: tuple[Problem, ...] = ()

    def outdated(self, built: Sequence[BuiltImage]) -> list[BuiltImage]:
        """Return the project's builds that later ones replaced."""
        return image_names.outdated(built, self.origin, self.plans)


def _built(store: DockerEngine) -> list[BuiltImage]:
    """Return the images that rai built on an engine, newest first."""
    return sorted(store.built_images(), key=lambda image: -image.created_at)


def _spec(path: Path | None) -> BuildSpec | None:
    """Parse a folder's build file; None if no folder is given and none is here."""
    try:
        build_file(path or Path())
    except UsageError:
        if path is not None:
            raise
        return None
    return read_spec(path or Path())[0]


def _project(store: DockerEngine, spec: BuildSpec, settings: Settings) -> ImageProject:
    """Ask the engine how runs of a project would get their image."""
    folder = Path(spec.file).parent
    project, spec = image_source(folder_project(folder, settings), spec)
    facts = store.image_facts(project, spec)
    plans: dict[ImagePlan, None] = {}
    problems: dict[Problem, None] = {}
    for gpu in (False, True):
        try:
            plans[images.plan(spec.built_for(gpu), facts)] = None
        except ImageError as error:
            problems |= dict.fromkeys(error.problems)
    return ImageProject(store.origin(folder), tuple(plans), tuple(problems))


def _table(
    images: Sequence[BuiltImage],
    machine: str,
    head: str,
    last: Callable[[BuiltImage], str],
) -> Table:
    """Return a table with a row for each image; omit the last column if it is empty.

    ``machine`` is this machine: images built from another one are marked.
    """
    now = time.time()
    rows = tuple(
        (
            image_names.reference(image),
            image_names.target(image),
            size(image.size_bytes),
            ago(now - image.created_at),
            _project_name(image.origin, machine),
            last(image),
        )
        for image in images
    )
    if any(row[-1] for row in rows):
        return Table("", (*HEADS, head), rows, frozenset({2}))
    return Table("", HEADS, tuple(row[:-1] for row in rows), frozenset({2}))


def _project_name(origin: Origin | None, machine: str) -> str:
    if origin is None:
        return "unknown"
    return origin.name if origin.machine == machine else f"{origin.name} (elsewhere)"


def _contents(images: Sequence[BuiltImage]) -> list[Table]:
    """Return a table of the shared sizes, versions and other names that are known."""
    rows = []
    for image in images:
        name = image_names.reference(image)
        known = [f"{program} {version}" for program, version in image.versions]
        known += [tag for tag in image.tags if tag != name]
        if image.shared_bytes or known:
            rows.append((name, size(image.shared_bytes), ", ".join(known)))
    heads = ("image", "shared", "versions and other names")
    return [Table("", heads, tuple(rows), frozenset({1}))] if rows else []


def _source(plan: ImagePlan) -> str:
    """Return how a run would get its image."""
    match plan.action:
        case ImageAction.REUSE:
            return f"{plan.reference}: {plan.why}"
        case ImageAction.PULL:
            return f"{plan.reference} would be pulled: {plan.why}"
        case ImageAction.BUILD:
            return f"would be built: {plan.why}"

"""`rai image ls [-p DIR]`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from runner import engines
from runner.cli import common
from runner.cli.image import common as projects
from runner.cli.image.common import ImageProject
from runner.core import BuiltImage, record
from runner.report import Block, Pairs
from runner.spec import image_names
from runner.terminal.layout import blocks
from runner.terminal.streams import say


def ls(
    path: Annotated[
        Path | None,
        typer.Option("--path", "-p", help="The project's folder.  [default: .]"),
    ] = None,
    as_json: common.JsonFlag = False,
) -> None:
    """List the images that rai built, and the image that a run would use.

    If the project's image would be built again, the reason is shown.
    """
    settings = common.settings()
    spec = projects.spec(path)
    store = engines.store(settings.engine, spec or projects.NO_SPEC)
    built = projects.built(store)
    project = projects.project(store, spec, settings) if spec else None
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

    shown: list[Block] = (
        [projects.table(built, machine, "state", state)] if built else []
    )
    if more := projects.contents(built):
        shown.append(more)
    if project:
        name = project.origin.name
        rows = [
            (f"{name} {projects.target(p)}".rstrip(), projects.source(p)) for p in plans
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

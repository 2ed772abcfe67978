"""`rai prune`."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from runner import engines
from runner.cli import common
from runner.core import BuildSpec, BuiltImage, quantities
from runner.core.errors import EngineError
from runner.engines.docker import DockerEngine
from runner.report.blocks import Block, Table
from runner.report.phrases import date
from runner.spec import image_names
from runner.store import prune as store
from runner.store.prune import Removal, Retention
from runner.terminal.layout import blocks
from runner.terminal.streams import say


def prune(
    older: common.Older = None,
    size: common.Size = None,
    dry_run: common.DryRun = False,
    yes: common.Yes = False,
    as_json: common.JsonFlag = False,
) -> None:
    """Remove old runs, and what else rai keeps and nobody uses.

    With --older, runs that ended longer ago are removed, with `0s` all that have ended;
    with --size, the oldest until the rest takes no more. Without either the settings
    decide. Tagged runs and those that `rai ranking` lists stay. By age, and by size,
    downloaded data files that no run used are removed too; by age, on the Docker
    Engine, rai's builds of images that later ones replaced, of the projects that have
    runs here. Volumes of data files, which everybody on the engine shares, stay.
    """
    settings = common.settings(keep_for=older, keep_size=size)
    # Of the setting 0 means that there is no bound.
    age_s = 0.0 if older and quantities.duration_s(older) == 0 else settings.keep_for
    both = (older is None) == (size is None)
    keep = Retention(
        age_s if older or both else math.inf,
        settings.keep_size if size or both else math.inf,
        settings.keep_size if both else math.inf,
    )
    now, home = time.time(), common.home()
    what = store.plan(home, keep, now)
    engine, images = _unused(settings.engine, store.projects(home), now - keep.age_s)
    if not as_json:
        _show(what, images)
    if not dry_run and (what.runs or what.data or images):
        if not as_json:
            say(_summary(what, images, "to remove", "to free"))
        common.confirm("Remove all of this?", yes=yes)
        what = store.apply(home, what)
        images = _removed(engine, images)
    if as_json:
        common.print_json(_plain(what, images, dry_run))
        return
    words = ("to remove", "to free") if dry_run else ("removed", "freed")
    say(_summary(what, images, *words))
    if dry_run and what.tagged:
        names = ", ".join(f"{run.id} ({run.tag})" for run in what.tagged)
        say(f"Kept: {names}")


def _unused(
    wanted: str, projects: Iterable[str], before: float
) -> tuple[DockerEngine | None, tuple[BuiltImage, ...]]:
    """Return the engine, if it answers, and the images on it that nothing uses.

    Images are those of this home's projects: others may share the engine.
    """
    if math.isinf(before):
        return None, ()

    try:
        engine = engines.store(wanted, BuildSpec(""))
        origins = {engine.origin(Path(project)) for project in projects}
        old = image_names.replaced(engine.built_images(), origins, before)
    except EngineError:
        return None, ()
    return engine, image_names.prune(old, everything=False).removals


def _removed(
    engine: DockerEngine | None, images: tuple[BuiltImage, ...]
) -> tuple[BuiltImage, ...]:
    """Remove images; return them without those that came into use meanwhile."""
    if engine is None:
        return ()
    kept = {one.image for one in engine.remove_images(images).kept}
    return tuple(image for image in images if image not in kept)


def _show(what: Removal, images: Sequence[BuiltImage]) -> None:
    rows = tuple(
        (run.id, date(run.created_at), quantities.size(run.size_bytes), run.project)
        for run in what.runs
    )
    shown: list[Block] = []
    if rows:
        shown = [Table("", ("run", "date", "size", "project"), rows, frozenset({2}))]
    others = (
        *(("data files", name, "") for name in what.data),
        *(
            ("image", image_names.reference(i), quantities.size(i.size_bytes))
            for i in images
        ),
    )
    if others:
        shown.append(Table("", ("kind", "name", "size"), others, frozenset({2})))
    blocks(shown)


def _plain(
    what: Removal, images: Sequence[BuiltImage], dry_run: bool
) -> dict[str, object]:
    return {
        "dry_run": dry_run,
        "runs": [
            {"id": run.id, "project": run.project, "size_bytes": run.size_bytes}
            for run in what.runs
        ],
        "data": list(what.data),
        "images": [image_names.reference(image) for image in images],
        "freed_bytes": what.freed_bytes + image_names.least_freed_bytes(images),
    }


def _summary(
    what: Removal, images: Sequence[BuiltImage], removed: str, freed: str
) -> str:
    counts = (
        ("run", len(what.runs)),
        ("data file", len(what.data)),
        ("image", len(images)),
    )
    words = [f"{n} {name}{'' if n == 1 else 's'}" for name, n in counts if n]
    if not words:
        return "Nothing to remove."
    space = quantities.size(what.freed_bytes + image_names.least_freed_bytes(images))
    return f"{', '.join(words)} {removed}; {space} {freed}"

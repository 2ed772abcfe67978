"""`rai prune`."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import Struct

from runner.cli import common
from runner.terminal.streams import say

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runner.core import BuiltImage
    from runner.engines.imagestore import DataVolume, ImageStore
    from runner.report import Block
    from runner.store.prune import Removal
    from runner.store.retention import Retention


class Unused(Struct, frozen=True):
    """What rai made on the Docker Engine that nothing uses any more."""

    images: tuple[BuiltImage, ...] = ()
    volumes: tuple[DataVolume, ...] = ()

    @property
    def bytes(self) -> int:
        """What removing them frees at least."""
        from runner.images import inventory

        volumes = sum(volume.size_bytes for volume in self.volumes)
        return volumes + inventory.least_freed_bytes(self.images)


def prune(
    older: common.Older = None,
    size: common.Size = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be removed, and exit.")
    ] = False,
    as_json: common.JsonFlag = False,
) -> None:
    """Remove old runs, and what else rai keeps and nobody uses.

    With --older, runs that ended longer ago are removed; with --size, the oldest until
    the rest takes no more. Without either the settings decide. Tagged runs and
    those that `rai ranking` lists stay.
    By age, and by size, downloaded data files that no run used are removed too, and on
    the Docker Engine rai's volumes of data files that no run uses; by age its builds of
    images that later ones replaced, of the projects that have runs here.
    """
    from runner.store import prune as store
    from runner.store.retention import Retention

    settings = common.settings(keep_for=older, keep_size=size)
    both = (older is None) == (size is None)
    keep = Retention(
        settings.keep_for if older or both else math.inf,
        settings.keep_size if size or both else math.inf,
        settings.keep_size if both else math.inf,
    )
    now, home = time.time(), common.home()
    what = store.plan(home, keep, now)
    engine, unused = _unused(settings.engine, store.projects(home), now, keep)
    if not dry_run:
        what = store.carry_out(home, what)
        unused = _removed(engine, unused)
    if as_json:
        common.print_json(_plain(what, unused, dry_run))
        return
    if dry_run:
        _show(what, unused)
    say(_summary(what, unused, dry_run))
    if dry_run and what.tagged:
        names = ", ".join(f"{run.id} ({run.tag})" for run in what.tagged)
        say(f"Kept: {names}")


def _unused(
    wanted: str, projects: Iterable[str], now: float, keep: Retention
) -> tuple[ImageStore | None, Unused]:
    """Return the engine and what nothing uses on it; nothing if it does not answer.

    Images are those of this home's projects: others may share the engine.
    """
    before = now - keep.age_s
    if math.isinf(before) and math.isinf(keep.data_bytes):
        return None, Unused()
    from pathlib import Path

    from runner.core import BuildSpec
    from runner.core.errors import EngineError
    from runner.engines import imagestore
    from runner.images import inventory
    from runner.store import retention
    from runner.store.retention import KeptFile

    try:
        engine = imagestore.store(wanted, BuildSpec(""))
        origins = {engine.origin(Path(project)) for project in projects}
        old = inventory.replaced(engine.built_images(), origins, before)
        images = inventory.prune(old, everything=False).removals
        volumes = engine.data_volumes()
    except EngineError:
        return None, Unused()
    kept = [KeptFile(v.name, v.created_at, v.size_bytes, v.used) for v in volumes]
    names = retention.unneeded(kept, keep.data_bytes, before)
    return engine, Unused(images, tuple(v for v in volumes if v.name in names))


def _removed(engine: ImageStore | None, unused: Unused) -> Unused:
    """Remove what nothing uses; return it without what came into use meanwhile."""
    if engine is None:
        return unused
    kept = {one.image for one in engine.remove_images(unused.images).kept}
    engine.remove_data_volumes(unused.volumes)
    left = {volume.name for volume in engine.data_volumes()}
    return Unused(
        tuple(image for image in unused.images if image not in kept),
        tuple(volume for volume in unused.volumes if volume.name not in left),
    )


def _show(what: Removal, unused: Unused) -> None:
    from runner.images import inventory
    from runner.report import Table, date, size
    from runner.terminal.tables import blocks

    rows = tuple(
        (run.id, date(run.created_at), size(run.size_bytes), run.project)
        for run in what.runs
    )
    shown: list[Block] = []
    if rows:
        shown = [Table("", ("run", "date", "size", "project"), rows, frozenset({2}))]
    others = (
        *(("data files", name, "") for name in what.data),
        *(("image", inventory.reference(i), size(i.size_bytes)) for i in unused.images),
        *(("data volume", v.name, size(v.size_bytes)) for v in unused.volumes),
    )
    if others:
        shown.append(Table("", ("kind", "name", "size"), others, frozenset({2})))
    blocks(shown)


def _plain(what: Removal, unused: Unused, dry_run: bool) -> dict[str, object]:
    from runner.images import inventory

    return {
        "dry_run": dry_run,
        "runs": [
            {"id": run.id, "project": run.project, "size_bytes": run.size_bytes}
            for run in what.runs
        ],
        "data": list(what.data),
        "images": [inventory.reference(image) for image in unused.images],
        "volumes": [volume.name for volume in unused.volumes],
        "freed_bytes": what.freed_bytes + unused.bytes,
    }


def _summary(what: Removal, unused: Unused, dry_run: bool) -> str:
    from runner.report import size

    counts = (
        ("run", len(what.runs)),
        ("data file", len(what.data)),
        ("image", len(unused.images)),
        ("data volume", len(unused.volumes)),
    )
    words = [f"{n} {name}{'' if n == 1 else 's'}" for name, n in counts if n]
    if not words:
        return "Nothing to remove."
    freed = size(what.freed_bytes + unused.bytes)
    if dry_run:
        return f"{', '.join(words)} to remove; {freed} to free"
    return f"{', '.join(words)} removed; {freed} freed"

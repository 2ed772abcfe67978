"""`rai run -p DIR`: the main job."""

from __future__ import annotations

import os
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from runner.cli import common

if TYPE_CHECKING:
    from runner.core import JobRequest, RunRecord
    from runner.store.paths import RunPaths
    from runner.store.settings import Config
    from runner.terminal.console import Face


def run(
    path: Annotated[
        Path, typer.Option("--path", "-p", help="The project's folder.")
    ] = Path(),
    engine: Annotated[
        str | None, typer.Option(help="auto, docker, local or bare (RAI_ENGINE).")
    ] = None,
    profile: Annotated[
        str | None, typer.Option(help="strict or compatible (RAI_PROFILE).")
    ] = None,
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="Run the rest after a failure.")
    ] = False,
    progress: Annotated[
        str | None, typer.Option(help="auto, tty, plain or quiet (RAI_PROGRESS).")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Unpack the build folder to here."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List what would be sent, and stop.")
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="Print the record on stdout; all output goes to stderr."
        ),
    ] = False,
    gpus: Annotated[
        str | None,
        typer.Option(
            metavar="N|UUID,...", help="GPUs, in place of the file's; 0 for none."
        ),
    ] = None,
    wait: Annotated[
        str | None,
        typer.Option(help="Wait this long for GPUs in use: 0, 10m (RAI_GPU_WAIT)."),
    ] = None,
    queue: Annotated[str | None, typer.Option("--queue", "-q", hidden=True)] = None,
) -> None:
    """Run a project's rai_build.yml and keep a record of it."""
    from runner import engines

    if dry_run:
        from runner.cli import dry_run as listing

        listing.show(path, as_json)
        return
    config = common.load(
        engine=engine, profile=profile, progress=progress, gpu_wait=wait
    )
    if output is not None:
        _refuse_output(output)
    with engines.looking_around(config.engine):
        from runner.cli import request as asking
        from runner.core import record
        from runner.terminal.console import Face, Mode
        from runner.terminal.problems import problems

        request, warnings = asking.request(path, config, keep_going, gpus)
    face = Face(Mode(config.progress), aside=as_json)
    if face.mode is not Mode.QUIET:
        problems(warnings)
    if queue:
        face.line(f"Warning: there are no queues here; {queue} is ignored.", "yellow")
    done, paths = _carry_out(request, config, face)
    if as_json:
        common.print_json(record.plain(done))
    if output is not None and paths.build.exists():
        _bring_back(paths, done, output, face)
    raise typer.Exit(done.verdict.reason.exit_code if done.verdict else 10)


def _refuse_output(output: Path) -> None:
    """Refuse a folder that cannot be made, before anything runs."""
    from runner import archive
    from runner.core.errors import UsageError

    if archive.taken(output):
        raise UsageError(
            f"--output {output} exists; name a new folder, or an empty one"
        )
    archive.folder_beside(output.absolute()).rmdir()


def _carry_out(
    request: JobRequest, config: Config, face: Face
) -> tuple[RunRecord, RunPaths]:
    """Run it, show it, list it; give its record."""
    from dataclasses import replace

    from runner import engines, job
    from runner.archive import datafiles
    from runner.cli import interrupt
    from runner.core import events
    from runner.core.cancel import Cancel
    from runner.store import runs
    from runner.store.paths import Home
    from runner.terminal.messages import ending

    ci = bool(os.environ.get("CI"))
    choice = engines.choose(config.engine, request.spec, ci=ci)
    request = replace(request, why=choice.why)
    place = Home(config.home)
    lost = runs.sweep(place)
    paths = runs.create(place)
    places = datafiles.DataPlaces(config.data_dir, request.project, place.data)
    cancel = Cancel()
    began = time.monotonic()
    told = job.run(
        request, choice.engines, paths, places, cancel, download=config.download
    )
    with common.opened(place) as known:
        known.put(*lost)
        try:
            with interrupt.heeded(cancel, face), closing(told):
                for event in told:
                    face.show(event)
                    if isinstance(event, events.Created):
                        known.put(common.record_of(paths))
                    elif isinstance(event, events.Finished):
                        took_s = time.monotonic() - began
                        whole = face.mode == "quiet"
                        said = ending(paths.id, event, took_s, whole=whole)
                        for text, colour in said:
                            face.line(text, colour)
        except KeyboardInterrupt:
            left = f"Run {paths.id} was left at once: rai show {paths.id}"
            face.line(left, "red")
            raise
        finally:
            if (done := runs.read(paths)) is not None:
                known.put(done)
    return common.record_of(paths), paths


def _bring_back(paths: RunPaths, record: RunRecord, output: Path, face: Face) -> None:
    from runner import archive
    from runner.core import Limits

    caps = archive.build_caps(record.limits or Limits())
    came = archive.unpack(paths.build, output.absolute(), caps, root="build")
    face.line(f"The build folder is in {output}.", "green")
    for name in came.left_out:
        face.line(f"Warning: left out of it: {name}", "yellow")

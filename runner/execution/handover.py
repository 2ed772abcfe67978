"""Hand a run over to a server or to Slurm: seal it here, send it, queue it."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Generator
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from runner import pack
from runner.client import bounds
from runner.client.api import Pauses, ServerClient
from runner.client.problems import NOT_AS_ANNOUNCED, RefusedError, UnreachableError
from runner.core import MIB, Problem, RunRequest
from runner.core import events as ev
from runner.core.addresses import SLURM, SlurmTarget
from runner.core.errors import Cancel, RaiError, UsageError
from runner.core.request import Terms
from runner.core.wire import Me, RemoteRun
from runner.engines.base import in_background
from runner.execution import places, server, slurm_programs
from runner.execution import slurm as cluster
from runner.execution.copies import Mirror
from runner.execution.prepare import WITHOUT_IMAGES, Prepared, in_ci
from runner.execution.session import StartedRun, discard, go_on, sealed
from runner.execution.slurm_jobs import NAME
from runner.execution.slurm_programs import JobNeeds
from runner.store import claim, run_files, runs
from runner.store import settings as stored
from runner.store.claim import Claim
from runner.store.paths import Home, RunPaths
from runner.store.run_files import LifeSign, SlurmSubmission
from runner.system import files

LOOK_S = 0.05
MOST_IDS = 3
"""So many ids in turn would have to be those of others' runs."""

MOST_BROKEN = 5
"""So many connections may break while a file is sent, before it is given up."""

MOST_WRONG = 2
"""So often a file that arrived with another checksum is sent anew."""

Progress = Callable[[int, int], None]
"""Told how many bytes were sent, and of how many; the first may go back."""

T = TypeVar("T")


def reach(client: ServerClient, cancel: Cancel, between: Callable[[], None]) -> Me:
    """Return who one is at a server; call ``between`` while it is asked.

    Raises:
        RaiError: it is away for longer than the client's patience, or refuses.
    """
    asking = in_background(client.me)
    while not _over(asking):
        between()
        _go_on(cancel)
    return asking.result()


def submit_to_server(
    prepared: Prepared,
    client: ServerClient,
    team: str,
    cancel: Cancel,
    engine: str = "",
    cache: pack.PackCache | None = None,
) -> Generator[ev.Event, None, StartedRun]:
    """Seal the project, send it, and queue the run; yield how far that has come.

    ``team`` is whose run it is there, ``engine`` the wish for one, "" for the server's
    choice. Until the run is queued a cancel leaves nothing; from then on the run's
    folder says where it runs, so that any command finds it there, whatever
    becomes of this process.

    Raises:
        RaiError: the server refuses the run, or it was cancelled before it was queued.
    """
    home = places.open_home(prepared.settings.home)
    paths = runs.create(home)
    try:
        with Claim(paths):
            stop = partial(_go_on, cancel, paths)
            asked = yield from sealed(prepared, paths, cache, stop)
            files.write(paths.spec, asked.spec_text.encode())
            found = yield from _sent(client, paths, cancel)
            asked = replace(asked, upload=found, engine=engine)
            queued = _queued(prepared, client, team, home, asked, paths, cancel)
            paths = yield from queued
    except BaseException:
        if not _handed_over(paths):
            discard(home, paths)
        raise
    return StartedRun(prepared, paths)


def _go_on(cancel: Cancel, paths: RunPaths | None = None) -> None:
    go_on(cancel, paths, until="queued")


def _sent(
    client: ServerClient, paths: RunPaths, cancel: Cancel
) -> Generator[ev.Event, None, str]:
    """Send the packed project; return its SHA-256."""
    total = paths.source.stat().st_size
    sent = [0]

    def progress(done: int, size: int) -> None:
        sent[0] = done

    sending = in_background(lambda: upload(client, paths.source, progress))
    while not _over(sending):
        yield ev.Progress("upload", sent[0], total)
        _go_on(cancel, paths)
    return sending.result()


def _queued(
    prepared: Prepared,
    client: ServerClient,
    team: str,
    home: Home,
    asked: RunRequest,
    paths: RunPaths,
    cancel: Cancel,
) -> Generator[ev.Event, None, RunPaths]:
    """Queue a run under its folder's id, else under another; return its folder."""
    for _ in range(MOST_IDS):
        _go_on(cancel, paths)
        # Nobody else asks the server for the run before it can know it.
        with Mirror(paths, bounds.of_limits(prepared.request.spec.limits)):
            url = client.entry.url
            claim.hand_over(paths, claim.SERVER, url, server.name_of(url), team)
            try:
                queued = yield from _put(client, asked, paths, cancel)
            except UnreachableError:
                raise  # it may be queued, and a later command will know
            except RaiError as error:
                if not (isinstance(error, RefusedError) and error.id_taken):
                    discard(home, paths)
                    raise
            else:
                run_files.write_seen(paths, queued)
                if cancel.requested or paths.cancel.exists():
                    with suppress(UnreachableError):  # it is passed on later
                        places.of(paths).cancel(paths)
                return paths
        paths = _renamed(home, paths)
    raise RaiError(
        f"{client.entry.url} has other runs under each of {MOST_IDS} new ids"
    )


def _put(
    client: ServerClient, asked: RunRequest, paths: RunPaths, cancel: Cancel
) -> Generator[ev.Event, None, RemoteRun]:
    """Queue a run; a cancel that comes meanwhile is kept until the server answers."""
    asking = in_background(lambda: client.put_run(paths.id, asked))
    while not _over(asking):
        if cancel.requested:
            files.touch(paths.cancel)
        yield ev.Progress("queue", 0, None)
    return asking.result()


def _renamed(home: Home, paths: RunPaths) -> RunPaths:
    """Move the sealed project to a folder with another id."""
    other = runs.create(home)
    for file in (paths.source, paths.parcel, paths.spec):
        file.rename(other.root / file.name)
    discard(home, paths)
    return other


def _handed_over(paths: RunPaths) -> bool:
    holder = claim.holder(paths)
    return holder is not None and holder.place != claim.HERE


def _over(asked: Future[T]) -> bool:
    """Wait a moment for a call; return whether it is over."""
    return bool(wait([asked], LOOK_S).done)


def upload(
    client: ServerClient,
    path: Path,
    progress: Progress | None = None,
    *,
    submission: bool = False,
) -> str:
    """Send a file, and return its SHA-256 when the server has checked all of it.

    A file that the server has, from whatever process, is not sent again.

    Raises:
        UnreachableError: the server is away for longer than the client's patience.
        RefusedError: it does not take the file.
    """
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        size = file.tell()
    tell = progress or (lambda sent, size: None)
    pauses, broken, wrong = Pauses(client.patience), 0, 0
    while not client.has_upload(sha256, size, submission=submission):
        with _Sent(path, lambda sent: tell(sent, size)) as source:
            try:
                client.put_upload(sha256, source, submission=submission)
                return sha256
            except UnreachableError as error:
                if source.tell():  # it got that far, so patience begins anew
                    broken += 1
                    pauses.restart()
                if broken > MOST_BROKEN:
                    raise
                pauses.wait(error)
            except RefusedError as error:
                wrong += 1
                if error.refusal.status != NOT_AS_ANNOUNCED or wrong > MOST_WRONG:
                    raise
    tell(size, size)
    return sha256


class _Sent(io.FileIO):
    """A file that tells how much of it was read, as requests reads what it sends."""

    def __init__(self, path: Path, progress: Callable[[int], None]) -> None:
        super().__init__(path)
        self._progress = progress

    def read(self, size: int | None = -1, /) -> bytes:
        """Return the next bytes."""
        found = super().read(-1 if size is None else size)
        self._progress(self.tell())
        return found


CI = "CI"
WORKER_BYTES = 512 * MIB
"""For rai itself beside the commands: three times what it was seen to take."""

STAGING_S = 300.0
"""For unpacking, data files, and bringing the build folder back."""


def submit_to_slurm(
    prepared: Prepared, target: SlurmTarget, cancel: Cancel
) -> Generator[ev.Event, None, StartedRun]:
    """Seal the project and submit the run's job; yield what packing tells.

    Until Slurm has the job a cancel leaves nothing; from then on the run's folder tells
    where the run is, whatever becomes of this process.

    Raises:
        RaiError: Slurm refuses the job, or it was cancelled before.
    """
    settings = prepared.settings
    slurm_programs.check()
    needs = needs_of(prepared)
    home = places.open_home(settings.home)
    paths = runs.create(home)
    stop = partial(go_on, cancel, paths, until="submitted")
    submitted = False
    try:
        with LifeSign(paths):
            handing = SlurmSubmission(paths.id, SLURM, str(target), f"{NAME}{paths.id}")
            run_files.write_submission(paths, handing)
            asked = yield from sealed(prepared, paths, check=stop)
            files.write(paths.spec, asked.spec_text.encode())
            ci = {CI: "true"} if in_ci() else {}
            terms = Terms({**stored.variables(settings), **ci})
            asked = replace(asked, terms=terms)
            submitted = True
            answer = cluster.hand_over(
                paths, target, asked, needs, settings.slurm, cancel
            )
    except BaseException:
        if submitted:
            cluster.withdraw(paths)
        discard(home, paths)
        stop()
        raise
    if answer.reason is not None:
        discard(home, paths)
        raise RaiError(*answer.problems, reason=answer.reason, advice="")
    if cancel.requested or paths.cancel.exists():
        with suppress(RaiError):  # its worker looks for the request
            places.of(paths).cancel(paths)
    return StartedRun(prepared, paths)


def needs_of(prepared: Prepared) -> JobNeeds:
    """Return what is asked for a run: what its limits allow, and rai's own part.

    A run that is repeated is a measurement, and shares its node with no other job.

    Raises:
        UsageError: it names GPUs by their UUIDs, which are those of one machine.
    """
    request = prepared.request
    spec, gpu = request.spec, request.spec.gpu
    if gpu and gpu.uuids:
        text = "--gpus names GPUs of this machine, and Slurm chooses the node"
        raise UsageError(Problem(text, hint="give their number: --gpus 1"))
    # An engine with images builds or pulls, for as long as the file allows.
    takes_images = prepared.settings.engine not in WITHOUT_IMAGES
    image_s = spec.limits.build_time_s if takes_images else 0.0
    commands_s = spec.limits.time_s
    if request.asked.repeat > 1:  # a last round may begin within the budget
        commands_s += spec.limits.time_s + request.budget_s + request.idle_s
    return JobNeeds(
        memory_bytes=spec.limits.memory_bytes + WORKER_BYTES,
        time_s=commands_s + image_s + STAGING_S + spec.limits.stop_grace_s,
        gpus=gpu.count if gpu else 0,
        gpu_optional=gpu.optional if gpu else False,
        cores=spec.cpu_cores,
        alone=request.asked.repeat > 1,
    )

"""Carry out one run, from a request to its verdict, as events."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, TypeVar

from runner import archive, files, images, machine, places
from runner.archive import Project, datafiles
from runner.commandline import exports
from runner.commandline import plan as plan_command
from runner.core import (
    Archive,
    BuildSpec,
    DataMount,
    Findings,
    GpuGrant,
    GpuSituation,
    GpuUse,
    ImagePlan,
    ImageUsed,
    JobRequest,
    Reason,
    State,
    Step,
    Stream,
    Verdict,
    Workspace,
)
from runner.core import events as ev
from runner.core.cancel import Cancel
from runner.core.errors import EngineError, ImageError, RaiError
from runner.core.run import GitState
from runner.engines.base import Engine
from runner.gpu import allocation
from runner.report import verdicts
from runner.store import runs
from runner.store.paths import RunPaths

if TYPE_CHECKING:
    from runner.findings import Scanner

T = TypeVar("T")

NO_GPU_HERE = "needs a GPU, and this run has none"


def steps(spec: BuildSpec, gpu: bool) -> tuple[Step, ...]:
    """Return the spec's commands as steps; without a GPU skip those that need one.

    The command lines are well formed: ``buildfile.parse`` refuses others.
    """
    return tuple(
        Step(
            index,
            command,
            plan_command(command.text),
            NO_GPU_HERE if command.needs_gpu and not gpu else None,
        )
        for index, command in enumerate(spec.commands)
    )


def run(
    request: JobRequest,
    project: Project,
    engines: Sequence[Engine],
    paths: RunPaths,
    places: datafiles.DataPlaces,
    cancel: Cancel,
    *,
    download: bool = True,
) -> Generator[ev.Event, None, None]:
    """Run the job on the first engine; record every event, then yield it.

    ``project`` is a folder to pack or a sealed parcel; both are run from the archive.
    If an engine cannot get the base image of a build, the next engine runs the job. The
    last event is Finished. Only a bug in rai raises an exception, after Finished.
    """
    files.write(paths.spec, request.spec_text.encode())
    with closing(project), runs.Recorder(paths) as recorder:
        job = _Job(request, project, engines, paths, places, cancel, download)
        try:
            for event in job.events():
                yield recorder.keep(event)
            verdict = job.verdict()
        except RaiError as error:
            verdict = verdicts.from_error(error)
        except Exception as error:
            fault = files.disk_fault(error, paths.root)
            if fault is None:
                yield recorder.keep(ev.Finished(verdicts.bug(error)))
                raise
            verdict = verdicts.from_error(RaiError(fault))
        for event in job.not_reached():
            yield recorder.keep(event)
        yield recorder.keep(ev.Finished(verdict))


class _Job:
    """The steps of one run, and the results so far."""

    def __init__(
        self,
        request: JobRequest,
        project: Project,
        engines: Sequence[Engine],
        paths: RunPaths,
        places: datafiles.DataPlaces,
        cancel: Cancel,
        download: bool,
    ) -> None:
        self.request = request
        self.project = project
        self.engines = engines
        self.paths = paths
        self.places = places
        self.cancel = cancel
        self.download = download
        self.spec = request.spec
        self.steps = steps(self.spec, gpu=True)
        self.gpus: GpuSituation | None = None
        self.image: ImageUsed | None = None
        self.ended: list[ev.CommandFinished] = []
        self.found: dict[int, Findings] = {}
        self.gpu: GpuUse | None = None
        self.reached: set[int] = set()

    def events(self) -> Iterator[ev.Event]:
        request, shown = self.request, str(self.request.project)
        git = self.project.git()
        here = machine.describe()
        file, replays = request.spec.file, request.replays
        yield ev.Created(self.paths.id, shown, file, git, here, replays)
        yield from self._use(self.engines[0], request.why)
        # Planned before anything is packed, to refuse a project without an image early.
        self.project.open(self.paths.source)
        plan = self._plan(self.engines[0])
        packed = yield from self._unless_cancelled(self._pack(git))
        mounts = yield from self._unless_cancelled(
            datafiles.resolve(request.spec.data, self.places, download=self.download)
        )
        if packed is None or mounts is None:
            return
        yield from places.after(request.after, self.paths, self.cancel)
        yield ev.StateChanged(State.PREPARING)
        engine, plan = yield from self._prepare(plan)
        reference = plan.reference if plan else None
        if self.cancel.requested or not self.steps:
            return
        with ExitStack() as held:
            grant = yield from self._grant(engine, reference, held)
            if self.cancel.requested:
                return
            self.steps = steps(self.spec, gpu=grant is not None)
            yield ev.StateChanged(State.RUNNING)
            work = self._workspace(packed, mounts, reference, grant)
            yield from self._run(engine, work)

    def _unless_cancelled(
        self, steps: Generator[ev.Event, None, T]
    ) -> Generator[ev.Event, None, T | None]:
        """Yield from steps and return their result; end them on a cancel."""
        while not self.cancel.requested:
            try:
                event = next(steps)
            except StopIteration as end:
                result: T = end.value
                return result
            yield event
        steps.close()
        return None

    def not_reached(self) -> Iterator[ev.Event]:
        """Yield a CommandSkipped for each command that the run did not reach."""
        for step in self.steps:
            if step.index not in self.reached:
                command, why = step.command, step.skip or "the run ended before it"
                yield ev.CommandSkipped(step.index, command.text, why, command.name)

    def verdict(self) -> Verdict:
        """Return the verdict, from the commands that ended."""
        if self.cancel.requested:
            message = "stopped on request; what it wrote so far is kept"
            return Verdict(True, False, None, Reason.CANCELLED, message)
        return verdicts.judge(self.ended, self.request, self.found, self.gpu)

    def _use(self, engine: Engine, why: str) -> Iterator[ev.Event]:
        """Announce the engine, and find out whether it has the GPUs requested."""
        spec = self.request.spec
        yield ev.EngineChosen(engine.facts(), self.request.profile, spec.limits, why)
        self.gpus = yield from allocation.find(engine, spec)
        self.spec = spec.built_for(gpu=self.gpus is not None)

    def _pack(self, git: GitState | None) -> Generator[ev.Event, None, Archive]:
        yield ev.Packing()
        packed = yield from self.project.pack(self.paths.source)
        if not self.paths.parcel.exists():
            archive.seal(self.request, packed, git, self.paths.parcel)
        yield ev.Packed(packed.sha256, packed.size_bytes, packed.members)
        yield ev.StateChanged(State.PACKED)
        return packed

    def _plan(self, engine: Engine) -> ImagePlan | None:
        """Decide how the run gets its image; None if the engine runs none."""
        used, own = self.request.image, self.request.project
        facts = engine.image_facts(self.project.folder, self.spec, own)
        if facts is None:
            return None
        return (
            images.same(self.spec, facts, used)
            if used
            else images.plan(self.spec, facts)
        )

    def _prepare(
        self, plan: ImagePlan | None
    ) -> Generator[ev.Event, None, tuple[Engine, ImagePlan | None]]:
        """Get the image on the first engine that can; return engine and plan."""
        engine, *others = self.engines
        while True:
            try:
                yield from self._image(engine, plan)
                return engine, plan
            except ImageError as error:
                # Commands are written for the image that the build file names. An image
                # that is built here only provides programs, which other engines have.
                named = self.request.spec.names_image
                if named or error.reason is not Reason.IMAGE_NOT_FOUND or not others:
                    raise
                why = f"the {engine.name} engine cannot get the image"
                engine, *others = others
                if engine.check(self.request.spec):
                    raise
                yield ev.Warned("; ".join(str(p) for p in error.problems))
                yield from self._use(engine, why)
                plan = self._plan(engine)

    def _image(self, engine: Engine, plan: ImagePlan | None) -> Iterator[ev.Event]:
        if plan is None:
            if self.spec.names_image:
                yield ev.Warned(
                    f"ignoring the image {self.spec.image}: the {engine.name} engine"
                    " uses this machine's programs"
                )
            return
        used, earlier = self.request.image, self.request.replays
        if used and plan.build:
            yield ev.Warned(images.built_again(used, earlier))
        try:
            for event in engine.prepare(plan, self.project.folder, self.cancel):
                if isinstance(event, ev.ImageReady):
                    self.image = event.image
                yield event
        except ImageError as error:
            if used is None or plan.build:
                raise
            raise images.gone(used, earlier, error) from error

    def _grant(
        self, engine: Engine, reference: str | None, held: ExitStack
    ) -> Generator[ev.Event, None, GpuGrant | None]:
        """Hold the run's GPUs; return None if it has none."""
        request, situation = self.spec.gpu, self.gpus
        if request is None or situation is None:
            return None
        if situation.gpus is None:
            situation = yield from allocation.find(engine, self.spec, reference)
        if situation is not None:
            situation = yield from allocation.compatible(
                self.spec, situation, self.image
            )
        if situation is None:
            return None
        wait_s, run_id = self.request.gpu_wait_s, self.paths.id
        return (
            yield from allocation.acquire(
                engine, request, situation, run_id, wait_s, self.cancel, held
            )
        )

    def _workspace(
        self,
        packed: Archive,
        mounts: tuple[DataMount, ...],
        reference: str | None,
        grant: GpuGrant | None,
    ) -> Workspace:
        return Workspace(
            run_id=self.paths.id,
            steps=self.steps,
            open_source=lambda: archive.open_tar(packed.path),
            image=reference,
            limits=self.request.spec.limits,
            profile=self.request.profile,
            data=mounts,
            keep_going=self.request.keep_going,
            gpu=grant,
        )

    def _run(self, engine: Engine, work: Workspace) -> Iterator[ev.Event]:
        """Yield the engine's events; scan the output; keep the build folder."""
        output = _CommandOutput()
        writer: archive.BuildWriter | None = None
        lost = _Lost()
        with ExitStack() as stack:
            for event in lost.follow(engine.run(work, self.cancel)):
                if isinstance(event, ev.BuildFolder):
                    if writer is None:
                        yield ev.StateChanged(State.COLLECTING)
                        writer = stack.enter_context(
                            archive.BuildWriter(
                                self.paths.build, archive.build_caps(work.limits)
                            )
                        )
                    writer.write(event.data)
                    continue
                if isinstance(event, ev.GpuGiven):
                    self.gpu = event.use
                if isinstance(event, (ev.CommandStarted, ev.CommandSkipped)):
                    self.reached.add(event.index)
                if isinstance(event, ev.CommandStarted):
                    output = _CommandOutput()
                elif isinstance(event, ev.Output):
                    output.feed(event)
                yield event
                if isinstance(event, ev.CommandFinished):
                    self.ended.append(event)
                    self.found[event.index] = output.findings()
                    yield ev.Found(event.index, self.found[event.index])
            if lost.error is not None and (writer is None or not writer.whole):
                raise lost.error
        if writer is not None:
            path, size = str(self.paths.build), writer.size_bytes
            yield ev.Collected(path, size, writer.members)
            if writer.members:
                yield from self._profiled()
        if lost.error is not None:
            raise lost.error

    def _profiled(self) -> Iterator[ev.Event]:
        """Yield the files that the commands' profilers wrote to the build folder."""
        # If several commands name one file, it belongs to one that succeeded.
        ended = sorted(self.ended, key=lambda end: (not _failed(end), end.index))
        texts = {step.index: step.command.text for step in self.steps}
        lines = [(end.index, texts[end.index]) for end in ended]
        if not any(exports.exporting(line) for _, line in lines):
            return
        caps = archive.build_caps(self.request.spec.limits)
        try:
            files = archive.files(self.paths.build, caps, root="build")
        except RaiError as error:
            yield ev.Warned(f"cannot look for profiles: {error}")
            return
        for index, found in sorted(exports.claimed(lines, files).items()):
            yield ev.Profiled(index, found)


def _failed(end: ev.CommandFinished) -> bool:
    return end.exit_code != 0 or end.reason is not None


class _Lost:
    """The error that ended an engine's events: the build folder may be among them."""

    def __init__(self) -> None:
        self.error: EngineError | None = None

    def follow(self, events: Iterator[ev.Event]) -> Iterator[ev.Event]:
        """Yield the events; keep the engine's error."""
        try:
            yield from events
        except EngineError as error:
            self.error = error


class _CommandOutput:
    """Scans the output of one command for figures, each stream by itself.

    The scanner is imported at the first output, while the command runs: a silent one
    does not need it.
    """

    def __init__(self) -> None:
        self._scanners: dict[Stream, Scanner] = {}

    def feed(self, event: ev.Output) -> None:
        if not self._scanners:
            from runner.findings import Scanner

            self._scanners = {stream: Scanner() for stream in Stream}
        self._scanners[event.stream].feed(event.data)

    def findings(self) -> Findings:
        if not self._scanners:
            return Findings()
        from runner.findings import combined

        return combined(scanner.findings() for scanner in self._scanners.values())

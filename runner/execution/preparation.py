"""All of a run before its commands: project, data, image and GPUs, as events."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Sequence, Set
from contextlib import ExitStack
from functools import partial
from typing import TypeVar

from runner import pack
from runner.core import (
    Archive,
    BuildSpec,
    DataMount,
    EngineFacts,
    GitState,
    GpuGrant,
    GpuSituation,
    ImagePlan,
    ImageUsed,
    JobRequest,
    Reason,
    State,
    Step,
    Workspace,
    screen,
)
from runner.core import events as ev
from runner.core.errors import Cancel, ImageError
from runner.core.work import LEFT_OUT, NO_GPU_HERE
from runner.engines import base
from runner.engines.base import Engine
from runner.engines.gpu import allocation
from runner.execution import places
from runner.execution.project import image_source
from runner.pack import Project, datafiles
from runner.spec import image_names, images
from runner.spec.commandline import plan as plan_command
from runner.store import prune
from runner.store.paths import RunPaths
from runner.system import machine

T = TypeVar("T")


def steps(
    spec: BuildSpec, gpu: bool, left_out: Set[int] = frozenset()
) -> tuple[Step, ...]:
    """Return the spec's commands as steps; without a GPU skip those that need one.

    Skip those in ``left_out`` too. The command lines are well formed:
    ``buildfile.parse`` refuses others.
    """
    return tuple(
        Step(
            index,
            command,
            plan_command(command.text),
            LEFT_OUT
            if index in left_out
            else (NO_GPU_HERE if command.needs_gpu and not gpu else None),
        )
        for index, command in enumerate(spec.commands)
    )


class Preparation:
    """What a job needs before its commands can run; ``steps`` are these commands.

    The project, a folder or a sealed parcel, is packed and run from its archive.
    ``data_size`` is how much of data files is kept for later runs, in bytes.
    """

    def __init__(
        self,
        request: JobRequest,
        project: Project,
        engines: Sequence[Engine],
        paths: RunPaths,
        places: datafiles.DataPlaces,
        cancel: Cancel,
        *,
        download: bool = True,
        data_size: float = math.inf,
    ) -> None:
        self.request = request
        self.project = self.source = project  # the source is that of the image
        self.engines = engines
        self.paths = paths
        self.places = places
        self.cancel = cancel
        self.data_size = data_size
        self.rules = datafiles.DataRules(
            request.policy,
            partial(prune.make_room, places.cache, data_size),
            download,
        )
        self.spec = request.spec
        self.steps = steps(self.spec, True, request.left_out)
        self.gpus: GpuSituation | None = None
        self.image: ImageUsed | None = None

    def events(
        self, held: ExitStack
    ) -> Generator[ev.Event, None, tuple[Engine, Workspace] | None]:
        """Yield what happens; return the engine and its work.

        Return None if there is nothing to run, or the job was cancelled. ``held``
        releases the GPUs and the data files.
        """
        request, shown = self.request, screen.json_text(self.request.project)
        git = self.project.git()
        here = machine.describe()
        file, replays = request.spec.file, request.replays
        asked = request.asked
        yield ev.Created(
            self.paths.id,
            shown,
            file,
            git,
            here,
            replays,
            asked.env_given,
            asked.only,
            commands=len(self.steps),
            title=asked.title,
            inner=request.asked.inner,
            beside=request.beside,
            repeat=asked.repeat,
        )
        yield from self._use(self.engines[0], request.why)
        # Planned before anything is packed, to refuse a project without an image early.
        self.project.open(self.paths.source)
        plan = self._plan(self.engines[0])
        packed = yield from self._unless_cancelled(self._pack(git))
        mounts = yield from self._unless_cancelled(
            datafiles.resolve(request.spec, self.places, self.rules, held)
        )
        if packed is None or mounts is None:
            return None
        yield from places.after(asked.after, self.paths, self.cancel)
        yield ev.StateChanged(State.PREPARING)
        engine, plan = yield from self._prepare(plan)
        reference = plan.reference if plan else None
        if self.cancel.requested or not self.steps:
            return None
        grant = yield from self._grant(engine, reference, held)
        if self.cancel.requested:
            return None
        self.steps = steps(self.spec, grant is not None, request.left_out)
        yield ev.StateChanged(State.RUNNING)
        return engine, self._workspace(packed, mounts, reference, grant)

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

    def _use(self, engine: Engine, why: str) -> Iterator[ev.Event]:
        """Announce the engine, and find out whether it has the GPUs requested."""
        spec = self.request.spec
        facts = engine.facts().in_run(spec.limits)
        yield ev.EngineChosen(facts, self.request.profile, spec.limits, why)
        base.check(facts, self.request.strict_limits)
        out = self.request.asked.terms.gpus_out
        self.gpus = yield from allocation.find(engine, spec, out=out)
        self.spec = spec.built_for(gpu=self.gpus is not None)

    def _pack(self, git: GitState | None) -> Generator[ev.Event, None, Archive]:
        yield ev.Packing()
        packed = yield from self.project.pack(self.paths.source)
        if not self.paths.parcel.exists():
            pack.seal(self.request.asked, packed, git, self.paths.parcel)
        yield ev.Packed(packed.sha256, packed.size_bytes, packed.members)
        yield ev.StateChanged(State.PACKED)
        return packed

    def _plan(self, engine: Engine) -> ImagePlan | None:
        """Decide how the run gets its image; None if the engine runs none."""
        self.source, spec = image_source(self.project, self.spec)
        facts = engine.image_facts(self.source, spec)
        if facts is None:
            return None
        used, policy = self.request.image, self.request.policy
        if used:
            return images.same(spec, facts, used, policy)
        return images.plan(spec, facts, policy)

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
                if error.reason is not Reason.IMAGE_NOT_FOUND or not others:
                    raise
                if named and not others[0].check(self.request.spec):
                    raise image_names.elsewhere(error, others[0].name) from error
                if named:
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
                yield ev.Warned(images.ignored(self.spec, engine.name))
            return
        used, earlier = self.request.image, self.request.replays
        if used and plan.build:
            yield ev.Warned(images.built_again(used, earlier))
        try:
            for event in engine.prepare(plan, self.source, self.cancel):
                if isinstance(event, ev.BuildStarted):
                    facts = EngineFacts(engine.name, unenforced=event.unenforced)
                    base.check(facts, self.request.strict_limits, builds=True)
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
            out = self.request.asked.terms.gpus_out
            situation = yield from allocation.find(engine, self.spec, reference, out)
        if situation is not None:
            situation = yield from allocation.compatible(
                self.spec, situation, self.image
            )
        if situation is None:
            return None
        wait_s, run_id = self.request.asked.gpu_wait_s, self.paths.id
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
            open_source=lambda: pack.open_tar(packed.path),
            image=reference,
            environment=dict(self.spec.env),
            secrets=self.request.asked.secret,
            limits=self.request.spec.limits,
            profile=self.request.profile,
            data=mounts,
            keep_going=self.request.asked.keep_going,
            gpu=grant,
            private=self.request.policy.private,
            strict_limits=self.request.strict_limits,
            data_kept_bytes=self.data_size,
        )

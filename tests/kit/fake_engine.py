"""An engine for tests that runs nothing: each command has a scripted result."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Generator, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

from msgspec.structs import replace

from runner.core import (
    BuildSpec,
    EngineFacts,
    Gpu,
    GpuSituation,
    GpuState,
    GpuUse,
    ImageAction,
    ImageFacts,
    ImagePlan,
    ImageUsed,
    Problem,
    Reason,
    Step,
    Stream,
    Workspace,
)
from runner.core import events as ev
from runner.core.errors import BusyError, Cancel, EngineError, ImageError
from runner.core.screen import Terminal
from runner.engines.base import in_order
from runner.pack import Project


@dataclass(frozen=True)
class FakeResult:
    """What one command prints and how it ends.

    ``cancels`` cancels the run meanwhile; ``breaks`` makes the engine raise an error.
    """

    stdout: bytes = b""
    stderr: bytes = b""
    exit_code: int = 0
    reason: Reason | None = None
    cancels: bool = False
    breaks: bool = False


NO_GPU = GpuSituation(problem="this machine has no GPU")


@dataclass
class FakeEngine:
    """An engine whose commands give the results in ``script``, by their text.

    ``no_image`` makes ``prepare`` fail. ``seen_inside`` are the GPUs that only a
    container sees; ``busy`` maps a GPU's UUID to how many times ``hold`` fails.
    ``build`` are the files of the build folder. ``variables`` are what users added to
    each command.
    """

    script: Mapping[str, FakeResult] = field(default_factory=dict)
    name: str = "fake"
    images: bool = False
    no_image: bool = False
    dockerfile: str | None = "FROM x AS cpu\nFROM x AS gpu"
    cuda: str = ""
    situation: GpuSituation = NO_GPU
    seen_inside: GpuSituation | None = None
    busy: dict[str, int] = field(default_factory=dict)
    breaks_gpu: str = ""
    held: list[str] = field(default_factory=list)
    build: Mapping[str, bytes] = field(default_factory=lambda: {"answer.txt": b"42\n"})
    ran: list[str] = field(default_factory=list)
    variables: list[dict[str, str]] = field(default_factory=list)
    built: list[str | None] = field(default_factory=list)

    def check(self, spec: BuildSpec) -> list[Problem]:
        """Return no problems."""
        return []

    def facts(self) -> EngineFacts:
        """Return facts with its name."""
        return EngineFacts(self.name, "1", "a script")

    def image_facts(self, project: Project, spec: BuildSpec) -> ImageFacts | None:
        """Return facts about ``dockerfile``; None without ``images``."""
        if not self.images:
            return None
        return ImageFacts({}, "linux/amd64", self.dockerfile)

    def prepare(
        self, plan: ImagePlan, project: Project, cancel: Cancel
    ) -> Iterator[ev.Event]:
        """Note the target as built, or raise ImageError with ``no_image``."""
        if self.no_image:
            raise ImageError("no base image", reason=Reason.IMAGE_NOT_FOUND)
        self.built.append(plan.build.target if plan.build else None)
        yield ev.ImageReady(
            ImageUsed(
                plan.reference,
                "sha256:0",
                ImageAction.BUILD,
                plan.why,
                self.cuda,
                plan.asked,
                plan.named_by,
            )
        )

    def gpus(self, image: str | None = None) -> GpuSituation:
        """Return ``situation``, or ``seen_inside`` for an image."""
        return (self.seen_inside if image else None) or self.situation

    def hold(self, gpu: Gpu, run_id: str) -> AbstractContextManager[None]:
        """Keep a GPU, or raise BusyError as often as ``busy`` says."""

        @contextmanager
        def held() -> Iterator[None]:
            if self.busy.get(gpu.uuid, 0) > 0:
                self.busy[gpu.uuid] -= 1
                raise BusyError(f"{gpu.uuid} is held by run 12345")
            self.held.append(gpu.uuid)
            yield
            self.held.remove(gpu.uuid)

        return held()

    def run(
        self, work: Workspace, cancel: Cancel, terminal: Terminal | None = None
    ) -> Generator[ev.Event, None, None]:
        """Yield the events of the scripted results; write output to a terminal."""
        yield ev.Starting()
        if work.gpu is not None:
            if self.held != [gpu.uuid for gpu in work.gpu.gpus]:
                raise EngineError("the run was given GPUs that it does not hold")
            use = GpuUse(work.gpu.ways[0], work.gpu.gpus, work.gpu.driver)
            yield ev.GpuGiven(use)

        def execute(
            step: Step, timeout_s: float
        ) -> Generator[ev.Event, None, ev.CommandFinished]:
            self.ran.append(step.command.text)
            self.variables.append(work.variables(step))
            result = self.script.get(step.command.text, FakeResult())
            if result.breaks:
                raise EngineError("the engine failed")
            if result.cancels:
                cancel.request()
                return ev.CommandFinished(step.index, 143, 0.1, 0.0, Reason.CANCELLED)
            if terminal is not None:
                terminal.write(result.stdout + result.stderr)
            else:
                yield ev.Output(step.index, Stream.STDOUT, result.stdout)
                yield ev.Output(step.index, Stream.STDERR, result.stderr)
            code = result.exit_code
            return ev.CommandFinished(step.index, code, 0.25, 0.125, result.reason)

        yield from in_order(work, cancel, execute)
        if work.gpu is not None:
            after = tuple(
                GpuState(gpu.uuid, 1980, problem=self.breaks_gpu)
                for gpu in work.gpu.gpus
            )
            yield ev.GpuGiven(replace(use, after=after), over=True)
        yield ev.Usage(12345)
        files = {f"build/{name}": data for name, data in self.build.items()}
        yield ev.BuildFolder(tar_of(files))


def tar_of(files: Mapping[str, bytes]) -> bytes:
    """Return a tar file of some files, which all may read."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return buffer.getvalue()

"""An engine that runs nothing: each command says and ends as its script tells."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from runner import events as ev
from runner.cancel import Cancel
from runner.engines.sequence import in_order
from runner.errors import EngineError, ImageError
from runner.model import (
    BuildSpec,
    EngineFacts,
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


@dataclass(frozen=True)
class Says:
    """What one command does."""

    stdout: bytes = b""
    stderr: bytes = b""
    exit_code: int = 0
    reason: Reason | None = None
    cancels: bool = False
    breaks: bool = False


@dataclass
class FakeEngine:
    """Serves from a script; ``no_image`` makes its image impossible to have."""

    script: Mapping[str, Says] = field(default_factory=dict)
    name: str = "fake"
    images: bool = False
    no_image: bool = False
    ran: list[str] = field(default_factory=list)

    def check(self, spec: BuildSpec) -> list[Problem]:
        return []

    def facts(self) -> EngineFacts:
        return EngineFacts(self.name, "1", "a script")

    def image_facts(self, project: Path, spec: BuildSpec) -> ImageFacts | None:
        return ImageFacts({}, "linux/amd64", "FROM x") if self.images else None

    def prepare(
        self, plan: ImagePlan, project: Path, cancel: Cancel
    ) -> Iterator[ev.Event]:
        if self.no_image:
            raise ImageError("no base image", reason=Reason.IMAGE_NOT_FOUND)
        used = ImageUsed(plan.reference, "sha256:0", ImageAction.BUILD, plan.why)
        yield ev.ImageReady(used)

    def run(self, work: Workspace, cancel: Cancel) -> Iterator[ev.Event]:
        yield ev.Starting()

        def execute(
            step: Step, timeout_s: float
        ) -> Generator[ev.Event, None, ev.CommandFinished]:
            self.ran.append(step.command.text)
            says = self.script.get(step.command.text, Says())
            if says.breaks:
                raise EngineError("the engine went away")
            if says.cancels:
                cancel.request()
                return ev.CommandFinished(step.index, 143, 0.1, 0.0, Reason.CANCELLED)
            yield ev.Output(step.index, Stream.STDOUT, says.stdout)
            yield ev.Output(step.index, Stream.STDERR, says.stderr)
            code = says.exit_code
            return ev.CommandFinished(step.index, code, 0.25, 0.125, says.reason)

        yield from in_order(work, cancel, execute)
        yield ev.Usage(12345)
        yield ev.BuildFolder(_tar({"build/answer.txt": b"42\n"}))


def _tar(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return buffer.getvalue()

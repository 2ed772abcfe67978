"""Run commands on an engine and gather all that it says."""

from __future__ import annotations

import hashlib
import io
import secrets
import tarfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import docker
from msgspec import Struct
from msgspec.structs import replace

from runner.core import (
    Command,
    DataFile,
    DataMount,
    GpuGrant,
    GpuUse,
    Invocation,
    Limits,
    Profile,
    Step,
    Stream,
    Workspace,
)
from runner.core.errors import Cancel
from runner.core.events import (
    BuildFolder,
    CommandFinished,
    CommandSkipped,
    Event,
    GpuGiven,
    Output,
    Tick,
    Usage,
)
from runner.core.policy import PrivateTarget
from runner.core.work import Secrets
from runner.engines.base import Engine
from runner.engines.docker import owner
from tests.kit.fake_engine import tar_of

SOURCE = {"hello.txt": b"hello\n", "sub/run.sh": b"#!/bin/sh\necho ran\n"}
IMAGE = "debian:bookworm-slim"
NO_SECRETS = Secrets()
RUN_ID = f"contract{secrets.token_hex(4)}"
LIMITS = Limits(time_s=60, stop_grace_s=2)


class Subject(Struct, frozen=True):
    """An engine under test, and the image to run in where it has images."""

    engine: Engine
    image: str | None = None

    def enforces(self, name: str) -> bool:
        return name not in self.engine.facts().unenforced


@dataclass
class Result:
    """All that a run said, in order and sorted out."""

    events: list[Event] = field(default_factory=list)

    def _output(self, stream: Stream) -> bytes:
        return b"".join(
            e.data for e in self.events if isinstance(e, Output) and e.stream is stream
        )

    @property
    def stdout(self) -> bytes:
        return self._output(Stream.STDOUT)

    @property
    def stderr(self) -> bytes:
        return self._output(Stream.STDERR)

    @property
    def said(self) -> list[bytes]:
        """What each command that ended has printed on stdout, in their order."""
        of = dict.fromkeys((each.index for each in self.finished), b"")
        for event in self.events:
            if isinstance(event, Output) and event.stream is Stream.STDOUT:
                of[event.index] += event.data
        return list(of.values())

    @property
    def finished(self) -> list[CommandFinished]:
        return [e for e in self.events if isinstance(e, CommandFinished)]

    @property
    def codes(self) -> list[int]:
        return [e.exit_code for e in self.finished]

    @property
    def skipped(self) -> list[CommandSkipped]:
        return [e for e in self.events if isinstance(e, CommandSkipped)]

    @property
    def gpu_uses(self) -> list[GpuUse]:
        return [e.use for e in self.events if isinstance(e, GpuGiven)]

    @property
    def ticks(self) -> list[Tick]:
        return [e for e in self.events if isinstance(e, Tick)]

    @property
    def usage(self) -> Usage:
        (usage,) = (e for e in self.events if isinstance(e, Usage))
        return usage

    @property
    def members(self) -> dict[str, tarfile.TarInfo]:
        with self._tar() as tar:
            return {member.name.rstrip("/"): member for member in tar}

    def content(self, name: str) -> bytes:
        with self._tar() as tar:
            file = tar.extractfile(name)
            return file.read()

    def _tar(self) -> tarfile.TarFile:
        data = b"".join(e.data for e in self.events if isinstance(e, BuildFolder))
        return tarfile.open(fileobj=io.BytesIO(data))


def source(files: Mapping[str, bytes]) -> Callable[[], BinaryIO]:
    """Return a function that opens a project of some files as a tar stream."""
    packed = tar_of(files)
    return lambda: io.BytesIO(packed)


def data_file(path: Path, content: bytes, within: Path | None = None) -> DataFile:
    """Write a data file that a project may name, and verify it."""
    path.write_bytes(content)
    md5 = hashlib.md5(content, usedforsecurity=False).hexdigest()
    return DataFile(path.name, path, md5, len(content), within)


def left_on(client: docker.APIClient, run_id: str = "") -> list[str]:
    """Name the containers and volumes of a run that are there, or of all runs."""
    ours = {"label": f"{owner.RUN}={run_id}" if run_id else owner.RUN}
    containers = client.containers(all=True, filters=ours)
    volumes = client.volumes(filters=ours)["Volumes"] or []
    return [c["Names"][0] for c in containers] + [v["Name"] for v in volumes]


def long_sleep() -> str:
    """Name a program that runs for long, unlike that of any test at the same time."""
    return f"sleep {600 + secrets.randbelow(10**9) / 10**9:.9f}"


def direct(*words: str) -> Step:
    """A step that is exec'd as it stands."""
    return Step(0, Command(" ".join(words)), Invocation(words, "a test"))


def shell(script: str, **command: object) -> Step:
    """A step that a shell reads."""
    return Step(0, Command(script, **command), Invocation((), "a test", script))


def run(
    subject: Subject,
    commands: Sequence[str | Step],
    *,
    files: Mapping[str, bytes] = SOURCE,
    profile: Profile = Profile.STRICT,
    data: Sequence[DataMount] = (),
    keep_going: bool = False,
    environment: Mapping[str, str] | None = None,
    secrets: Secrets = NO_SECRETS,
    gpu: GpuGrant | None = None,
    cancel_at: bytes | None = None,
    pause_s: float = 0.0,
    run_id: str = RUN_ID,
    private: Sequence[PrivateTarget] = (),
    strict_limits: str = "",
    more: Callable[[], tuple[Step, ...]] | None = None,
    **limits: object,
) -> Result:
    """Run commands (a string is a shell line) to the end, and gather what was said.

    The run is cancelled once ``cancel_at`` was seen on stdout. After each event this
    waits for ``pause_s``. Other names are limits.
    """
    steps = [shell(c) if isinstance(c, str) else c for c in commands]
    work = Workspace(
        run_id=run_id,
        steps=tuple(replace(step, index=n) for n, step in enumerate(steps)),
        open_source=source(files),
        image=subject.image,
        environment=environment or {},
        secrets=secrets,
        limits=replace(LIMITS, **limits),
        profile=profile,
        data=tuple(data),
        keep_going=keep_going,
        gpu=gpu,
        private=tuple(private),
        strict_limits=strict_limits,
        more=more,
    )
    result, cancel = Result(), Cancel()
    for event in subject.engine.run(work, cancel):
        result.events.append(event)
        time.sleep(pause_s)
        if cancel_at and isinstance(event, Output) and cancel_at in event.data:
            cancel.request()
    return result

"""Write the folder of each run of a submission: generated, private, removed after.

with staging.area(settings.home) as area:
    folder = area.stage(milestone.run("compile"), parts)  # for `session.prepare`
    ...
    builds = {"compile": paths.build}
    after = area.stage(milestone.run("measure"), parts, builds)
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from runner import trees, yamlfile
from runner.core import LIMITS, globs, judge_job
from runner.core.errors import EngineError
from runner.core.judge_job import JudgeJob
from runner.core.milestone import HeldKind, MilestoneRun
from runner.store import scratch
from runner.store.paths import Home
from runner.submission import builds as earlier
from runner.submission.files import SubmittedFile
from runner.submission.golden import GoldenFiles

BUILD_FILE = "rai_build.yml"
BUILD_FILES = (BUILD_FILE, "rai-build.yml")
DOCKERFILE = "Dockerfile"
REQUIREMENTS = "requirements.txt"
IGNORE_FILE = ".raiignore"
BUILD_IGNORE_FILE = ".dockerignore"
NO_BUILDS: Mapping[str, Path] = {}
JUDGE = "runner/judge"

_EVERYTHING = "!**\n"
"""A file of rules that leaves nothing out."""

_PINS_ONLY = f"*\n!{REQUIREMENTS}\n"
"""What the image is made of, so that no other submission builds it again."""


class StagedParts(Struct, frozen=True):
    """What a run can hold, but earlier builds. The job is None where there is none."""

    golden: GoldenFiles
    team: tuple[SubmittedFile, ...] = ()
    job: JudgeJob | None = None


class StagingArea:
    """The private folder of one submission."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def stage(
        self,
        run: MilestoneRun,
        parts: StagedParts,
        builds: Mapping[str, Path] = NO_BUILDS,
    ) -> Path:
        """Write the folder of a run with its rai_build.yml; return it.

        ``builds`` has the build archives (build.tar.zst) of earlier runs, by the run's
        name in the milestone.

        Raises:
            RaiError: an archive is hostile, or what it must have is not in it.
        """
        folder = self.root / run.name
        folder.mkdir(mode=0o700)
        own = run.own_image
        for name, content in contents(run, parts).items():
            _write(folder, name, content)
        for file in parts.team if run.held(HeldKind.TEAM) else ():
            if own and file.name in BUILD_FILES:
                continue  # the milestone's commands run
            name = file.name if own else f"team/{file.name}"
            _write(folder, name, file.content, executable=file.executable)
        units = len(parts.job.units) if parts.job else 0
        for held in run.held(HeldKind.BUILD):
            if held.of not in builds:
                raise EngineError(f"the run {held.of} left no build folder")
            found = earlier.take(held, builds[held.of], folder / held.into, units)
            if any(globs.matches(pattern, "0.cubin") for pattern in held.patterns):
                _check(held.of, found, units)
        return folder


def contents(run: MilestoneRun, parts: StagedParts) -> dict[str, bytes]:
    """Return the files of a run that are rai's own, by name."""
    found = {BUILD_FILE: build_text(run).encode()}
    if run.held(HeldKind.JOB):
        if parts.job is None:
            raise EngineError(f"the run {run.name} needs a job, and there is none")
        found[judge_job.FILE] = judge_job.to_json(parts.job)
    if not run.own_image:
        found[IGNORE_FILE] = _EVERYTHING.encode()
        found[BUILD_IGNORE_FILE] = _PINS_ONLY.encode()
        image = parts.golden.matching((DOCKERFILE, REQUIREMENTS))
        if DOCKERFILE not in image:
            raise EngineError(f"the judge's files have no {DOCKERFILE}")
        found |= image
    for held in run.held(HeldKind.GOLDEN):
        found["runner/__init__.py"] = b""
        for name, content in parts.golden.matching(held.patterns).items():
            found[f"{JUDGE}/{name}"] = content
    return found


def build_text(run: MilestoneRun) -> str:
    """Return the rai_build.yml of a run."""
    resources: dict[str, object] = {"gpu": {"count": 1}} if run.gpu else {}
    resources["limits"] = {row.key: row.written(run.limits) for row in LIMITS}
    if run.data:
        resources["dataresources"] = [
            {
                "mount": one.directory,
                "source": {"url": one.url} | ({"md5": one.md5} if one.md5 else {}),
            }
            for one in run.data
        ]
    build_image = {"dockerfile": DOCKERFILE, "target": run.target}
    values: dict[str, object] = {"rai": {"version": "0.2"}, "resources": resources}
    if run.env:
        values["env"] = dict(run.env)
    values["commands"] = {"build_image": build_image, "build": list(run.commands)}
    return yamlfile.dump(values)


@contextmanager
def area(home: Path) -> Iterator[StagingArea]:
    """Make a folder in `home/submissions`, and remove it afterwards.

    What a killed process left there is removed too.

    Raises:
        ConfigError: it cannot be made.
    """
    with scratch.folder(Home(home).submissions) as folder:
        yield StagingArea(folder)


def _write(
    folder: Path, name: str, content: bytes, *, executable: bool = False
) -> None:
    path = folder / name
    trees.make(folder, path.relative_to(folder).parts[:-1])
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    handle = os.open(path, flags, 0o755 if executable else 0o644)
    with os.fdopen(handle, "wb") as file:
        file.write(content)


def _check(run: str, found: Mapping[str, int], units: int) -> None:
    """Raise EngineError unless there is machine code of every unit."""
    missing = [n for n in range(units) if f"{n}.cubin" not in found]
    if missing:
        text = f"the run {run} left no {missing[0]}.cubin"
        raise EngineError(text)

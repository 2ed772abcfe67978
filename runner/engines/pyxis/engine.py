"""The pyxis engine: run a job's commands in an image, as steps of a Slurm job.

It was never tried with a real pyxis. The run's folders are ordinary ones on the node
that the container mounts. A container has processes, network and devices in common with
the job, so this is for one's own project.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager

from runner.archive import Project
from runner.core import (
    BuildSpec,
    EngineFacts,
    ImageFacts,
    ImagePlan,
    ImageUsed,
    Limits,
    Problem,
    Reason,
    Workspace,
)
from runner.core.cancel import Cancel
from runner.core.errors import EngineError, ImageError
from runner.core.events import Event, ImageReady, PullStarted
from runner.core.terminal import Terminal
from runner.engines.folders import temporary
from runner.engines.imageless import Imageless
from runner.engines.pyxis import words
from runner.engines.pyxis.asking import last_lines, passed_on, remove, said
from runner.engines.pyxis.container import ContainerRun, Pulled

UNENFORCED = ("memory", "pids", "network", "shm", "system calls", "isolation")
HELP_S = 10.0
HELP_BYTES = 1 << 20
SAID_BYTES = 1 << 16
_TOO_MUCH: Mapping[Reason | None, str] = {
    Reason.TIME_LIMIT: "it took too long",
    Reason.OUTPUT_LIMIT: "it printed too much",
}
HINT = "use `--engine docker` or `--engine local`"


class PyxisEngine(Imageless):
    """The engine for images inside a Slurm job; ``environ`` is the job's."""

    name = "pyxis"

    def __init__(self, *, environ: Mapping[str, str] = os.environ) -> None:
        self._environ = environ
        self._options: frozenset[str] | None = None
        self._pulled: dict[str, Pulled] = {}

    def check(self, spec: BuildSpec) -> list[Problem]:
        """Return a problem outside Slurm's jobs, without pyxis, or without an image."""
        if not self._environ.get("SLURM_JOB_ID"):
            text = "this is not inside a Slurm job (SLURM_JOB_ID is not set)"
            hint = f"use `rai run --on slurm`, or {HINT}"
            return [Problem(text, hint=hint)]
        try:
            lacking = [name for name in words.NEEDED if name not in self._has()]
        except EngineError as error:
            return [*error.problems]
        if lacking:
            text = f"`srun --help` does not list {', '.join(lacking)}"
            hint = f"ask the cluster's staff for pyxis, or {HINT}"
            return [Problem(text, hint=hint)]
        if not spec.names_image:
            return [
                Problem(
                    "enroot cannot build images, and the build file names none",
                    spec.build_image.place if spec.build_image else None,
                    "build and push the image elsewhere, and name it in `rai.image` or"
                    " by `--image`",
                )
            ]
        return [*_refused(spec.image or "")]

    def facts(self) -> EngineFacts:
        """Return what is not enforced, which is nearly everything."""
        job = self._environ.get("SLURM_JOB_ID", "")
        how = f"pyxis in the Slurm job {job}"
        return EngineFacts(self.name, how=how, confines=False, unenforced=UNENFORCED)

    def image_facts(self, project: Project, spec: BuildSpec) -> ImageFacts:
        """Return that no image is here: enroot says neither names nor digests."""
        return ImageFacts({}, "linux")

    def prepare(
        self, plan: ImagePlan, project: Project, cancel: Cancel
    ) -> Iterator[Event]:
        """Have enroot import the image into a container, which the next run takes."""
        if plan.build is not None:
            raise ImageError(*self.check(BuildSpec("", build_image=plan.build)))
        if refused := _refused(plan.reference):
            raise ImageError(*refused, reason=Reason.IMAGE_NOT_FOUND)
        yield PullStarted(plan.reference)
        pulled = self._pull(plan.reference, plan.limits, cancel)
        if pulled is None:
            return
        self._pulled[plan.reference] = pulled
        # enroot does not say the digest of what it imported.
        yield ImageReady(
            ImageUsed(
                plan.reference,
                "",
                plan.action,
                plan.why,
                asked=plan.asked,
                named_by=plan.named_by,
            )
        )

    def shell(
        self, work: Workspace, terminal: Terminal, cancel: Cancel
    ) -> Generator[Event, None, None]:
        """Raise EngineError: there are no terminals yet."""
        text = "the pyxis engine has no terminals"
        hint = f"run `srun --pty --container-image={words.uri(work.image or '')} bash`"
        raise EngineError(Problem(text, hint=hint))

    @contextmanager
    def workplace(self, work: Workspace, cancel: Cancel) -> Iterator[ContainerRun]:
        """Make the folders and the container of a run, and remove them."""
        image = work.image
        if image is None:
            raise EngineError("the pyxis engine needs an image", reason=Reason.BAD_SPEC)
        pulled = self._pulled.pop(image, None)
        pulled = pulled or self._pull(image, work.limits, cancel) or ("", False)
        try:
            with temporary(work.run_id) as folders:
                run = ContainerRun(
                    work, cancel, folders, self._environ, self._has(), pulled
                )
                try:
                    run.prepare()
                    yield run
                finally:
                    run.clear()
        finally:
            remove(pulled[0], self._environ)

    def _has(self) -> frozenset[str]:
        """Return the options of srun."""
        if self._options is None:
            _, text, _ = said(
                ["srun", "--help"], HELP_S, HELP_BYTES, Cancel(), self._environ
            )
            self._options = words.options(text)
        return self._options

    def _pull(self, image: str, limits: Limits, cancel: Cancel) -> Pulled | None:
        """Make a container of an image; return None if it is cancelled.

        Raises:
            ImageError: it cannot be imported (image_not_found).
        """
        name = f"rai-{secrets.token_hex(6)}"
        container = words.container(self._has(), name, image)
        exported = passed_on(self._environ)
        ask = ["/bin/sh", "-c", "command -v bash || :"]
        argv = words.srun(self._environ, container, exported, ask)
        ended, out, errors = said(
            argv, limits.build_time_s, SAID_BYTES, cancel, self._environ
        )
        if cancel.requested:
            remove(name, self._environ)
            return None
        if ended.exit_code or ended.reason:
            remove(name, self._environ)
            why = _TOO_MUCH.get(ended.reason) or last_lines(errors)
            raise ImageError(
                Problem(
                    f"enroot could not import the image {image}: {why}",
                    hint="check its name, and that its registry can be reached from"
                    " the node; for a login see ~/.config/enroot/.credentials",
                ),
                reason=Reason.IMAGE_NOT_FOUND,
            )
        return name, bool(out.strip())


def _refused(image: str) -> list[Problem]:
    """Return a problem of a name with a digest, which enroot reads as another one."""
    if "@" not in image:
        return []
    text = f"enroot takes no image by its digest: {image}"
    return [Problem(text, hint="name the image by a tag")]

"""Build an image with the engine's own builder, and follow what it makes.

It names each container and image in a message of its own. What a step prints can look
the same, so a name counts only for what the engine itself says of it.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from functools import partial
from typing import Any

from runner.core import Reason
from runner.core.errors import ImageError
from runner.core.events import BuildOutput, BuildStarted, Event
from runner.engines.disk import Pace
from runner.engines.docker import context
from runner.engines.docker.builds import BuildRun, ClassicLog, failed
from runner.engines.docker.client import (
    FAILURES,
    Client,
    connect,
    explained,
    image,
    seconds,
)
from runner.engines.docker.facts import Info, unenforced_in_builds
from runner.engines.docker.transfer import OutOfTimeError, messages
from runner.pack import Project
from runner.spec import image_names
from runner.spec.image_names import normalise

NAME = "the engine's classic builder (no docker buildx here)"
MEASURED_EVERY_S = 1.0
MOST_NAMES = 10_000
LAST = 50
"""How many of the containers are asked for by name."""

ENDING_S = 10.0

_CONTAINER = re.compile(r" ---> Running in ([0-9a-f]{12})\n")
_IMAGE = re.compile(r" ---> ([0-9a-f]{12})\n")


def build(run: BuildRun, info: Info, project: Project) -> Iterator[Event]:
    """Yield what the builder prints; raise ImageError with the step that failed."""
    log = ClassicLog()
    client = connect(run.probe)
    limits = run.plan.limits
    with closing(client):
        missing = unenforced_in_builds(info, run.probe.endpoint)
        yield BuildStarted(run.plan.reference, run.plan.why, NAME, missing)
        parts = BuildParts(client, engine_time(client))
        remove = partial(parts.remove, run.plan.reference, image_names.label(run.plan))
        try:
            yield from _output(run, project, log, parts)
        except OutOfTimeError:
            remove()
            raise run.over(Reason.TIME_LIMIT, log) from None
        except FAILURES as error:
            log.why = explained(error)
            raise failed(log) from error
        except ImageError as error:
            # A step that failed by itself leaves those before it for the next build.
            if error.reason not in (Reason.BUILD_FAILED, Reason.IMAGE_NOT_FOUND):
                remove()
            raise
        if run.cancel.requested:
            remove()
            return
        full = parts.written_bytes() > limits.build_disk_bytes
        met = Reason.DISK_LIMIT if full else None
        if parts.killed_for_memory():  # though the step went on
            met = Reason.MEMORY_LIMIT
        if met:
            remove()
            raise run.over(met, log)


def _output(
    run: BuildRun, project: Project, log: ClassicLog, parts: BuildParts
) -> Iterator[Event]:
    limits = run.plan.limits
    pace = Pace(MEASURED_EVERY_S, MEASURED_EVERY_S)
    left = limits.output_bytes
    dockerfile = run.asked.dockerfile
    names = context.names(project, dockerfile)
    with context.archive(project.folder, names, dockerfile, run.dockerfile) as packed:

        def ask(client: Client) -> None:
            # The SDK's own session adds them to every call of this client.
            client.params = _more_options(run)
            client.build(fileobj=packed, custom_context=True, **_options(run))

        def check() -> None:
            if pace.due(None):
                began = time.monotonic()
                full = parts.written_bytes() > limits.build_disk_bytes
                pace.measured(began)
                if full:
                    raise run.over(Reason.DISK_LIMIT, log)

        for message in messages(run.probe, ask, run.cancel, run.until, check):
            if message.error:
                log.end(message)
                raise _ended(run, log, parts)
            parts.heard(message.stream)
            if text := log.shown(message.stream):
                log.add(text)
                left -= len(text)
                if left < 0 or parts.too_many:
                    raise run.over(Reason.OUTPUT_LIMIT, log)
                yield BuildOutput(text)


def _ended(run: BuildRun, log: ClassicLog, parts: BuildParts) -> ImageError:
    """Return the error for a step that failed, or whose processes met a limit."""
    met = run.kernel_limit(log)
    if log.exit_code and parts.killed_for_memory():
        met = Reason.MEMORY_LIMIT
    return run.over(met, log) if met else failed(log)


def _options(run: BuildRun) -> dict[str, Any]:
    """Return the arguments of the SDK's ``build`` but for the files.

    The memory is that of each RUN step; without swap, as for a run.
    """
    plan, asked, memory = run.plan, run.asked, run.plan.limits.memory_bytes
    return {
        "dockerfile": asked.dockerfile,
        "tag": plan.reference,
        "target": asked.target,
        "buildargs": dict(asked.args),
        "nocache": asked.no_cache,
        "labels": image_names.label(plan),
        "container_limits": {"memory": memory, "memswap": memory},
        "shmsize": plan.limits.shm_bytes,
        "rm": True,
        "forcerm": True,
    }


def _more_options(run: BuildRun) -> dict[str, str]:
    """Return parameters of the API's call that the SDK's ``build`` does not take."""
    most = {"core": 0, "nofile": run.plan.limits.open_files}
    ulimits = [{"Name": n, "Soft": most[n], "Hard": most[n]} for n in most]
    named = {"cgroupparent": run.group_path} if run.group else {}
    return {"ulimits": json.dumps(ulimits), **named}


class BuildParts:
    """The containers and images that the messages of one build name."""

    def __init__(self, client: Client, started: float) -> None:
        """``started`` is the engine's own time: nothing older is the build's."""
        self._client, self._started = client, started
        self.containers: list[str] = []
        self._images: list[str] = []
        self._own: dict[str, int] = {}
        self._looked = 0

    def heard(self, text: str) -> None:
        """Note what a message names."""
        for pattern, names in (
            (_CONTAINER, self.containers),
            (_IMAGE, self._images),
        ):
            if (found := pattern.fullmatch(text)) and len(names) < MOST_NAMES:
                names.append(found[1])

    @property
    def too_many(self) -> bool:
        """Whether more are named than are kept."""
        return MOST_NAMES in (len(self.containers), len(self._images))

    def killed_for_memory(self) -> bool:
        """Whether the engine tells that one of the containers ran out of memory."""
        if not self.containers:
            return False
        filters = {"event": ["oom"], "container": self.containers[-LAST:]}
        with contextlib.suppress(*FAILURES):
            until = engine_time(self._client)
            sdk: Any = self._client  # its types know no fractions of a second
            told = sdk.events(
                since=f"{self._started:.6f}",
                until=f"{until:.6f}",
                filters=filters,
                decode=True,
            )
            with contextlib.closing(told):
                return any(True for _ in told)
        return False

    def layers_bytes(self) -> int:
        """Return the bytes of the layers that this build made."""
        for name in self._images[self._looked :]:
            self._looked += 1
            with contextlib.suppress(*FAILURES):
                found = image(self._client, name)
                if found.get("Parent") and seconds(found["Created"]) >= self._started:
                    below = image(self._client, found["Parent"])["Size"]
                    self._own[found["Id"]] = max(found["Size"] - below, 0)
        return sum(self._own.values())

    def running(self) -> list[str]:
        """Return which of the containers there still are, or are made of its images.

        Raise one of FAILURES if the engine does not answer.
        """
        named = set(self.containers)
        found = self._client.containers(all=True)
        return [
            each["Id"]
            for each in found
            if each["Created"] >= int(self._started)
            and (each["Id"][:12] in named or each["ImageID"] in self._own)
        ]

    def written_bytes(self) -> int:
        """Return what the build has written, as far as the engine counts it.

        That is its layers and the changes of the steps that run now; neither volumes
        nor removed files.
        """
        total = self.layers_bytes()
        with contextlib.suppress(KeyError, *FAILURES):
            if running := self.running():
                filters = {"id": running}
                sizes = self._client.containers(all=True, size=True, filters=filters)
                total += sum(int(each.get("SizeRw", 0)) for each in sizes)
        return total

    def remove(self, reference: str, labels: Mapping[str, str]) -> None:
        """Remove what the build left: containers, and images but those with a name.

        The engine itself removes a container once nobody waits for the build any more.
        It may have ended the build meanwhile, and have named it by the reference. It
        may also go on for a step, and so make an image of one that is just removed,
        which only the build's ``labels`` tell as its own then.
        """
        until = time.monotonic() + ENDING_S
        self.layers_bytes()
        while True:
            with contextlib.suppress(*FAILURES):
                while self.running() and time.monotonic() < until:
                    time.sleep(0.1)
            self.layers_bytes()
            with contextlib.suppress(*FAILURES):
                if seconds(image(self._client, reference)["Created"]) >= self._started:
                    self._client.remove_image(reference, noprune=True)
            with contextlib.suppress(*FAILURES):
                self._find_above()
                self._find_orphans(labels)
            if not self._remove_own(reference) or time.monotonic() > until:
                return
            time.sleep(0.1)

    def _remove_own(self, reference: str) -> bool:
        """Remove the build's images; return whether there were any."""
        some = False
        # The engine gives an image its name last, perhaps only now.
        own = {normalise(reference)}
        for name in reversed(self._own):
            with contextlib.suppress(*FAILURES):
                if own.issuperset(image(self._client, name).get("RepoTags") or ()):
                    some = True
                    self._client.remove_image(name, noprune=True)
        return some

    def _find_above(self) -> None:
        """Add the images made from the build's own that no message has named."""
        above = {
            each["ParentId"]: each["Id"]
            for each in self._client.images(all=True)
            if each["ParentId"] and each["Created"] >= int(self._started)
        }
        for name in list(self._own):
            while (name := above.get(name, "")) and name not in self._own:
                self._own[name] = 0

    def _find_orphans(self, labels: Mapping[str, str]) -> None:
        """Add the images with the build's labels whose parent is gone."""
        ours = [f"{name}={value}" for name, value in labels.items()]
        for each in self._client.images(filters={"label": ours, "dangling": True}):
            if not each["ParentId"] and each["Created"] >= int(self._started):
                self._own.setdefault(each["Id"], 0)


def engine_time(client: Client) -> float:
    """Return the engine's own time."""
    return seconds(client.info()["SystemTime"])

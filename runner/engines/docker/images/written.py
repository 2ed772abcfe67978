"""What the engine's own builder has made so far: containers, layers, and their size.

It names each container and image in a message of its own. What a step prints can look
the same, so a name counts only for what the engine itself says of it.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from runner.engines.docker.client import FAILURES, Client, image
from runner.images.names import normalise

MOST_NAMES = 10_000
LAST = 50
"""How many of the containers are asked for by name."""

ENDING_S = 10.0

_CONTAINER = re.compile(r" ---> Running in ([0-9a-f]{12})\n")
_IMAGE = re.compile(r" ---> ([0-9a-f]{12})\n")


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
                if found.get("Parent") and _time(found["Created"]) >= self._started:
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
                if _time(image(self._client, reference)["Created"]) >= self._started:
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


def _time(text: str) -> float:
    # Python 3.11 reads up to six digits of a second.
    return datetime.fromisoformat(re.sub(r"(\.\d{1,6})\d*", r"\1", text)).timestamp()


def engine_time(client: Client) -> float:
    """Return the engine's own time."""
    return _time(client.info()["SystemTime"])

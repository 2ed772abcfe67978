"""Tell a container that was ended from outside from one that its commands ended."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from runner.engines.docker.client import FAILURES, Client

SLACK_S = 10
"""How much later than the container's end a busy engine may tell of it."""

_TOLD = {"event": ["die", "kill", "destroy"]}


def from_within(client: Client, container: str, state: Mapping[str, Any]) -> bool:
    """Whether a process of the container ended it; ``state`` is that of an ended one.

    Commands that are root can trace its first process, and kill it so. The engine
    tells of each signal that it was asked for. An engine that forgot, since much
    happened or it was started anew, leaves it open.
    """
    actions: list[str] = []
    with contextlib.suppress(ValueError, *FAILURES):
        told: Any = client.events(
            since=_seconds(state["StartedAt"]),
            until=_seconds(state["FinishedAt"]) + SLACK_S,
            filters={**_TOLD, "container": [container]},
            decode=True,
        )
        with contextlib.closing(told):
            for event in told:
                actions.append(event.get("Action", ""))
                if actions[-1] != "kill":
                    break
    return actions == ["die"]


def _seconds(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())

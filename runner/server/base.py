"""What the HTTP interface of a server is made of."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct

from runner.database.store import Store
from runner.jobhost.base import JobHost
from runner.scheduling.decision import QueueDecision
from runner.scheduling.roles import ServerRules


class Site(Struct, frozen=True):
    """A server's parts, as ``make_app`` takes them.

    ``uploads`` is the folder of the packed projects, ``wake`` tells the feeder that the
    queue changed, ``decision`` returns what the feeder decided last, and ``now``
    returns seconds since 1970. Everything here may be called from any thread.
    """

    store: Store
    host: JobHost
    rules: ServerRules
    uploads: Path
    wake: Callable[[], None] = lambda: None
    decision: Callable[[], QueueDecision[Any]] = QueueDecision
    now: Callable[[], float] = time.time


class RunSecrets(Struct, frozen=True):
    """What a run's row keeps in ``secrets``, as JSON, until it starts.

    ``spec_text`` is the build file with the values that the parcel masks, ``secrets``
    the values of the variables that the parcel only names.
    """

    spec_text: str = ""
    secrets: dict[str, str] = {}

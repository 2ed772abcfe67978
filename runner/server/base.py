"""What the HTTP interface of a server is made of."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from runner.database import Store
from runner.scheduling.decision import QueueDecision
from runner.scheduling.queue import ServerRules
from runner.server.folders import ServerRuns


class Site(Struct, frozen=True):
    """A server's parts, as ``make_app`` takes them.

    ``uploads`` is the folder of the packed projects, ``wake`` tells the feeder that the
    queue changed, ``decision`` returns what the feeder decided last, and ``now``
    returns seconds since 1970. Everything here may be called from any thread.
    """

    store: Store
    runs: ServerRuns
    rules: ServerRules
    uploads: Path
    wake: Callable[[], None] = lambda: None
    decision: Callable[[], QueueDecision] = QueueDecision
    now: Callable[[], float] = time.time

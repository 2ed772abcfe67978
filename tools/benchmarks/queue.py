"""Measure one decision about a server's queue, among 10,000 runs that wait."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Iterator

from runner.core.wire import Capacity, ServerGpu
from runner.server.decision import decide
from runner.server.scheduling import QueueHistory, QueueRow, ServerRules
from tools.benchmarks import rows

RUNS, TEAMS = 10_000, 40
ROUNDS = 21
MOST_S = 0.05


def measure() -> Iterator[dict[str, object]]:
    """Measure the decision of a server with 4 GPUs and 4 slots."""
    draw = random.Random(1)
    waiting = [_waiting(number, draw) for number in range(RUNS)]
    history = QueueHistory()
    for number in range(TEAMS):
        for lane in ("cpu", "gpu"):
            history.note_start(f"team-{number}", lane, draw.random())
            history.note_end(f"team-{number}", lane, 60 * draw.random())
    gpus = tuple(ServerGpu(f"GPU-{number}", "a GPU") for number in range(4))
    facts = Capacity("1", ("docker",), gpus, cores=8)
    spent = []
    for _ in range(ROUNDS):
        began = time.process_time()
        found = decide(waiting, facts, ServerRules(), history, 2000.0)
        spent.append(time.process_time() - began)
    yield rows.row(
        f"a decision about {RUNS:,} waiting runs of {TEAMS} teams",
        f"at most {1000 * MOST_S:.0f} ms of CPU",
        statistics.median(spent) <= MOST_S,
        cpu=rows.spread(spent),
        starts=len(found.starts),
    )


def _waiting(number: int, draw: random.Random) -> QueueRow:
    return QueueRow(
        f"{number:010x}",
        f"team-{number % TEAMS}",
        "person",
        "student",
        "digest",
        "sha256",
        1000 * draw.random(),
        gpus=number % 2,
    )

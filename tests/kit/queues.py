"""Queues for tests: rows, machines and a queue that is played through."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count

from msgspec.structs import replace

from runner.core.wire import Capacity, QueueState, ServerGpu
from runner.server.decision import decide
from runner.server.scheduling import QueueHistory, QueueRow, Role, ServerRules

_numbers = count(1)
FREE = ServerRules(roles={"student": Role("student")})
"""No team has a bound of its own."""


def row(team: str = "a", at: float | None = None, **other: object) -> QueueRow:
    """Return a run that waits, queued after all before it unless ``at`` says when."""
    number = next(_numbers)
    queued_at = float(number) if at is None else at
    known = QueueRow(f"{number:010x}", team, "ann", "student", "d", "s", queued_at)
    return replace(known, **other)


def going(one: QueueRow, at: float = 0.0) -> QueueRow:
    """Return a run as it goes on since ``at``."""
    return replace(one, state=QueueState.RUNNING, started_at=at)


def machine(gpus: int = 0, out: Sequence[int] = (), cores: int = 4) -> Capacity:
    """Return a machine that works; ``out`` are the numbers of its GPUs that are out."""
    found = (
        ServerGpu(f"GPU-{n}", "a GPU", "it fell off the bus" if n in out else "")
        for n in range(gpus)
    )
    return Capacity("1", ("local",), tuple(found), cores=cores)


def decided(rows, facts, rules=FREE, history=None, now=1000.0, **other):
    return decide(rows, facts, rules, history or QueueHistory(), now, **other)


class Played:
    """A queue that is decided again and again, while its runs start and end."""

    def __init__(self, facts: Capacity, at_once: int | None = None) -> None:
        rules = ServerRules(roles={"student": Role("student", at_once=at_once)})
        self.facts, self.rules = facts, rules
        self.rows: dict[str, QueueRow] = {}
        self.history = QueueHistory()
        self.started: list[QueueRow] = []
        self.now = 1000.0
        self.watch: Callable[[Sequence[QueueRow]], None] = lambda active: None

    @property
    def active(self) -> list[QueueRow]:
        return [r for r in self.rows.values() if r.state is QueueState.RUNNING]

    @property
    def waiting(self) -> list[QueueRow]:
        return [r for r in self.rows.values() if r.state is QueueState.WAITING]

    def add(self, *rows: QueueRow) -> None:
        self.rows |= {one.id: one for one in rows}

    def step(self) -> list[QueueRow]:
        """Start what is decided; return it."""
        self.now += 1
        rows = list(self.rows.values())
        found = decided(rows, self.facts, self.rules, self.history, self.now)
        for one in found.starts:
            self.rows[one.id] = going(one, self.now)
            self.started.append(one)
            self.history.note_start(one.team, one.lane, self.now)
        self.watch(self.active)
        return list(found.starts)

    def end(self, one: QueueRow) -> None:
        self.now += 1
        self.history.note_end(one.team, one.lane, 1.0)
        del self.rows[one.id]

"""Submissions that have ended, in a store, for tests of what they are worth."""

from __future__ import annotations

import hashlib
import os
from typing import Any

from msgspec.structs import replace

from runner.core import Reason
from runner.core.measurement import Measurement, MeasurementHost
from runner.core.milestone import Trust
from runner.core.wire import Submission
from runner.server.database import Store
from tests.kit import judge_cases as made
from tests.server.database import test_submissions as submissions

TERM = "2026fa"
AT = 1_700_000_000.0


def measurement(
    ratio: float,
    half: float = 0.001,
    *,
    gpu: str = "NVIDIA H200",
    sources: str = "",
    **entry: Any,
) -> Measurement:
    """Return an accepted measurement whose interval reaches ``half`` to each side."""
    sides = [ratio - half, ratio + half]
    figures = {"ratio": ratio, "ms": 2 * ratio, "interval": sides}
    found = made.read({**made.ACCEPTED, **figures, **entry}).brief
    assert found.gpu
    own = hashlib.sha256((sources or str(ratio)).encode()).hexdigest()
    known = {"conv.cu": own}
    host = MeasurementHost("Final", Trust.RANKED, engine="docker", sources=known)
    return replace(found, gpu=replace(found.gpu, name=gpu), host=host)


def add(
    store: Store,
    team: str,
    measured: Measurement | None = None,
    *,
    milestone: str = "final",
    late_s: float = 0.0,
    role: str = "student",
    reason: Reason = Reason.DONE,
    at: float = AT,
) -> int:
    """Add a submission that has ended; return its number."""
    more = {"late_s": late_s, "role": role, "milestone": milestone, "most": 1000}
    one, _ = submissions.add(store, os.urandom(5).hex(), team, at, **more)
    end(store, one, measured, reason)
    return one.number


def end(
    store: Store,
    one: Submission,
    measured: Measurement | None,
    reason: Reason = Reason.DONE,
) -> None:
    """Record the verdict of a submission."""
    over = replace(one, reason=reason, ended_at=AT + 60, measured=measured)
    assert store.judge(one, over)

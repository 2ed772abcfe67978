"""All that a run left behind, as a report is made of it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from runner.core.kernel_shapes import KernelShapes
from runner.core.measurement import Measurement
from runner.core.run import RunRecord
from runner.core.trace import Trace

NO_OUTPUTS: Mapping[int, OutputEnds] = MappingProxyType({})


class OutputEnds(Struct, frozen=True):
    """The beginning and the end of what a command printed, as plain text.

    Between them ``left_out_bytes`` are left out; if these are 0, ``head`` is all of it.
    """

    head: str
    tail: str = ""
    left_out_bytes: int = 0


class RunEvidence(Struct, frozen=True):
    """A run's record, and what was found in its folder.

    ``outputs`` are of the commands of the first round, by index. ``away`` is the
    machine that carries the run out, if it cannot be seen from this one. ``problems``
    says what could not be read, and why.
    """

    record: RunRecord
    tag: str = ""
    note: str = ""
    away: str = ""
    outputs: Mapping[int, OutputEnds] = NO_OUTPUTS
    shapes: KernelShapes | None = None
    traces: tuple[Trace, ...] = ()
    measurement: Measurement | None = None
    problems: tuple[str, ...] = ()

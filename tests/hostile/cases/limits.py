"""What passes a limit of a run: processes, memory, time, output."""

from __future__ import annotations

from runner.core import Reason
from tests.hostile.case import Case

CASES = (
    Case(
        name="fork bomb",
        tries="Starts processes without end.",
        # It ends by itself where nothing else ends it.
        commands=(
            """perl -e 'for (1..300) { $p = fork; die "$!\\n" unless defined $p;"""
            """ sleep 20, exit unless $p }'""",
        ),
        limits={"pids": 64, "time": 8},
        ends=Reason.PIDS_LIMIT,
        needs="pids",
        ci=("",),
    ),
    Case(
        name="endless output",
        tries="Prints without end.",
        commands=("yes",),
        limits={"output": "1MiB"},
        ends=Reason.OUTPUT_LIMIT,
        ci=("",),
    ),
    Case(
        name="sleep forever",
        tries="Sleeps past the time limit.",
        commands=("sleep infinity",),
        limits={"time": 2},
        ends=Reason.TIME_LIMIT,
    ),
    Case(
        name="memory bomb",
        tries="Takes 400 MB of 64.",
        commands=("head -c 400000000 /dev/zero | tail",),
        limits={"memory": "64MiB"},
        ends=Reason.MEMORY_LIMIT,
        needs="memory",
        ci=("root",),
    ),
)

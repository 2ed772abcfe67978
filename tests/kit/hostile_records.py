"""Records for the tests of what is written of them."""

from __future__ import annotations

from msgspec.structs import replace

from runner.core import (
    CommandRecord,
    Findings,
    GitState,
    GpuFault,
    GpuFaultKind,
    Inference,
    Outcome,
    Place,
    ProfileRow,
    ProfileTable,
    Reason,
    RunRecord,
    Verdict,
)
from runner.core.build_spec import Check
from tests.kit.records import command, ended

HOSTILE = 'a\x00b\x1b[2J\x07 </pre><script>]]> \ud800 \uffff & "quoted" | `x` @you #1'
FIGURES = Findings(
    inferences=(Inference(op_times_s=(0.25, 0.5), correctness=0.85),),
    profiles=(
        ProfileTable("nvprof", "GPU activities", (ProfileRow("conv", 100.0, 0.5, 2),)),
    ),
)
FAULT = GpuFault(GpuFaultKind.ILLEGAL_ADDRESS, "CUDA error 700")
PLACE = Place("rai_build.yml", 7, 9)
COMMANDS = (
    CommandRecord(0, "make", "build", Outcome.OK, 0, wall_s=1.5, cpu_s=1.0),
    CommandRecord(1, "./final", "final", Outcome.OK, 0, wall_s=2.0, findings=FIGURES),
    replace(
        command(2, "./crash", outcome=Outcome.FAILED, exit_code=1, wall_s=0.5),
        findings=Findings(gpu_faults=(FAULT,)),
    ),
    replace(
        command(3, "./wrong", outcome=Outcome.WRONG, wall_s=0.25),
        checks=(Check('output "PASS"', "", False, PLACE),),
    ),
    CommandRecord(4, "./late", None, Outcome.SKIPPED, why="the run ended first"),
)


def run(
    *commands: CommandRecord, reason: Reason = Reason.DONE, message: str = ""
) -> RunRecord:
    """Return a run that has ended."""
    verdict = Verdict(True, reason is Reason.DONE, None, reason, message)
    git = GitState("c0ffee" * 6, "main")
    return ended("0123456789", *commands, verdict=verdict, git=git)

"""What a program says of a GPU that failed it becomes the reason of its run's end."""

from __future__ import annotations

import pytest

from runner.core import GpuFaultKind, Reason
from runner.report import runs as run_tables
from tests.core.test_grants import HERE, spec
from tests.execution.test_job import PROJECT, carry_out
from tests.kit.fake_engine import FakeEngine, FakeResult

__all__ = ["PROJECT"]

MEMORY = b"pycuda._driver.MemoryError: cuMemAlloc failed: out of memory\n"
ADDRESS = b"m3.1.py: CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access\n"
LOST = b"RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
NO_DEVICE = b"RuntimeError: No CUDA GPUs are available\n"


@pytest.mark.parametrize(
    ("line", "given", "reason", "exit_code"),
    [
        (MEMORY, True, Reason.GPU_MEMORY, 6),
        (ADDRESS, True, Reason.GPU_FAULT, 1),
        (LOST, True, Reason.GPU_ERROR, 10),
        (LOST, False, Reason.COMMAND_FAILED, 1),
        (NO_DEVICE, True, Reason.GPU_ERROR, 10),
        (NO_DEVICE, False, Reason.NO_GPU, 11),
    ],
)
def test_a_fault_in_a_failed_command_is_the_reason(
    project, line, given, reason, exit_code
):
    says = {"anywhere": FakeResult(stderr=b"starting\n" + line, exit_code=3)}
    engine = FakeEngine(says, images=True, situation=HERE)
    text = spec() if given else "commands: {build: [anywhere]}\n"

    found, _, _ = carry_out(project, engine, text=text)

    assert (found.verdict.reason, found.verdict.served) == (reason, True)
    assert found.verdict.reason.exit_code == exit_code
    assert not found.verdict.ran


def test_the_message_names_the_command_its_exit_code_and_the_fault(project):
    engine = FakeEngine({"first": FakeResult(stdout=ADDRESS, exit_code=4)})

    found, _, _ = carry_out(project, engine)

    assert found.verdict.message == (
        "`first` exited 4: a kernel accessed an illegal address"
        " (m3.1.py: CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access)"
    )


def test_a_program_that_deals_with_a_fault_is_done_and_the_record_keeps_it(project):
    engine = FakeEngine({"first": FakeResult(stderr=MEMORY)})

    found, _, _ = carry_out(project, engine)

    assert found.verdict.reason is Reason.DONE
    (fault,) = found.findings.gpu_faults
    assert fault.kind is GpuFaultKind.OUT_OF_MEMORY


def test_a_limit_goes_before_what_the_program_said(project):
    says = FakeResult(stderr=MEMORY, exit_code=143, reason=Reason.TIME_LIMIT)

    found, _, _ = carry_out(project, FakeEngine({"first": says}))

    assert found.verdict.reason is Reason.TIME_LIMIT


def test_of_several_failures_the_first_is_the_reason_unless_a_gpu_was_lost(project):
    text = spec()
    plain = {
        "anywhere": FakeResult(exit_code=1),
        "on the GPU": FakeResult(stderr=ADDRESS, exit_code=1),
    }
    lost = {**plain, "on the GPU": FakeResult(stderr=LOST, exit_code=1)}
    reasons = []
    for script in (plain, lost):
        engine = FakeEngine(script, images=True, situation=HERE)
        found, _, _ = carry_out(project, engine, keep_going=True, text=text)
        reasons.append(found.verdict.reason)

    assert reasons == [Reason.COMMAND_FAILED, Reason.GPU_ERROR]


def test_a_report_shows_the_fault_beside_the_command_and_as_it_was_printed(project):
    says = {"first": FakeResult(stderr=MEMORY, exit_code=1)}

    found, _, _ = carry_out(project, FakeEngine(says))
    _, commands, faults = run_tables.of(found)

    assert commands.rows[0][2] == "failed, the GPU ran out of memory"
    line = MEMORY.decode().strip()
    assert faults.rows == (("the GPU ran out of memory", line),)

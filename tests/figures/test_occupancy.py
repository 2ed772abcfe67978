"""Theoretical occupancy, beside what NVIDIA's calculator gives."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from runner.figures.peaks import MULTIPROCESSORS, OccupancyLimit, occupancy
from tests.kit.program import run_program

BITS = {
    OccupancyLimit.WARPS: 1,
    OccupancyLimit.REGISTERS: 2,
    OccupancyLimit.SHARED_MEMORY: 4,
    OccupancyLimit.BLOCKS: 8,
}
"""The bits of ``limitingFactors`` in CUDA's cuda_occupancy.h."""

# Capability, threads, registers, shared bytes; blocks and limits of the calculator,
# cudaOccMaxActiveBlocksPerMultiprocessor of CUDA 13.0.
KNOWN = [
    ("3.5", 64, 32, 0, 16, 8),
    ("5.0", 256, 32, 9000, 7, 4),
    ("5.2", 768, 24, 4096, 2, 1),
    ("6.0", 128, 24, 16384, 4, 4),
    ("6.1", 1024, 24, 1024, 2, 3),
    ("7.0", 32, 96, 49152, 2, 4),
    ("7.5", 100, 32, 0, 8, 1),
    ("7.5", 1024, 128, 30000, 0, 2),
    ("8.0", 128, 63, 0, 8, 2),
    ("8.6", 1024, 16, 16384, 1, 1),
    ("8.9", 512, 63, 4096, 2, 2),
    ("9.0", 128, 24, 16384, 13, 4),
    ("10.0", 256, 255, 9000, 1, 2),
    ("12.0", 768, 128, 49152, 0, 2),
]
PROGRAM = r"""
#include <limits.h>
#include <stdio.h>
#include "cuda_occupancy.h"
int main(void)
{
    int major, minor, warps, all, most, threads, registers;
    long of_block, shared, reserved, wanted;
    while (scanf("%d.%d %d %d %d %ld %ld %ld %d %d %ld", &major, &minor, &warps, &all,
                 &most, &of_block, &shared, &reserved, &threads, &registers,
                 &wanted) == 11) {
        struct cudaOccDeviceProp gpu = {
            major, minor, 1024, 32 * warps, most, all, 32, 49152, shared, 1,
            of_block, reserved};
        struct cudaOccFuncAttributes kernel = {
            INT_MAX, registers, 0, PARTITIONED_GC_OFF, FUNC_SHMEM_LIMIT_OPTIN, wanted,
            1};
        struct cudaOccDeviceState state = {CACHE_PREFER_NONE,
                                           SHAREDMEM_CARVEOUT_MAX_SHARED};
        struct cudaOccResult found;
        if (cudaOccMaxActiveBlocksPerMultiprocessor(&found, &gpu, &kernel, &state,
                                                    threads, wanted))
            return 1;
        printf("%d %u\n", found.activeBlocksPerMultiprocessor,
               found.limitingFactors & 15);
    }
}
"""
DEMANDS = st.tuples(
    st.sampled_from(sorted(MULTIPROCESSORS)),
    st.integers(1, 1024),
    st.integers(1, 255),
    st.integers(0, 100_000),
)


def blocks_and_limits(*demand):
    found = occupancy(*demand)
    return (found.blocks, sum(BITS[n] for n in found.limits)) if found else (0, None)


@pytest.mark.parametrize("case", KNOWN, ids=str)
def test_blocks_and_limits_are_those_of_nvidia_s_calculator(case):
    *demand, blocks, limits = case

    assert blocks_and_limits(*demand) == (blocks, limits if blocks else None)


@pytest.mark.kernels
@pytest.mark.cpp
def test_it_agrees_with_the_header_of_the_installed_cuda(tmp_path):
    headers = sorted(Path("/usr/local").glob("cuda*/include/cuda_occupancy.h"))
    if not headers:
        pytest.skip("no cuda_occupancy.h below /usr/local")
    (tmp_path / "a.c").write_text(PROGRAM)
    program = tmp_path / "a"
    build = ["cc", "-w", f"-I{headers[-1].parent}", tmp_path / "a.c", "-o", program]
    subprocess.run(build, check=True)
    demands = [
        (capability, threads, registers, shared)
        for capability in MULTIPROCESSORS
        for threads in (1, 32, 96, 100, 256, 384, 672, 1024)
        for registers in (1, 31, 40, 56, 72, 128, 255)
        for shared in (0, 1, 3000, 16 << 10, 40_000, 99 << 10, 227 << 10)
    ]
    lines = [
        f"{capability} {m.warps} {m.registers} {m.block_registers} "
        f"{m.block_shared_bytes} {m.shared_bytes} {m.reserved_bytes} "
        f"{threads} {registers} {shared}\n"
        for capability, threads, registers, shared in demands
        for m in (MULTIPROCESSORS[capability],)
    ]
    done = run_program([program], input="".join(lines), check=True)
    theirs = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]

    assert len(theirs) == len(demands)
    for demand, (blocks, limits) in zip(demands, theirs, strict=True):
        expected = (blocks, limits if blocks else None)
        assert blocks_and_limits(*demand) == expected, demand


@given(DEMANDS)
def test_each_step_is_a_change_of_one_thing_that_helps(demand):
    found = occupancy(*demand)
    assume(found is not None)
    capability, threads, registers, shared = demand

    for step in found.steps:
        changed = occupancy(
            capability,
            threads if step.threads is None else step.threads,
            registers if step.registers is None else step.registers,
            shared if step.shared_bytes is None else step.shared_bytes,
        )
        changes = (step.threads, step.registers, step.shared_bytes)
        assert sum(change is not None for change in changes) == 1
        assert (changed.warps, changed.blocks) == (step.warps, step.blocks)
        assert step.warps > found.warps


@given(DEMANDS, st.integers(1, 254))
def test_fewer_registers_never_cost_a_block(demand, fewer):
    capability, threads, registers, shared = demand
    assume(fewer < registers)

    before = blocks_and_limits(*demand)[0]
    assert blocks_and_limits(capability, threads, fewer, shared)[0] >= before


def test_a_step_is_the_nearest_that_helps():
    # Twelve warps of 168 registers fit; with 160 no more do, with 128 sixteen do.
    found = occupancy("9.0", 32 * 4, 168, 0)
    (registers,) = [step for step in found.steps if step.registers]

    assert (found.blocks, found.limits) == (3, (OccupancyLimit.REGISTERS,))
    assert (registers.registers, registers.blocks) == (128, 4)
    assert occupancy("9.0", 32 * 4, 129, 0).blocks == 3


def test_a_block_that_leaves_warps_unused_is_better_smaller():
    found = occupancy("8.6", 1024, 32, 0)
    (step,) = found.steps

    assert (found.percent, found.limits) == (66.67, (OccupancyLimit.WARPS,))
    assert (step.threads, step.blocks, step.percent) == (768, 2, 100.0)


def test_small_blocks_are_limited_by_their_number():
    found = occupancy("8.6", 32, 32, 0)
    (step,) = found.steps

    assert (found.blocks, found.limits) == (16, (OccupancyLimit.BLOCKS,))
    assert (step.threads, step.warps) == (64, 32)


def test_a_full_multiprocessor_has_no_step():
    found = occupancy("9.0", 256, 32, 0)

    assert (found.percent, found.steps) == (100.0, ())
    assert OccupancyLimit.WARPS in found.limits


def test_what_limits_together_has_to_change_together():
    # Two blocks by registers and by shared memory: neither alone gives a third.
    found = occupancy("9.0", 512, 64, 100 << 10)

    assert found.limits == (OccupancyLimit.REGISTERS, OccupancyLimit.SHARED_MEMORY)
    assert found.steps == ()


@pytest.mark.parametrize(
    "demand",
    [
        ("9.0", 1025, 32, 0),
        ("9.0", 0, 32, 0),
        ("9.0", 256, 256, 0),
        ("9.0", 256, 32, (227 << 10) + 1),
        ("9.0", 1024, 255, 0),
        ("8.6", 256, 32, 100 << 10),
        ("3.0", 256, 32, 0),
        ("", 256, 32, 0),
    ],
)
def test_what_cannot_run_or_is_not_known_has_no_occupancy(demand):
    assert occupancy(*demand) is None

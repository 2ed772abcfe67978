"""Kernels of a trace: what they reach, beside what the project says of them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from runner.core import KernelCounters, Source
from runner.core.evidence import KernelLaunches, Trace, TracedGpu
from runner.core.kernel_shapes import KernelShapes, KernelWork
from runner.core.measurement import MeasuredRates
from runner.figures import analysis, peaks

GRID, BLOCK = (12, 25, 1000), (16, 16, 1)
H200 = TracedGpu(0, "NVIDIA H200", "9.0", 132)


def launched(kernel="conv_naive", grid=GRID, count=4, total_s=0.008, min_s=0.001):
    """Four launches that took two milliseconds on average, and one at best."""
    return KernelLaunches(
        kernel, 0, grid, BLOCK, 32, 0, 1024, count, total_s, min_s, total_s
    )


def trace(*launches, command="python /src/project/m3.1.py 1000", gpu=H200):
    return Trace("m3.nvprof", "nvprof", command, (gpu,), launches)


def only(shapes, *traces, gpus=()):
    (found,) = analysis.kernels(shapes, traces, gpus)
    return found


def said(*works):
    return KernelShapes(kernels=works)


NAIVE = KernelWork("conv_naive", flops=4e9, bytes=4e8, accuracy_class="fp32")


def test_a_rate_is_what_one_launch_does_by_its_time():
    found = only(said(NAIVE), trace(launched()))

    assert found.average_s == pytest.approx(0.002)
    assert found.flops_per_s == pytest.approx(2e12)
    assert found.best_flops_per_s == pytest.approx(4e12)
    assert found.bytes_per_s == pytest.approx(2e11)
    assert found.best_bytes_per_s == pytest.approx(4e11)
    assert found.flops_per_byte == pytest.approx(10)


def test_the_roof_that_allows_less_bounds_a_kernel():
    by_memory = only(said(NAIVE), trace(launched())).bound
    dense = replace(NAIVE, flops=4e11)
    by_flops = only(said(dense), trace(launched())).bound

    assert by_memory.by == "memory"
    assert by_memory.least_s == pytest.approx(4e8 / 4.8e12)
    assert by_memory.percent == pytest.approx(100 * 4e8 / 4.8e12 / 0.002, abs=0.01)
    assert by_flops.by == "fp32"


def test_a_kernel_of_three_products_is_bound_by_its_unit():
    split = replace(NAIVE, flops=4e11, unit="fp16", unit_flops=1.2e12)
    found = only(said(split), trace(launched()))

    assert found.flops_per_s == pytest.approx(4e11 / 0.002)
    assert found.unit_flops_per_s == pytest.approx(1.2e12 / 0.002)
    assert found.bound.by == "fp16"
    assert found.bound.least_s == pytest.approx(1.2e12 / 989.4e12)


def test_a_measured_copy_goes_before_the_data_sheet():
    gpu = peaks.KnownGpu("NVIDIA H200", measured=MeasuredRates(4.2e12))
    found = only(said(NAIVE), trace(launched()), gpus=(gpu,))

    assert found.bound.least_s == pytest.approx(4e8 / 4.2e12)


def test_of_an_unknown_gpu_there_is_no_roof():
    found = only(said(NAIVE), trace(launched(), gpu=TracedGpu(0, "Voodoo 2")))

    assert found.bound is None
    assert found.flops_per_s == pytest.approx(2e12)


def test_the_clock_of_an_unknown_gpu_gives_a_roof_of_fp32():
    traced = TracedGpu(0, "NVIDIA X9", "9.0", 100)
    gpu = peaks.KnownGpu("NVIDIA X9", sm_clock_most_mhz=2000)
    (bounds,) = analysis.bounds_of([trace(gpu=traced)], [gpu])

    assert bounds.fp32_flops_per_s == pytest.approx(100 * 128 * 2 * 2e9)
    assert bounds.bytes_per_s is None
    assert "100 multiprocessors" in bounds.sources[0]


def test_without_what_the_project_says_times_and_occupancy_remain():
    found = only(None, trace(launched()))

    assert (found.flops, found.flops_per_s, found.bound) == (None, None, None)
    assert found.occupancy.percent == 100.0


def test_launches_of_one_kernel_are_told_apart_by_their_grid():
    works = (replace(NAIVE, grid=GRID, layer="a"), replace(NAIVE, layer="b"))
    other = replace(works[1], grid=(1, 1, 1), flops=1e6)
    found = analysis.kernels(
        said(works[0], other), [trace(launched(), launched(grid=(1, 1, 1)))]
    )

    assert {(one.grid, one.layer, one.flops) for one in found} == {
        (GRID, "a", 4e9),
        ((1, 1, 1), "b", 1e6),
    }


def test_a_persistent_kernel_is_told_apart_by_the_command():
    small = replace(NAIVE, script="m3.1.py", arguments=("1000",), flops=1e6)
    large = replace(NAIVE, script="m3.1.py", arguments=(), flops=1e9)
    commands = ("python /src/project/m3.1.py 1000", "python m3.1.py", "python x.py")
    found = [only(said(small, large), trace(launched(), command=c)) for c in commands]

    assert [one.flops for one in found] == [1e6, 1e9, None]


def test_where_entries_differ_only_what_they_share_is_said():
    one = replace(NAIVE, layer="conv1", variant="best")
    other = replace(NAIVE, layer="conv1", variant="best_tf32", flops=9e9)
    found = only(said(one, other), trace(launched()))

    assert (found.variant, found.layer) == ("", "conv1")
    assert (found.flops, found.bytes) == (None, 4e8)


def test_launches_of_two_sizes_in_one_grid_are_analysed_on_average():
    whole = replace(NAIVE, layer="conv1", launches=3)
    rest = replace(NAIVE, layer="conv1", launches=1, flops=2e9)
    found = only(said(whole, rest), trace(launched(count=4)))
    partly = only(said(whole, rest), trace(launched(count=5)))

    assert found.flops == pytest.approx(3.5e9)
    assert found.flops_per_s == pytest.approx(3.5e9 / 0.002)
    assert found.best_flops_per_s is None
    assert partly.flops is None


def test_kernels_are_listed_by_their_time_and_share_it():
    found = analysis.kernels(None, [trace(launched("a"), launched("b", total_s=0.024))])

    assert [(one.kernel, one.percent) for one in found] == [("b", 75.0), ("a", 25.0)]


def test_many_kernels_and_launches_are_matched():
    works = [replace(NAIVE, kernel=f"f{n}", flops=float(n + 1)) for n in range(5000)]
    launches = [launched(f"void f{n}<float>(int)") for n in range(5000)]
    found = analysis.kernels(said(*works), [trace(*launches)])

    assert {one.flops for one in found} == {work.flops for work in works}


def test_of_too_many_entries_of_one_name_nothing_is_known():
    works = [replace(NAIVE, layer=f"{n}", grid=None) for n in range(5000)]
    found = analysis.kernels(said(*works), [trace(*[launched()] * 2000)])

    assert {one.flops for one in found} == {None}


def test_counters_stand_beside_the_kernel_that_they_are_of():
    mine = KernelCounters("conv_naive(float *)", 1, GRID, BLOCK, sm_percent=70.0)
    other = replace(mine, grid=(1, 1, 1))
    small = replace(mine, source=Source(batch_size=100))
    large = replace(mine, source=Source(batch_size=1000))
    work = said(replace(NAIVE, batch_size=1000))

    def counted(*counters):
        (found,) = analysis.kernels(work, [trace(launched())], (), counters)
        return found.counters

    assert counted(other, mine) == mine
    assert counted(small, large) == large
    assert counted(other) is None
    assert counted(mine, replace(mine, launches=2)) is None


def test_no_time_is_no_rate():
    found = only(said(NAIVE), trace(launched(total_s=0.0, min_s=0.0)))

    assert (found.flops_per_s, found.best_flops_per_s, found.bound) == (None,) * 3


@pytest.mark.parametrize(
    ("profiled", "written", "same"),
    [
        ("void tiled<float, 16>(float*, float const*, int)", "tiled", True),
        ("void tiled<float, 16>(float*, int)", "tiled<float, 16>", True),
        ("void tiled<float, 16>(float*, int)", "tiled<float,8>", False),
        ("void a::tiled<float>(float*)", "a::tiled", True),
        ("tiled(float*)", "a::tiled", True),
        ("void a::tiled<float>(float*)", "b::tiled", False),
        ("(anonymous namespace)::tiled(int)", "tiled", True),
        ("void f<(anonymous namespace)::T>(g(*)(int))", "f", True),
        ("tiled_unroll", "tiled", False),
        ("conv_naive", "naive", False),
    ],
)
def test_a_name_is_found_with_template_arguments_and_without(profiled, written, same):
    found = only(said(replace(NAIVE, kernel=written)), trace(launched(profiled)))

    assert (found.flops is not None) is same

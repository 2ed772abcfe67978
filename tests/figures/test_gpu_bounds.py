"""What GPUs can do, by the driver's names of them."""

from __future__ import annotations

import pytest

from runner.core import Gpu, GpuState, GpuUse, GpuWay
from runner.core.measurement import MeasuredRates
from runner.figures import peaks as analysis
from runner.figures.peaks import PEAKS


def bounds(name, **more):
    return analysis.bounds(analysis.KnownGpu(name, **more))


@pytest.mark.parametrize(
    ("name", "gigabytes", "teraflops"),
    [
        ("NVIDIA H100 80GB HBM3", 3350, 66.9),
        ("NVIDIA H200", 4800, 66.9),
        ("NVIDIA A100-SXM4-40GB", 1555, 19.5),
        ("NVIDIA A100 80GB PCIe", 1935, 19.5),
        ("Tesla V100-SXM2-16GB", 900, 15.7),
        ("Tesla K80", 240, 4.37),
        ("NVIDIA GeForce RTX 4090", 1008, 82.6),
        ("GeForce RTX 2080 Ti", 616, 13.4),
    ],
)
def test_a_gpu_is_known_by_the_driver_s_name(name, gigabytes, teraflops):
    found = bounds(name)

    assert found.bytes_per_s == pytest.approx(1e9 * gigabytes)
    assert found.fp32_flops_per_s == pytest.approx(1e12 * teraflops)
    assert found.sources


@pytest.mark.parametrize(
    "name",
    [
        "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA H1000",
        "",
    ],
)
def test_a_part_of_a_gpu_or_another_of_its_name_is_unknown(name):
    assert bounds(name) is None


def test_tensor_cores_are_faster_the_narrower_the_type():
    for name, peaks in PEAKS.items():
        rates = map(peaks.flops_per_s, ("fp64", "fp32", "tf32", "fp16"))
        known = [rate for rate in rates if rate]
        assert len(known) > 0
        assert known == sorted(known), name


def test_a_measured_copy_of_an_unknown_gpu_is_a_roof_of_its_memory():
    found = bounds("NVIDIA X9", measured=MeasuredRates(1e12))

    assert found.bytes_per_s == 1e12
    assert found.fp32_flops_per_s is None


def test_a_record_says_the_capability_and_the_highest_clock():
    use = GpuUse(
        GpuWay.NODES,
        (Gpu("GPU-1", "NVIDIA X9", 0, compute="8.6"),),
        after=(GpuState("GPU-1", sm_clock_most_mhz=1800),),
    )

    (known,) = analysis.known_gpus(use)
    assert (known.capability, known.sm_clock_most_mhz) == ("8.6", 1800)
    assert analysis.known_gpus(None) == ()


@pytest.mark.parametrize(
    ("accuracy", "unit"),
    [("fp32", "fp32"), ("tf32", "tf32"), ("half", "fp16"), ("int8", None), ("", None)],
)
def test_an_accuracy_class_has_a_unit(accuracy, unit):
    found = bounds("NVIDIA H200")
    rates = {"fp32": 66.9e12, "tf32": 494.7e12, "fp16": 989.4e12, None: None}

    assert found.flops_per_s(accuracy) == pytest.approx(rates[unit])

"""Whether an image's CUDA works with a driver and a GPU."""

from __future__ import annotations

import pytest

from runner.core import Gpu
from runner.engines.gpu import allocation


@pytest.mark.parametrize(
    ("cuda", "version"),
    [
        ("13.0", "580.159.04"),
        ("13.1", "590.44.01"),
        ("12.8", "525.60.13"),
        ("11.8", "450.80.02"),
        ("", "470.57.02"),
        ("13", ""),
        ("9.2", "396.26"),
    ],
)
def test_a_driver_that_will_do_or_is_not_known_is_no_problem(cuda, version):
    assert allocation.driver_problem(cuda, version) is None


@pytest.mark.parametrize(
    ("cuda", "version", "needed"),
    [
        ("13.0", "575.57.08", "580"),
        ("12.4", "525.60.11", "525.60.13"),
        ("11.8", "418.226.00", "450.80.02"),
    ],
)
def test_a_driver_too_old_is_said_with_both_versions(cuda, version, needed):
    problem = allocation.driver_problem(cuda, version)
    assert f"CUDA {cuda} of the image" in problem.message
    assert f"driver {needed} or newer, but the driver is {version}" in problem.message
    assert f"update the driver to {needed} or newer" in problem.hint


def test_the_older_cuda_is_offered_where_it_would_do():
    assert "`args: {CUDA: 12}`" in allocation.driver_problem("13.0", "550.90.07").hint
    assert "args" not in allocation.driver_problem("12.8", "470.256.02").hint


def test_a_gpu_older_than_the_cuda_serves_is_said():
    volta = Gpu("GPU-1", "Tesla V100-SXM2-16GB", 0, compute="7.0")
    problem = allocation.compute_problem("13.0", volta)
    assert "7.5 or newer, but Tesla V100-SXM2-16GB has 7.0" in problem.message
    assert "`args: {CUDA: 12}`" in problem.hint
    assert allocation.compute_problem("12.8", volta) is None


@pytest.mark.parametrize("compute", ["7.5", "9.0", "10.3", "12.0", ""])
def test_a_gpu_that_is_new_enough_or_not_known_is_no_problem(compute):
    gpu = Gpu("GPU-1", "x", 0, compute=compute)
    assert allocation.compute_problem("13", gpu) is None

"""Layers by their Op Times."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from runner.core import Inference, Source
from runner.core.kernel_shapes import (
    KernelShapes,
    KernelWork,
    LayeredNetwork,
    NetworkLayer,
)
from runner.figures import analysis, peaks

CONV1 = NetworkLayer(
    "conv1", "convolution", (9, 1), (9, 1), (), flops=4e9, bytes=2e8, timed=True
)
CONV2 = replace(CONV1, name="conv2", flops=8e9)
DENSE = replace(CONV1, name="dense", timed=False)
NETWORK = LayeredNetwork("lenet", "m4.1.py", ("9",), 9, (CONV1, DENSE, CONV2))
WORK = KernelWork(
    "conv_a", "m4.1.py", ("9",), 9, "a", "conv1", flops=4e9, bytes=2e8, unit="fp32"
)
SHAPES = KernelShapes(networks=(NETWORK,), kernels=(WORK,))
H200 = peaks.bounds(peaks.KnownGpu("NVIDIA H200"))
COMMAND = "/usr/bin/time python $RAI_SOURCE_DIR/project/m4.1.py 9 | tee log"


def printed(*seconds, variant="a", size=9):
    return Inference(seconds, source=Source(1, COMMAND, variant, size))


def layers(inference, shapes=SHAPES, gpu=H200, command=COMMAND):
    return analysis.layers(shapes, command, inference, gpu)


def test_op_times_are_those_of_the_timed_layers_in_their_order():
    one, other = layers(printed(0.002, 0.004))

    assert (one.layer, one.op_time_s) == ("conv1", 0.002)
    assert one.flops_per_s == pytest.approx(2e12)
    assert one.bytes_per_s == pytest.approx(1e11)
    assert (other.layer, other.flops_per_s) == ("conv2", pytest.approx(2e12))


def test_a_layer_is_bound_by_what_its_kernels_do():
    one, other = layers(printed(0.002, 0.004))

    assert one.bound.by == "fp32"
    assert one.bound.least_s == pytest.approx(4e9 / 66.9e12)
    assert other.bound is None


def test_a_layer_of_a_cpu_has_no_roof():
    one, _ = layers(printed(0.002, 0.004), gpu=None)

    assert one.bound is None
    assert one.flops_per_s == pytest.approx(2e12)


def test_a_layer_whose_arrays_are_halves_moves_fewer_bytes():
    half = replace(WORK, bytes=1e8, flops=1e3)
    one, _ = layers(printed(0.002, 0.004), replace(SHAPES, kernels=(half,)))

    assert one.bound.by == "memory"
    assert one.bound.least_s == pytest.approx(1e8 / 4.8e12)


def test_chunks_add_up_to_a_layer():
    chunk = replace(WORK, launches=8, flops=5e8)
    one, _ = layers(printed(0.002, 0.004), replace(SHAPES, kernels=(chunk,)))

    assert one.bound.least_s == pytest.approx(4e9 / 66.9e12)


@pytest.mark.parametrize(
    ("inference", "command"),
    [
        (printed(0.1), COMMAND),
        (printed(0.1, 0.2, 0.3), COMMAND),
        (printed(0.1, 0.2, size=100), COMMAND),
        (printed(0.1, 0.2), "python other.py"),
        (printed(), COMMAND),
    ],
)
def test_op_times_of_another_network_are_not_analysed(inference, command):
    assert layers(inference, command=command) == ()


def test_without_a_file_no_layer_is_known():
    assert analysis.layers(None, COMMAND, printed(0.1, 0.2)) == ()


def test_a_command_without_a_size_is_told_by_its_arguments():
    plain = replace(NETWORK, arguments=(), batch_size=10_000)
    shapes = replace(SHAPES, networks=(NETWORK, plain))
    found = layers(printed(1, 2, size=None), shapes, command="python m4.1.py")

    assert [one.batch_size for one in found] == [10_000, 10_000]


def test_no_op_time_is_no_rate():
    one, _ = layers(printed(0.0, 1.0))

    assert (one.flops_per_s, one.bytes_per_s, one.bound) == (None, None, None)

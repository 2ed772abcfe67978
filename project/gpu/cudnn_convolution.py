"""cuDNN's convolution, planned for a shape. Only this module imports its binding.

The binding is NVIDIA's cudnn-frontend, imported as cudnn. Products and sums are fp32:
engines on tensor cores are excluded, since they round to TF32 first. Engines that call
cuBLASLt or compile at run time are excluded too, so no compiler is needed. cuBLASLt
must still be installed: cuDNN reads its version, and aborts where it is missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from math import prod

import cudnn
from course import shapes
from course.errors import GpuError, NoGpuError
from course.shapes import ConvShape
from gpu.device import DeviceArray

Y, X, K = 1, 2, 3  # the tensors' identifiers in every graph
FLOAT = cudnn.data_type.FLOAT
HEURISTICS = [cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK]
ROUNDING = [cudnn.numerical_note.TENSOR_CORE, cudnn.numerical_note.DOWN_CONVERT_INPUTS]
DEPENDENT = [
    cudnn.behavior_note.CUBLASLT_DEPENDENCY,
    cudnn.behavior_note.RUNTIME_COMPILATION,
]


class Cudnn:
    """cuDNN on the current CUDA context, with a workspace; close it before that."""

    def __init__(self, workspace: DeviceArray) -> None:
        try:
            self._handle = cudnn.create_handle()
        except RuntimeError as error:
            raise NoGpuError(
                f"cannot use cuDNN: {_line(error)}; install nvidia-cudnn-cu13 or "
                "nvidia-cudnn-cu12"
            ) from None
        self._workspace = workspace
        self._plans: dict[ConvShape, cudnn.pygraph] = {}

    def close(self) -> None:
        """Release everything; the context must still exist."""
        self._plans.clear()
        del self._workspace
        # After an error of the GPU this fails.
        with suppress(RuntimeError):
            cudnn.destroy_handle(self._handle)

    def plan(self, shape: ConvShape) -> None:
        """Build the engine that cuDNN's heuristics rank first; raise GpuError."""
        with _faults(f"no fp32 convolution for {shape}"):
            graph = describe(shape, self._handle)
            graph.validate()
            graph.build_operation_graph()
            graph.create_execution_plans(HEURISTICS)
            graph.deselect_numeric_notes(ROUNDING)
            graph.deselect_behavior_notes(DEPENDENT)
            graph.deselect_workspace_greater_than(self._workspace.nbytes)
            graph.check_support()
            graph.build_plans(cudnn.build_plan_policy.HEURISTICS_CHOICE)
        self._plans[shape] = graph

    def convolve(self, y: DeviceArray, x: DeviceArray, k: DeviceArray) -> None:
        """Write the convolution of ``x`` with ``k`` to ``y``; its shape is planned."""
        graph = self._plans[shapes.between(y.shape, x.shape, k.shape)]
        addresses = {Y: y.address, X: x.address, K: k.address}
        with _faults("a convolution failed"):
            graph.execute(addresses, self._workspace.address, handle=self._handle)


def describe(shape: ConvShape, handle: object) -> cudnn.pygraph:
    """Return the cuDNN graph of a convolution."""
    graph = cudnn.pygraph(
        io_data_type=FLOAT,
        intermediate_data_type=FLOAT,
        compute_data_type=FLOAT,
        handle=handle,
    )
    x = [shape.B, shape.C, shape.H, shape.W]
    k = [shape.M, shape.C, shape.K, shape.K]
    y = [shape.B, shape.M, shape.H_out, shape.W_out]
    output = graph.conv_fprop(
        image=graph.tensor(dim=x, stride=strides(x), data_type=FLOAT, uid=X),
        weight=graph.tensor(dim=k, stride=strides(k), data_type=FLOAT, uid=K),
        padding=[0, 0],
        stride=[1, 1],
        dilation=[1, 1],
        compute_data_type=FLOAT,
    )
    output.set_output(True).set_data_type(FLOAT).set_uid(Y)
    # Without explicit strides the output would be NHWC.
    output.set_dim(y).set_stride(strides(y))
    return graph


def strides(lengths: Sequence[int]) -> list[int]:
    """Return the strides of a contiguous array, in elements."""
    return [prod(lengths[axis + 1 :]) for axis in range(len(lengths))]


@contextmanager
def _faults(what: str) -> Iterator[None]:
    """Convert cuDNN's errors to GpuError."""
    try:
        yield
    except (cudnn.cudnnGraphNotSupportedError, RuntimeError) as error:
        raise GpuError(f"cuDNN: {what}: {_line(error)}") from None


def _line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__

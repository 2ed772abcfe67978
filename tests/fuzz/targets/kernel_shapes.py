"""rai-kernels.json, which a program of a run wrote, analysed beside a trace.

What is read writes as JSON that reads the same, problems are few and short, and the
analysis of launches that it may be of is JSON again, with rates above 0.
"""

from __future__ import annotations

import msgspec

from runner.core import Inference, Source, kernel_shapes
from runner.core.evidence import KernelLaunches, Trace, TracedGpu
from runner.figures import analysis

_KERNEL = (
    b'{"kernel":"void f<float, 3>(float*)","script":"m3.1.py","arguments":["100"],'
    b'"batch_size":100,"variant":"v","layer":"c","grid":[1,2,3],"block":[32,1,1],'
    b'"launches":2,"flops":1e9,"bytes":1000,"accuracy_class":"fp32","unit":"fp16",'
    b'"unit_flops":3e9}'
)
_NETWORK = (
    b'{"name":"n","script":"m3.1.py","arguments":["100"],"batch_size":100,"layers":['
    b'{"name":"c","kind":"convolution","input":[100,1,28,28],"output":[100,6,24,24],'
    b'"weights":[6,1,5,5],"flops":1e9,"bytes":1e6,"timed":true}]}'
)
SEEDS = (
    b'{"format":1,"networks":[%s],"kernels":[%s]}' % (_NETWORK, _KERNEL),
    b'{"kernels":[%s,{"kernel":"f"},{"kernel":"f","flops":1e-300}]}' % _KERNEL,
    b'{"kernels":[{"kernel":"a::f","bytes":1e30,"unit":"fp64"},{"kernel":""}]}',
    b'{"format":2}',
    b'{"networks":[{"name":"n","layers":[{}]},5],"kernels":[{"grid":[0]}]}',
    b"[" * 30,
    b'{"kernels":[NaN]}',
    b"\xff{}",
)
COMMAND = "python /src/m3.1.py 100"
TRACE = Trace(
    "a.nvprof",
    "nvprof",
    COMMAND,
    (TracedGpu(0, "NVIDIA H200", "9.0", 132),),
    tuple(
        KernelLaunches(name, 0, (1, 2, 3), (32, 1, 1), 32, 0, 0, 4, 0.4, 0.1, 0.1)
        for name in ("void f<float, 3>(float*)", "f", "void a::f(int)", "<>((")
    ),
)
PRINTED = Inference((0.1,), source=Source(1, COMMAND, "v", 100))


def one(data: bytes) -> None:
    """Read the bytes, and analyse what was read."""
    shapes, problems = kernel_shapes.read(data)
    assert shapes is not None or len(problems) == 1
    assert len(problems) <= kernel_shapes.MOST_PROBLEMS + 1
    assert all(len(str(problem)) < 5000 for problem in problems)
    if shapes is None:
        return
    assert kernel_shapes.read(msgspec.json.encode(shapes)) == (shapes, ())
    kernels = analysis.kernels(shapes, [TRACE])
    (bounds,) = analysis.bounds_of([TRACE])
    layers = analysis.layers(shapes, COMMAND, PRINTED, bounds)
    assert len(kernels) == len(TRACE.launches)
    for found in (*kernels, *layers):
        msgspec.json.encode(found)
        rates = (found.flops_per_s, found.bytes_per_s)
        assert all(rate is None or 0 < rate < float("inf") for rate in rates), found

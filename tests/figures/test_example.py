"""The example of docs/results.md, and what the page says of it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from runner.core.evidence import KernelLaunches, Trace, TracedGpu
from runner.core.kernel_shapes import FILE, read
from runner.figures import analysis

PAGE = Path(__file__).resolve().parents[2] / "docs/results.md"


def test_the_example_gives_what_the_page_says(tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    command = [sys.executable, "-I", "-S", "-c", code]
    subprocess.run(command, env={"RAI_BUILD_DIR": str(tmp_path)}, check=True)
    shapes, problems = read((tmp_path / FILE).read_bytes())
    name = "void add<float>(float*, float const*, float const*, int)"
    launches = KernelLaunches(
        name, 0, (3907, 1, 1), (256, 1, 1), 16, 0, 0, 10, 50e-6, 5e-6, 5e-6
    )
    gpu = TracedGpu(0, "NVIDIA H200", "9.0", 132)
    trace = Trace("add.nvprof", "nvprof", "python /src/add.py", (gpu,), (launches,))
    (found,) = analysis.kernels(shapes, [trace])

    assert problems == ()
    assert found.flops_per_s == pytest.approx(200e9)
    assert found.bytes_per_s == pytest.approx(2400e9)
    assert (found.bound.by, found.bound.percent) == ("memory", 50.0)

"""Time one library's convolution in its own interpreter.

The benchmark `convolution` runs it with each library's own Python, since PyTorch and
MXNet conflict over OpenMP in one process. Requests and answers are lines of JSON.

Outputs stay in the layout in which a library is fastest. Their memory is mapped before
the measurement: ours and MXNet's are allocated before, PyTorch's reuse memory of the
first call, which does not count.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "project"))
THREADS = int(os.environ["OMP_NUM_THREADS"])

import numpy as np  # noqa: E402  # after the folder of ours
from host import reference  # noqa: E402

Run = Callable[[], Any]
Part = Any  # some images as the library has them
SEED = 408
CHECKED = 2  # images


class Ours:
    """The project's convolution."""

    layouts = ("nchw",)

    def __init__(self) -> None:
        from host import cpu_convolution

        function = cpu_convolution.load()
        self._call = lambda *arrays: cpu_convolution.call(function, THREADS, *arrays)
        self.version = "rai"

    def parts(self, x: np.ndarray, piece: int, layout: str) -> list[Part]:
        """Split the images into pieces."""
        return [x[n : n + piece] for n in range(0, len(x), piece)]

    def run(self, parts: list[Part], weights: np.ndarray, layout: str) -> Run:
        """Compute all pieces into the same array."""
        side = weights.shape[2] - 1
        rows, columns = (size - side for size in parts[0].shape[2:])
        y = np.zeros((len(parts[0]), len(weights), rows, columns), np.float32)

        def run() -> np.ndarray:
            for part in parts:
                last = y[: len(part)]
                self._call(last, part, weights)
            return last

        return run

    def numbers(self, last: np.ndarray) -> np.ndarray:
        """Return the last output."""
        return last


class Torch:
    """PyTorch's conv2d, which calls oneDNN."""

    layouts = ("nchw", "nhwc", "mkldnn")

    def __init__(self) -> None:
        import torch

        self._torch = torch
        self.version = f"torch {torch.__version__}"
        torch.set_num_threads(THREADS)
        torch.set_grad_enabled(False)

    def _laid(self, array: np.ndarray, layout: str) -> Part:
        tensor = self._torch.from_numpy(array)
        if layout == "mkldnn":
            return tensor.to_mkldnn()
        nhwc = layout == "nhwc"
        wanted = self._torch.channels_last if nhwc else self._torch.contiguous_format
        return tensor.to(memory_format=wanted)

    def parts(self, x: np.ndarray, piece: int, layout: str) -> list[Part]:
        """Split the images into pieces, and convert their layout."""
        cut = (x[n : n + piece] for n in range(0, len(x), piece))
        return [self._laid(part, layout) for part in cut]

    def run(self, parts: list[Part], weights: np.ndarray, layout: str) -> Run:
        """Compute all pieces, freeing each output before the next."""
        laid = self._laid(weights, "nchw" if layout == "mkldnn" else layout)
        convolve = self._torch.conv2d

        def run() -> Part:
            for part in parts:
                last = convolve(part, laid)
            return last

        return run

    def numbers(self, last: Part) -> np.ndarray:
        """Return the last output."""
        dense = last.to_dense() if last.is_mkldnn else last
        found: np.ndarray = dense.numpy()
        return found


class Mxnet:
    """MXNet's Convolution, which calls an older oneDNN."""

    layouts = ("nchw",)

    def __init__(self) -> None:
        np.bool = bool  # MXNet uses the name that NumPy has given up
        import mxnet

        self._mxnet = mxnet
        self.version = f"mxnet {mxnet.__version__}"

    def parts(self, x: np.ndarray, piece: int, layout: str) -> list[Part]:
        """Split the images into pieces."""
        array = self._mxnet.nd.array(x)
        return [array[n : n + piece] for n in range(0, len(x), piece)]

    def run(self, parts: list[Part], weights: np.ndarray, layout: str) -> Run:
        """Compute all pieces into the same array, except a shorter last one."""
        nd = self._mxnet.nd
        maps, _, kernel, _ = weights.shape
        rows, columns = (size - kernel + 1 for size in parts[0].shape[2:])
        shapes = {len(part): (len(part), maps, rows, columns) for part in parts}
        ys = {size: nd.zeros(shape) for size, shape in shapes.items()}
        w = nd.array(weights)
        sizes = {"kernel": (kernel, kernel), "num_filter": maps, "no_bias": True}

        def run() -> Part:
            for part in parts:
                nd.Convolution(part, w, out=ys[len(part)], **sizes)
            nd.waitall()
            return ys[len(parts[-1])]

        nd.waitall()
        return run

    def numbers(self, last: Part) -> np.ndarray:
        """Return the last output."""
        found: np.ndarray = last.asnumpy()
        return found


LIBRARIES = {"ours": Ours, "pytorch": Torch, "mxnet": Mxnet}


class Worker:
    """A library and its current configuration."""

    def __init__(self, name: str) -> None:
        self._library = LIBRARIES[name]()
        self._run: Run | None = None

    def about(self) -> dict[str, Any]:
        """Return the library's version and layouts."""
        return {
            "version": self._library.version,
            "layouts": list(self._library.layouts),
            "threads": THREADS,
        }

    def prepare(
        self, layer: list[int], images: int, piece: int, layout: str
    ) -> dict[str, Any]:
        """Make the same images and weights in every library; run once and check."""
        self._run = None  # what was before goes first
        channels, maps, kernel, size = layer
        rng = np.random.default_rng(SEED)
        x = rng.random((images, channels, size, size), np.float32)
        weights = rng.random((maps, channels, kernel, kernel), np.float32) - 0.5
        parts = self._library.parts(x, piece, layout)
        self._run = self._library.run(parts, weights, layout)
        last = self._library.numbers(self._run())[-CHECKED:]
        right = np.empty(last.shape)
        reference.convolve(right, x[-CHECKED:].astype("f8"), weights.astype("f8"))
        return {"error": np.linalg.norm(last - right) / np.linalg.norm(right)}

    def time(self, turn_s: float) -> dict[str, Any]:
        """Time runs for a turn, after a run that warms up the cores."""
        assert self._run is not None
        self._run()
        seconds: list[float] = []
        while not seconds or sum(seconds) < turn_s:
            began = time.perf_counter()
            self._run()
            seconds.append(time.perf_counter() - began)
        return {"seconds": seconds}


def main() -> None:
    """Answer requests until the end of input; redirect the libraries' output."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    worker = Worker(sys.argv[1])
    for line in sys.stdin:
        request = json.loads(line)
        answer = getattr(worker, request.pop("do"))(**request)
        answers.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()

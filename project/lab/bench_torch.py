"""cuDNN's convolution, called through PyTorch on our arrays."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import torch
from course.variants import TF32
from gpu.device import DeviceArray
from lab.measurement import Way
from torch import Tensor

SIDE = 8192  # of the matrices whose product measures the peak rate
SEARCHES = 3  # of cuDNN's algorithms; the fastest result counts
LAYOUTS = {"NCHW": torch.contiguous_format, "NHWC": torch.channels_last}


class Torch:
    """PyTorch in the same CUDA context and stream as our launches."""

    def __init__(self) -> None:
        torch.cuda.init()
        torch.set_grad_enabled(False)

    def version(self) -> str:
        """Return the versions of cuDNN and PyTorch."""
        number = torch.backends.cudnn.version() or 0
        major, rest = divmod(number, 10_000)
        return f"cuDNN {major}.{rest // 100}.{rest % 100}, PyTorch {torch.__version__}"

    def peers(
        self, x: DeviceArray, k: DeviceArray, accuracy: str, ms: Callable[[Way], float]
    ) -> dict[str, Way]:
        """Return cuDNN's fastest algorithm for each layout, in an accuracy class.

        Arrays are converted to the layout here, outside the measured time. For tf32
        there is an fp32 entry too, which may be faster. What fails is left out, such as
        one without memory for its workspace. ``ms`` times a call.
        """
        laid = {n: (_laid(x, lay), _laid(k, lay)) for n, lay in LAYOUTS.items()}
        ways = {n: _cudnn(*both, accuracy == TF32) for n, both in laid.items()}
        if accuracy == TF32:
            ways["NCHW, fp32"] = _cudnn(*laid["NCHW"], False)
        found = {}
        for name, way in ways.items():
            with suppress(RuntimeError):
                found[name] = min((_searched(way) for _ in range(SEARCHES)), key=ms)
        return found

    def product(self) -> tuple[Way, int]:
        """Return a product of matrices of halves, and its number of operations."""
        a, b = (
            torch.randn(SIDE, SIDE, device="cuda", dtype=torch.half) for _ in range(2)
        )
        return lambda: torch.mm(a, b), 2 * SIDE**3

    def free(self) -> None:
        """Free PyTorch's cached memory."""
        torch.cuda.empty_cache()


def _laid(array: DeviceArray, layout: torch.memory_format) -> Tensor:
    """Copy to a layout, even where one channel makes both layouts the same bytes."""
    shown = tensor(array)
    return torch.empty_like(shown, memory_format=layout).copy_(shown)


def _searched(way: Way) -> Way:
    """Return a way that runs in a thread of its own.

    The first call in a thread times cuDNN's algorithms once each and keeps the fastest,
    which by chance may be a slow one: another thread searches anew.
    """
    thread = ThreadPoolExecutor(1)
    return lambda: thread.submit(way).result()


def _cudnn(x: Tensor, k: Tensor, tf32: bool) -> Callable[[], Tensor]:
    def way() -> Tensor:
        y: Tensor = torch.cudnn_convolution(
            x,
            k,
            padding=(0, 0),
            stride=(1, 1),
            dilation=(1, 1),
            groups=1,
            benchmark=True,
            deterministic=False,
            allow_tf32=tf32,
        )
        return y

    return way


class _Shown:
    """Our array with CUDA's array interface (version 3), for other libraries."""

    def __init__(self, array: DeviceArray) -> None:
        self._array = array  # lives as long as this

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self._array.shape,
            "typestr": self._array.dtype.str,
            "data": (self._array.address, False),
            "version": 3,
        }


def tensor(array: DeviceArray) -> Tensor:
    """Return our array as a tensor, without a copy."""
    return torch.as_tensor(_Shown(array), device="cuda")

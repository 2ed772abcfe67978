"""What each layer of a network reaches by the Op Times that a program printed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from runner.analysis import matching
from runner.analysis.gpu_bounds import GpuBounds
from runner.analysis.kernel_analysis import KernelBound, bound
from runner.core.figures import Inference
from runner.core.kernel_shapes import (
    KernelShapes,
    KernelWork,
    LayeredNetwork,
    NetworkLayer,
)


class LayerAnalysis(Struct, frozen=True):
    """One layer of one inference, by its Op Time.

    ``flops`` and ``bytes`` are of the whole batch by the layer's definition. The
    ``bound`` is of the kernels that the variant has for it: what they need of the unit
    that they use, and the layer's bytes, or the kernels' if these are fewer, as they
    are where arrays are stored in half precision. It is None on a CPU.
    """

    command: str
    layer: str
    op_time_s: float
    variant: str = ""
    batch_size: int | None = None
    flops: float | None = None
    bytes: float | None = None
    flops_per_s: float | None = None
    bytes_per_s: float | None = None
    bound: KernelBound | None = None


def layers(
    shapes: KernelShapes | None,
    printed: Iterable[tuple[str, Inference]],
    gpu: GpuBounds | None = None,
) -> tuple[LayerAnalysis, ...]:
    """Return what every layer with an Op Time reaches, in the order of the output.

    ``printed`` are the command lines with what they printed, ``gpu`` the bounds of the
    GPU that all of them ran on.
    """
    if shapes is None:
        return ()
    return tuple(
        layer
        for command, inference in printed
        for layer in _of_inference(shapes, command, inference, gpu)
    )


def _of_inference(
    shapes: KernelShapes, command: str, inference: Inference, gpu: GpuBounds | None
) -> Iterator[LayerAnalysis]:
    network = _network(shapes.networks, command, inference)
    timed = [layer for layer in network.layers if layer.timed] if network else []
    times = inference.op_times_s
    if network is None or len(timed) != len(times):
        return
    works = _works(shapes.kernels, command, inference, network)
    for layer, seconds in zip(timed, times, strict=True):
        own = [work for work in works if work.layer == layer.name]
        yield LayerAnalysis(
            command,
            layer.name,
            seconds,
            inference.source.variant or matching.agreed(own, lambda w: w.variant) or "",
            network.batch_size,
            layer.flops,
            layer.bytes,
            layer.flops / seconds if layer.flops and seconds > 0 else None,
            layer.bytes / seconds if layer.bytes and seconds > 0 else None,
            _bound(gpu, seconds, layer, own),
        )


def _network(
    networks: Iterable[LayeredNetwork], command: str, inference: Inference
) -> LayeredNetwork | None:
    """Return the network that an inference computed; None unless it is certain."""
    size = inference.source.batch_size
    found = [
        network
        for network in matching.of_command(networks, command)
        if size is None or network.batch_size in (None, size)
    ]
    return found[0] if len(found) == 1 else None


def _works(
    works: Iterable[KernelWork],
    command: str,
    inference: Inference,
    network: LayeredNetwork,
) -> list[KernelWork]:
    """Return what the kernels of an inference do."""
    variant = inference.source.variant
    return [
        work
        for work in matching.of_command(works, command)
        if (not variant or work.variant in ("", variant))
        and work.batch_size in (None, network.batch_size)
    ]


def _bound(
    gpu: GpuBounds | None,
    seconds: float,
    layer: NetworkLayer,
    works: Sequence[KernelWork],
) -> KernelBound | None:
    """Return the layer's bound; None unless its kernels are of one variant."""
    does = [work.launches * (work.unit_flops or work.flops or 0) for work in works]
    unit = matching.agreed(
        [work for work in works if work.flops], lambda w: w.unit or w.accuracy_class
    )
    if matching.agreed(works, lambda work: work.variant) is None or unit is None:
        return None
    moved = [work.launches * (work.bytes or 0) for work in works]
    fewest = [n for n in (layer.bytes, sum(moved)) if n]
    return bound(gpu, seconds, unit, sum(does), min(fewest, default=None))

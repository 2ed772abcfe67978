"""``resources``: the processor, the GPU and the limits."""

from __future__ import annotations

from typing import Any

from runner.core import LIMITS, GpuRequest, Limits, quantities
from runner.yamlfile import Fields, Scalar

_LEAST_COUNT = -1_000_000


def cpu(resources: Fields) -> tuple[str, int | None]:
    """Parse the architecture, and how many cores a cluster is asked for."""
    node = resources.node.get("cpu")
    if isinstance(node, Scalar) and not node.null:
        resources.problems.warn(
            f'{resources.name("cpu")} is "{node.text}"',
            node.place,
            "expected a mapping, e.g. `architecture: amd64` with a space after the `:`",
        )
        return node.text.removeprefix("architecture:").strip(), None
    fields = resources.section("cpu")
    return fields.text("architecture", "", "amd64"), fields.whole("cores", None)


def gpu(resources: Fields) -> GpuRequest | None:
    """Parse the request for GPUs; None if there is none."""
    if resources.has("gpus"):
        return _of_version_01(resources)
    fields = resources.child("gpu", "`count: 1`", "no GPU is asked for")
    if fields is None:
        return None
    if fields.has("memory"):
        hint = "GPUs are not chosen by memory"
        fields.problems.warn(
            f"{fields.name('memory')} has no effect", fields.place("memory"), hint
        )
    count = _count(fields)
    if count is None:
        return None
    return GpuRequest(
        count,
        fields.boolean("optional", False),
        fields.text("architecture", "", "volta"),
        fields.text("memory", "", "8GiB"),
    )


def limits(resources: Fields) -> Limits:
    """Read what the run may use."""
    fields = resources.section("limits")
    if fields.has("datasize"):
        fields.problems.warn(
            f"{fields.name('datasize')} has no effect",
            fields.place("datasize"),
            "`data` limits data files, `disk` what may be written to /build",
        )
    if quantities.boolean(resources.text("cache", "no")) is not False:
        resources.problems.warn(
            f"{resources.name('cache')} has no effect", resources.place("cache")
        )
    # The network has a key in both places.
    usual = Limits(network=resources.boolean("network", Limits().network))
    read: dict[str, Any] = {
        limit.field: fields.limit(limit, limit.of(usual)) for limit in LIMITS
    }
    if read["network"] != usual.network and resources.has("network"):
        resources.problems.warn(
            "resources.network and resources.limits.network differ",
            resources.place("network"),
            "the latter takes precedence: the network is "
            + ("on" if read["network"] else "off"),
        )
    return Limits(**read)


def _of_version_01(resources: Fields) -> GpuRequest | None:
    place = resources.place("gpus")
    if resources.has("gpu"):
        resources.problems.warn(
            "ignoring resources.gpus: resources.gpu takes precedence",
            place,
            "remove it",
        )
        return gpu(_without(resources, "gpus"))
    count = resources.whole("gpus", 0, "1", at_least=0)
    hint = f"write `gpu: {{count: {count}}}`"
    resources.problems.warn(
        "resources.gpus is the spelling of version 0.1", place, hint
    )
    return GpuRequest(count) if count else None


def _without(fields: Fields, key: str) -> Fields:
    entries = tuple(entry for entry in fields.node.entries if entry[0].text != key)
    node = type(fields.node)(fields.node.place, entries)
    return Fields(node, fields.grammar, fields.problems, fields.path)


def _count(fields: Fields) -> int | None:
    """Parse the count; None for no GPU."""
    if not fields.has("count"):
        hint = "using 1; write `count: 1`"
        fields.problems.warn(f"{fields.path} has no count", fields.place(), hint)
        return 1
    count = fields.whole("count", 1, "1", at_least=_LEAST_COUNT)
    if count == 0:
        hint = "the run gets no GPU; `count: 1` asks for one"
        fields.problems.warn(
            f"{fields.name('count')} is 0", fields.place("count"), hint
        )
        return None
    if count < 0:
        fields.problems.warn(
            f"{fields.name('count')} is {count}", fields.place("count"), "using 1"
        )
    return max(count, 1)

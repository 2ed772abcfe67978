"""``resources``: the processor, the GPU and the limits."""

from __future__ import annotations

from runner.core import MIB, GpuRequest, Limits, quantities
from runner.yamlfile import Fields, Scalar

_LEAST_MEMORY = 6 * MIB
"""What a container needs to start at all."""

_LEAST_PIDS = 8
"""What an engine itself may need beside a command."""

_LEAST_COUNT = -1_000_000


def cpu_architecture(resources: Fields) -> str:
    """Read the architecture, which has no effect."""
    node = resources.node.get("cpu")
    if isinstance(node, Scalar) and not node.null:
        resources.problems.warn(
            f'{resources.name("cpu")} is "{node.text}"',
            node.place,
            "expected a mapping, e.g. `architecture: amd64` with a space after the `:`",
        )
        return node.text.removeprefix("architecture:").strip()
    return resources.section("cpu").text("architecture", "", "amd64")


def gpu(resources: Fields) -> GpuRequest | None:
    """Read the request for GPUs; None without one."""
    if resources.has("gpus"):
        return _of_version_01(resources)
    fields = resources.child("gpu", "`count: 1`", "no GPU is asked for")
    if fields is None:
        return None
    if fields.has("memory"):
        hint = "GPUs are not chosen by memory"
        fields.problems.warn(
            f"{fields.name('memory')} is without effect", fields.place("memory"), hint
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
            f"{fields.name('datasize')} is without effect",
            fields.place("datasize"),
            "`disk` limits what may be written to /build",
        )
    if quantities.boolean(resources.text("cache", "no")) is not False:
        resources.problems.warn(
            f"{resources.name('cache')} is without effect", resources.place("cache")
        )
    usual = Limits()
    return Limits(
        time_s=fields.duration_s("time", usual.time_s, "1h"),
        memory_bytes=fields.size_bytes(
            "memory", usual.memory_bytes, at_least=_LEAST_MEMORY
        ),
        pids=fields.whole("pids", usual.pids, "512", at_least=_LEAST_PIDS),
        output_bytes=fields.size_bytes("output", usual.output_bytes, "256MiB"),
        disk_bytes=fields.size_bytes("disk", usual.disk_bytes, "2GiB"),
        shm_bytes=fields.size_bytes("shm", usual.shm_bytes, "64MiB"),
        network=_network(resources, fields, usual.network),
    )


def _of_version_01(resources: Fields) -> GpuRequest | None:
    place = resources.place("gpus")
    if resources.has("gpu"):
        resources.problems.warn(
            "resources.gpus is without effect beside resources.gpu", place, "remove it"
        )
        return gpu(_without(resources, "gpus"))
    count = resources.whole("gpus", 0, "1", at_least=0)
    hint = f"it is read as `gpu: {{count: {count}}}`"
    resources.problems.warn("resources.gpus is the old spelling", place, hint)
    return GpuRequest(count) if count else None


def _without(fields: Fields, key: str) -> Fields:
    entries = tuple(entry for entry in fields.node.entries if entry[0].text != key)
    node = type(fields.node)(fields.node.place, entries)
    return Fields(node, fields.grammar, fields.problems, fields.path)


def _count(fields: Fields) -> int | None:
    """Read the count; None for no GPU."""
    if not fields.has("count"):
        hint = "1 is taken; write `count: 1`"
        fields.problems.warn(f"{fields.path} has no count", fields.place(), hint)
        return 1
    count = fields.whole("count", 1, "1", at_least=_LEAST_COUNT)
    if count == 0:
        hint = "no GPU is asked for; `count: 1` asks for one"
        fields.problems.warn(
            f"{fields.name('count')} is 0", fields.place("count"), hint
        )
        return None
    if count < 0:
        fields.problems.warn(
            f"{fields.name('count')} is {count}", fields.place("count"), "1 is taken"
        )
    return max(count, 1)


def _network(resources: Fields, limits: Fields, usual: bool) -> bool:
    """Read the network switch in either place; that under limits takes precedence."""
    outer = resources.boolean("network", usual)
    inner = limits.boolean("network", outer)
    if inner != outer and resources.has("network"):
        resources.problems.warn(
            "resources.network and resources.limits.network differ",
            resources.place("network"),
            f"the latter counts: the network is {'on' if inner else 'off'}",
        )
    return inner

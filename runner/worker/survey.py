"""Look at the engines and GPUs of this machine.

A process of its own does so, which may hang in a driver, and whose modules take more
memory than all of a server.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from runner import __version__, engines, machine
from runner.core import BuildSpec, Gpu, GpuSituation, Problem
from runner.core.errors import RaiError
from runner.gpu import watch
from runner.wire.capacity import Capacity, ServerGpu


def survey(home: Path) -> Capacity:
    """Look at every engine that confines, and at the disk of the runs' home."""
    serving: list[str] = []
    problems: list[Problem] = []
    situations: list[GpuSituation] = []
    unenforced: list[str] = []
    for name in engines.TABLE:
        if name == engines.UNCONFINED:
            continue
        engine = engines.make(name)
        try:
            found = engine.check(BuildSpec("rai_build.yml"))
            if not found:
                serving.append(name)
                situations.append(engine.gpus())
                if limits := engine.facts().unenforced:
                    unenforced.append(f"{name}: {', '.join(limits)}")
        except RaiError as error:
            found = list(error.problems)
        problems += [Problem(f"{name}: {p.message}", hint=p.hint) for p in found]
    here = machine.describe()
    return Capacity(
        __version__,
        tuple(serving),
        surveyed(watch.this_machine().gpus, situations),
        () if serving else tuple(problems),
        shutil.disk_usage(home).free,
        here.memory_bytes,
        here.cores,
        unenforced=tuple(unenforced),
    )


def surveyed(
    gpus: tuple[Gpu, ...], situations: list[GpuSituation]
) -> tuple[ServerGpu, ...]:
    """Return a machine's GPUs, from what the engines that serve say of them. Pure."""
    given = {
        gpu.uuid for one in situations if one.any for gpu in one.gpus or () if one.open
    }
    states = {s.uuid: s.problem for one in situations for s in one.states}
    why = next((one.problem for one in situations if one.problem), "")
    none = why or "no engine can give it to a run"
    return tuple(
        ServerGpu(
            gpu.uuid,
            gpu.name,
            states.get(gpu.uuid, "") if gpu.uuid in given else none,
        )
        for gpu in gpus
    )

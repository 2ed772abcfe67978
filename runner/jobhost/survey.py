"""Look at the engines and GPUs of this machine: `python -m runner.jobhost.survey`.

A host does so in a process of its own, which may hang in a driver, and whose modules
take more memory than all of the host.
"""

from __future__ import annotations

import sys

from msgspec import Struct, json

from runner import engines
from runner.core import BuildSpec, Gpu, GpuSituation, Problem
from runner.core.errors import RaiError
from runner.gpu import watch


class SurveyedGpu(Struct, frozen=True):
    """A GPU; ``problem`` says why it is not well, "" if it is."""

    uuid: str
    name: str
    problem: str = ""


class MachineSurvey(Struct, frozen=True):
    """The engines that can serve, why the others cannot, and the GPUs.

    ``unenforced`` has a line for each engine with limits that it does not enforce.
    """

    engines: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    gpus: tuple[SurveyedGpu, ...] = ()
    unenforced: tuple[str, ...] = ()


def survey() -> MachineSurvey:
    """Look at every engine that confines."""
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
    gpus = surveyed(watch.this_machine().gpus, situations)
    return MachineSurvey(tuple(serving), tuple(problems), gpus, tuple(unenforced))


def surveyed(
    gpus: tuple[Gpu, ...], situations: list[GpuSituation]
) -> tuple[SurveyedGpu, ...]:
    """Return a machine's GPUs, from what the engines that serve say of them. Pure."""
    given = {
        gpu.uuid for one in situations if one.any for gpu in one.gpus or () if one.open
    }
    states = {s.uuid: s.problem for one in situations for s in one.states}
    why = next((one.problem for one in situations if one.problem), "")
    none = why or "no engine can give it to a run"
    return tuple(
        SurveyedGpu(
            gpu.uuid,
            gpu.name,
            states.get(gpu.uuid, "") if gpu.uuid in given else none,
        )
        for gpu in gpus
    )


def main() -> int:
    """Print what was found as one JSON line."""
    sys.stdout.buffer.write(json.encode(survey()) + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

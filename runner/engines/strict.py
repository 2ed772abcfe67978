"""Strict limits: no run without the limits that an engine cannot enforce here."""

from __future__ import annotations

from collections.abc import Mapping

from runner.core import EngineFacts, Problem
from runner.core.errors import NotAllowedError

GROUPS = (
    "be root, or have control groups delegated to this user:"
    " `systemd-run --user --scope -p Delegate=yes rai ...`"
)
_GROUPED = (
    "run rai as root on the engine's machine, and have the engine manage control groups"
    " itself, not by systemd: `native.cgroupdriver=cgroupfs` in its `exec-opts`"
)
_CONFINED = "use `--engine docker` or `--engine local`"
_REMEDIES = {
    ("local", "memory"): GROUPS,
    ("local", "pids"): GROUPS,
    ("local", "system calls"): "run rai on x86-64 or arm64",
    ("docker", "swap"): "have its kernel started with `swapaccount=1`",
    ("docker", "system calls"): "have its Docker Engine configured with seccomp",
    ("docker", "private addresses"): (
        "run rai as root on the engine's machine, whose kernel must have nf_tables"
    ),
}
_REMEDIES_OF_BUILDS = {
    ("docker", "pids"): _GROUPED,
    ("docker", "memory"): _GROUPED,
}


def check(engine: EngineFacts, by: str) -> None:
    """Refuse an engine that cannot enforce some limit; ``by`` says what asks for it.

    Raises:
        NotAllowedError: names each such limit, and what to do.
    """
    _refuse(engine, "", by, _REMEDIES)


def check_build(engine: str, unenforced: tuple[str, ...], by: str) -> None:
    """Refuse an image build that is about to begin, as ``check`` does for a run."""
    facts = EngineFacts(engine, unenforced=unenforced)
    _refuse(facts, " in image builds", by, _REMEDIES | _REMEDIES_OF_BUILDS)


def _refuse(
    engine: EngineFacts, where: str, by: str, remedies: Mapping[tuple[str, str], str]
) -> None:
    if not by or not engine.unenforced:
        return
    names: dict[str, list[str]] = {}
    for name in engine.unenforced:
        names.setdefault(_remedy(engine, name, remedies), []).append(name)
    raise NotAllowedError(
        *(
            Problem(
                f"the {engine.name} engine cannot enforce {', '.join(found)} here"
                f"{where}, which {by} asks for",
                hint=remedy,
            )
            for remedy, found in names.items()
        )
    )


def lost(what: str, why: str, by: str) -> NotAllowedError:
    """Return the error for a limit that is not enforced any more during a run."""
    return NotAllowedError(
        f"{what} is not enforced any more, which {by} asks for: {why}"
    )


def _remedy(
    engine: EngineFacts, name: str, remedies: Mapping[tuple[str, str], str]
) -> str:
    if not engine.confines:
        return _CONFINED
    usual = "run rai as root on the engine's machine"
    return remedies.get((engine.name, name), usual)

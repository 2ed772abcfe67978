"""Gather the facts that remedies are decided from."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from msgspec.structs import replace

from runner import machine
from runner.core import ImagePlan
from runner.doctor.finding import Finding, Health
from runner.doctor.remedies import COMPLETIONS, FORBIDDING, INSTALLERS, Needs

SYSCTL = Path("/proc/sys")


def needs(
    findings: Sequence[Finding],
    home: Path,
    project: Path,
    plan: ImagePlan | None,
    environ: Mapping[str, str],
) -> Needs:
    """Look at this machine; ``plan`` is how a run of ``project`` gets its image."""
    engines = {f.subject: f for f in findings}
    docker, local = engines.get("engine docker"), engines.get("engine local")
    shell = Path(environ.get("SHELL", "")).name
    found = Needs(
        home=str(home),
        rai=str(Path(sys.argv[0]).absolute()),
        python=sys.executable,
        user=machine.user(),
        home_exists=home.exists(),
        home_usable=os.access(home, os.R_OK | os.W_OK | os.X_OK),
        home_own=home.exists() and home.stat().st_uid == os.geteuid(),
        docker_denied=docker is not None and "you may not open" in docker.text,
        sandbox=local is None or local.state is not Health.MISSING,
        bubblewrap=shutil.which("bwrap") is not None,
        installer=next(filter(shutil.which, INSTALLERS), ""),
        forbids=tuple(_forbids()),
        numpy_missing_in=_clone_without_numpy(project),
        shell=shell,
        completion=_completion(shell, environ),
    )
    if plan is None:
        return found
    return replace(found, image=plan.action, image_name=plan.reference)


def _forbids() -> Iterator[tuple[str, str]]:
    for name, (forbidding, allowing) in FORBIDDING.items():
        with suppress(OSError):
            if (SYSCTL / name.replace(".", "/")).read_text().strip() == forbidding:
                yield name, allowing


def _clone_without_numpy(folder: Path) -> str:
    """Return the folder if it is rai's own, and Python's own environment lacks NumPy.

    Only an environment is changed, never the Python of the system.
    """
    if sys.prefix == sys.base_prefix or find_spec("numpy") is not None:
        return ""
    own = Path(__file__).parents[2]
    return str(own) if folder.resolve() == own and (own / "project").is_dir() else ""


def _completion(shell: str, environ: Mapping[str, str]) -> str:
    """Return the file that this user's shell lacks; "" for none."""
    home = environ.get("HOME")
    if shell not in COMPLETIONS or not home:
        return ""
    file = Path(home, COMPLETIONS[shell])
    return "" if file.exists() else str(file)

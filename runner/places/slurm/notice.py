"""Why Slurm has told a worker to end."""

from __future__ import annotations

from collections.abc import Mapping

from runner.core.errors import RaiError
from runner.places.slurm import programs
from runner.slurm import told

ENDED = "Slurm told the job to end"


def why_ends(environ: Mapping[str, str]) -> str:
    """Return in words why the job with an environment was told to end.

    It is "" outside of a job, and where Slurm does not say.
    """
    number, restarts = (
        environ.get(name, "") for name in ("SLURM_JOB_ID", "SLURM_RESTART_COUNT")
    )
    if not number:
        return ""
    try:
        printed = programs.answer(["squeue", *told.ARGUMENTS, f"--jobs={number}"])
    except RaiError:
        return ""
    end = told.why_told(printed, int(restarts) if restarts.isdecimal() else 0)
    return f"{ENDED}: {end.words}" if end else ""

"""Carry out the `script:` of a job of GitLab, as its runner's shell executor does."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.workflows.machine import Machine
from tests.workflows.refused import RefusedError

KEYS = {
    *("stage", "tags", "timeout", "interruptible", "rules"),
    *("variables", "before_script", "script", "artifacts"),
}
NAME = re.compile(r"\$(\w+)")
TIME_LIMIT_S = 600


@dataclass(frozen=True)
class GitlabJob:
    """How a job ended: its exit status, what it said, and the files it leaves."""

    code: int
    said: str
    artifacts: tuple[Path, ...]
    junit: Path


def carry_out(
    told: Mapping[str, Any], machine: Machine, variables: Mapping[str, str]
) -> GitlabJob:
    """Carry out a job in the machine's workspace, where the project is already.

    ``variables`` are GitLab's own, and those that replace the job's.
    """
    if unknown := set(told) - KEYS:
        raise RefusedError(f"unknown keys: {', '.join(sorted(unknown))}")
    folder = machine.workspace
    env = machine.environment()
    env = {n: v for n, v in env.items() if not n.startswith(("GITHUB_", "RUNNER_"))}
    own = {"GITLAB_CI": "true", "CI_PROJECT_DIR": str(folder), "CI_JOB_NAME": "gpu"}
    env |= own | variables
    for name, value in told.get("variables", {}).items():
        env.setdefault(name, NAME.sub(lambda m: env.get(m[1], ""), str(value)))
    lines = [*told.get("before_script", ()), *told["script"]]
    done = subprocess.run(
        ["bash"],
        input="set -eo pipefail\n" + "\n".join(lines) + "\n",
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIME_LIMIT_S,
        check=False,
    )
    kept = told["artifacts"]
    paths = [folder / path for path in kept["paths"]]
    junit = folder / kept["reports"]["junit"]
    return GitlabJob(done.returncode, done.stdout, tuple(paths), junit)

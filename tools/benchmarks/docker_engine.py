"""Measure the docker engine's overhead over `docker run` and the SDK."""

from __future__ import annotations

import os
import secrets
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tools.benchmarks import projects, rows

IMAGE = "debian:bookworm-slim"
DOCKER_RUN = [
    *("docker", "run", "--rm", "--network", "none", "--cap-drop", "ALL"),
    *("--security-opt", "no-new-privileges", "--read-only", "--user", "10001:10001"),
    *("--tmpfs", "/tmp:rw,exec,size=1g", "--memory", "8g", "--memory-swap", "8g"),
    *("--pids-limit", "512", "--ulimit", "nofile=4096", "--init", IMAGE, "true"),
]
MORE_THAN_CLI_S = 0.5
MORE_THAN_SDK_S = 0.1


def measure() -> Iterator[dict[str, object]]:
    """Run `true` in turns with `rai run`, `docker run --rm`, and the SDK calls."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["RAI_HOME"] = f"{folder}/home"
        project = projects.write(Path(folder, "p"), projects.TRUE)
        strict = ("--engine", "docker", "--profile", "strict")
        taken = rows.alternated(
            {
                "rai": lambda: projects.rai_run(project, *strict),
                "docker_run": lambda: subprocess.run(DOCKER_RUN, check=True),
                "bare_sdk": lambda: subprocess.run(_bare(), check=True, cwd=rows.ROOT),
            },
            rounds=11,
        )
    medians = {name: statistics.median(times) for name, times in taken.items()}
    cli = medians["rai"] - medians["docker_run"]
    sdk = medians["rai"] - medians["bare_sdk"]
    yield rows.row(
        "docker engine, true",
        f"at most {MORE_THAN_CLI_S} s more than docker run --rm,"
        f" {MORE_THAN_SDK_S} s more than the same SDK calls",
        cli <= MORE_THAN_CLI_S and sdk <= MORE_THAN_SDK_S,
        more_than_docker_run_ms=round(1000 * cli, 1),
        more_than_bare_sdk_ms=round(1000 * sdk, 1),
        **{name: rows.spread(times) for name, times in taken.items()},
    )


def _bare() -> list[str]:
    name = f"bench-{secrets.token_hex(4)}"
    return [sys.executable, "-m", "tools.benchmarks.bare_sdk", IMAGE, name]

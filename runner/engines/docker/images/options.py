"""What the two builders are told, as values for the API and for the command line."""

from __future__ import annotations

import json
from typing import Any

from runner.core import BuildImage, ImagePlan
from runner.images import labels


def classic_options(plan: ImagePlan, asked: BuildImage) -> dict[str, Any]:
    """Return the arguments of the SDK's ``build`` but for the files.

    The memory is that of each RUN step; without swap, as for a run.
    """
    memory = plan.limits.memory_bytes
    return {
        "dockerfile": asked.dockerfile,
        "tag": plan.reference,
        "target": asked.target,
        "buildargs": dict(asked.args),
        "nocache": asked.no_cache,
        "labels": labels.written(plan),
        "container_limits": {"memory": memory, "memswap": memory},
        "shmsize": plan.limits.shm_bytes,
        "rm": True,
        "forcerm": True,
    }


def more_options(plan: ImagePlan, group: str) -> dict[str, str]:
    """Return parameters of the API's call that the SDK's ``build`` does not take.

    ``group`` is the control group that the steps' containers are made in, if any.
    """
    limits = plan.limits
    most = {"core": 0, "nofile": limits.open_files}
    ulimits = [{"Name": n, "Soft": most[n], "Hard": most[n]} for n in most]
    named = {"cgroupparent": group} if group else {}
    return {"ulimits": json.dumps(ulimits), **named}


def buildx_command(plan: ImagePlan, asked: BuildImage, group: str = "") -> list[str]:
    """Return the command line that builds what its stdin holds, an archive."""
    limits = plan.limits
    words = ["docker", "buildx", "build", "--load", "--progress=plain"]
    words += [f"--file={asked.dockerfile}"]
    words += [f"--tag={tag}" for tag in all_tags(plan)]
    words += [f"--label={name}={value}" for name, value in labels.written(plan).items()]
    words += [f"--build-arg={name}={value}" for name, value in asked.args]
    words += [f"--target={asked.target}"] if asked.target else []
    words += ["--no-cache"] if asked.no_cache else []
    words += [f"--ulimit=nofile={limits.open_files}", "--ulimit=core=0"]
    words += [f"--shm-size={limits.shm_bytes}"]
    words += [f"--cgroup-parent={group}"] if group else []
    return [*words, "-"]


def all_tags(plan: ImagePlan) -> list[str]:
    """Return every tag of a plan's image, its own name first."""
    return list(dict.fromkeys((plan.reference, *plan.tags)))

"""What an engine says about itself."""

from __future__ import annotations

from typing import Any

from runner.engines.docker.client import Client, failing
from runner.engines.docker.endpoint import Endpoint
from runner.model import EngineFacts


def facts(client: Client, endpoint: Endpoint) -> EngineFacts:
    """Say which engine it is, how it is reached, and what it cannot enforce."""
    with failing("describe itself"):
        info = client.info()
    how = (
        f"{endpoint}, API {client.api_version}, "
        f"cgroup v{info.get('CgroupVersion') or '1'}"
    )
    return EngineFacts(
        "docker", info["ServerVersion"], how, unenforced=_unenforced(info)
    )


def _unenforced(info: dict[str, Any]) -> tuple[str, ...]:
    limits = {"MemoryLimit": "memory", "SwapLimit": "swap", "PidsLimit": "pids"}
    missing = [name for key, name in limits.items() if not info.get(key)]
    if "name=seccomp" not in ",".join(info.get("SecurityOptions") or ()):
        missing.append("system calls")
    return tuple(missing)

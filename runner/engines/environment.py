"""The environment variables of every command, whichever engine runs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

ADDED_PATH = ("/usr/local/cuda/bin", "/usr/local/nvidia/bin")
SYSTEM_PATH = (
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
)
LIBRARY_PATH = ("/usr/local/cuda/lib64", "/usr/local/nvidia/lib64")


def environment(
    *,
    source: str = "/src",
    build: str = "/build",
    data: str = "/data",
    user: str = "root",
    home: str = "/tmp/home",
    shell: str = "/bin/bash",
    image: str = "",
    gpus: str = "",
    first_on_path: Sequence[str] = (),
    base: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the variables that scripts written for the original rely on.

    ``base`` is the environment of the image or the host. Its other variables stay; its
    PATH and LD_LIBRARY_PATH are appended to the folders that come first. ``gpus`` are
    the UUIDs of the run's GPUs; with "" CUDA sees none, as in the original.
    """
    base = base or {}
    return {
        **base,
        "CI": "rai",
        "RAI": "true",
        "RAI_ARCH": "linux/amd64",
        "RAI_USER": user,
        "RAI_SOURCE_DIR": source,
        "RAI_BUILD_DIR": build,
        "RAI_DATA_DIR": data,
        "SOURCE_DIR": source,
        "BUILD_DIR": build,
        "DATA_DIR": data,
        "IMAGE_NAME": image,
        "CUDA_VISIBLE_DEVICES": gpus,
        "TERM": "xterm",
        "SHELL": shell,
        "HOME": home,
        # Python, and so PyTorch, needs these for a uid that is not in passwd.
        "USER": user,
        "LOGNAME": user,
        "PATH": _joined(
            (*first_on_path, *ADDED_PATH), base.get("PATH") or ":".join(SYSTEM_PATH)
        ),
        "LD_LIBRARY_PATH": _joined(LIBRARY_PATH, base.get("LD_LIBRARY_PATH", "")),
        # Python would buffer its output to a pipe, and the user follows it live.
        "PYTHONUNBUFFERED": "1",
    }


def _joined(first: Sequence[str], rest: str) -> str:
    """Join folders and a search path, without duplicates and empty ones."""
    return ":".join(dict.fromkeys(f for f in (*first, *rest.split(":")) if f))

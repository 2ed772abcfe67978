"""The environment names that every command of a job finds, whatever runs it."""

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
    architecture: str = "amd64",
    gpus: str = "",
    first_on_path: Sequence[str] = (),
    base: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Give the names that scripts written for the original rely on, and their values.

    ``base`` is what the image (or the host) says itself: its other names stay, its PATH
    and LD_LIBRARY_PATH follow the folders that are put first. ``gpus`` are the UUIDs of
    the GPUs that were given; without any, CUDA is told to see none, as in the original.
    """
    base = base or {}
    return {
        **base,
        "CI": "rai",
        "RAI": "true",
        "RAI_ARCH": f"linux/{architecture}",
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
        # Of a uid that no passwd file names, Python (and so PyTorch) finds a name here.
        "USER": user,
        "LOGNAME": user,
        "PATH": _joined(
            (*first_on_path, *ADDED_PATH), base.get("PATH") or ":".join(SYSTEM_PATH)
        ),
        "LD_LIBRARY_PATH": _joined(LIBRARY_PATH, base.get("LD_LIBRARY_PATH", "")),
        # Python holds lines back from a pipe; a run is followed while it happens.
        "PYTHONUNBUFFERED": "1",
    }


def _joined(first: Sequence[str], rest: str) -> str:
    """Join folders and a search path, each folder once, empty ones dropped."""
    return ":".join(dict.fromkeys(f for f in (*first, *rest.split(":")) if f))

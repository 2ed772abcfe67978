"""Find the driver's libraries that a CUDA program needs.

They are searched where the loader searches, and where drivers are usually installed.
One of the kernel module's version is preferred, as no other works with it.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from runner import process
from runner.core.errors import EngineError

WANTED = (
    "libcuda.so.1",
    "libnvidia-ml.so.1",
    "libnvidia-ptxjitcompiler.so.1",
    "libnvidia-nvvm.so.4",
    "libnvidia-gpucomp.so.{driver}",
    "libcudadebugger.so.1",
)
"""The names by which programs, and libcuda itself, load them."""

LDCONFIG = "/sbin/ldconfig"
LDCONFIG_S = 5.0

Found = tuple[tuple[str, str], ...]


def find(root: Path, driver: str) -> Found:
    """Return pairs of a library's name and its real path, for those that exist."""
    names = [name.format(driver=driver) for name in WANTED if driver or "{" not in name]
    places = list(dict.fromkeys(_folders(root)))
    found = {name: _best(root, name, places, driver) for name in names}
    if not _fits(found["libcuda.so.1"], driver):
        listed = _listed(root)
        for name in names:
            if not _fits(found[name], driver):
                found[name] = _best(root, name, listed, driver) or found[name]
    return tuple((name, path) for name, path in found.items() if path)


def path(root: Path, name: str, driver: str) -> str:
    """Return the real path of one library; empty if it is not found."""
    return dict(find(root, driver)).get(name, "")


def _folders(root: Path) -> Iterator[str]:
    machine = platform.machine()
    if root == Path("/"):
        yield from filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":"))
    yield f"/usr/lib/{machine}-linux-gnu"
    yield f"/usr/lib/{machine}-linux-gnu/nvidia/current"
    yield from ("/usr/lib64", "/usr/lib", "/usr/local/nvidia/lib64")
    yield from ("/usr/lib/wsl/lib", "/run/opengl-driver/lib", "/usr/local/lib")


def _listed(root: Path) -> list[str]:
    """Return the folders with a libcuda in the loader's cache."""
    cache = root / "etc/ld.so.cache"
    if not cache.exists():
        return []
    try:
        done = process.run([LDCONFIG, "-C", cache, "-p"], timeout_s=LDCONFIG_S)
    except EngineError:
        return []
    text = done.stdout.decode(errors="replace")
    return re.findall(r"=> (/\S*)/libcuda\.so\.1$", text, re.MULTILINE)


def _best(root: Path, name: str, places: list[str], driver: str) -> str:
    """Return the first real path, or that of the driver's version if there is one."""
    there = [file for place in places if (file := _real(root, f"{place}/{name}"))]
    fitting = (file for file in there if _fits(file, driver))
    return next(fitting, there[0] if there else "")


def _fits(file: str, driver: str) -> bool:
    """Whether a file has the driver's version, or none in its name (as on WSL)."""
    version = re.search(r"\.so\.(\d+\.\d+[.\d]*)$", file)
    return bool(file) and (not driver or version is None or version[1] == driver)


def _real(root: Path, path: str) -> str:
    with suppress(OSError, ValueError):
        real = (root / path.lstrip("/")).resolve(strict=True)
        if real.is_file():
            return f"/{real.relative_to(root.resolve())}"
    return ""

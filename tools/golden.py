"""Compile the judge's kernels to PTX, and write the checksums of its files.

    python tools/golden.py [--check]

The PTX runs on every GPU from sm_75 and every driver from CUDA 11 on: the driver's own
compiler finishes it. ``--check`` writes nothing, and exits 1 if a file is out of date.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tempfile
from pathlib import Path

JUDGE = Path(__file__).resolve().parent.parent / "runner" / "judge"
SUMS = "SHA256SUMS"
KERNELS = ("kernels", "clocks")
OLDEST_GPU = "compute_75"
OLDEST_PTX = "7.0"
"""The version that the file claims: older drivers refuse the compiler's own."""


def ptx(name: str) -> str:
    """Compile one file of kernels, without what differs between machines."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "out.ptx")
        command = ["nvcc", "-ptx", f"-arch={OLDEST_GPU}", "-std=c++17", "-o", out]
        subprocess.run([*command, JUDGE / f"{name}.cu"], check=True)
        text = out.read_text()
    text = re.sub(r"^//.*\n", "", text, flags=re.M)
    return re.sub(r"^\.version .*", f".version {OLDEST_PTX}", text, flags=re.M).lstrip()


def sums() -> str:
    """Return the checksums of the judge's files, as `sha256sum` writes them."""
    names = sorted(
        path.relative_to(JUDGE).as_posix()
        for path in JUDGE.rglob("*")
        if path.is_file() and path.name != SUMS and "__pycache__" not in path.parts
    )
    lines = (
        f"{hashlib.sha256((JUDGE / name).read_bytes()).hexdigest()}  {name}\n"
        for name in names
    )
    return "".join(lines)


def main() -> int:
    """Write the files that differ, or report them."""
    check = "--check" in sys.argv[1:]
    stale = []
    for name in KERNELS:
        _keep(f"{name}.ptx", ptx(name), stale, check=check)
    _keep(SUMS, sums(), stale, check=check)
    if stale:
        print(("out of date: " if check else "wrote ") + ", ".join(stale))
    return int(check and bool(stale))


def _keep(name: str, text: str, stale: list[str], *, check: bool) -> None:
    path = JUDGE / name
    if path.is_file() and path.read_text() == text:
        return
    stale.append(name)
    if not check:
        path.write_text(text)


if __name__ == "__main__":
    sys.exit(main())

"""Compile a team's convolution on the CPU; nothing of it is executed.

    python3 -m runner.judge.building [--source /src] [--out /build]

Reads ``team/convolution.cpp``, writes ``convolution.so``. Exits 1 if it does not
compile, and says why on stderr.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from runner.judge import bounded, folders
from runner.judge.compiling import shortened, unsuitable

SOURCE = "convolution.cpp"
LIBRARY = "convolution.so"
SHOWN = "project/cpp/"
"""What a team calls the folder of its source."""

OPTIONS = ("-std=c++17", "-O3", "-march=native", "-fPIC", "-pthread", "-shared")
"""As `project/host/native.py` has them."""

MOST_LIBRARY = 16 << 20
"""Bytes of the library."""

HOST = Path(__file__).parent / "host"


def compiler() -> str | None:
    """Return the path of the compiler, if there is one."""
    return shutil.which("g++") or shutil.which("c++")


def build(source: Path, out: Path) -> str | None:
    """Compile the team's file into a library; return why it did not work, or None."""
    team = source / "team"
    if why := unsuitable(team, SOURCE):
        return why
    gxx = compiler()
    if gxx is None:
        return "there is no g++ here"
    with tempfile.TemporaryDirectory(prefix="rai-") as folder:
        made = Path(folder, LIBRARY)
        argv = [gxx, *OPTIONS, f"-I{HOST}", "-o", str(made), str(team / SOURCE)]
        done = bounded.run(argv, Path(folder))
        if done.status is None:
            return f"g++ took longer than {bounded.BOUNDS.seconds:g} s"
        if done.status != 0 or not made.is_file():
            said = shortened(done.output, team, SHOWN)
            return f"g++ {done.ended}\n{said}".rstrip()
        if (size := made.stat().st_size) > MOST_LIBRARY:
            return f"its machine code has {size:,} bytes; the limit is {MOST_LIBRARY:,}"
        shutil.copyfile(made, out / LIBRARY)
    return None


def main(argv: list[str] | None = None) -> int:
    """Compile the team's file; return the exit status."""
    source, out = folders.read("runner.judge.building", argv)
    bounded.limit()
    try:
        why = build(source, out)
    except OSError as error:
        why = str(error)
    if why is not None:
        sys.stderr.write(f"{SHOWN}{SOURCE}: {why}\n")
    return 0 if why is None else 1


if __name__ == "__main__":
    sys.exit(main())

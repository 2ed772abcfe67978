"""Measure packing 1 GB in 10,000 files, compared with tar and zstd in turns."""

from __future__ import annotations

import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from runner import pack
from tools.benchmarks import rows

FILES, FILE_BYTES, FOLDERS, SEED = 10_000, 100_000, 100, 408
ROUNDS = 5
CAPS = pack.Caps(total_bytes=1 << 40, members=1 << 20, file_bytes=1 << 40)


def measure() -> Iterator[dict[str, object]]:
    """Time rai, including its scan of the folder, and ``tar | zstd -3 -T0``."""
    if shutil.which("zstd") is None:
        sys.exit("this benchmark needs the zstd command")
    with tempfile.TemporaryDirectory(prefix="rai-bench-") as name:
        folder = Path(name)
        root = project(folder / "project")
        ours, theirs = folder / "ours.tar.zst", folder / "theirs.tar.zst"
        ways = {
            "rai": lambda: by_rai(root, ours),
            "tar": lambda: by_tar(root, theirs),
        }
        seconds = rows.alternated(ways, ROUNDS)
        sizes = ours.stat().st_size, theirs.stat().st_size
    ratio = statistics.median(seconds["rai"]) / statistics.median(seconds["tar"])
    yield rows.row(
        "pack 1 GB in 10,000 files",
        "at most the time of tar c | zstd -3 -T0",
        ratio <= 1,
        ratio=round(ratio, 3),
        rai=rows.spread(seconds["rai"]),
        tar_zstd=rows.spread(seconds["tar"]),
        rai_bytes=sizes[0],
        tar_zstd_bytes=sizes[1],
        load=round(os.getloadavg()[0], 2),
    )


def project(root: Path) -> Path:
    """Fill a folder with files, alternately of text and of random bytes."""
    draw = random.Random(SEED)
    letters = b"abcdefghijklmnopqrstuvwxyz"
    words = [bytes(draw.choices(letters, k=draw.randint(2, 9))) for _ in range(5000)]
    sources = b" ".join(draw.choices(words, k=400_000)), draw.randbytes(4 << 20)
    for number in range(FILES):
        folder = root / f"part{number % FOLDERS:03}"
        folder.mkdir(parents=True, exist_ok=True)
        source = sources[number // FOLDERS % 2]
        at = draw.randrange(len(source) - FILE_BYTES)
        (folder / f"file{number:05}").write_bytes(source[at : at + FILE_BYTES])
    return root


def by_rai(root: Path, into: Path) -> None:
    """Pack as `rai run` does, in its own process."""
    code = (
        "import sys; from tools.benchmarks import pack; pack.pack_once(*sys.argv[1:])"
    )
    argv = [sys.executable, "-c", code, str(root), str(into)]
    subprocess.run(argv, check=True, cwd=rows.ROOT)


def pack_once(root: str, into: str) -> None:
    """Scan a folder and pack it."""
    for _ in pack.pack(pack.survey(Path(root)), Path(into), CAPS):
        pass


def by_tar(root: Path, into: Path) -> None:
    """Pack with tar and zstd."""
    line = 'tar c -C "$1" . | zstd -3 -T0 -q -f -o "$2"'
    argv = ["bash", "-o", "pipefail", "-c", line, "pack", str(root), str(into)]
    subprocess.run(argv, check=True)

"""Fuzz the named targets, or all of them: python -m tests.fuzz [NAME...].

What is tried is kept below build/fuzz/NAME/, and so is an input that fails.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

from tests.fuzz.targets import NAMES, target

BUILD = Path("build/fuzz")
LONGEST_INPUT = 4096
SLOWEST_S = 20
"""What one input may take; each is a small one."""

MEMORY_MB = 1024


def main() -> int:
    """Fuzz, or reproduce a failure."""
    told = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    told.add_argument("names", nargs="*", metavar="NAME", choices=[*NAMES, []])
    told.add_argument("--seconds", type=int, default=60, help="for each target")
    told.add_argument("--reproduce", type=Path, metavar="FILE", help="try one input")
    options = told.parse_args()
    names = options.names or NAMES
    if options.reproduce:
        target(names[0]).one(options.reproduce.read_bytes())
    elif len(names) == 1:
        _fuzz(names[0], options.seconds)
    else:
        return max(_apart(name, options.seconds) for name in names)
    return 0


def _apart(name: str, seconds: int) -> int:
    """Fuzz in a process of its own, as a fuzzer ends its process."""
    own = [sys.executable, "-m", "tests.fuzz", name, "--seconds", str(seconds)]
    return abs(subprocess.run(own, check=False).returncode)


def _fuzz(name: str, seconds: int) -> None:
    found = BUILD / name / "corpus"
    found.mkdir(parents=True, exist_ok=True)
    sys.stderr.write(f"fuzzing {name} for {seconds} s\n")
    try:
        import atheris
    except ImportError:
        from tests.fuzz.hypothesised import fuzz

        fuzz(target(name), seconds, SLOWEST_S, found.parent)
        return
    with atheris.instrument_imports(include=["runner"]):
        fuzzed = target(name)
    for data in fuzzed.kept():
        (found / sha256(data).hexdigest()[:16]).write_bytes(data)
    arguments = (
        f"-max_total_time={seconds}",
        f"-max_len={LONGEST_INPUT}",
        f"-timeout={SLOWEST_S}",
        f"-rss_limit_mb={MEMORY_MB}",
        f"-artifact_prefix={found.parent}/",
        "-len_control=20",
        "-print_final_stats=1",
    )
    atheris.Setup([sys.argv[0], *arguments, str(found)], fuzzed.one)
    atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())

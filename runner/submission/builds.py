"""What a run takes from an earlier run's build folder, which may be hostile."""

from __future__ import annotations

import re
from pathlib import Path

from runner import archive
from runner.core import Problem, globs
from runner.core.caps import Caps
from runner.core.errors import NotAllowedError
from runner.core.milestone import Held

ROOT = "build"
MOST_FILES = 1000

_CUBIN = re.compile(r"(?:0|[1-9][0-9]{0,3})\.cubin")
_ELF = b"\x7fELF"


def take(held: Held, source: Path, into: Path, units: int = 0) -> dict[str, int]:
    """Unpack the files of a build archive that a run holds; return their sizes.

    Machine code (`*.cubin`) is in ELF and named `0.cubin` to one less than ``units``.

    Raises:
        NotAllowedError: the archive is hostile, or has other files than it should.
        RaiError: it is damaged.
    """
    into.mkdir(parents=True, mode=0o700)
    caps = Caps(held.most_bytes + (1 << 20), MOST_FILES, held.most_bytes)

    def wanted(name: str, _: int) -> bool:
        return any(globs.matches(pattern, name) for pattern in held.patterns)

    found = archive.pick(source, into, wanted, caps, ROOT)
    problems = [
        Problem(f"{held.of}: {name} {why}", hint="the run did not make what it should")
        for name in found
        if (why := _wrong(into / name, name, units))
    ]
    if problems:
        raise NotAllowedError(*problems)
    return found


def _wrong(path: Path, name: str, units: int) -> str:
    """Return what is wrong with a file, "" if nothing."""
    if not name.endswith(".cubin"):
        return ""
    if not _CUBIN.fullmatch(name) or int(name.split(".")[0]) >= units:
        return "is not the machine code of a unit"
    with path.open("rb") as file:
        return "" if file.read(len(_ELF)) == _ELF else "is not machine code"

"""The judge's own files, as they were released.

`runner/judge/SHA256SUMS` lists them; `python tools/golden.py` writes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from runner import files, trees
from runner.core import MIB, Problem, digests, globs
from runner.core.errors import EngineError

FOLDER = Path(__file__).parents[1] / "judge"
SUMS = "SHA256SUMS"
MOST_BYTES = 16 * MIB
MOST_FILES = 500

_REINSTALL = "install rai again; after a change of these files run tools/golden.py"


class GoldenFiles(Struct, frozen=True):
    """The judge's files by name, relative to its folder, and a digest of them all."""

    files: Mapping[str, bytes]
    digest: str

    def matching(self, patterns: tuple[str, ...]) -> dict[str, bytes]:
        """Return the files whose names match a pattern."""
        return {
            name: content
            for name, content in self.files.items()
            if any(globs.matches(pattern, name) for pattern in patterns)
        }


def read(folder: Path = FOLDER) -> GoldenFiles:
    """Read and verify the judge's files.

    Raises:
        EngineError: a file differs from its digest, is absent, or is not listed;
            carries every problem.
    """
    problems: list[Problem] = []
    listed = _sums(folder)
    found: dict[str, bytes] = {}
    for name, sha256 in listed.items():
        try:
            content = files.read_below(folder, name, MOST_BYTES)
        except OSError as error:
            text = f"{folder / name} cannot be read: {error.strerror}"
            problems.append(Problem(text, hint=_REINSTALL))
            continue
        if digests.of_bytes(content) != sha256:
            text = f"{folder / name} is not as it was released"
            problems.append(Problem(text, hint=_REINSTALL))
        found[name] = content
    for name in _names(folder):
        if name not in listed:
            text = f"{folder / name} is not in {SUMS}"
            problems.append(Problem(text, hint=_REINSTALL))
    if problems:
        raise EngineError(*problems)
    return GoldenFiles(found, digests.of_set(listed))


def _sums(folder: Path) -> dict[str, str]:
    try:
        text = files.read_below(folder, SUMS, 1 << 20).decode()
        pairs = [line.split("  ", 1) for line in text.splitlines()]
        return {name: sha256 for sha256, name in pairs}
    except (OSError, ValueError) as error:
        text = f"{folder / SUMS} cannot be read: {error}"
        raise EngineError(Problem(text, hint=_REINSTALL)) from error


def _names(folder: Path) -> list[str]:
    """Return the names of the files in the folder, but what Python keeps there."""
    names = []
    for entry in trees.entries(folder, most=MOST_FILES):
        name = "/".join((*entry.above, entry.name))
        if not entry.within and "__pycache__" not in entry.above and name != SUMS:
            names.append(name)
    return names

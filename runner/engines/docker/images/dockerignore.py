"""What .dockerignore leaves of the names that are sent, in bounded time."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from typing import Any

from docker.utils.fnmatch import translate
from msgspec import Struct

from runner import patterns
from runner.core import Problem
from runner.core.errors import ImageError

IGNORE_FILE = ".dockerignore"
MOST_PATTERNS = 1000
LONGEST = 1000


class _Rule(Struct, frozen=True):
    """One line: what it says of a path, and how many folders deep it reaches."""

    path: str
    brings_back: bool
    compiled: Any

    @property
    def depth(self) -> int:
        return self.path.count("/") + 1


class DockerIgnore:
    """The rules of a .dockerignore, as Docker's client reads them.

    The Dockerfile and the file itself are always sent. Upper and lower case are the
    same, as for the SDK, whose translation of patterns this uses.
    """

    def __init__(self, text: str, dockerfile: str) -> None:
        """Read the lines; raise ImageError if they are too many or too complex."""
        lines = [line.strip() for line in text.splitlines()]
        lines = [line for line in lines if line and not line.startswith("#")]
        if len(lines) > MOST_PATTERNS:
            text = f"{IGNORE_FILE} has over {MOST_PATTERNS:,} patterns"
            raise ImageError(Problem(text, hint="let some of them name folders"))
        lines += [f"!{dockerfile}", f"!{IGNORE_FILE}"]
        self._rules = [rule for line in lines if (rule := _rule(line))]
        self._closed: dict[str, bool] = {"": False}

    def left(self, names: Iterable[str]) -> set[str]:
        """Return the names that are not left out."""
        return {
            name
            for name in names
            if not self._is_closed(posixpath.dirname(name)) and not self._ignores(name)
        }

    def _is_closed(self, folder: str) -> bool:
        """Whether a folder is left out, and no rule brings back anything in it."""
        if folder not in self._closed:
            lower = folder.lower()
            self._closed[folder] = self._is_closed(posixpath.dirname(folder)) or (
                self._ignores(folder)
                and not any(
                    rule.brings_back and rule.path.startswith(lower)
                    for rule in self._rules
                )
            )
        return self._closed[folder]

    def _ignores(self, name: str) -> bool:
        plain = name.lower().encode(errors="replace").decode()
        folders = plain.split("/")[:-1]
        # The last rule that fits decides.
        for rule in reversed(self._rules):
            if rule.compiled.match(plain) or (
                rule.depth <= len(folders)
                and rule.compiled.match("/".join(folders[: rule.depth]))
            ):
                return not rule.brings_back
        return False


def _rule(line: str) -> _Rule | None:
    path = posixpath.normpath("/" + line.removeprefix("!").strip())[1:].lower()
    path = path.removeprefix("/")
    if not path:
        return None
    expression = translate(re.sub(r"\*{3,}", "**", path))
    compiled = patterns.linear(expression) if len(path) <= LONGEST else None
    if compiled is None:
        raise ImageError(f"{IGNORE_FILE}: the pattern `{line[:200]}` is too complex")
    return _Rule(path, line.startswith("!"), compiled)

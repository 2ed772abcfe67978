"""Which names of a project are ignored, and by which line of which file."""

from __future__ import annotations

import posixpath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from runner import files
from runner.core import Place, Problem, Severity

if TYPE_CHECKING:
    from pathspec import PathSpec

SOURCES = (".raiignore", ".dockerignore", ".gitignore")
"""The first of these that the project has applies."""

MOST_BYTES = 1 << 20


class Match(Struct, frozen=True):
    """What the rules decide for a name; ``final`` if nothing below can differ."""

    ignored: bool
    why: str
    final: bool


class RuleFile(Struct, frozen=True):
    """The rules of one file, for names below its folder."""

    label: str
    base: str
    spec: PathSpec[Any]
    rules: tuple[tuple[int, str], ...]
    last_exception: int

    def match(self, name: str) -> Match | None:
        """Return what the last rule about a name decides; a folder ends with a slash.

        A later exception can bring back what lies in an ignored folder, so such a
        folder is final only after the last exception.
        """
        result = self.spec.check_file(name[len(self.base) :])
        if result.include is None or result.index is None:
            return None
        line, text = self.rules[result.index]
        final = result.index > self.last_exception
        return Match(result.include, f"{self.label}:{line}: {text}", final)


class Rules(Struct, frozen=True):
    """The rules that apply in a folder: its own file's first, then those above."""

    source: str
    files: tuple[RuleFile, ...] = ()
    problems: list[Problem] = field(default_factory=list)

    def match(self, name: str) -> Match | None:
        """Return what the nearest file with a rule about this name decides."""
        matches = (file.match(name) for file in self.files)
        return next((match for match in matches if match), None)

    def within(self, folder: Path, name: str) -> Rules:
        """Add the folder's own .gitignore if such files are the source."""
        if self.source != ".gitignore":
            return self
        path = folder / ".gitignore"
        if not path.is_file():
            return self
        project = folder.parents[name.count("/")]
        inner = _read(project, f"{name}/.gitignore", f"{name}/", self.problems)
        return Rules(self.source, (inner, *self.files), self.problems)


def rules_of(project: Path) -> Rules:
    """Read the rules that the project's root has; no file means no rules."""
    for label in SOURCES:
        path = project / label
        if path.is_file():
            problems: list[Problem] = []
            return Rules(label, (_read(project, label, "", problems),), problems)
    return Rules(".gitignore")


def _read(project: Path, label: str, base: str, problems: list[Problem]) -> RuleFile:
    # Loaded here: a folder without rules need not wait for it.
    from pathspec import GitIgnoreSpec, PathSpec

    try:
        raw = files.read_below(project, label, MOST_BYTES)
    except OSError as error:
        problems.append(Problem(f"{label} cannot be read: {error.strerror}"))
        raw = b""
    text = raw.decode("utf-8-sig", "surrogateescape")
    docker = label == ".dockerignore"
    rules: list[tuple[int, str]] = []
    patterns: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        rule = from_docker(line) if docker else line
        if not rule.strip() or rule.startswith("#"):
            continue
        if _is_pattern(rule):
            patterns.append(rule)
            rules.append((number, line.strip()))
        else:
            problems.append(_not_a_rule(label, number, line))
    last = max((n for n, rule in enumerate(patterns) if rule[0] == "!"), default=-1)
    spec: PathSpec[Any] = GitIgnoreSpec.from_lines(patterns)
    if docker:
        # The last match decides; git ranks a file's own match over its folder's.
        spec = PathSpec(spec.patterns)
    return RuleFile(label, base, spec, tuple(rules), last)


def _is_pattern(rule: str) -> bool:
    from pathspec import GitIgnoreSpec

    try:
        return GitIgnoreSpec.from_lines([rule]).patterns[0].include is not None
    except ValueError:
        return False


def _not_a_rule(label: str, number: int, line: str) -> Problem:
    return Problem(
        f"{line.strip()!r} is not a pattern and is ignored",
        Place(label, number, 1),
        severity=Severity.WARNING,
    )


def from_docker(line: str) -> str:
    """Turn a line of a .dockerignore into the .gitignore line that means the same.

    Docker's patterns start at the root and name folders with or without a slash.
    """
    if line.startswith("#"):
        return ""
    rule = line.strip()
    mark = "!" if rule.startswith("!") else ""
    clean = posixpath.normpath("/" + rule.removeprefix("!").strip())
    return "" if clean.strip("/") == "" else mark + "/" + clean.lstrip("/")

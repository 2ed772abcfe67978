"""One ignore rule as pathspec's pattern, where pathspec and git would differ.

To git no bracket expression matches a slash, and `a/**/` is about the folders in `a`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

_EXPRESSION = re.compile(r"\\.|\[(\^?)(\]?(?:\\.|[^]\\])*)\]", re.DOTALL)
_RANGE = re.compile(r"(\\.|[^\\])-(\\.|[^\\])|\\.", re.DOTALL)
_FOLDERS_IN = re.compile(r"/\*\*/(?= *\Z)")
_BLANKS_AT_END = re.compile(r"(?<!\\)((?:\\\\)+) +\Z")
"""Blanks that no backslash keeps, as each is the second of a pair."""

_ESCAPING = re.compile(r"(?<!\\)(?:\\\\)*\[[^]]*\\")


def misread(rule: str) -> bool:
    """Whether pathspec reads a rule in another way than git.

    A class such as [:alpha:], a backslash within brackets, or an exception of nothing.
    """
    return "[:" in rule or bool(_ESCAPING.search(rule)) or not rule.strip("!/ ")


def pattern(rule: str) -> GitIgnoreSpecPattern:
    """Return pathspec's pattern of a rule, as git reads that."""
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    rule = _BLANKS_AT_END.sub(r"\1", rule)
    found = GitIgnoreSpecPattern(_FOLDERS_IN.sub("/**/*/", rule))
    if found.regex is None or "[" not in rule:
        return found
    regex = _EXPRESSION.sub(_without_slash, found.regex.pattern)
    return GitIgnoreSpecPattern(re.compile(regex), include=found.include)


def _without_slash(match: re.Match[str]) -> str:
    negated, content = match.group(1, 2)
    if content in (None, "/"):  # an escaped character, or `?`
        return match.group()
    if negated:
        first = content.replace("]", r"\]", 1) if content[0] == "]" else content
        return f"[^/{first}]"
    return f"[{_RANGE.sub(_split, content)}]"


def _split(match: re.Match[str]) -> str:
    """Take the slash out of a range."""
    first, last = match.group(1, 2)
    if first is None or not first[-1] <= "/" <= last[-1]:
        return match.group()
    return f"{first}-.0-{last}"

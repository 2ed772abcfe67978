"""Patterns of file names: `*` and `?` within a name, `**` for any folders."""

from __future__ import annotations

import re
from functools import cache


def matches(pattern: str, name: str) -> bool:
    """Whether a relative name with slashes matches a pattern.

    `*.cu` matches names without a folder, `**/*.cu` those in any folder or none.
    """
    return _regex(pattern).fullmatch(name) is not None


@cache
def _regex(pattern: str) -> re.Pattern[str]:
    text, at = "", 0
    while at < len(pattern):
        for mark, means in _MARKS:
            if pattern.startswith(mark, at):
                text, at = text + means, at + len(mark)
                break
        else:
            text, at = text + re.escape(pattern[at]), at + 1
    return re.compile(text, re.DOTALL)


_MARKS = (
    ("**/", "(?:[^/]+/)*"),
    ("**", ".*"),
    ("*", "[^/]*"),
    ("?", "[^/]"),
)

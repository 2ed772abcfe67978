"""Prepare the arguments of a command line before any option is parsed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

OWN = frozenset({"--help", "-h", "--version", "--install-completion"})
OWN_PREFIXES = ("--show-completion",)
WITH_PATH = frozenset({"run", "validate", "init", "submit", "bench"})
"""Commands that take a project's folder by `-p` too."""


class Option(Struct, frozen=True):
    """One option of a command: all its spellings, and whether a value follows."""

    name: str
    spellings: tuple[str, ...]
    takes_value: bool


def routed(words: Sequence[str]) -> list[str]:
    """Turn ``rai -p DIR ...``, the original's form, into ``rai run -p DIR ...``.

    So is ``rai .`` or another path that has a slash.
    """
    first = words[0] if words else ""
    is_option = first.startswith("-") and first not in OWN
    is_folder = first in (".", "..") or ("/" in first and first[0] != "-")
    if is_folder or (is_option and not first.startswith(OWN_PREFIXES)):
        return ["run", *words]
    if first == "shell" and "--" in words:
        # The parser drops the first `--`, which alone tells RUN from the command.
        at = list(words).index("--")
        return [*words[:at], "--", *words[at:]]
    return list(words)


def value(words: Sequence[str], *spellings: str) -> str:
    """Return the value of an option, by any of its spellings; "" if it is not given."""
    for word, after in zip(words, [*words[1:], ""], strict=True):
        if word in spellings:
            return after
        for spelling in spellings:
            mark = f"{spelling}=" if spelling.startswith("--") else spelling
            if word.startswith(mark):
                return word.removeprefix(mark).removeprefix("=")
    return ""


def without_debug(words: Sequence[str]) -> tuple[list[str], bool]:
    """Remove ``--debug`` before a ``--``; also return whether it was there."""
    end = list(words).index("--") if "--" in words else len(words)
    kept = [word for word in words[:end] if word != "--debug"]
    return kept + list(words[end:]), len(kept) < end


def contradictions(words: Sequence[str], options: Iterable[Option]) -> list[str]:
    """Return an error for each option that is given twice with different values."""
    by_spelling = {s: option for option in options for s in option.spellings}
    given: dict[str, list[str]] = {}
    queue = list(words)
    while queue and (word := queue.pop(0)) != "--":
        spelling, joined, value = _split(word, by_spelling)
        option = by_spelling.get(spelling)
        if option is None:
            continue
        if option.takes_value and not joined:
            value = queue.pop(0) if queue else ""
        # --this and --no-this are different values of a flag; -v and --verbose are not.
        negated = "no" if spelling.startswith("--no-") else "yes"
        given.setdefault(option.name, []).append(
            value if option.takes_value else negated
        )
    return [
        f"--{name} is given twice, with different values: {', '.join(values)}"
        for name, values in given.items()
        if len(set(values)) > 1
    ]


def _split(word: str, known: dict[str, Option]) -> tuple[str, bool, str]:
    """Split ``--option=value`` and ``-pvalue``; return whether a value was joined."""
    if word.startswith("--") and "=" in word:
        spelling, value = word.split("=", 1)
        return spelling, True, value
    short = word[:2]
    if not word.startswith("--") and len(word) > 2 and short in known:
        return short, known[short].takes_value, word[2:].removeprefix("=")
    return word, False, ""

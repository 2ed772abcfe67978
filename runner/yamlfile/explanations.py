"""Explain the errors of YAML parsers in plain words.

libyaml and PyYAML's own parser word the same error differently; each phrase here is
one that both use.
"""

from __future__ import annotations

from msgspec import Struct


class Explanation(Struct, frozen=True):
    """What is wrong and what to do.

    ``at_context`` is whether to show the place where the construct began.
    """

    message: str
    hint: str
    at_context: bool = False


_NO_TAB = Explanation(
    "a tab is used where YAML allows only spaces",
    "indent with spaces, e.g. two a level",
)
_AFTER_QUOTE = Explanation(
    "there is text after a closing quote or bracket",
    "put the whole value in quotes of the other kind, or write it after `>-` "
    "on a line of its own",
)
_INDENTATION = Explanation(
    "the indentation of this line does not match the lines above",
    "begin keys, or items, that belong together in the same column",
)
_COLON = Explanation(
    "a `:` is not expected here",
    "if it is part of the value, put the value in quotes; if not, check the "
    "indentation, and that the line above has a space after its `:`",
)
_ANCHOR = Explanation(
    "a value cannot begin with a bare `&` or `*`", "put the value in quotes"
)
_UNCLOSED = Explanation(
    "a `[` or `{` is opened here and not closed",
    "close it, put a comma between its items, or put the value in quotes",
    at_context=True,
)
_FOLLOWS = Explanation(
    "text follows `>` or `|` on the same line",
    "begin the text on the next line, or put the value in quotes",
)
_ESCAPE = Explanation(
    "YAML has no such `\\` escape in double quotes",
    "use single quotes around the value, or write `\\\\`",
)
MERGE = Explanation(
    "git left merge conflict markers here",
    "keep one of the two versions, and remove the lines with `<<<<<<<`, `=======` "
    "and `>>>>>>>`",
)
_PHRASES = (
    ("violates indentation", _NO_TAB),
    ("where an indentation space is expected", _NO_TAB),
    (
        "could not find expected ':'",
        Explanation(
            "this line is neither `key: value` nor `- item`",
            "a key needs a `:` and a space after it, and a command a `- ` before it",
            at_context=True,
        ),
    ),
    ("mapping values are not allowed", _COLON),
    (
        "sequence entries are not allowed",
        Explanation("a `- ` cannot begin here", "begin the list on a line of its own"),
    ),
    (
        "unexpected end of stream",
        Explanation(
            "a quote is opened here and never closed", "close it", at_context=True
        ),
    ),
    (
        "unexpected document",
        Explanation(
            "a quote is opened here and not closed before `---`",
            "close it",
            at_context=True,
        ),
    ),
    ("unknown escape character", _ESCAPE),
    ("decimal number", _ESCAPE),
    (
        "document start>",
        Explanation(
            "there is text after the end of the document",
            "check its indentation, or remove the `...` above it",
        ),
    ),
    (
        "incompatible YAML document",
        Explanation("the file is for another version of YAML", "remove its `%YAML`"),
    ),
    ("comment or line break", _FOLLOWS),
    ("comment or a line break", _FOLLOWS),
    ("expected ',' or", _UNCLOSED),
    ("node content", _UNCLOSED),
    ("alphabetic or numeric character", _ANCHOR),
)


def explain(problem: str, context: str, line: str, column: int) -> Explanation:
    """Return the explanation of an error at the ``column`` (from 0) of ``line``."""
    here, before = line[column : column + 1], line[:column]
    if "cannot start any token" in problem:
        return _NO_TAB if here == "\t" else _cannot_begin(here)
    closed = before.rstrip(" \t&*").endswith(('"', "'", "]", "}"))
    if "expected key" in problem or "block end" in problem or "'-' ind" in problem:
        return _AFTER_QUOTE if closed else _INDENTATION
    if closed and "alphabetic or numeric" in problem:
        return _AFTER_QUOTE
    for phrase, explanation in _PHRASES:
        if phrase in problem:
            return explanation
    return Explanation(f"this is not YAML: {problem or context}", "")


def _cannot_begin(character: str) -> Explanation:
    return Explanation(
        f"a value cannot begin with `{character}`", "put the whole value in quotes"
    )

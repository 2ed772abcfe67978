"""The errors of YAML parsers in plain words.

libyaml and PyYAML's own parser word the same error differently; each phrase here is
one that both use.
"""

from __future__ import annotations

from msgspec import Struct


class Complaint(Struct, frozen=True):
    """A plain sentence with what to do about it.

    ``at_context`` is whether the place to show is where the construct began.
    """

    message: str
    hint: str
    at_context: bool = False


_NO_TAB = Complaint(
    "a tab stands where YAML takes only spaces", "indent with spaces, e.g. two a level"
)
_AFTER_QUOTE = Complaint(
    "there is text after a closing quote or bracket",
    "put the whole value in quotes of the other kind, or write it after `>-` "
    "on a line of its own",
)
_INDENTATION = Complaint(
    "this line does not fit what stands above it",
    "check its indentation: what belongs together begins in the same column",
)
_COLON = Complaint(
    "a `:` is not expected here",
    "if it belongs to the value, put the value in quotes; else check the indentation, "
    "and that the line above has a space after its `:`",
)
_ANCHOR = Complaint(
    "a value cannot begin with a bare `&` or `*`", "put the value in quotes"
)
_UNCLOSED = Complaint(
    "a `[` or `{` is opened here and not closed where it should be",
    "close it, put a comma between its items, or put the value in quotes",
    at_context=True,
)
_FOLLOWS = Complaint(
    "text follows `>` or `|` on the same line",
    "begin the text on the next line, or put the value in quotes",
)
_ESCAPE = Complaint(
    "YAML knows no such `\\` escape in double quotes",
    "use single quotes around the value, or write `\\\\`",
)
MERGE = Complaint(
    "a merge of git has left its marks here",
    "keep one of the two versions, and remove the lines with `<<<<<<<`, `=======` "
    "and `>>>>>>>`",
)
_PHRASES = (
    ("violates indentation", _NO_TAB),
    ("where an indentation space is expected", _NO_TAB),
    (
        "could not find expected ':'",
        Complaint(
            "this line is neither `key: value` nor `- item`",
            "a key needs a `:` and a space after it, and a command a `- ` before it",
            at_context=True,
        ),
    ),
    ("mapping values are not allowed", _COLON),
    (
        "sequence entries are not allowed",
        Complaint("a `- ` cannot begin here", "begin the list on a line of its own"),
    ),
    (
        "unexpected end of stream",
        Complaint(
            "a quote is opened here and never closed", "close it", at_context=True
        ),
    ),
    (
        "unexpected document",
        Complaint(
            "a quote is opened here and not closed before `---`",
            "close it",
            at_context=True,
        ),
    ),
    ("unknown escape character", _ESCAPE),
    ("decimal number", _ESCAPE),
    (
        "document start>",
        Complaint(
            "there is text after the end of the document",
            "check its indentation, or remove the `...` above it",
        ),
    ),
    (
        "incompatible YAML document",
        Complaint("the file asks for another version of YAML", "remove its `%YAML`"),
    ),
    ("comment or line break", _FOLLOWS),
    ("comment or a line break", _FOLLOWS),
    ("expected ',' or", _UNCLOSED),
    ("node content", _UNCLOSED),
    ("alphabetic or numeric character", _ANCHOR),
)


def plainly(problem: str, context: str, line: str, column: int) -> Complaint:
    """Return what is wrong at the ``column`` (from 0) of ``line``."""
    here, before = line[column : column + 1], line[:column]
    if "cannot start any token" in problem:
        return _NO_TAB if here == "\t" else _cannot_begin(here)
    closed = before.rstrip(" \t&*").endswith(('"', "'", "]", "}"))
    if "expected key" in problem or "block end" in problem or "'-' ind" in problem:
        return _AFTER_QUOTE if closed else _INDENTATION
    if closed and "alphabetic or numeric" in problem:
        return _AFTER_QUOTE
    for phrase, complaint in _PHRASES:
        if phrase in problem:
            return complaint
    return Complaint(f"this is not YAML: {problem or context}", "")


def _cannot_begin(character: str) -> Complaint:
    return Complaint(
        f"a value cannot begin with `{character}`", "put the whole value in quotes"
    )

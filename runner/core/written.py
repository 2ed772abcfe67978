"""Values as JSON, whatever bytes the names of files in them have."""

from __future__ import annotations

import re
from typing import Any

import msgspec

_NOT_TEXT = re.compile("[\ud800-\udfff]")


def text(value: object) -> str:
    """Return a path or another value as text that can be written.

    Python keeps a byte of a name that is not UTF-8 as half a character.
    """
    return _NOT_TEXT.sub("\ufffd", str(value))


def encode(value: object) -> bytes:
    """Return a value as JSON; what is no text in it becomes a replacement character."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_readable(msgspec.to_builtins(value)))


def _readable(value: Any) -> Any:  # noqa: ANN401 - JSON values have no narrower type
    match value:
        case str():
            return text(value)
        case dict():
            return {text(key): _readable(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_readable(inner) for inner in value]
    return value

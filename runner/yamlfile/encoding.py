"""Decode the bytes of a YAML file."""

from __future__ import annotations

import codecs

from runner.yamlfile.composer import place_of
from runner.yamlfile.problems import Problems

_MARKS = ((codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))


def decode(raw: bytes, file: str, problems: Problems) -> str | None:
    """Decode UTF-8, or UTF-16 with a byte order mark; None, and a problem, if wrong."""
    encoding = next((name for mark, name in _MARKS if raw.startswith(mark)), "utf-8")
    try:
        return raw.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode(encoding, "replace").removeprefix("\ufeff")
        problems.error(
            _not_text(raw, error.start, encoding),
            place_of(before, len(before), file),
            "save the file as UTF-8",
        )
    return None


def _not_text(raw: bytes, start: int, encoding: str) -> str:
    if encoding != "utf-8":
        return "the file begins as UTF-16, but is not valid UTF-16"
    byte = raw[start : start + 1]
    meant = byte.decode("cp1252", "replace")
    guess = (
        f"; it may be a `{meant}` in a Windows encoding" if meant.isprintable() else ""
    )
    return f"the byte 0x{byte.hex()} is not UTF-8{guess}"

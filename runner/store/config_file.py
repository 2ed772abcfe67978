"""Read the settings files and the policy: a YAML mapping each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.core import Place, Problem

if TYPE_CHECKING:
    from runner.yamlfile import Fields, Grammar

MOST_BYTES = 1 << 20
"""A larger file is refused."""


def origin(place: Place | str) -> str:
    """Return what says a value, by its place, or in words of its own."""
    return place if isinstance(place, str) else f"file:{place.file}:{place.line}"


def fields(
    raw: bytes, file: str, grammar: Grammar, problems: list[Problem]
) -> Fields | None:
    """Read a file's bytes as a mapping; None where it is empty or no mapping."""
    # The YAML parser takes longer to import than most commands take to run.
    from runner.yamlfile import Fields, Problems, compose, decode

    found = Problems()
    text = decode(raw, file, found)
    node = compose(text, file, found) if text is not None else None
    read = Fields.of(node, grammar, found)
    if read is None:
        problems += found.in_file_order()
    return read

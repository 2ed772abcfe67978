"""Mask the credentials in build files, and fill them in again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from msgspec import Struct

from runner.yamlfile import Mapping as YamlMapping
from runner.yamlfile import Node, Problems, Scalar, Sequence, compose

MASK = "***"
_WRITTEN = json.dumps(MASK)
"""In quotes, as YAML takes a bare asterisk for an alias."""

_IGNORED = ("commands", "build_image", "push", "credentials")
"""Where credentials have no effect: a masked one need not be given again."""


class _Secret(Struct, frozen=True):
    """A value below a ``credentials`` key, and the keys that lead to it."""

    path: tuple[str, ...]
    value: Scalar


def redacted(text: str) -> str:
    """Return the text with everything under a ``credentials`` key masked."""
    text = text.removeprefix("\ufeff")
    return _replaced(text, {found.value.span: _WRITTEN for found in _secrets(text)})


def masked(text: str) -> tuple[str, ...]:
    """Return the names of the masked values that a run of this text needs."""
    return tuple(dict.fromkeys(found.path[-1] for found in _needed(text)))


def filled(text: str, values: Mapping[str, str]) -> str:
    """Return the text with its masked values replaced, each by its name."""
    spans = {
        found.value.span: json.dumps(values[found.path[-1]], ensure_ascii=False)
        for found in _needed(text)
        if found.path[-1] in values
    }
    return _replaced(text, spans)


def _needed(text: str) -> Iterator[_Secret]:
    for found in _secrets(text):
        if found.value.text == MASK and found.path[: len(_IGNORED)] != _IGNORED:
            yield found


def _replaced(text: str, by_span: Mapping[tuple[int, int], str]) -> str:
    for (start, end), value in sorted(by_span.items(), reverse=True):
        old = text[start:end]
        # The span of a block of lines includes the end of its last line.
        text = text[:start] + value + old[len(old.rstrip()) :] + text[end:]
    return text


def _secrets(text: str) -> Iterator[_Secret]:
    return _below(compose(text, "", Problems()), ())


def _below(node: Node | None, path: tuple[str, ...]) -> Iterator[_Secret]:
    if isinstance(node, YamlMapping):
        for key, value in node.entries:
            yield from _below(value, (*path, key.text))
    elif isinstance(node, Sequence):
        for item in node.items:
            yield from _below(item, path)
    elif node is not None and "credentials" in path and not node.null:
        yield _Secret(path, node)

"""Mask the credentials in old build files."""

from __future__ import annotations

from collections.abc import Iterator

from runner.yamlfile import Mapping, Node, Problems, Scalar, Sequence, compose

MASK = "***"


def redacted(text: str) -> str:
    """Return the text with everything under a ``credentials`` key masked."""
    text = text.removeprefix("\ufeff")
    node = compose(text, "", Problems())
    spans = sorted({scalar.span for scalar in _secrets(node, False)}, reverse=True)
    for start, end in spans:
        text = text[:start] + MASK + text[end:]
    return text


def _secrets(node: Node | None, secret: bool) -> Iterator[Scalar]:
    if isinstance(node, Mapping):
        for key, value in node.entries:
            yield from _secrets(value, secret or key.text == "credentials")
    elif isinstance(node, Sequence):
        for item in node.items:
            yield from _secrets(item, secret)
    elif secret and node is not None and not node.null:
        yield node

"""Names with values: a mapping, or a list of ``NAME=value``."""

from __future__ import annotations

from msgspec import Struct

from runner.core import Place
from runner.yamlfile import Fields, Mapping, Node, Scalar, Sequence
from runner.yamlfile.nodes import kind


class Pair(Struct, frozen=True):
    """A name and its value, with their places; the value is None where none stands."""

    name: str
    value: str | None
    place: Place
    value_place: Place


def read(fields: Fields, key: str, what: str) -> tuple[Pair, ...]:
    """Parse the pairs below a key, each of which is ``what``."""
    node = fields.node.get(key)
    if isinstance(node, Mapping):
        found = (_entry(fields, key, name, value) for name, value in node.entries)
    elif isinstance(node, Sequence):
        items = fields.items(key, "{NAME: value}")
        found = (_item(fields, path, item, what) for path, item in items)
    else:
        if node is not None and node.null:
            fields.problems.warn(f"{fields.name(key)} is empty", node.place)
        elif node is not None:
            hint = f"expected a mapping, e.g. `{key}: {{NAME: value}}`"
            fields.problems.error(
                f"{fields.name(key)} is {kind(node)}", node.place, hint
            )
        return ()
    return tuple(pair for pair in found if pair)


def _entry(fields: Fields, key: str, name: Scalar, value: Node) -> Pair | None:
    if isinstance(value, Scalar):
        text = None if value.null else value.text
        return Pair(name.text, text, name.place, value.place)
    path, hint = f"{fields.name(key)}.{name.text}", f"e.g. `{name.text}: value`"
    fields.problems.error(f"{path} is not text", value.place, hint)
    return None


def _item(fields: Fields, path: str, item: Node, what: str) -> Pair | None:
    name, equals, value = (item.text if isinstance(item, Scalar) else "").partition("=")
    if name and equals:
        return Pair(name, value, item.place, item.place)
    hint = "expected e.g. `- NAME=value`"
    fields.problems.error(f"{path} is not {what}", item.place, hint)
    return None

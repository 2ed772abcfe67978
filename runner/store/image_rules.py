"""The setting ``images``: which image is used in place of which."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.images.names import valid
from runner.images.substitutes import EXAMPLE, Rule

if TYPE_CHECKING:
    from runner.yamlfile import Fields

SHOWN = f'`"someone/old-name:*": {EXAMPLE}`'


def read(fields: Fields, key: str) -> tuple[Rule, ...]:
    """Read the patterns at a key of a settings file, in their order there."""
    # The YAML parser takes long to import; who has fields has it already.
    from runner.yamlfile import Mapping, Scalar, kind

    node = fields.node.get(key)
    if node is None:
        return ()
    if isinstance(node, Scalar) and node.null:
        fields.problems.warn(f"{key} is empty", node.place)
        return ()
    if not isinstance(node, Mapping):
        hint = f"expected a mapping of patterns to images, e.g. {SHOWN}"
        fields.problems.error(f"{key} is {kind(node)}", node.place, hint)
        return ()
    rules = []
    for pattern, value in node.entries:
        if isinstance(value, Scalar) and valid(value.text.strip()):
            found = Rule(pattern.text.strip(), value.text.strip(), pattern.place)
            rules.append(found)
            continue
        hint = f"expected the name of an image, e.g. {SHOWN}"
        text = f"{key}: the image for `{pattern.text}` is {kind(value)}"
        fields.problems.error(text, value.place, hint)
    return tuple(rules)

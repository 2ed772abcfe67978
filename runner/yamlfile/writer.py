"""Write plain values as YAML, for files that rai makes."""

from __future__ import annotations

from collections.abc import Mapping

import yaml


def dump(values: Mapping[str, object]) -> str:
    """Return a YAML document of mappings, lists and scalars, in the order given."""
    text = yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=10_000)
    return str(text)

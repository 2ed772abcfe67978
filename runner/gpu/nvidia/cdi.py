"""Read the names of the NVIDIA devices in the machine's CDI specifications.

A specification (Container Device Interface, SPEC.md) is YAML or JSON, in /etc/cdi or
/var/run/cdi, with a ``kind`` and ``devices`` that have a ``name`` each.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from runner import files

if TYPE_CHECKING:
    from runner import yamlfile

FOLDERS = ("etc/cdi", "var/run/cdi", "run/cdi")
KIND = "nvidia.com/gpu"
MOST_BYTES = 4 << 20
"""A specification of 64 slices has a tenth of this; larger files are ignored."""


def devices(root: Path) -> tuple[str, ...]:
    """Return full names such as nvidia.com/gpu=GPU-1b2c..., without duplicates."""
    paths = [p for folder in FOLDERS for p in sorted((root / folder).glob("*"))]
    specs = [p for p in paths if p.suffix in (".yaml", ".json")]
    return tuple(dict.fromkeys(name for path in specs for name in _names(path)))


def _names(path: Path) -> list[str]:
    text = _read(path)
    if KIND not in text:
        return []
    from runner import yamlfile

    node = yamlfile.compose(text, path.name, yamlfile.Problems())
    return [f"{KIND}={name}" for name in _devices(node)]


def _read(path: Path) -> str:
    """Return a file's text; empty if it is not a file, too large or unreadable."""
    try:
        return files.read(path, MOST_BYTES).decode(errors="replace")
    except OSError:
        return ""


def _devices(node: yamlfile.Node | None) -> list[str]:
    from runner import yamlfile

    if not isinstance(node, yamlfile.Mapping) or _text(node, "kind") != KIND:
        return []
    devices = node.get("devices")
    items = devices.items if isinstance(devices, yamlfile.Sequence) else ()
    named = (_text(i, "name") for i in items if isinstance(i, yamlfile.Mapping))
    return [name for name in named if name]


def _text(node: yamlfile.Mapping, key: str) -> str:
    from runner import yamlfile

    value = node.get(key)
    return value.text if isinstance(value, yamlfile.Scalar) else ""

"""Every key of a milestone's file."""

from __future__ import annotations

from runner.core import LIMITS
from runner.yamlfile import Grammar

KEYS: Grammar = {
    "": (
        "title",
        "edition",
        "trust",
        "class",
        "deadline",
        "attempts",
        "required",
        "team",
        "entries",
        "images",
        "layers",
        "runs",
        "rules",
        "references",
        "report",
    ),
    "required[]": ("path", "type", "size"),
    "team": ("below", "files", "most_files", "size"),
    "entries": ("least", "most"),
    "layers[]": ("name", "M", "C", "H", "W", "K"),
    "runs[]": (
        "name",
        "image",
        "target",
        "gpu",
        "holds",
        "limits",
        "dataresources",
        "env",
        "commands",
    ),
    "runs[].holds[]": ("golden", "build", "files", "into", "size"),
    "runs[].limits": tuple(limit.key for limit in LIMITS),
    "runs[].dataresources[]": ("mount", "source"),
    "runs[].dataresources[].source": ("url", "md5"),
    "references[]": ("gpu", "ms", "band"),
    "report[]": ("script", "shows", "images", "variants", "command"),
}
"""The keys of each mapping, by its dotted path; ``[]`` are the items of a list."""

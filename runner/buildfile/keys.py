"""Every key of rai_build.yml."""

from __future__ import annotations

from runner.buildfile.expect import ANY, WHAT
from runner.core import LIMITS
from runner.yamlfile import Grammar

KEYS: Grammar = {
    "": ("rai", "resources", "env", "commands"),
    "rai": ("version", "image"),
    "resources": (
        "cpu",
        "gpu",
        "gpus",
        "network",
        "cache",
        "limits",
        "dataresources",
    ),
    "resources.cpu": ("architecture", "cores"),
    "resources.gpu": ("count", "optional", "architecture", "memory"),
    "resources.limits": (*(limit.key for limit in LIMITS), "datasize"),
    "resources.dataresources[]": ("mount", "source", "cache"),
    "resources.dataresources[].source": ("url", "md5", "extract"),
    "commands": ("build_image", "build"),
    "commands.build_image": (
        "image_name",
        "dockerfile",
        "target",
        "gpu_target",
        "args",
        "no_cache",
        "push",
    ),
    "commands.build_image.push": ("push", "image_name", "registry", "credentials"),
    "commands.build_image.push.credentials": ("username", "password"),
    "commands.build[]": (
        "run",
        "name",
        "needs",
        "continue_on_error",
        "timeout",
        "env",
        "expect",
    ),
    "commands.build[].expect": (*WHAT, ANY),
}
"""The keys of each mapping, by its dotted path; ``[]`` are the items of a list."""


def dotted() -> tuple[str, ...]:
    """Return every key with its whole path."""
    return tuple(
        f"{path}.{key}" if path else key for path, keys in KEYS.items() for key in keys
    )

"""The variables that users add to commands: their names, and secret values."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct, field

MOST_BYTES = 64 << 10
"""Of one value. The kernel takes twice as much, a variable's name included."""

PASSED = frozenset(
    (
        *("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "TZ", "USER"),
        *("PYTHONPATH", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR"),
        *("DOCKER_HOST", "DOCKER_CONFIG", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY"),
        *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"),
        "COVERAGE_PROCESS_START",
        *("http_proxy", "https_proxy", "no_proxy"),
        *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"),
    )
)
"""What a process of rai elsewhere has of this one's environment, but for settings."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RAIS = {
    "RAI": "rai sets it",
    "SOURCE_DIR": "rai sets it",
    "BUILD_DIR": "rai sets it",
    "DATA_DIR": "rai sets it",
    "IMAGE_NAME": "rai sets it",
    "CUDA_VISIBLE_DEVICES": "rai sets it; --gpus chooses the GPUs",
}
_SHELLS = frozenset(
    {"BASHOPTS", "BASH_VERSINFO", "EUID", "OPTIND", "PPID", "SHELLOPTS", "UID"}
)


class Secrets(Struct, frozen=True, omit_defaults=True):
    """What no file of a run keeps; ``repr`` shows the names only.

    ``values`` are those that the user gave by ``-e``, by name. ``spec_text`` is the
    whole build file, where records have masks in it, else "".
    """

    values: Mapping[str, str] = field(default_factory=dict)
    spec_text: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The names, sorted; these may be recorded."""
        return tuple(sorted(self.values))

    def __repr__(self) -> str:
        """Return the names."""
        return f"Secrets({', '.join(self.names)})"


NO_SECRETS = Secrets()


def wrong_name(name: str) -> str | None:
    """Return why users cannot set a variable of this name; None if they can."""
    if not _NAME.fullmatch(name):
        return "a name has letters, digits and `_`, and begins with no digit"
    if name in _SHELLS:
        return "a shell sets it, and lets nobody change it"
    if name.startswith("RAI_"):
        return "names with `RAI_` are rai's own"
    return _RAIS.get(name)


def wrong_value(value: str) -> str | None:
    """Return why a variable cannot have this value; None if it can."""
    if "\0" in value:
        return "it has a NUL character"
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        return "it is not UTF-8 text"
    return f"it is longer than {MOST_BYTES // 1024} KiB" if size > MOST_BYTES else None

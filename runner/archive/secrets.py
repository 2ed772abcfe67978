"""Which names are those of secrets, which stay on this machine unless asked for."""

from __future__ import annotations

import re
from fnmatch import translate

SECRET_FILES = (
    ".env",
    ".env.*",
    ".envrc",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ecdsa_sk",
    "id_ed25519",
    "id_ed25519_sk",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "*.ppk",
    "*.jks",
    "*.keystore",
    "*.kdbx",
    "kaggle.json",
    ".netrc",
    "_netrc",
    ".npmrc",
    ".pypirc",
    ".pgpass",
    ".my.cnf",
    ".htpasswd",
    ".git-credentials",
    ".dockercfg",
    ".vault-token",
    ".rai_profile",
    ".rai_profile.yml",
    ".rai_secret",
    ".rai_env",
    ".rai.profile",
    ".rai.env",
)
"""Names of files that hold secrets, in lower case."""

NESTED = (
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".docker/config.json",
    ".kube/config",
)
"""Names of files that hold secrets in these folders."""

HARMLESS = (
    ".env.example",
    ".env.sample",
    ".env.template",
    ".env.dist",
    ".env.defaults",
)
"""Names among those that by custom hold none."""

SECRET_FOLDERS = (".aws", ".azure", ".gnupg", ".ssh")
"""Names of folders that hold secrets, in lower case."""

_GROUPS = (f"(?P<p{n}>{translate(rule)})" for n, rule in enumerate(SECRET_FILES))
_FILE = re.compile("|".join(_GROUPS))


def secret(name: str, *, folder: bool) -> str:
    """Return the pattern of secrets that an entry's name fits, "" for none.

    ``name`` is relative to the project; upper and lower case are alike.
    """
    *above, last = name.lower().split("/")
    if folder:
        return f"{last}/" if last in SECRET_FOLDERS else ""
    if last in HARMLESS:
        return ""
    if above and (nested := f"{above[-1]}/{last}") in NESTED:
        return nested
    found = _FILE.match(last)
    if not found or not found.lastgroup:
        return ""
    return SECRET_FILES[int(found.lastgroup[1:])]

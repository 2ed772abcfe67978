"""Where runs go: addresses of servers, `here`, `slurm[:PARTITION]`, in one spelling.

A server is at ``https://host[:port][/path]``, at ``http://`` with a loopback address,
or at ``unix:///path.sock``. The fingerprints of certificates have one spelling too.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
import shlex
from contextlib import suppress
from ipaddress import ip_address

from msgspec import Struct

HERE = "here"
"""What is given in place of an address for this machine, without a server."""

SLURM = "slurm"
SBATCH_OPTIONS = (
    *("account", "comment", "constraint", "cpus-per-task", "exclude", "nice", "qos"),
    "reservation",
)
"""What users and sites may add to sbatch. What else a job needs, the run says."""

EXAMPLES = "https://host:8443 or unix:///run/rai/server.sock"
_HOST = re.compile(r"(?!-)[a-z0-9_-]+(\.[a-z0-9_-]+)*\.?")
_PATH = re.compile(r"(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*/?")
_WHERE = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]]+)(?::([0-9]{1,5}))?")
_PORTS = {"https": 443, "http": 80}
_LONGEST = 1000
_DIGEST = re.compile(r"(?:sha256:)?([0-9a-f]{2}(?::?[0-9a-f]{2}){31})")
_TARGET = re.compile(r"(?i:slurm)(?::(\w[\w.-]{0,99}))?", re.ASCII)
_WORD = re.compile(f"--(?:{'|'.join(SBATCH_OPTIONS)})=.{{1,1000}}")
_LONGEST_WORDS = 4000


class SlurmTarget(Struct, frozen=True):
    """A partition of the cluster whose Slurm this machine has, "" for its default."""

    partition: str = ""

    def __str__(self) -> str:
        return f"{SLURM}:{self.partition}" if self.partition else SLURM


def slurm_target(text: str) -> SlurmTarget | None:
    """Return what a text names; None if it is no place of Slurm."""
    found = _TARGET.fullmatch(text.strip())
    return SlurmTarget(found[1] or "") if found else None


def sbatch_words(text: str) -> tuple[str, ...] | None:
    """Return words for sbatch, written as for a shell; None if one is not allowed.

    An option's value has to be in its word: sbatch would take a word alone as the name
    of a script.
    """
    try:
        found = tuple(shlex.split(text)) if len(text) <= _LONGEST_WORDS else ()
    except ValueError:  # a quote without its end
        return None
    fit = all(_WORD.fullmatch(word) and word.isprintable() for word in found)
    return found if found and fit else None


def normal(text: str) -> str:
    """Return an address in its one spelling; raise ValueError that says what is wrong.

    Without a scheme a path is a socket, and a host is reached by https.
    """
    text = text.strip()
    if not text or len(text) > _LONGEST or not text.isprintable() or " " in text:
        raise ValueError(f"expected an address such as {EXAMPLES}")
    if "://" not in text:
        text = f"unix://{text}" if text.startswith("/") else f"https://{text}"
    scheme, _, rest = text.partition("://")
    scheme = scheme.lower()
    if scheme == "unix":
        if not rest.startswith("/") or rest.endswith("/") or set(rest) & {"?", "#"}:
            raise ValueError("expected the whole path of a socket: unix:///path.sock")
        return f"unix:///{posixpath.normpath(rest).lstrip('/')}"
    if scheme not in _PORTS:
        raise ValueError(f"expected https:// or unix:// as in {EXAMPLES}")
    if set(rest) & {"@", "?", "#"}:
        raise ValueError("an address has no user, `?` or `#`")
    where, slash, path = rest.partition("/")
    if not _PATH.fullmatch(slash + path):
        raise ValueError(f"{slash}{path} is no path of a server")
    host, port = _host_and_port(where, scheme)
    if scheme == "http" and not is_loopback(host):
        raise ValueError("http:// is for this machine only; use https://")
    shown = f":{port}" if port != _PORTS[scheme] else ""
    name = f"[{host}]" if ":" in host else host
    return f"{scheme}://{name}{shown}{(slash + path).rstrip('/')}"


def spelled(text: str) -> str | None:
    """Return what ``normal`` returns, "here" as it is, and None for anything else."""
    if text.strip().lower() == HERE:
        return HERE
    try:
        return normal(text)
    except ValueError:
        return None


def socket_path(url: str) -> str:
    """Return the path of the Unix socket that an address names, "" if it names none."""
    return url.removeprefix("unix://") if url.startswith("unix://") else ""


def host_and_port(url: str) -> tuple[str, int]:
    """Return where an address of http or https is connected to."""
    scheme, _, rest = url.partition("://")
    return _host_and_port(rest.partition("/")[0], scheme)


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, by its name or address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.rstrip(".") == "localhost"


def fingerprint_of(certificate: bytes) -> str:
    """Return the fingerprint of a certificate in DER: ``SHA256:ab:cd:...``."""
    return _written(hashlib.sha256(certificate).hexdigest())


def fingerprint(text: str) -> str | None:
    """Return a fingerprint in its one spelling, None if the text is none.

    The prefix and the colons may be missing.
    """
    found = _DIGEST.fullmatch(text.strip().lower())
    return _written(found[1].replace(":", "")) if found else None


def _written(digest: str) -> str:
    return "SHA256:" + ":".join(digest[at : at + 2] for at in range(0, 64, 2))


def _host_and_port(text: str, scheme: str) -> tuple[str, int]:
    found = _WHERE.fullmatch(text)
    port = int(found[2] or _PORTS[scheme]) if found else 0
    if found is None or not 0 < port < 1 << 16:
        raise ValueError(f"expected a host, and a port up to 65535, as in {EXAMPLES}")
    return _host(found[1].strip("[]").lower()), port


def _host(name: str) -> str:
    with suppress(ValueError):
        return str(ip_address(name))
    with suppress(UnicodeError):
        host = name if name.isascii() else name.encode("idna").decode()
        if _HOST.fullmatch(host):
            return host
    raise ValueError(f"expected a host as in {EXAMPLES}")

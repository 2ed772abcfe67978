"""What a hostile case is, and where it runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from subprocess import Popen
from typing import Any, TypeVar

from msgspec import Struct, field

from runner.core import Reason

IMAGE = "debian:bookworm-slim"
TIME_S = 10
SLACK_S = 120.0
"""How long after its limit a run that has not ended is given up."""

T = TypeVar("T")

NO_IMAGE = "no images"


class Site(Struct, frozen=True):
    """The folders of one run of a case, below ``root``, and a name of its own.

    ``outside`` has a file ``secret`` that holds ``secret-MARK``. No run may read it, or
    write to the folder.
    """

    root: Path
    mark: str
    column: str

    @property
    def project(self) -> Path:
        return self.root / "project"

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def rai_home(self) -> Path:
        return self.root / "rai"

    @property
    def tmp(self) -> Path:
        return self.root / "tmp"

    @property
    def outside(self) -> Path:
        return self.root / "outside"

    @property
    def output(self) -> Path:
        """Where ``-o @OUTPUT@`` unpacks to."""
        return self.root / "output"

    @property
    def secret(self) -> str:
        return f"secret-{self.mark}"

    def filled(self, text: str) -> str:
        """Replace @MARK@, @OUTSIDE@, @OUTPUT@, @PROJECT@ and @ROOT@."""
        names = {
            "@MARK@": self.mark,
            "@OUTSIDE@": str(self.outside),
            "@OUTPUT@": str(self.output),
            "@PROJECT@": str(self.project),
            "@ROOT@": str(self.root),
        }
        for name, value in names.items():
            text = text.replace(name, value)
        return text


class Ended(Struct, frozen=True):
    """How the run of a case ended, and what it left to look at.

    ``record`` is that of the run, empty if there is none; ``stdout`` and ``stderr`` are
    the first MiB of what rai itself printed; ``run`` is the run's folder.
    """

    site: Site
    exit_code: int
    seconds: float
    peak_mb: float
    stdout: bytes
    stderr: bytes
    record: Mapping[str, Any]
    run: Path | None

    @property
    def reason(self) -> str:
        """The record's reason; empty without a record."""
        return (self.record.get("verdict") or {}).get("reason", "")

    @property
    def unenforced(self) -> tuple[str, ...]:
        """What the record says is not enforced."""
        return tuple((self.record.get("engine") or {}).get("unenforced", ()))

    def log(self, stream: str = "stdout") -> bytes:
        """Return the first MiB of what the commands printed."""
        file = self.run / f"{stream}.log" if self.run else None
        if file is None or not file.exists():
            return b""
        with file.open("rb") as opened:
            return opened.read(1 << 20)


FEW = ("docker strict root", "local bubblewrap user", "local unshare root")
"""CI's columns of what rai itself refuses, bounds or reads, whatever the engine."""

Ends = Reason | Mapping[str, Reason]


class Case(Struct, frozen=True, kw_only=True):
    """One thing that is tried, in all columns.

    ``ends`` is the reason of the end (without it, the run must end well), or a mapping
    from words of columns ("docker", "local user", "" for all others) to reasons.
    ``needs`` is a limit's name as engines' facts have it: where it is not enforced the
    run may end in any way, and must bound itself. ``columns`` names by words the
    columns that the case is for; in others the table shows ``elsewhere``, one text or
    one by words. ``ci`` names those of CI's subset: "" is all, none by default.

    In ``commands``, ``spec``, ``files`` and ``flags`` @MARK@ and others are replaced:
    see ``Site.filled``. ``policy`` is the text of /etc/rai/policy.yml. ``around`` is
    a context for what must run on the host meanwhile; ``during`` is called once rai
    has started. ``then`` are rai's commands that are run after it, before the check
    that nothing is left; ``after_s`` is how long that may take to become true.
    """

    name: str
    tries: str
    ends: Ends = Reason.DONE
    commands: tuple[str, ...] = ("true",)
    limits: Mapping[str, object] = field(default_factory=dict)
    spec: str | None = None
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    programs: tuple[str, ...] = ()
    """Programs of ``programs/``, which the project gets compiled."""

    make: Callable[[Site], None] | None = None
    around: Callable[[Site], AbstractContextManager[object]] | None = None
    during: Callable[[Site, Popen[bytes]], None] | None = None
    image: str = IMAGE
    flags: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    shell: str = ""
    """A script that starts rai as "$@", for odd outputs."""
    policy: str | None = None
    then: tuple[tuple[str, ...], ...] = ()
    needs: str | None = None
    columns: tuple[str, ...] = ("",)
    elsewhere: str | Mapping[str, str] = NO_IMAGE
    ci: tuple[str, ...] = ()
    exit_code: int | None = None
    limit_s: float | None = None
    after_s: float = 5.0
    check: Callable[[Ended], None] | None = None

    @property
    def file(self) -> str:
        """Return the build file."""
        if self.spec is not None:
            return self.spec
        limits = {"time": TIME_S, **self.limits}
        rows = "".join(f"    {key}: {value}\n" for key, value in limits.items())
        commands = "".join(f"    - {json.dumps(line)}\n" for line in self.commands)
        return (
            f"rai:\n  version: 0.2\n  image: {self.image}\n"
            f"resources:\n  limits:\n{rows}commands:\n  build:\n{commands}"
        )

    @property
    def most_s(self) -> float:
        """How long it is waited for in all, on a machine with much else to do."""
        limit_s = self.limit_s
        if limit_s is None:
            limit_s = float(str(self.limits.get("time", TIME_S)).removesuffix("s"))
        return limit_s + SLACK_S

    def reason(self, column: str) -> Reason:
        """Return how it must end in a column."""
        if isinstance(self.ends, Reason):
            return self.ends
        return _nearest(self.ends, column)

    def applies(self, column: str) -> bool:
        """Whether it is for a column."""
        return any(fits(column, words) for words in self.columns)

    def instead(self, column: str) -> str:
        """Return what the table shows in a column that the case is not for."""
        if isinstance(self.elsewhere, str):
            return self.elsewhere
        return _nearest(self.elsewhere, column)

    def in_ci(self, column: str) -> bool:
        """Whether it is in CI's subset."""
        return self.applies(column) and any(fits(column, words) for words in self.ci)


def fits(column: str, words: str) -> bool:
    """Whether a column's name has all these words."""
    return set(words.split()) <= set(column.split())


def _nearest(values: Mapping[str, T], column: str) -> T:
    """Return the value of most words that a column's name has."""
    fitting = [words for words in values if fits(column, words)]
    return values[max(fitting, key=lambda words: len(words.split()))]

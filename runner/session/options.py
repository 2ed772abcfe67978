"""The options of a run, besides its project."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from runner.core.variables import NO_SECRETS, Secrets


class Options(Struct, frozen=True):
    """The options of the command line; None leaves one to the settings or build file.

    All are text as typed: ``gpu_wait`` is a time span such as "10m", ``gpus`` a number
    or UUIDs, ``after`` names the runs that end before this one begins, ``image`` an
    image that is used in place of the build file's. ``secrets`` are variables for the
    commands, ``only`` names the commands that run. ``repeat`` is how many rounds the
    commands that ``measured`` names have, ``budget`` the time span that the rounds
    after the first may take together. ``stop_grace_s`` is how long commands may live
    after SIGTERM, for a caller that is killed soon after it. ``elsewhere`` says that a
    server runs it: this machine's policy and images do not count there.
    """

    engine: str | None = None
    profile: str | None = None
    gpus: str | None = None
    gpu_wait: str | None = None
    keep_going: bool = False
    home: Path | None = None
    after: tuple[str, ...] = ()
    image: str | None = None
    secrets: Secrets = NO_SECRETS
    only: tuple[str, ...] = ()
    repeat: int = 1
    measured: tuple[str, ...] = ()
    budget: str | None = None
    stop_grace_s: float | None = None
    elsewhere: bool = False

    @property
    def settings(self) -> dict[str, str | None]:
        """The options that override a setting, by the setting's key."""
        return {
            "engine": self.engine,
            "profile": self.profile,
            "gpu_wait": self.gpu_wait,
            "home": str(self.home) if self.home else None,
        }


NONE_GIVEN = Options()
"""No options: the settings and the build file decide."""

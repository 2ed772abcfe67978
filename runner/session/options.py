"""What a caller may ask of a run besides its project."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct


class Options(Struct, frozen=True):
    """What the command line says; None leaves it to the settings or the build file.

    All are text as it is typed: ``gpu_wait`` is a time span such as "10m", ``gpus`` a
    number or UUIDs.
    """

    engine: str | None = None
    profile: str | None = None
    progress: str | None = None
    gpus: str | None = None
    gpu_wait: str | None = None
    keep_going: bool = False
    home: Path | None = None

    @property
    def settings(self) -> dict[str, str | None]:
        """The options that stand for a setting, by the setting's key."""
        return {
            "engine": self.engine,
            "profile": self.profile,
            "progress": self.progress,
            "gpu_wait": self.gpu_wait,
            "home": str(self.home) if self.home else None,
        }


NONE_GIVEN = Options()
"""All is left to the settings and the build file."""

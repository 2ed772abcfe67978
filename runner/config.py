"""Settings: flags, then environment, then the user's file, then the machine's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from runner.model import Limits, Problem, Profile

POLICY_FILES = (Path("/etc/rai/policy.yml"),)


@dataclass(frozen=True, slots=True)
class Config:
    """Every setting; ``home`` and ``data_dir`` are absolute."""

    home: Path
    engine: str = "auto"
    profile: Profile | None = None
    progress: str = "auto"
    keep_runs_days: float = 30
    keep_runs_bytes: int = 20_000_000_000
    data_dir: Path | None = None
    download: bool = True


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The most that a site allows of one thing, and the file that says so."""

    value: float
    file: str


@dataclass(frozen=True, slots=True)
class Policy:
    """A site's ceilings, by the name of the field of Limits."""

    ceilings: Mapping[str, Ceiling]
    profile: Profile | None = None
    profile_file: str = ""


def config_files() -> tuple[Path, ...]:
    """Name the settings files of this machine and user, weakest first."""
    raise NotImplementedError


def load(
    environ: Mapping[str, str],
    files: Sequence[Path],
    flags: Mapping[str, str | None],
) -> tuple[Config, list[Problem]]:
    """Read all settings; the list holds warnings.

    ``flags`` has the keys engine, profile, progress, home, data_dir and download, as
    text, None where not given. ConfigError carries all problems at once.
    """
    raise NotImplementedError


def policy(files: Sequence[Path]) -> tuple[Policy, list[Problem]]:
    """Read the ceilings; a file that is absent sets none, the lowest value counts."""
    raise NotImplementedError


def over(limits: Limits, profile: Profile, policy: Policy) -> list[Problem]:
    """Say what goes over a ceiling, naming ceiling and file; for NotAllowedError."""
    raise NotImplementedError

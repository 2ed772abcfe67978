"""Remove old runs and data files before a new run."""

from __future__ import annotations

from runner.store import prune
from runner.store.retention import Retention
from runner.store.settings import Settings


def tidy(settings: Settings, spare: str = "") -> list[str]:
    """Remove old runs as the settings say, at most once a day; return what to tell.

    ``spare`` is a run that is needed, and stays.

    Raises:
        ConfigError: the home folder cannot be made, or its disk is full.
    """
    keep = Retention(settings.keep_for, settings.keep_size, settings.keep_size)
    return prune.by_policy(settings.home, keep, spare=spare)

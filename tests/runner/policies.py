"""Policies for tests: files that only the tests' user may change."""

from __future__ import annotations

import os
from pathlib import Path

from runner.core.policy import Policy
from runner.store import policy

ME = os.getuid()


def written(folder: Path, text: str) -> Path:
    """Write a policy in a folder of its own, as a site's is."""
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    file = folder / "policy.yml"
    file.write_text(text)
    file.chmod(0o644)
    return file


def read(folder: Path, text: str) -> Policy:
    """Write a policy and read it."""
    return policy.read(written(folder, text), ME)

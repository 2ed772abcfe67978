"""Repositories for jobs to check out."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WHO = ("-c", "user.name=me", "-c", "user.email=me@localhost", "-c", "gc.auto=0")


def commit(folder: Path, files: Mapping[str, str]) -> str:
    """Write files and commit all of a folder; return the commit's id.

    The folder is made a repository with the branch `main`, if it is none yet.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    if not (folder / ".git").exists():
        git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "add", "--all", "--force")
    options = ("--quiet", "--no-verify", "--allow-empty", "--message=Change it")
    git(folder, *WHO, "commit", *options)
    return git(folder, "rev-parse", "HEAD")


def snapshot(folder: Path) -> str:
    """Commit the files of this checkout, as they are now, to a repository."""
    listed = git(ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    if (folder / ".git").exists():
        git(folder, "rm", "--quiet", "-r", ".")
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return commit(folder, {})


def earlier(folder: Path, revision: str) -> str:
    """Commit the files that this checkout had at a revision to a new repository."""
    folder.mkdir(parents=True)
    packed = folder.with_suffix(".tar")
    git(ROOT, "archive", f"--output={packed}", revision)
    subprocess.run(["tar", "--extract", "--file", packed], cwd=folder, check=True)
    return commit(folder, {})


def git(folder: Path, *words: str) -> str:
    """Run git in a folder; return what it prints."""
    env = {n: v for n, v in os.environ.items() if not n.startswith("GIT_")}
    done = subprocess.run(
        ["git", *words],
        cwd=folder,
        env=env,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return done.stdout.strip()

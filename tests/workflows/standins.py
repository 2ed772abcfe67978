"""Stand-ins for the actions of others that our workflows use; each checks its inputs.

The names of the inputs are those of the pinned versions.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.workflows.machine import Machine
from tests.workflows.refused import RefusedError

PIN = re.compile(r"[0-9a-f]{40}")
COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
NOT_IN_NAMES = re.compile(r'[":<>|*?\r\n\\/]')


def checkout(machine: Machine, given: Mapping[str, Any]) -> dict[str, str]:
    """Fetch the repository into the workspace, as deep as asked; detach its HEAD."""
    _only(given, "ref", "fetch-depth", "persist-credentials")
    ref = given.get("ref") or machine.github["sha"]
    if not COMMIT.fullmatch(ref):
        raise RefusedError(f"checkout of something else than a commit: {ref}")
    depth = int(given.get("fetch-depth", 1))
    source = machine.repository.resolve().as_uri()
    _git(machine, "init", "--quiet", "--initial-branch=none")
    _git(machine, "remote", "add", "origin", source)
    if depth:
        _git(machine, "fetch", "--quiet", f"--depth={depth}", "origin", ref)
    else:
        heads = "+refs/heads/*:refs/remotes/origin/*"
        _git(machine, "fetch", "--quiet", "origin", heads, "+refs/tags/*:refs/tags/*")
        _git(machine, "fetch", "--quiet", "origin", ref)
    _git(machine, "checkout", "--quiet", "--detach", ref)
    return {"commit": ref}


def setup_python(machine: Machine, given: Mapping[str, Any]) -> dict[str, str]:
    """Put the Python that runs this, whatever its version, on the PATH."""
    _only(given, "python-version", "cache", "cache-dependency-path")
    version = given.get("python-version")
    if not isinstance(version, str) or not re.fullmatch(r"3\.\d+", version):
        raise RefusedError(f"python-version is no quoted 3.N: {version!r}")
    folder = machine.root / "tools" / "bin"
    folder.mkdir(parents=True, exist_ok=True)
    real = getattr(sys, "_base_executable", sys.executable)
    for name in ("python", "python3"):
        program = folder / name
        program.write_text(f'#!/bin/sh\nexec {real} "$@"\n')
        program.chmod(0o755)
    machine.paths.append(str(folder))
    return {"python-version": version}


def upload_artifact(machine: Machine, given: Mapping[str, Any]) -> dict[str, str]:
    """Copy files into the folder of an artifact, without hidden ones.

    They lie there below the deepest folder that all named paths share.
    """
    _only(given, "name", "path", "if-no-files-found", "retention-days")
    name = given.get("name", "artifact")
    if not name or NOT_IN_NAMES.search(name):
        raise RefusedError(f"not a name of an artifact: {name!r}")
    target = machine.artifacts / name
    if target.exists():
        raise RefusedError(f"a second artifact of the name {name}")
    if int(given.get("retention-days", 1)) not in range(91):
        raise RefusedError(f"retention-days: {given['retention-days']}")
    files = [file for line in given["path"].splitlines() for file in _found(line)]
    if not files and given.get("if-no-files-found", "warn") == "error":
        raise RefusedError(f"no file to upload: {given['path']}")
    folders = [line.strip() for line in given["path"].splitlines() if line.strip()]
    top = Path(os.path.commonpath(folders))
    for file in files:
        place = target / file.relative_to(top.parent if top.is_file() else top)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, place)
    return {"artifact-id": "1"}


STANDINS: dict[str, Callable[[Machine, Mapping[str, Any]], dict[str, str]]] = {
    "actions/checkout": checkout,
    "actions/setup-python": setup_python,
    "actions/upload-artifact": upload_artifact,
}


def _found(line: str) -> list[Path]:
    if not (line := line.strip()):
        return []
    if re.search(r"[*?\[!]", line):
        raise RefusedError(f"a pattern of files: {line}")
    top = Path(line)
    if not top.is_absolute():
        raise RefusedError(f"not an absolute path: {line}")
    if top.is_file():
        return [top]
    inside = [(file, file.relative_to(top).parts) for file in top.rglob("*")]
    return [
        file
        for file, names in inside
        if file.is_file() and not any(name.startswith(".") for name in names)
    ]


def _only(given: Mapping[str, Any], *names: str) -> None:
    if unknown := set(given) - set(names):
        raise RefusedError(f"unknown inputs: {', '.join(sorted(unknown))}")


def _git(machine: Machine, *words: str) -> None:
    done = subprocess.run(
        ["git", *words],
        cwd=machine.workspace,
        env=machine.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RefusedError(f"git {' '.join(words)}: {done.stderr}")

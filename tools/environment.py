"""Make a virtual environment with this checkout in it; `make` calls it.

    python tools/environment.py VENV [EXTRA ...]

It needs Python's standard library alone, and ends as `python -m venv VENV` and
`VENV/bin/pip install -e '.[EXTRA,...]'` do. What `make run` needs it installs sooner:
by uv, if that is on the PATH, else by two pips at once, from the wheel that Python
brings. If that fails, all is done again in the usual way, and pip says what is wrong.
"""

from __future__ import annotations

import ensurepip
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
import venv
import zipfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
QUIET = ("-qq", "--disable-pip-version-check")
QUICK = (*QUIET, "--no-compile", "--no-warn-conflicts")
FOR_RUNS = "project"
"""The extra of `make run`."""

SELDOM_LOADED = "/(tests|pygments|pip|setuptools|f2py)/"
"""Folders that are not compiled before a module of theirs is loaded."""

Command = Sequence[str | Path]


def main(folder: Path, extras: Sequence[str]) -> int:
    """Install the checkout with these extras; return an exit code."""
    python = folder / "bin" / "python"
    wanted = f"{ROOT}[{','.join(extras)}]" if extras else str(ROOT)
    if not _runs([python, "-m", "pip", "--version"], quiet=True):
        clear(folder)
        if _by_uv(folder, python, wanted):
            return 0
        if list(extras) == [FOR_RUNS] and _at_once(folder, python):
            return 0
        clear(folder)
        if not _runs([sys.executable, "-m", "venv", folder]):
            text = "Python's venv is missing; on Debian: apt-get install python3-venv"
            print(text, file=sys.stderr)
            return 2
    install: Command = [python, "-m", "pip", "install", *QUIET, "-e", wanted]
    return 0 if _runs(install) and _compiled(python) else 1


def clear(folder: Path) -> None:
    """Remove an unfinished environment; a folder that is none stays as it is."""
    if (folder / "pyvenv.cfg").is_file():
        shutil.rmtree(folder, ignore_errors=True)


def _by_uv(folder: Path, python: Path, wanted: str) -> bool:
    """Install by uv; return whether it is here and did it."""
    if shutil.which("uv") is None:
        return False
    make: Command = [
        "uv",
        "venv",
        "--quiet",
        "--seed",
        "--python",
        sys.executable,
        folder,
    ]
    install: Command = [
        "uv",
        "pip",
        "install",
        "--quiet",
        "--python",
        python,
        "-e",
        wanted,
    ]
    return _runs(make) and _runs(install) and _compiled(python, folder / "lib")


def _at_once(folder: Path, python: Path) -> bool:
    """Install what runs need by two pips at the same time; return whether it went."""
    bundled = _bundled_pip()
    if bundled is None:
        return False
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    beside = project["optional-dependencies"][FOR_RUNS]
    venv.create(folder, symlinks=True)
    with tempfile.TemporaryDirectory() as unpacked:
        with zipfile.ZipFile(bundled) as wheel:
            wheel.extractall(unpacked)
        pip: Command = [python, f"{unpacked}/pip", "install", *QUICK]
        alone = ("--no-deps", "--ignore-installed")  # NumPy and pip need nothing
        commands: list[Command] = [
            [*pip, *alone, bundled, *beside, "-e", ROOT],
            [*pip, *project["dependencies"]],
        ]
        with ThreadPoolExecutor(len(commands)) as pool:
            done = all(pool.map(lambda command: _runs(command, quiet=True), commands))
        return done and _compiled(python, folder / "lib")


def _bundled_pip() -> Path | None:
    """Return the wheel of pip that Python, or its distribution, brings."""
    folders = [Path(ensurepip.__file__).parent / "_bundled"]
    if apart := sysconfig.get_config_var("WHEEL_PKG_DIR"):
        folders.append(Path(apart))
    found = (wheel for folder in folders for wheel in folder.glob("pip-*.whl"))
    return next(found, None)


def _compiled(python: Path, *packages: Path) -> bool:
    """Compile rai, and packages; sandboxes, where these are read-only, keep nothing."""
    words = ("-m", "compileall", "-q", "-j", "0", "-x", SELDOM_LOADED)
    return _runs([python, *words, ROOT / "runner", *packages])


def _runs(command: Command, quiet: bool = False) -> bool:
    """Run a program; return whether it succeeded."""
    output = subprocess.DEVNULL if quiet else None
    environ = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    try:
        return not subprocess.run(
            command, stdout=output, stderr=output, env=environ, check=False
        ).returncode
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))

"""`rai server units`."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from runner.cli import common
from runner.core import Problem
from runner.core.errors import UsageError
from runner.system import files
from runner.terminal.streams import put, say

HOMES = ("/home/", "/root/", "/run/user/")
"""What ProtectHome=yes hides (systemd.exec(5))."""

SYSUSERS = Path("/etc/sysusers.d")


def units(
    directory: Annotated[
        Path | None,
        typer.Option(
            "--dir", metavar="DIR", help="Write them there, as /etc/systemd/system."
        ),
    ] = None,
    listen: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="As for `serve`.")
    ] = None,
    tls: Annotated[
        str | None, typer.Option(metavar="self|CERT,KEY", help="As for `serve`.")
    ] = None,
    url: Annotated[str | None, typer.Option(help="As for `serve`.")] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace files that differ.")
    ] = False,
) -> None:
    """Print systemd units: the server and its workers, each as a user of its own.

    Runs may use the Docker Engine if it is here.
    """
    from runner.server import systemd

    given = {"--listen": listen, "--tls": tls, "--url": url}
    options = [word for name, value in given.items() if value for word in (name, value)]
    docker = shutil.which("dockerd") is not None
    program = _program()
    if program.startswith(HOMES):
        text = f"the units' users cannot reach {program}"
        hint = "install rai in /opt, and run `units` of that one"
        common.warn_of(text, hint)
    made = systemd.unit_files(program, sys.executable, options, docker=docker)
    if directory is None:
        for name, text in made.items():
            where = SYSUSERS / name if name == systemd.USERS else name
            put(f"# {where}\n{text}\n")
        return
    _write(directory, made, force=force)
    say(f"Wrote {', '.join(made)} to {directory}. Next, as root:")
    say(f"    systemd-sysusers {directory / systemd.USERS}")
    say("    systemctl daemon-reload")
    say(f"    systemctl enable --now {systemd.SOCKET_UNIT} {systemd.SERVER_UNIT}")


def _program() -> str:
    """Return the path of the `rai` that runs now."""
    beside = Path(sys.executable).with_name("rai")
    return str(beside if beside.exists() else Path(sys.argv[0]).absolute())


def _write(directory: Path, made: dict[str, str], *, force: bool) -> None:
    differ = [
        name
        for name, text in made.items()
        if (path := directory / name).exists() and path.read_text() != text
    ]
    if differ and not force:
        text = f"{directory} has another {' and '.join(differ)}"
        raise UsageError(Problem(text, hint="compare them, then add --force"))
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in made.items():
        files.write(directory / name, text.encode())

"""Start a server: `rai server serve`, `units`."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from runner.cli import common
from runner.cli.server import opening
from runner.core import Problem
from runner.core.errors import UsageError
from runner.system import files
from runner.terminal.streams import put, say


def serve(
    state: opening.State = None,
    socket: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="The Unix socket to listen at."
            "  [default: /run/rai/server.sock for root]",
        ),
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Listen for other machines too."),
    ] = None,
    tls: Annotated[
        str,
        typer.Option(
            metavar="self|CERT,KEY",
            help="A certificate of the server's own, which `rai login` pins, or yours.",
        ),
    ] = "",
    slots: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=0, max=1024, help="Runs without a GPU at a time."
        ),
    ] = None,
    url: Annotated[
        str,
        typer.Option(
            metavar="URL",
            envvar="RAI_PUBLIC_URL",
            help="What people reach it by, as behind a proxy.",
        ),
    ] = "",
    place: Annotated[
        str,
        typer.Option(
            metavar="slurm[:PARTITION]",
            help="Have Slurm run things; its nodes share the home of the runs.",
        ),
    ] = "",
    home: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Where the runs are kept.  [default: home in the server's folder]",
        ),
    ] = None,
    workers: Annotated[
        Path | None,
        typer.Option(
            metavar="SOCKET",
            help="Have systemd start each worker, as another user (`units`).",
        ),
    ] = None,
) -> None:
    """Serve this machine to other people, until it is told to stop.

    The first start makes the server's folder, with server.yml in it. RAI_DATABASE_URL
    names a PostgreSQL database in place of a file there.
    """
    from runner.server import listening, site

    options = site.ServeOptions(
        state=state,
        socket=socket,
        home=home,
        workers=workers,
        listen=listening.parse(listen) if listen else None,
        tls=tls,
        url=url,
        slots=slots,
        place=opening.target(place),
        environ=dict(os.environ),
    )
    if os.geteuid() == 0:
        text = "the server and the runs' sandboxes are root's"
        hint = "`rai server units` makes them users of their own"
        common.warn_of(text, hint)
    site.serve(options, lambda line: say(line, to_stderr=True))


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

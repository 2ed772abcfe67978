"""`rai server jobs`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer


def jobs(
    socket: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="The Unix socket to listen at."
            "  [default: /run/rai/jobs.sock for root]",
        ),
    ] = None,
    home: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Where the runs are kept. [env var: RAI_HOME]"
        ),
    ] = None,
    peer: Annotated[
        list[str] | None,
        typer.Option(
            metavar="USER", help="A user who may ask, beside this one; repeatable."
        ),
    ] = None,
    place: Annotated[
        str,
        typer.Option(
            metavar="slurm[:PARTITION]",
            help="Have Slurm carry the runs out, whose nodes share --home.",
        ),
    ] = "",
    log: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Append what it says to a file."),
    ] = None,
) -> None:
    """Carry out the runs of a server, on this machine or by Slurm.

    `rai server serve` starts one where none answers. It has no secret of the server.
    """
    from runner.cli import common
    from runner.cli.server import opening
    from runner.jobhost.service import serve_jobs
    from runner.server import paths

    if log:
        _append(log)
    at = paths.jobs_socket(
        socket,
        socket or paths.socket(None, paths.state(None, os.environ), os.environ),
    )
    users = {0, os.geteuid(), *map(_uid, peer or ())}
    folder = home or common.settings().home
    target = opening.target(place)
    serve_jobs(at, folder, users=frozenset(users), target=target)


def _append(log: Path) -> None:
    """Send what this process writes to the end of a file."""
    from runner import files

    with files.appended(log) as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)


def _uid(name: str) -> int:
    import pwd

    from runner.core.errors import UsageError

    try:
        return int(name) if name.isdecimal() else pwd.getpwnam(name).pw_uid
    except KeyError:
        raise UsageError(f"--peer {name}: there is no such user") from None

"""`rai server serve`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from runner.cli import common
from runner.cli.server import opening
from runner.terminal.streams import say


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

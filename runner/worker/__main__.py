"""Run one detached run on this machine: `python -m runner.worker`.

The worker reads on stdin which folder to take, and claims it. Once it reads that the
project is sealed there, it runs it. Where the client leaves before, there is nothing to
run, and the folder goes.

With `--for-server` it reads one line of a server: the id of a run, whose folder in its
own home has the order, or `facts`, to say what this machine can run. By systemd stdin
is a socket of the server's; nothing but the id is taken from it.
"""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from pathlib import Path

from msgspec import json
from msgspec.structs import replace

from runner import engines
from runner.core import Problem
from runner.core import events as ev
from runner.core.cancel import Cancel
from runner.core.errors import ConfigError, NotAllowedError, RaiError
from runner.core.order import (
    FACTS,
    FOR_SERVER,
    LONGEST_ASKED,
    MOST_BYTES,
    MOST_PROBLEMS,
    SEALED,
    Answer,
    Order,
    from_line,
    to_line,
)
from runner.core.policy import RolePolicy
from runner.store import removal, runs, settings
from runner.store.claim import Claim, ClaimedError
from runner.store.home import make
from runner.store.paths import Home, RunPaths
from runner.worker import cancel_on_signals, order_of, refuse, resume

ENGINE = "RAI_ENGINE"
HOME = "RAI_HOME"
ENGINES = ("auto", "docker", "local")
THIS_SERVER = RolePolicy(source="this server")
MAY_SHARE = 0o007
"""The umask in a home that a server and its workers share by their group."""

USUAL = 0o022
"""That of others: a server's own would keep root's sandboxes from their user."""


def main() -> int:
    """Take one order; return 0 if it was run, however the run ended."""
    if FOR_SERVER in sys.argv[1:]:
        return _serve(
            sys.stdin.buffer.readline(LONGEST_ASKED).decode("ascii", "replace")
        )
    line = sys.stdin.buffer.readline(MOST_BYTES)
    if not line:
        return 0
    order = from_line(line)
    os.environ |= order.settings
    return _take(RunPaths(Path(order.folder)), order)


def _serve(line: str) -> int:
    """Do what a server asks for."""
    client, word = _Client(), line.rstrip("\n")
    try:
        home = _shared_home()
        if word == FACTS:
            from runner.worker.survey import survey

            # What the server may not delete of runs that were killed is this user's.
            removal.empty(home.runs)
            client.send(json.encode(survey(home.root)) + b"\n")
            return 0
        if not re.fullmatch(runs.ID, word):
            raise ConfigError(f"{word[:100]!r} is neither `{FACTS}` nor a run's id")
    except RaiError as error:
        client.tell(Answer(error.problems[:MOST_PROBLEMS], error.reason))
        return error.reason.exit_code
    return _take(home.run(word), None, client)


def _shared_home() -> Home:
    """Return this user's home for runs; what is made there is for its group too."""
    found, _ = settings.load(os.environ, settings.settings_files(), {})
    home = make(found.home)
    home.runs.mkdir(mode=0o700, exist_ok=True)
    os.umask(MAY_SHARE if removal.is_shared(home.runs) else USUAL)
    return home


def _take(paths: RunPaths, order: Order | None, client: _Client | None = None) -> int:
    """Claim a run and run it; without an order its folder has one, of a server."""
    cancel = Cancel()
    cancel_on_signals(cancel)
    try:
        claim = Claim(paths)
    except (ClaimedError, FileNotFoundError):
        # Another worker was first, and nothing runs twice; or the client gave up.
        return 0
    client = client or _Client()
    with claim, paths.worker_log.open("ab") as log:
        for stream in (1, 2):
            os.dup2(log.fileno(), stream)
        try:
            if order is None:
                order = _of_server(order_of(paths))
            elif sys.stdin.buffer.readline(MOST_BYTES) != SEALED:
                removal.discard(paths.root.parent, paths.id)
                removal.empty(paths.root.parent)
                return 0
            chosen = order.engines
            choice = engines.chosen(chosen, order.why) if chosen else None
            run = resume(paths, claim, order, choice)
            for event in run.events(cancel):
                client.follow(event)
        except RaiError as error:
            print(error, file=sys.stderr)
            if not client.tell(Answer(error.problems[:MOST_PROBLEMS], error.reason)):
                refuse(paths, error)  # the server was killed: the next one reads it
            return error.reason.exit_code
    return 0


def _of_server(order: Order) -> Order:
    """Return an order with no more rights than a server's has.

    Only the engine is the server's wish: all other settings are this machine's, and
    what a client sent is confined even where the server does not say so.

    Raises:
        NotAllowedError: it asks for an engine that does not confine.
    """
    engine = order.settings.get(ENGINE, os.environ.get(ENGINE, "auto"))
    if engine not in ENGINES:
        text = f"a server runs nothing with the engine {engine[:100]!r}"
        raise NotAllowedError(Problem(text, hint=f"it has {', '.join(ENGINES)}"))
    os.environ[ENGINE] = engine
    return replace(order, engines=(), allowed=order.allowed or THIS_SERVER)


class _Client:
    """The client, which waits for one answer at this process's first stdout."""

    def __init__(self) -> None:
        self._pipe = os.dup(1)

    def follow(self, event: ev.Event) -> None:
        """Answer that the run was taken once nothing refused it, or that it ended."""
        if isinstance(event, ev.Packing):
            self.tell(Answer())
        elif isinstance(event, ev.Finished):
            self.tell(Answer(ended=True))

    def tell(self, answer: Answer) -> bool:
        """Write the answer, unless there was one; return if somebody still reads."""
        return self.send(to_line(answer))

    def send(self, line: bytes) -> bool:
        """Write a line as the one answer."""
        if self._pipe < 0:
            return True
        pipe, self._pipe = self._pipe, -1
        with suppress(OSError), os.fdopen(pipe, "wb") as file:
            file.write(line)
            file.flush()
            return True
        return False


if __name__ == "__main__":
    sys.exit(main())

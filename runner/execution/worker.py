"""Run one detached run on this machine: `python -m runner.execution.worker`.

What it shares with the worker of a cluster's node stands here too.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType

from msgspec import json
from msgspec.structs import replace

from runner import __version__, engines
from runner.core import BuildSpec, Gpu, GpuSituation, Problem, RunRequest, State, record
from runner.core import events as ev
from runner.core.errors import Cancel, ConfigError, NotAllowedError, RaiError
from runner.core.policy import RolePolicy
from runner.core.request import (
    FACTS,
    FOR_SERVER,
    LONGEST_ASKED,
    MOST_BYTES,
    MOST_PROBLEMS,
    Answer,
    from_json,
    to_json,
)
from runner.core.wire import Capacity, ServerGpu
from runner.engines.gpu import watch
from runner.execution import session, verdicts
from runner.store import removal, run_files, runs, settings
from runner.store.claim import Claim, ClaimedError
from runner.store.home import make
from runner.store.paths import Home, RunPaths
from runner.system import files, machine

ENGINE = "RAI_ENGINE"
ENGINES = ("auto", "docker", "local")
THIS_SERVER = RolePolicy(source="this server")

MAY_SHARE = 0o007
"""The umask in a home that a server and its workers share by their group."""

USUAL = 0o022
"""That of others: a server's own would keep root's sandboxes from their user."""


def main() -> int:
    """Take one run; return 0 if it was run, however the run ended."""
    if FOR_SERVER in sys.argv[1:]:
        return _serve(
            sys.stdin.buffer.readline(LONGEST_ASKED).decode("ascii", "replace")
        )
    line = sys.stdin.buffer.readline(MOST_BYTES)
    return _take(RunPaths(Path(json.decode(line, type=str))), _sealed) if line else 0


def _sealed(paths: RunPaths) -> RunRequest | None:
    """Return what a client on this machine asks for, None if it leaves before."""
    line = sys.stdin.buffer.readline(MOST_BYTES)
    if not line.endswith(b"\n"):
        removal.discard(paths.root.parent, paths.id)
        removal.empty(paths.root.parent)
        return None
    asked = from_json(line)
    os.environ |= asked.terms.settings
    return asked


def _serve(line: str) -> int:
    """Do what a server asks for."""
    client, word = _Client(), line.rstrip("\n")
    try:
        home = _shared_home()
        if word == FACTS:
            # What the server may not delete of runs that were killed is this user's.
            removal.empty(home.runs)
            client.send(json.encode(survey(home.root)))
            return 0
        if not re.fullmatch(runs.ID, word):
            raise ConfigError(f"{word[:100]!r} is neither `{FACTS}` nor a run's id")
    except RaiError as error:
        client.tell(Answer(error.problems[:MOST_PROBLEMS], error.reason))
        return error.reason.exit_code
    return _take(home.run(word), _of_server, client)


def _shared_home() -> Home:
    """Return this user's home for runs; what is made there is for its group too."""
    found, _ = settings.load(os.environ, settings.settings_files(), {})
    home = make(found.home)
    home.runs.mkdir(mode=0o700, exist_ok=True)
    os.umask(MAY_SHARE if removal.is_shared(home.runs) else USUAL)
    return home


def _take(
    paths: RunPaths,
    asked_of: Callable[[RunPaths], RunRequest | None],
    client: _Client | None = None,
) -> int:
    """Claim a run and run it, unless nothing is asked of it any more."""
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
            # Of a disk that is full once the run has begun, job.run says so.
            with files.disk_faults(paths.root):
                if (asked := asked_of(paths)) is None:
                    return 0
                for event in session.resume(paths, claim, asked).events(cancel):
                    client.follow(event)
        except RaiError as error:
            print(error, file=sys.stderr)
            if not client.tell(Answer(error.problems[:MOST_PROBLEMS], error.reason)):
                refuse(paths, error)  # the server was killed: the next one reads it
            return error.reason.exit_code
    return 0


def _of_server(paths: RunPaths) -> RunRequest:
    """Return what a server asks for, with no more rights than a server's client has.

    Only the engine is the server's wish: all other settings are this machine's, and
    what a client sent is confined even where the server does not say so.

    Raises:
        NotAllowedError: it asks for an engine that does not confine.
    """
    asked = order_of(paths)
    engine = asked.engine or os.environ.get(ENGINE, "auto")
    if engine not in ENGINES:
        text = f"a server runs nothing with the engine {engine[:100]!r}"
        raise NotAllowedError(Problem(text, hint=f"it has {', '.join(ENGINES)}"))
    os.environ[ENGINE] = engine
    allowed = asked.terms.allowed or THIS_SERVER
    return replace(asked, terms=replace(asked.terms, engines=(), allowed=allowed))


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
        return self.send(to_json(answer))

    def send(self, line: bytes) -> bool:
        """Write a line as the one answer."""
        if self._pipe < 0:
            return True
        pipe, self._pipe = self._pipe, -1
        with suppress(OSError), os.fdopen(pipe, "wb") as file:
            file.write(line + b"\n")
            file.flush()
            return True
        return False


def order_of(paths: RunPaths) -> RunRequest:
    """Return what is asked of a run by its folder's order, and remove that file.

    It may have secrets.

    Raises:
        RaiError: there is none that can be read.
    """
    try:
        asked = from_json(files.read_below(paths.root, paths.order.name, MOST_BYTES))
    except (OSError, ValueError) as error:
        text = f"the order of run {paths.id} cannot be read: {error}"
        raise RaiError(text) from error
    paths.order.unlink()
    return asked


def refuse(paths: RunPaths, error: RaiError) -> None:
    """Record a run that could not begin, where nobody waits for an answer."""
    begun = None if paths.events.exists() else run_files.begun_record(paths)
    if begun is None:
        return
    ended = record.end(begun, State.DONE, time.time(), verdicts.from_error(error))
    files.write_once(paths.record, record.to_json(ended))


def cancel_on_signals(cancel: Cancel, stop: Callable[[], None] | None = None) -> None:
    """Cancel at signals that end a process, but for a terminal's end.

    ``stop`` is called at each in place of that.
    """

    def signalled(number: int, frame: FrameType | None) -> None:
        (stop or cancel.request)()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT):
        signal.signal(number, signalled)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def survey(home: Path) -> Capacity:
    """Look at every engine that confines, and at the disk of the runs' home."""
    serving: list[str] = []
    problems: list[Problem] = []
    situations: list[GpuSituation] = []
    unenforced: list[str] = []
    for name in engines.TABLE:
        if name == engines.UNCONFINED:
            continue
        engine = engines.make(name)
        try:
            found = engine.check(BuildSpec("rai_build.yml"))
            if not found:
                serving.append(name)
                situations.append(engine.gpus())
                if limits := engine.facts().unenforced:
                    unenforced.append(f"{name}: {', '.join(limits)}")
        except RaiError as error:
            found = list(error.problems)
        problems += [Problem(f"{name}: {p.message}", hint=p.hint) for p in found]
    here = machine.describe()
    serving.sort(key=lambda name: name != os.environ.get(ENGINE))
    return Capacity(
        __version__,
        tuple(serving),
        surveyed(watch.this_machine().gpus, situations),
        () if serving else tuple(problems),
        shutil.disk_usage(home).free,
        here.memory_bytes,
        here.cores,
        unenforced=tuple(unenforced),
    )


def surveyed(
    gpus: tuple[Gpu, ...], situations: list[GpuSituation]
) -> tuple[ServerGpu, ...]:
    """Return a machine's GPUs, from what the engines that serve say of them. Pure."""
    given = {
        gpu.uuid for one in situations if one.any for gpu in one.gpus or () if one.open
    }
    states = {s.uuid: s.problem for one in situations for s in one.states}
    why = next((one.problem for one in situations if one.problem), "")
    none = why or "no engine can give it to a run"
    return tuple(
        ServerGpu(
            gpu.uuid,
            gpu.name,
            states.get(gpu.uuid, "") if gpu.uuid in given else none,
            gpu.compute,
        )
        for gpu in gpus
    )


if __name__ == "__main__":
    sys.exit(main())

"""A server put together: its folder, store, job host, feeder, sockets and interface."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from runner import __version__, files
from runner.core import Problem
from runner.core.errors import BusyError, UsageError
from runner.database.store import open_store
from runner.jobhost.base import JobHost
from runner.jobhost.client import SocketHost
from runner.process.others import apart
from runner.server import (
    certificate,
    hosting,
    listening,
    locking,
    logs,
    paths,
    reached,
    rules,
    serving,
    uploadfiles,
)
from runner.server.app import make_app
from runner.server.base import Site
from runner.server.feeder import Feeder
from runner.server.listening import ListenAt
from runner.server.paths import ServerFolder
from runner.server.reached import ReachedAt
from runner.slurm import target
from runner.slurm.target import SlurmTarget
from runner.wire import addresses

SELF = "self"
FEEDER_ENDS_S = 5.0
SOCKET_MODE = 0o666
"""Every user of the machine may ask; tokens decide."""


class ServeOptions(Struct, frozen=True):
    """How a server is asked to serve; ``tls`` is "self" or "CERTIFICATE,KEY".

    ``url`` is what people reach it by, where that is not what it listens at. With a
    ``place`` Slurm carries the runs out; server.yml may name it too.
    """

    state: Path | None = None
    socket: Path | None = None
    jobs: Path | None = None
    listen: ListenAt | None = None
    tls: str = ""
    url: str = ""
    slots: int | None = None
    place: SlurmTarget | None = None
    environ: Mapping[str, str] = field(default_factory=dict)


def serve(options: ServeOptions, say: Callable[[str], None]) -> None:
    """Serve until the process is told to stop; ``say`` shows people what to do next.

    Raises:
        UsageError: it cannot be served so.
        BusyError: another server serves the folder or listens there.
        ConfigError: server.yml or the certificate is wrong.
    """
    _check(options)
    folder = paths.state(options.state, options.environ)
    socket = paths.socket(options.socket, folder, options.environ)
    paths.refuse_shown(folder.root, socket, paths.jobs_socket(options.jobs, socket))
    # What is made is for this user, but for the socket.
    os.umask(0o077)
    _make(folder)
    with ExitStack() as opened:
        opened.enter_context(locking.locked(folder))
        known = rules.read(folder.rules)
        if options.slots is not None:
            known = replace(known, slots=options.slots)
        tls = _tls(options, folder)
        listeners = _listeners(options, socket, tls, opened)
        at = _reached(options, socket, listeners[-1])
        database = reached.database_url(folder, options.environ)
        # What an empty store needs to be made is not kept in memory.
        apart(lambda: open_store(database).close())
        uploadfiles.forget_arriving(folder.uploads)
        store = open_store(database)
        opened.callback(store.close)
        place = options.place or target.parse(known.place)
        made = hosting.start(Path(at.jobs), folder.jobs, options.environ, place)
        host = SocketHost(Path(at.jobs))
        if place and not made:
            _check_place(host, at.jobs, place)
        logs.to_stream()
        feeder = Feeder(store, host, known, folder.uploads, logs.step)
        app = make_app(
            Site(
                store,
                host,
                known,
                folder.uploads,
                wake=feeder.wake,
                decision=lambda: feeder.decision,
            )
        )
        opened.enter_context(_fed(feeder))

        def ready() -> None:
            reached.write(folder, at)
            for line in greeting(at, folder, started_host=made):
                say(line)
            logs.step("serving", url=at.url, socket=at.socket, version=__version__)

        def stopping() -> None:
            logs.step("stopping")
            app.state.end_streams()

        serving.serve(app, listeners, ready=ready, stopping=stopping)
        logs.step("stopped")


def greeting(at: ReachedAt, folder: ServerFolder, *, started_host: bool) -> list[str]:
    """Return what whoever started a server needs next."""
    lines = [f"Serving at {at.url}"]
    if at.url != (here := f"unix://{at.socket}") and reached.openable(Path(at.socket)):
        lines.append(f"On this machine also at {here}")
    if at.fingerprint:
        lines.append(f"Fingerprint: {at.fingerprint}")
    store = "RAI_DATABASE_URL" if at.elsewhere else str(folder.database)
    host = "started" if started_host else "found"
    lines.append(f"Store: {store}; rules: {folder.rules}; job host {host} at {at.jobs}")
    own = "" if folder == paths.state(None, {}) else f" --state {folder.root}"
    lines.append(f"Next: rai server invite teams.csv{own}")
    then = f"Then each person: rai login {at.url}"
    return [*lines, then if at.for_others else reached.CLOSED]


def _check(options: ServeOptions) -> None:
    """Refuse what would send tokens over a network as they are, and contradictions."""
    at = options.listen
    if options.tls and at is None:
        raise UsageError("--tls is for --listen; a Unix socket needs none")
    if at and not at.loopback and not options.tls:
        text = f"plain HTTP at {at} would show tokens and projects to the network"
        hint = (
            "add --tls self, or --tls CERT,KEY; behind a proxy that has a certificate,"
            " listen at 127.0.0.1 and name its address by --url"
        )
        raise UsageError(Problem(text, hint=hint))
    if options.url:
        try:
            addresses.normal(options.url)
        except ValueError as error:
            raise UsageError(f"--url {options.url}: {error}") from error


def _check_place(host: JobHost, socket: str, place: SlurmTarget) -> None:
    """Refuse a job host that was started before and carries runs out elsewhere."""
    found = host.facts().engines
    if str(place) not in found:
        text = f"the job host at {socket} runs things by {' and '.join(found)}"
        hint = f"end its process first, which ends no run: `fuser -k -TERM {socket}`"
        raise BusyError(Problem(f"{text}, not by {place}", hint=hint), advice="")


def _make(folder: ServerFolder) -> None:
    """Make the folder of a server and its settings, unless they are there."""
    try:
        folder.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.root.chmod(0o700)
        folder.uploads.mkdir(mode=0o700, exist_ok=True)
        if not folder.rules.exists():
            files.write(folder.rules, rules.template().encode())
    except OSError as error:
        problem = files.problem(error)
        hint = problem.hint or "name a folder of your own by --state"
        raise UsageError(replace(problem, hint=hint)) from error


@contextmanager
def _fed(feeder: Feeder) -> Iterator[None]:
    """Let the feeder work in a thread of its own meanwhile."""
    stop = threading.Event()
    thread = threading.Thread(target=feeder.run, args=[stop], name="feeder")
    thread.daemon = True  # a job host that hangs does not keep the server from ending
    thread.start()
    try:
        yield
    finally:
        stop.set()
        feeder.wake()
        thread.join(FEEDER_ENDS_S)


def _tls(options: ServeOptions, folder: ServerFolder) -> tuple[Path, Path] | None:
    """Return the certificate and key to serve with; make the server's own once."""
    if not options.tls or options.listen is None:
        return None
    if options.tls != SELF:
        given, comma, key = options.tls.partition(",")
        if not comma or not given or not key:
            raise UsageError(f"--tls {options.tls}: expected `self` or CERT,KEY")
        files_given = (Path(given).absolute(), Path(key).absolute())
        certificate.check(*files_given)
        return files_given
    if not folder.certificate.exists():
        url = addresses.normal(options.url) if options.url else ""
        public = addresses.host_and_port(url)[0] if url else ""
        names = listening.names(options.listen, public)
        if not apart(lambda: _certify(folder, names)):
            _certify(folder, names)  # raises what is wrong
    certificate.check(folder.certificate, folder.key)
    return folder.certificate, folder.key


def _certify(folder: ServerFolder, names: Sequence[str]) -> None:
    from runner.server import certifying

    certifying.make(folder.certificate, folder.key, names)


def _reached(options: ServeOptions, socket: Path, last: serving.Listener) -> ReachedAt:
    """Return how the server is reached; ``last`` is what it listens at for others."""
    url = f"unix://{socket}"
    if at := options.listen:
        # Port 0 is whichever is free.
        port = last.bound.getsockname()[1]
        where = ListenAt(listening.public_host(at), port)
        url = f"{'https' if last.tls else 'http'}://{where}"
    file = last.tls[0] if last.tls else None
    return ReachedAt(
        addresses.normal(options.url or url),
        socket=str(socket),
        jobs=str(paths.jobs_socket(options.jobs, socket)),
        fingerprint=certificate.fingerprint(file)
        if file and options.tls == SELF
        else "",
        elsewhere=bool(options.environ.get(paths.DATABASE_VARIABLE, "").strip()),
        certificate=str(file or ""),
    )


def _listeners(
    options: ServeOptions,
    socket: Path,
    tls: tuple[Path, Path] | None,
    opened: ExitStack,
) -> list[serving.Listener]:
    """Bind the Unix socket, and what other machines reach, if that is asked for."""
    found = [serving.Listener(listening.unix(socket, SOCKET_MODE))]
    opened.callback(socket.unlink, missing_ok=True)
    opened.callback(found[0].bound.close)
    if options.listen:
        bound = listening.tcp(options.listen)
        opened.callback(bound.close)
        found.append(serving.Listener(bound, tls))
    return found

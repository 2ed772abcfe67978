"""A server put together: its folder, store, runs, feeder, sockets and interface."""

from __future__ import annotations

import fcntl
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

from msgspec import Struct, field, json
from msgspec.structs import replace

from runner import __version__
from runner.core import Problem, addresses
from runner.core.addresses import SlurmTarget
from runner.core.errors import BusyError, UsageError
from runner.execution import places, slurm_programs
from runner.server import connections, listening, messages, paths, rules, workers
from runner.server.app import make_app
from runner.server.connections import Listener
from runner.server.database import open_store
from runner.server.feeder import Feeder
from runner.server.folders import ServerRuns
from runner.server.judging import Judging
from runner.server.listening import ListenAt
from runner.server.paths import CLOSED, ReachedAt, ServerFolder
from runner.server.references import References
from runner.server.requests import Site
from runner.server.workers import GpusOut
from runner.store import settings
from runner.store.paths import Home
from runner.store.settings import Settings
from runner.system import files
from runner.system.machine import apart

SELF = "self"
FEEDER_ENDS_S = 5.0
SOCKET_MODE = 0o666
"""Every user of the machine may ask; tokens decide."""


class ServeOptions(Struct, frozen=True):
    """How a server is asked to serve; ``tls`` is "self" or "CERTIFICATE,KEY".

    ``url`` is what people reach it by, where that is not what it listens at. With a
    ``place`` Slurm runs things; server.yml may name it too. ``workers`` is the socket
    at which systemd starts workers as another user, who shares the runs' ``home``.
    """

    state: Path | None = None
    socket: Path | None = None
    workers: Path | None = None
    home: Path | None = None
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
    options = _checked(options)
    folder = paths.state(options.state, options.environ)
    socket = paths.socket(options.socket, folder, options.environ)
    home = Home((options.home or folder.home).absolute())
    paths.refuse_shown(folder.root, socket, home.root)
    # What is made is for this user, but for the socket; and the folders of the runs are
    # for the workers' user too, in whose group's folder they lie.
    os.umask(0o007 if options.workers else 0o077)
    _make(folder)
    with ExitStack() as opened:
        opened.enter_context(_alone(folder))
        known = rules.read(folder.rules)
        if options.slots is not None:
            known = replace(known, slots=options.slots)
        listeners, at = _listening(options, folder, socket, home, opened)
        database = folder.database_url(options.environ)
        # What an empty store needs to be made is not kept in memory.
        apart(lambda: open_store(database).close())
        # What a server that was killed had received of uploads, in part.
        shutil.rmtree(paths.arriving_folder(folder.uploads), ignore_errors=True)
        store = open_store(database)
        opened.callback(store.close)
        place = options.place or addresses.slurm_target(known.place)
        found, _ = settings.load(options.environ, settings.settings_files(), {})
        executor = _executor(options, home, place, found)
        runs = ServerRuns(places.open_home(home.root), executor)
        messages.to_stream()
        own, given = found.milestones, (store, runs, folder.uploads)
        judging = Judging(*given, own)
        references = References(*given, own, GpusOut(home.root))
        feeder = Feeder(
            *(store, runs, known, folder.uploads),
            judging=judging,
            references=references,
        )
        site = Site(store, runs, known, folder.uploads, feeder.wake, milestones=own)
        site.decision = lambda: feeder.decision
        app = make_app(site)
        learn_types()
        opened.enter_context(_fed(feeder))

        def ready() -> None:
            files.write(folder.reached, json.encode(at) + b"\n")
            for line in greeting(at, folder):
                say(line)
            messages.step("serving", url=at.url, socket=at.socket, version=__version__)

        def stopping() -> None:
            messages.step("stopping")
            app.state.end_streams()

        connections.serve(app, listeners, ready=ready, stopping=stopping)
        messages.step("stopped")


def learn_types(above: type[Struct] = Struct) -> None:
    """Have msgspec look at every type of data once, before there are threads.

    It does so when it first reads a type, and two threads that do so at once for the
    same type may end the process by a segmentation fault.
    """
    for kind in above.__subclasses__():
        with suppress(TypeError, NameError):  # it is read nowhere
            json.Decoder(kind)
        learn_types(kind)


def greeting(at: ReachedAt, folder: ServerFolder) -> list[str]:
    """Return what whoever started a server needs next."""
    lines = [f"Serving at {at.url}"]
    if at.url != (here := f"unix://{at.socket}") and at.openable:
        lines.append(f"On this machine also at {here}")
    if at.fingerprint:
        lines.append(f"Fingerprint: {at.fingerprint}")
    store = "RAI_DATABASE_URL" if at.elsewhere else str(folder.database)
    lines.append(f"Store: {store}; rules: {folder.rules}; runs: {at.home}")
    own = "" if folder.root == paths.state(None, {}).root else f" --state {folder.root}"
    lines.append(f"Next: rai server invite teams.csv{own}")
    then = f"Then each person: rai login {at.url}"
    return [*lines, then if at.for_others else CLOSED]


def _checked(options: ServeOptions) -> ServeOptions:
    """Refuse what would send tokens over a network as they are, and contradictions.

    Return the options with the URL in its one spelling.
    """
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
    try:
        return replace(options, url=options.url and addresses.normal(options.url))
    except ValueError as error:
        raise UsageError(f"--url {options.url}: {error}") from error


def _executor(
    options: ServeOptions, home: Home, place: SlurmTarget | None, found: Settings
) -> workers.Executor:
    """Return what runs things; raise EngineError where Slurm's programs lack."""
    if place is not None:
        slurm_programs.check()
        return workers.SlurmCluster(home, place, found)
    started = workers.children(home, options.environ)
    if options.workers:
        started = partial(workers.SocketWorker, options.workers)
    return workers.ThisMachine(home, started)


@contextmanager
def _alone(folder: ServerFolder) -> Iterator[None]:
    """Hold a server's folder, which the kernel frees when this process ends.

    Raises:
        BusyError: a server serves it.
    """
    with folder.lock.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            text = f"a server serves {folder.root}"
            hint = "stop it first, or name another folder by --state"
            raise BusyError(Problem(text, hint=hint), advice="") from None
        yield


def _make(folder: ServerFolder) -> None:
    """Make the folder of a server and its settings, unless they are there."""
    try:
        folder.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.root.chmod(0o700)
        folder.uploads.mkdir(mode=0o700, exist_ok=True)
        if not folder.rules.exists():
            files.write(folder.rules, rules.TEMPLATE.read_bytes())
    except OSError as error:
        problem = files.problem(error)
        hint = problem.hint or "name a folder of your own by --state"
        raise UsageError(replace(problem, hint=hint)) from error


@contextmanager
def _fed(feeder: Feeder) -> Iterator[None]:
    """Let the feeder work in a thread of its own meanwhile."""
    stop = threading.Event()
    thread = threading.Thread(target=feeder.run, args=[stop], name="feeder")
    thread.daemon = True  # a disk that hangs does not keep the server from ending
    thread.start()
    try:
        yield
    finally:
        stop.set()
        feeder.hurry()
        thread.join(FEEDER_ENDS_S)


def _tls(options: ServeOptions, folder: ServerFolder) -> tuple[Path, Path] | None:
    """Return the certificate and key to serve with; make the server's own once."""
    if not options.tls or options.listen is None:
        return None
    found = folder.certificate, folder.key
    if options.tls != SELF:
        given, _, key = options.tls.partition(",")
        if not given or not key:
            raise UsageError(f"--tls {options.tls}: expected `self` or CERT,KEY")
        found = Path(given).absolute(), Path(key).absolute()
    elif not folder.certificate.exists():
        public = options.url and addresses.host_and_port(options.url)[0]
        make = partial(listening.make, *found, listening.names(options.listen, public))
        if not apart(make):
            make()  # raises what is wrong
    return found


def _listening(
    options: ServeOptions,
    folder: ServerFolder,
    socket: Path,
    home: Home,
    opened: ExitStack,
) -> tuple[list[Listener], ReachedAt]:
    """Bind the Unix socket, and what other machines reach, if that is asked for."""
    tls = _tls(options, folder)
    context = listening.loaded(*tls) if tls else None
    found, url = [Listener(listening.unix(socket, SOCKET_MODE))], f"unix://{socket}"
    opened.callback(socket.unlink, missing_ok=True)
    opened.callback(found[0].bound.close)
    if at := options.listen:
        bound = listening.tcp(at)
        opened.callback(bound.close)
        found.append(Listener(bound, context))
        # Port 0 is whichever is free.
        where = ListenAt(listening.public_host(at), bound.getsockname()[1])
        url = f"{'https' if tls else 'http'}://{where}"
    own = tls[0] if tls and options.tls == SELF else None
    return found, ReachedAt(
        options.url or addresses.normal(url),
        socket=str(socket),
        home=str(home.root),
        workers=str(options.workers or ""),
        fingerprint=listening.fingerprint(own) if own else "",
        elsewhere=bool(options.environ.get(paths.DATABASE_VARIABLE, "").strip()),
        certificate=str(tls[0]) if tls else "",
    )

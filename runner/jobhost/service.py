"""The host's process: listen at a Unix socket, and answer a request a connection."""

from __future__ import annotations

import fcntl
import logging
import os
import select
import signal
import socket as sockets
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from runner import places
from runner.core import Problem, Reason
from runner.core.errors import BusyError, ConfigError, RaiError
from runner.jobhost import channel
from runner.jobhost.carrier import Carrier
from runner.jobhost.desk import JobDesk, Reply
from runner.places.slurm import programs
from runner.slurm.target import SlurmTarget
from runner.store import settings
from runner.store.paths import Home
from runner.wire.host import MOST_LINE_BYTES, HostAnswer, request_from, to_line

CONNECTIONS = 64
"""How many are served at a time; others wait for their turn."""

WAITING = 128
ASKED_WITHIN_S = 10.0
TAKEN_WITHIN_S = 10.0
MOST_FILES = 2
LOCK = "jobhost.lock"
WORLD = 0o117
"""The umask of the socket: its user and group may use it."""

_LOG = logging.getLogger("rai.jobs")


def serve_jobs(
    socket: Path,
    home: Path,
    *,
    users: frozenset[int] | None = None,
    target: SlurmTarget | None = None,
) -> None:
    """Serve at a socket until SIGTERM or SIGINT; runs go on without the host.

    ``users`` are those who may ask, by their ids: without any this one and root. With
    a ``target`` runs are carried out by Slurm, which has to share the home folder.

    Raises:
        BusyError: another host serves this home folder, or listens at this socket.
        ConfigError: the home folder or the socket cannot be made.
        EngineError: Slurm's programs are not on this machine.
    """
    allowed = users or frozenset({0, os.geteuid()})
    opened = places.open_home(home)
    with _alone(home), _stopped() as stopped:
        desk = JobDesk(opened, carrier=_cluster(opened, target) if target else None)
        with _listening(socket) as listener:
            _serve(listener, stopped, desk, allowed)


def _cluster(home: Home, target: SlurmTarget) -> Carrier:
    from runner.jobhost.cluster import SlurmCluster  # which others need not load

    found, _ = settings.load(os.environ, settings.settings_files(), {})
    programs.check()
    return SlurmCluster(home, target, found)


def _serve(
    listener: sockets.socket, stopped: int, desk: JobDesk, users: frozenset[int]
) -> None:
    slots = threading.Semaphore(CONNECTIONS)
    watched = select.poll()
    watched.register(listener, select.POLLIN)
    watched.register(stopped, select.POLLIN)

    def attend(peer: sockets.socket) -> None:
        try:
            with peer:
                _attend(peer, desk, users)
        finally:
            slots.release()

    while all(handle != stopped for handle, _ in watched.poll()):
        while not slots.acquire(timeout=0.1):
            if select.select([stopped], [], [], 0)[0]:
                return
        try:
            peer, _ = listener.accept()
        except OSError:  # it left, or there are too many open files
            slots.release()
            continue
        threading.Thread(target=attend, args=[peer], daemon=True).start()


def _attend(peer: sockets.socket, desk: JobDesk, users: frozenset[int]) -> None:
    """Answer one request; a peer that is silent or leaves gets none."""
    given: list[int] = []
    reply = Reply(HostAnswer())
    try:
        if (user := channel.credentials(peer).uid) not in users:
            reply = _refused(Reason.NOT_ALLOWED, f"user {user} may not ask this host")
        else:
            line, given = channel.read(
                peer, MOST_LINE_BYTES, MOST_FILES, ASKED_WITHIN_S
            )
            reply = desk.reply(request_from(line), given)
    except RaiError as error:
        reply = Reply(HostAnswer(error.reason, error.problems))
    except ValueError as error:
        reply = _refused(Reason.USAGE, f"it is no request: {error}")
    except TimeoutError:
        return
    except Exception as error:
        _LOG.exception("a request failed")
        reply = _refused(Reason.INTERNAL, f"the job host failed: {error!r}"[:1000])
    finally:
        channel.close(given)
    file = [] if reply.file is None else [reply.file]
    try:
        with suppress(OSError):
            channel.write(peer, to_line(reply.answer), file, TAKEN_WITHIN_S)
    finally:
        channel.close(file)


def _refused(reason: Reason, text: str) -> Reply:
    return Reply(HostAnswer(reason, (Problem(text),)))


@contextmanager
def _alone(home: Path) -> Iterator[None]:
    """Hold the home folder's lock, which the kernel frees when this process dies."""
    handle = os.open(home / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            text = f"another job host serves {home}"
            hint = "stop it first, or name another folder by --home"
            raise BusyError(Problem(text, hint=hint), advice="") from None
        yield
    finally:
        os.close(handle)


@contextmanager
def _listening(path: Path) -> Iterator[sockets.socket]:
    """Listen at a path; replace the socket of a process that died."""
    with sockets.socket(sockets.AF_UNIX) as listener:
        before = os.umask(WORLD)
        try:
            _make_way(path)
            listener.bind(str(path))
        except OSError as error:
            text = f"cannot listen at {path}: {error.strerror or error}"
            hint = "name another socket by --socket, in a folder of this user's"
            raise ConfigError(Problem(text, hint=hint), advice="") from error
        finally:
            os.umask(before)
        own = path.stat()
        try:
            listener.listen(WAITING)
            yield listener
        finally:
            with suppress(OSError):
                if os.path.samestat(own, path.stat()):
                    path.unlink()


def _make_way(path: Path) -> None:
    if not path.is_socket():
        return
    with sockets.socket(sockets.AF_UNIX) as probe:
        probe.settimeout(ASKED_WITHIN_S)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return
    text = f"another job host listens at {path}"
    hint = "stop it first, or name another socket by --socket"
    raise BusyError(Problem(text, hint=hint), advice="")


@contextmanager
def _stopped() -> Iterator[int]:
    """Return what can be read once SIGTERM or SIGINT came."""
    ours, theirs = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(number, lambda *_: None) for number in numbers]
    woken = signal.set_wakeup_fd(theirs, warn_on_full_buffer=False)
    try:
        yield ours
    finally:
        signal.set_wakeup_fd(woken)
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
        os.close(ours)
        os.close(theirs)

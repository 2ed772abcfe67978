"""The main program of nvprof."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType

from nvprof import (
    VERSION,
    counters,
    manual,
    perfetto,
    places,
    processes,
    report,
    session,
    store,
)
from nvprof.log import Log
from nvprof.options import OptionError, Options, parse
from nvprof.run import CannotRun, Run

FAILED = 1
LIBRARY = Path(__file__).resolve().parent.parent / "libnvprof.so"
NCU = ("ncu", "/usr/local/cuda/bin/ncu", "nv-nsight-cu-cli")
PARAMS = Path("/proc/driver/nvidia/params")
STATUS = Path("/proc/self/status")


class Interrupted(BaseException):
    """A signal arrived while results were written; clean up first."""

    def __init__(self, number: int) -> None:
        self.number = number


def main(words: Sequence[str]) -> int:
    """Run nvprof; return its exit status."""
    _fill_standard_streams()
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, _interrupt)
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        # They are for the application, and may arrive just after its end.
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, _pass)
    try:
        status = _run(words)
    except Interrupted as error:
        status = -error.number
    except KeyboardInterrupt:
        status = -signal.SIGINT
    _flush()
    return session.end_as(status)


def _interrupt(number: int, _frame: FrameType | None) -> None:
    raise Interrupted(number)


def _pass(_number: int, _frame: FrameType | None) -> None:
    pass


def _fill_standard_streams() -> None:
    """Open /dev/null for closed standard streams, so that no other file gets them.

    These descriptors are closed by exec, so they stay closed for the application.
    """
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(fd)


def _flush() -> None:
    """Flush stdout and stderr: at exit Python would change the status on an error."""
    for number, file in ((1, sys.stdout), (2, sys.stderr)):
        if file is None:
            continue
        try:
            file.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), number)


def _run(words: Sequence[str]) -> int:
    environ, host = dict(os.environ), socket.gethostname()
    stderr = Log(None, environ, host, quiet=False)
    try:
        options = parse(words, lambda path: Path(path).read_text(encoding="utf-8"))
    except OptionError as error:
        stderr.error(str(error))
        stderr.of(None, 'Use "nvprof --help" for usage information.')
        return FAILED
    if options.help:
        print(manual.usage())
        return 0
    if options.version:
        print(f"nvprof: profiler of CUDA programs, on CUPTI\nRelease version {VERSION}")
        return 0
    try:
        log = Log(options.log_file, environ, host, options.quiet)
    except OSError as error:
        stderr.error(f"cannot write {error.filename}: {error.strerror}")
        return FAILED
    try:
        return _dispatch(options, log, environ, host)
    except CannotRun as error:
        stderr.error(str(error))
        return FAILED
    except session.NotStarted as error:
        stderr.error(str(error))
        return error.status
    finally:
        log.close()
        if log.failure is not None:
            stderr.error(log.failure)


def _dispatch(options: Options, log: Log, environ: dict[str, str], host: str) -> int:
    for note in options.notes:
        log.warn(note)
    if options.imported is not None:
        return _imported(options, log, environ, host)
    run = Run(options, log, environ, host)
    if not options.application and not options.query:
        raise CannotRun('no application; use "nvprof --help" for usage information')
    run.check()
    if options.counts or options.query:
        measuring = _measuring(options, log)
        if measuring:
            status = run.bare(measuring)
            if options.output is not None:
                result = Path(f"{options.output}.ncu-rep")
                if result.is_file():
                    log.of(None, f"Generated result file: {result.resolve()}")
            return status
    library = Path(environ.get("NVPROF_LIBRARY") or LIBRARY).resolve()
    if library.is_file():
        status = run.profile(library)
    else:
        log.warn(f"{library} not found; running the application without profiling.")
        status = run.bare(options.application)
        log.lines(["No kernels were profiled."])
    verdict = processes.verdict(status)
    if verdict is not None:
        log.error(verdict)
    return status


def _measuring(options: Options, log: Log) -> tuple[str, ...] | None:
    """Return ncu's command line, or warn and return None."""
    ncu = next(filter(None, map(shutil.which, NCU)), None)
    if options.query:
        if ncu is None:
            raise CannotRun(counters.NO_LIST)
        return ncu, "--query-metrics"
    params = PARAMS.read_text() if PARAMS.is_file() else ""
    why = counters.unavailable(ncu, counters.allowed(params, STATUS.read_text()))
    if ncu is None or why is not None:
        log.warn(why or "")
        return None
    _, unknown = counters.measured(options)
    if unknown:
        names = ", ".join(unknown)
        log.warn(
            f"no ncu metric is known for {names}; `ncu --query-metrics` lists metrics."
        )
    for text in counters.left_out(options.kernels):
        log.warn(text)
    log.warn("Counters are measured and printed by ncu; the timeline is not profiled.")
    return counters.command(ncu, options)


def _imported(options: Options, log: Log, environ: dict[str, str], host: str) -> int:
    """Print a file written by an earlier run."""
    name = places.expanded(options.imported or "", environ, host, os.getpid())
    if options.output is not None:
        log.warn("Ignoring -o: -i only prints a file.")
        options = replace(options, output=None)
    try:
        base = store.Store(Path(name))
    except store.WrongFile as error:
        raise CannotRun(f'"{name}" {error}') from error
    except OSError as error:
        raise CannotRun(f'cannot read "{name}": {error.strerror}') from error
    try:
        base.check()
        return _reported(base, name, options, log, environ, host)
    except store.WrongFile as error:
        raise CannotRun(f'"{name}" {error}') from error
    except store.Failure as error:
        raise CannotRun(f'"{name}" is damaged: {error}') from error
    finally:
        base.close()


def _reported(
    base: store.Store,
    name: str,
    options: Options,
    log: Log,
    environ: dict[str, str],
    host: str,
) -> int:
    for text in report.missing(base.number("dropped"), base.number("lost")):
        log.warn(text)
    if not base.number("ended"):
        log.warn(
            "The process did not exit normally; its last activities may be missing."
        )
    base.restrict(options.kernels)
    if options.export_trace is not None:
        pid = base.number("pid")
        path = Path(places.expanded(options.export_trace, environ, host, pid))
        if path.exists() and not options.force:
            raise CannotRun(f'file "{path}" exists; use -f to overwrite it')
        try:
            with path.open("w", encoding="utf-8") as file:
                perfetto.write(base, file)
        except OSError as error:
            raise CannotRun(f'cannot write "{path}": {error.strerror}') from error
        log.of(None, f"Generated trace file: {path.resolve()}")
        if not (options.traces or options.summary):
            return 0
    log.of(None, "Profiling result:")
    log.lines(report.stored(base, options))
    return 0

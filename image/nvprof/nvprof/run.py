"""Profile a run of an application, and print and write its results."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from nvprof import perfetto, places, processes, report, session, store, stream
from nvprof.log import Log
from nvprof.options import Options
from nvprof.processes import Process
from nvprof.users import birth


class CannotRun(Exception):
    """An error before the application is started."""


class Run:
    """A profiled run of an application."""

    def __init__(
        self, options: Options, log: Log, environ: Mapping[str, str], host: str
    ) -> None:
        self._options, self._log = options, log
        self._environ, self._host = environ, host
        self._taken: set[str] = set()

    def check(self) -> None:
        """Raise CannotRun for outputs that exist or are not writable."""
        options = self._options
        if options.export_trace is not None:
            self._check(options.export_trace)
        if options.output is not None:
            self._check(options.output)

    def _check(self, name: str) -> None:
        path = Path(self._place(name))
        real = _real(path)
        alone = not places.of_each_process(name)
        if alone and real.is_dir():
            raise CannotRun(f'cannot write "{path}": it is a folder')
        if alone and _in_the_way(real):
            raise CannotRun(f'cannot write "{path}": it is not a regular file')
        if not real.parent.is_dir() or not os.access(real.parent, os.W_OK):
            raise CannotRun(f'cannot write "{path}": no such folder, or not writable')
        if alone and real.exists() and not self._options.force:
            raise CannotRun(f'file "{path}" exists; use -f to overwrite it')

    def _place(self, name: str, pid: int | None = None) -> str:
        shown = places.expanded(name, self._environ, self._host, pid)
        own = places.of_each_process(shown)
        return shown if pid is not None or own else shown.replace("%%", "%")

    def profile(self, library: Path) -> int:
        """Run the application; return its status, negative for a signal."""
        options = self._options
        beside = _real(self._place(options.output)).parent if options.output else None
        try:
            folder = session.Folder.make(beside)
        except OSError as error:
            raise CannotRun(f"cannot make a folder for recordings: {error}") from error
        try:
            environ = session.environment(
                self._environ,
                library,
                folder.path,
                records=options.records,
                from_start=options.from_start,
                demangle=options.demangle,
            )
            launched, status = self._watch(environ, folder)
            self._report(folder, launched, status)
            return status
        finally:
            folder.remove()

    def bare(self, command: tuple[str, ...]) -> int:
        """Run a command without profiling; return its status, negative for a signal."""
        for event in session.run(command, self._environ, None):
            if isinstance(event, session.Exited):
                return event.status
        raise AssertionError("a run ends with Exited")

    def _watch(
        self, environ: Mapping[str, str], folder: session.Folder
    ) -> tuple[int, int]:
        options, launched = self._options, 0
        before: set[int] = set()
        for event in session.run(options.application, environ, folder, options.timeout):
            if isinstance(event, session.Began):
                launched = event.pid
            elif isinstance(event, session.Started):
                pid = event.pid
                if processes.announced(pid, launched, options.children, before):
                    shown = f"NVPROF is profiling process {pid}, command: "
                    self._log.of(pid, shown + self._command(event.file))
                before.add(pid)
            elif isinstance(event, session.Warned):
                self._log.warn(f"The process is not profiled: {event.text}.", event.pid)
            elif isinstance(event, session.TimedOut):
                self._log.warn(f"The application exceeded {options.timeout} s.")
            elif isinstance(event, session.Exited):
                return launched, event.status
        raise AssertionError("a run ends with Exited")

    def _command(self, path: Path) -> str:
        try:
            with path.open("rb") as file:
                return " ".join(stream.read_header(file).command)
        except (OSError, stream.NotARecording):
            return " ".join(self._options.application)

    def _report(self, folder: session.Folder, launched: int, status: int) -> None:
        found: list[Process] = []
        for path in folder.recordings():
            try:
                with path.open("rb") as file:
                    found.append(Process(stream.read_header(file), path))
            except (OSError, stream.NotARecording):
                self._log.warn(f"cannot read the recording {path.name}.")
        chosen = processes.shown(found, launched, self._options.children)
        if not chosen:
            self._log.warn("No CUDA application was profiled, exiting")
            self._log.lines(["No kernels were profiled."])
        for turn, process in enumerate(chosen):
            warning = processes.ending(
                process,
                chosen[turn + 1 :],
                launched,
                status,
                birth(process.pid) is not None,
            )
            try:
                self._report_process(process, warning, folder)
            except (OSError, store.Failure) as error:
                what = f"cannot write the results of process {process.pid}"
                self._log.error(f"{what}: {error}")

    def _report_process(
        self, process: Process, warning: str | None, folder: session.Folder
    ) -> None:
        """Print and write the results of one process."""
        options, log, pid = self._options, self._log, process.pid
        prints = bool(options.tables or options.traces)
        if prints:
            log.of(pid, f"Profiling application: {process.command}")
        if warning is not None:
            log.warn(warning, pid)
        for text in report.missing(process.header.dropped, process.header.lost):
            log.warn(text, pid)
        with process.path.open("rb") as file:
            if not options.records:
                got = report.recorded(file, process.header, options.demangle)
                log.of(pid, "Profiling result:")
                log.lines(report.tables(got.totals, got.devices, options), pid)
                return
            base = folder.path / f"{process.path.name}.sqlite"
            store.written(base, file, process.header, options.demangle)
        store.keep(base, options.kernels)
        self._stored(base, pid)

    def _stored(self, path: Path, pid: int) -> None:
        options, log = self._options, self._log
        base = store.Store(path)
        try:
            if options.tables or options.traces:
                log.of(pid, "Profiling result:")
                log.lines(report.stored(base, options), pid)
            if options.export_trace is not None:
                name = self._name(options.export_trace, pid)
                with Path(name).open("w", encoding="utf-8") as file:
                    perfetto.write(base, file)
                log.of(pid, f"Generated trace file: {Path(name).resolve()}")
        finally:
            base.close()
        if options.output is not None:
            name = self._name(options.output, pid)
            # This works across file systems, and writes through a symbolic link.
            shutil.move(path, _real(name), shutil.copyfile)
            log.of(pid, f"Generated result file: {Path(name).resolve()}")

    def _name(self, wanted: str, pid: int) -> str:
        """Return the name of a process's file, different from other processes'."""
        first = name = self._place(wanted, pid)
        while name in self._taken or self._is_kept(_real(name)):
            self._taken.add(name)
            name = places.unused(first, self._taken, pid)
        if name != first:
            self._log.warn(
                f'"{first}" exists already; writing "{name}" for this process.'
                ' Use "%p" in the name if several processes use CUDA.',
                pid,
            )
        self._taken.add(name)
        return name

    def _is_kept(self, path: Path) -> bool:
        return _in_the_way(path) or (path.exists() and not self._options.force)


def _real(path: str | Path) -> Path:
    """Return a path with symbolic links resolved."""
    return Path(os.path.realpath(path))


def _in_the_way(path: Path) -> bool:
    """Return whether the path exists and is not a regular file, such as a device."""
    return os.path.lexists(path) and not path.is_file()

"""Start rai for a case, and measure it."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from tests.hostile import leftovers, programs
from tests.hostile.case import Case, Ended, Site
from tests.hostile.columns import Column, argv, environment
from tests.hostile.family import children

LOOK_S = 0.02
HELPERS_EACH = 5
"""Every how many looks at rai itself its helpers are looked at."""

PATIENCE_S = 30.0
"""How long one of the commands after a run is waited for."""

FIRST_BYTES = 1 << 20


def run(case: Case, column: Column, site: Site, builds: Path) -> Ended:
    """Carry out a case; all that it started and that stays is a leftover.

    Programs that it needs are compiled in ``builds``.
    """
    site.project.mkdir()
    for name in case.programs:
        shutil.copy(programs.built(name, builds), site.project / name)
    write(case, column, site)
    around = case.around(site) if case.around else nullcontext()
    with around, leftovers.adopted():
        words = ["run", "-p", str(site.project), *column.options]
        words += [site.filled(word) for word in case.flags]
        ended = _measured(case, column, site, words)
        folder = _folder(site)
        for more in case.then:
            words = [site.filled(word) for word in more]
            words += column.options if more[0] == "run" else ()
            _quietly(case, column, site, words)
        return Ended(
            site,
            *ended,
            _first(site.root / "stdout"),
            _first(site.root / "stderr"),
            _record(folder),
            folder,
        )


def write(case: Case, column: Column, site: Site) -> None:
    """Make the folders of a case, for the column's user."""
    for folder in (site.project, site.home, site.rai_home, site.tmp, site.outside):
        folder.mkdir(parents=True, exist_ok=True)
    (site.project / "rai_build.yml").write_text(site.filled(case.file))
    for name, content in case.files.items():
        file = site.project / name
        file.parent.mkdir(parents=True, exist_ok=True)
        data = content.encode() if isinstance(content, str) else content
        filled = site.filled(data.decode(errors="surrogateescape"))
        file.write_bytes(filled.encode(errors="surrogateescape"))
    if case.policy is not None:
        (site.root / "policy.yml").write_text(site.filled(case.policy))
    if case.make:
        case.make(site)
    (site.outside / "secret").write_text(f"{site.secret}\n")
    (site.outside / "secret").chmod(0o600)
    site.root.chmod(0o755)
    if column.ids != (0, 0):
        own = f"{column.ids[0]}:{column.ids[1]}"
        subprocess.run(["chown", "-hR", own, site.root], check=True)


def _measured(
    case: Case, column: Column, site: Site, words: list[str]
) -> tuple[int, float, float]:
    """Run rai to its end; return its exit code, the seconds, and its memory in MB."""
    began = time.monotonic()
    with _started(case, column, site, words, "") as rai:
        peak = _Peak(rai.pid)
        thread = threading.Thread(target=case.during or _nothing, args=(site, rai))
        thread.start()
        code = None
        while code is None:
            peak.look()
            with suppress(subprocess.TimeoutExpired):
                code = rai.wait(LOOK_S)
            assert time.monotonic() - began < case.most_s, "it does not end"
        seconds = time.monotonic() - began
        thread.join()
    return code, seconds, peak.mb


def _nothing(_: Site, rai: subprocess.Popen[bytes]) -> None:
    """Do nothing meanwhile."""


def _quietly(case: Case, column: Column, site: Site, words: list[str]) -> None:
    with _started(case, column, site, words, "then-") as rai, suppress(TimeoutError):
        rai.wait(PATIENCE_S)


@contextmanager
def _started(
    case: Case, column: Column, site: Site, words: list[str], name: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Start rai, with its output in files."""
    names = {key: site.filled(value) for key, value in case.environment.items()}
    with (
        (site.root / f"{name}stdout").open("wb") as out,
        (site.root / f"{name}stderr").open("wb") as err,
        leftovers.bounded(column) as group,
    ):
        rai = subprocess.Popen(
            [*group, *argv(column, case, site, words)],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            cwd=site.root,
            env=environment(site) | names,
        )
        try:
            yield rai
        finally:
            if rai.poll() is None:
                rai.send_signal(signal.SIGKILL)
                rai.wait()


class _Peak:
    """The most memory that rai and the largest of its helpers had.

    What has another process namespace is a sandboxed program, and not rai's.
    """

    def __init__(self, pid: int) -> None:
        self._pid, self._looks, self._own = pid, 0, 0
        self._helpers: dict[int, int] = {}

    @property
    def mb(self) -> float:
        """In megabytes."""
        return (self._own + max(self._helpers.values(), default=0)) / 1e6

    def look(self) -> None:
        """Note what they have had until now."""
        self._own = max(self._own, _high_water(self._pid))
        self._looks += 1
        if self._looks % HELPERS_EACH == 0:
            for pid in _own_descendants(self._pid):
                self._helpers[pid] = max(self._helpers.get(pid, 0), _high_water(pid))


def _own_descendants(pid: int) -> Iterator[int]:
    """Yield the descendants in this process namespace, the sandboxes left out."""
    here, todo = Path("/proc/self/ns/pid").readlink(), [pid]
    while todo:
        for below in children(todo.pop()):
            with suppress(OSError):
                if Path(f"/proc/{below}/ns/pid").readlink() == here:
                    yield below
                    todo.append(below)


def _high_water(pid: int) -> int:
    """Return the most memory that a process had so far, in bytes; 0 if it is gone."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def _folder(site: Site) -> Path | None:
    runs = site.rai_home / "runs"
    found = [p for p in runs.glob("*") if not p.name.startswith(".")]
    return max(found, key=lambda p: p.stat().st_mtime, default=None)


def _record(folder: Path | None) -> Mapping[str, Any]:
    with suppress(OSError, ValueError):
        return json.loads((folder / "record.json").read_bytes()) if folder else {}
    return {}


def _first(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(FIRST_BYTES)

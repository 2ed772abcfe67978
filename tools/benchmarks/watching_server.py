"""Measure `rai run --watch` at a server: from a save to the next run's first output."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.kit.site import serving
from tools.benchmarks import rows, watching

DELAY_S, BYTES_A_SECOND, LATE_S = 0.02, 10e6 / 8, 0.01
PROJECT_BYTES = 1_000_000
ROUNDS = 7
MOST_S = 2.0


def measure() -> Iterator[dict[str, object]]:
    """Save while nothing runs and while a run goes on, at a server with two slots."""
    with (
        tempfile.TemporaryDirectory() as name,
        serving(Path(name, "site"), "--slots", "2") as site,
        slow_link(int(site.url.rpartition(":")[2])) as port,
    ):
        project = Path(name, "p")
        project.mkdir()
        (project / "rai_build.yml").write_text(watching.SPEC)
        (project / "blob").write_bytes(os.urandom(PROJECT_BYTES))
        (code,) = site.codes("red", "ada")
        ada, url = site.stranger("red", "ada"), f"https://127.0.0.1:{port}"
        done = ada.rai("login", url, "--fingerprint", site.fingerprint, input=code)
        assert done.returncode == 0, done.stderr
        watching.write(project, secrets.token_hex(4), "0")
        idle, busy = [], []
        with subprocess.Popen(
            [watching.RAI, "run", "-p", str(project), "--watch"],
            env=ada.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        ) as client:
            assert client.stdout is not None
            client.stdout.readline()
            for _ in range(ROUNDS + 1):
                time.sleep(3)  # the run ends
                idle.append(watching.saved(project, client.stdout, "60"))
                time.sleep(2)
                busy.append(watching.saved(project, client.stdout, "0"))
            client.send_signal(signal.SIGINT)
    idle, busy = idle[1:], busy[1:]
    yield rows.row(
        f"watch, a server over {DELAY_S * 1000:g} ms each way and 10 Mbit/s",
        f"first output of a project of 1 MB at most {MOST_S:g} s after a save",
        statistics.median(idle) <= MOST_S,
        save_when_idle=rows.spread(idle),
        save_during_a_run=rows.spread(busy),
        project_bytes=PROJECT_BYTES,
    )


@contextmanager
def slow_link(port: int) -> Iterator[int]:
    """Listen at a port that leads to another by a link with a delay and a rate."""
    loop = asyncio.new_event_loop()
    link = _Link(port)
    server = loop.run_until_complete(asyncio.start_server(link.accept, "127.0.0.1", 0))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))


class _Link:
    """The link; connections share its rate, each way."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._free = {"up": 0.0, "down": 0.0}

    async def accept(
        self, near: asyncio.StreamReader, client: asyncio.StreamWriter
    ) -> None:
        await asyncio.sleep(2 * DELAY_S)  # what connecting takes
        far, server = await asyncio.open_connection("127.0.0.1", self._port)
        await asyncio.gather(
            self._carry("up", near, server), self._carry("down", far, client)
        )

    async def _carry(
        self, way: str, source: asyncio.StreamReader, to: asyncio.StreamWriter
    ) -> None:
        loop = asyncio.get_running_loop()
        with suppress(OSError):
            while data := await source.read(4096):
                # A timer that came late takes nothing of the rate.
                free = max(loop.time() - LATE_S, self._free[way])
                sent = free + len(data) / BYTES_A_SECOND
                self._free[way] = sent
                loop.call_at(max(sent, loop.time()) + DELAY_S, to.write, data)
                await asyncio.sleep(sent - loop.time())
        loop.call_at(max(loop.time(), self._free[way]) + DELAY_S, to.close)

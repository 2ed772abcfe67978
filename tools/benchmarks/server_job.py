"""The default job by a server, beside the same job by the same machine's own rai.

With a GPU it is the job of this repository; without one a job that sleeps a second.
Two people, each with a home of their own; both run at the same time in the end.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

from tests.kit.site import RAI, Person, Site
from tools.benchmarks import projects, rows

ROUNDS = int(os.environ.get("RAI_BENCH_RUNS", "3"))
MOST_OVER_S = 2.0
NAP = "rai: {version: 0.2}\ncommands: {build: [sleep 1, echo done >made]}\n"


def measure() -> Iterator[dict[str, object]]:
    """Time the job here and by the server in turns, then of two people at once."""
    gpu = projects.gpu_here()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        project = rows.ROOT if gpu else projects.write(folder / "p", NAP)
        environ = {"RAI_ENGINE": "local"}
        if data := os.environ.get("RAI_DATA_DIR"):
            environ["RAI_DATA_DIR"] = data
        site = Site(folder / "site")
        site.environ |= environ
        with closing(site):
            site.start()
            ann, bob = _person(site, "red", "ann"), _person(site, "blue", "bob")
            ways = {
                "here": lambda: _run(ann, project, environ, "here"),
                "server": lambda: _run(ann, project, environ, site.url),
            }
            taken = rows.alternated(ways, ROUNDS)
            here, there = (statistics.median(taken[way]) for way in ways)
            with ThreadPoolExecutor(2) as pool:
                both = [
                    pool.submit(_run, one, project, environ, site.url)
                    for one in (ann, bob)
                ]
                together = [round(one.result(), 2) for one in both]
    yield rows.row(
        f"{'the default job on a GPU' if gpu else 'a job of a second'} by a server",
        f"exit 0, and at most {MOST_OVER_S:g} s over the same job here",
        there - here <= MOST_OVER_S,
        here_s=[round(one, 2) for one in taken["here"]],
        server_s=[round(one, 2) for one in taken["server"]],
        over_s=round(there - here, 2),
        two_at_once_s=together,
    )


def _person(site: Site, team: str, name: str) -> Person:
    """Invite somebody, and log in as that person does."""
    (code,) = site.codes(team, name)
    found = site.stranger(team, name)
    words = ("--fingerprint", site.fingerprint)
    done = found.rai("login", site.url, *words, input=code)
    assert done.returncode == 0, done.stderr
    return found


def _run(one: Person, project: Path, environ: Mapping[str, str], on: str) -> float:
    """Run the project; return after how many seconds it was over."""
    began = time.perf_counter()
    done = subprocess.run(
        [
            *(*RAI, "run", "-p", str(project), "--on", on),
            *("-o", str(one.home / "out"), "--force"),
        ],
        env=one.env | environ,
        capture_output=True,
        text=True,
        check=False,
    )
    took_s = time.perf_counter() - began
    assert done.returncode == 0, (done.returncode, done.stderr[-3000:])
    return took_s

"""The pages of a server: how soon the first is there, and what open ones cost."""

from __future__ import annotations

import os
import ssl
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from http.client import HTTPResponse, HTTPSConnection, RemoteDisconnected
from pathlib import Path

from runner.core.addresses import host_and_port
from runner.server.database import Store, open_store
from tests.kit import graded
from tests.kit.site import Person, Site, serving
from tools.benchmarks import rows
from tools.benchmarks.server import TICKS, memory

TEAMS = 80
OPEN = 200
EVERY_S = 10.0
ROUNDS = 7
FIRST = 20
MOST_BYTES, MOST_FIRST_S = 30_000, 0.3
MOST_MIB, MOST_CORE = 120.0, 0.15


def measure() -> Iterator[dict[str, object]]:
    """Open the standings of a course, and keep many pages open."""
    with tempfile.TemporaryDirectory() as name:
        os.environ["RAI_HOME"] = f"{name}/home"
        state = Path(name) / "site" / "state"
        state.mkdir(parents=True)
        (state / "server.yml").write_text(f"term: {graded.TERM}\n")
        with serving(state.parent) as site:
            file = f"sqlite:///{site.state}/store.sqlite"
            with closing(open_store(file)) as store:
                _course(store)
            people = [site.person(f"team-{n}", "ada") for n in range(TEAMS)]
            yield _first(site, people[0])
            yield _kept_open(site, people)


def _course(store: Store) -> None:
    for number in range(TEAMS):
        measured = graded.measurement(0.4 + number / 50)
        graded.add(store, f"team-{number}", measured)


class OpenPage:
    """A page in a browser, which asks again as its script does."""

    def __init__(self, site: Site, who: Person, path: str) -> None:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        self.link = HTTPSConnection(*host_and_port(site.url), context=context)
        with who.client() as client:
            code = client.another().code
        own = {"Origin": site.url}
        self.link.request("POST", "/enter", body=f"code={code}", headers=own)
        with closing(self.link.getresponse()) as answer:
            answer.read()
            self._cookie = answer.headers["set-cookie"].partition(";")[0]
        self._path, self._tag = path, ""

    def load(self) -> int:
        """Ask for the page; return how many bytes came."""
        sent = {"Cookie": self._cookie, "If-None-Match": self._tag}
        with closing(self._get(self._path, sent)) as answer:
            body = answer.read()
            assert answer.status in (200, 304), answer.status
            self._tag = answer.headers.get("etag", self._tag)
        return len(body)

    def _get(self, path: str, headers: dict[str, str] | None = None) -> HTTPResponse:
        """Ask, by a new connection where the server closed the one that was idle."""
        try:
            self.link.request("GET", path, headers=headers or {})
            return self.link.getresponse()
        except (RemoteDisconnected, BrokenPipeError, ssl.SSLError):
            self.link.close()
            self.link.request("GET", path, headers=headers or {})
            return self.link.getresponse()


def _first(site: Site, who: Person) -> dict[str, object]:
    taken, sizes = [], set()
    for _ in range(FIRST):
        page = OpenPage(site, who, "/standings/final")
        began = time.perf_counter()
        sizes.add(page.load())
        taken.append(time.perf_counter() - began)
        page.link.close()
    median_s = statistics.median(taken)
    return rows.row(
        f"the standings of {TEAMS} teams, loaded first",
        f"at most {MOST_BYTES:,} bytes, answered in {MOST_FIRST_S:g} s",
        max(sizes) <= MOST_BYTES and median_s <= MOST_FIRST_S,
        bytes=max(sizes),
        median_s=round(median_s, 4),
        slowest_s=round(max(taken), 4),
    )


def _kept_open(site: Site, people: list[Person]) -> dict[str, object]:
    """Reload pages as open ones do, half of them standings, while nothing happens."""
    assert site.process
    pid = site.process.pid
    with ExitStack() as stack:
        pages = []
        alone = memory(pid)
        for number in range(OPEN):
            path = "/" if number % 2 else "/standings/final"
            pages.append(OpenPage(site, people[number % TEAMS], path))
            stack.callback(pages[-1].link.close)
            pages[-1].load()
        before, began, loaded = _ticks(pid), time.monotonic(), 0
        for round_ in range(ROUNDS):
            for number, page in enumerate(pages):
                due = began + EVERY_S * (round_ + number / OPEN)
                time.sleep(max(due - time.monotonic(), 0))
                loaded += page.load() > 0
        core = (_ticks(pid) - before) / TICKS / (time.monotonic() - began)
        used = memory(pid)
    return rows.row(
        f"{OPEN} open pages, each asking every {EVERY_S:g} s",
        f"at most {MOST_MIB:g} MB and {MOST_CORE:.0%} of a core",
        used["rss_mib"] * 1.048576 <= MOST_MIB and core <= MOST_CORE,
        core=round(core, 4),
        sent_again=loaded,
        asked=ROUNDS * OPEN,
        without=alone,
        **used,
    )


def _ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])

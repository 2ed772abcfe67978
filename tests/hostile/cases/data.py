"""What data files lead to: private addresses, servers without end, full disks."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from subprocess import Popen

from runner.core import Reason
from tests.hostile.case import Case, Ended, Site
from tests.kit import odd_files, odd_servers
from tests.kit.odd_servers import OK, Answer, endlessly, whole

HERE = 'private: ["127.0.0.1"]\n'
CONTENT = b"from the host's network"

ASKED: dict[str, list[str]] = {}
"""What the server of a case was asked, by the case's mark."""


def serving(answer: Answer) -> Callable[[Site], AbstractContextManager[None]]:
    """Return what serves on a port of 127.0.0.1, which replaces PORT in the project."""

    @contextmanager
    def serve(site: Site) -> Iterator[None]:
        with odd_servers.serving(answer) as (ASKED[site.mark], port):
            file = site.project / "rai_build.yml"
            file.write_text(file.read_text().replace("PORT", str(port)))
            yield

    return serve


def spec(url: str, limits: str = "time: 10") -> str:
    """Return a build file with one data file, which its command does not need."""
    return (
        "rai:\n  version: 0.2\n  image: debian:bookworm-slim\n"
        f"resources:\n  limits: {{{limits}}}\n  dataresources:\n"
        f'    - {{mount: /data, source: {{url: "{url}"}}}}\n'
        "commands:\n  build:\n    - cat /data/file || true\n"
    )


def refused(ended: Ended) -> None:
    """Nothing was asked, and rai says what would allow it."""
    assert ASKED[ended.site.mark] == [], "the server was reached"
    assert b"/etc/rai/policy.yml" in ended.stderr
    assert CONTENT not in ended.log()


def missing(ended: Ended) -> None:
    """The run went on without the file."""
    assert b"file is missing" in ended.stderr
    assert ended.log() == b""


def over_the_limit(ended: Ended) -> None:
    """The message names the limit, and nothing stays of the file."""
    assert b"resources.limits.data" in ended.stderr
    data = ended.site.rai_home / "data"
    assert not data.exists() or not [p for p in data.rglob("*") if p.is_file()]


def terminate(site: Site, rai: Popen[bytes]) -> None:
    """Ask rai to end once the server was asked."""
    end = time.monotonic() + 20
    while time.monotonic() < end and not ASKED.get(site.mark):
        time.sleep(0.05)
    rai.send_signal(signal.SIGTERM)


def sparse(site: Site) -> None:
    """Make a file of 8 TB in the project's own folder of data, which is not sent."""
    (site.project / "data").mkdir()
    (site.project / ".raiignore").write_text("data/\n")
    odd_files.sparse(site.project / "data/file", 1 << 43)


CASES = (
    Case(
        name="data from loopback",
        tries="Has a data file downloaded from this machine, as 127.0.0.1.",
        spec=spec("http://127.0.0.1:PORT/file"),
        around=serving(whole(CONTENT)),
        check=refused,
        ci=("",),
    ),
    Case(
        name="trickling data",
        tries="A data server sends a file byte by byte.",
        spec=spec("http://127.0.0.1:PORT/file"),
        policy=HERE,
        around=serving(endlessly(OK + b"Content-Length: 100000\r\n\r\n", b"x", 0.2)),
        check=missing,
        ci=("local bubblewrap root", "docker strict root"),
    ),
    Case(
        name="endless data",
        tries="A data server sends a file without end.",
        spec=spec("http://127.0.0.1:PORT/file", "time: 10, data: 20MiB"),
        policy=HERE,
        around=serving(endlessly(OK + b"\r\n", bytes(1 << 16))),
        ends=Reason.NOT_ALLOWED,
        check=over_the_limit,
        ci=("local bubblewrap",),
    ),
    Case(
        name="large data file",
        tries="Has a sparse file of 8 TB among its data.",
        spec=spec("http://127.0.0.1:9/file"),
        make=sparse,
        ends=Reason.NOT_ALLOWED,
        check=over_the_limit,
    ),
    Case(
        name="silent data server",
        tries="A data server is silent when the run is cancelled.",
        spec=spec("http://127.0.0.1:PORT/file"),
        policy=HERE,
        around=serving(lambda connection, _: connection.recv(1)),
        during=terminate,
        ends=Reason.CANCELLED,
        limit_s=3,
    ),
)

"""What takes more of the disk than a run may, and hides it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import gettempdir
from threading import Event, Thread

from runner.core import Reason
from tests.hostile.case import Case, Ended, Site
from tests.kit.kept import alone

LIMIT = {"disk": "20MB", "time": 30}
UNSEEN = "disk of removed and empty files"
BIG = "head -c 60000000 /dev/zero >"
MOST_PAST = 1_000_000_000
"""How far past the limit a fast writer may come; it writes as much in a second."""

SEND = """
socketpair(my $near, my $far, 1, 1, 0);
for my $n (0..59) {
    open(my $file, ">", "x$n"); unlink("x$n");
    syswrite($file, "x" x 1_000_000);
    my $byte = "x";
    my $piece = pack("P Q", $byte, 1);
    my $rights = pack("Q l l l x4", 20, 1, 1, fileno($file));
    my $message = pack("Q L x4 P Q P Q l x4", 0, 0, $piece, 1, $rights, 24, 0);
    syscall(46, fileno($near), $message, 0) == 1 or die "not sent: $!";
}
close $near;
sleep 60;
"""
"""Send removed files over a socket pair, by sendmsg with SCM_RIGHTS on x86-64."""


_LOST: dict[str, int] = {}


def _free(folder: Path) -> int:
    info = os.statvfs(folder)
    return info.f_bavail * info.f_frsize


def alone_on_the_disk(_: Site | None = None) -> AbstractContextManager[None]:
    """Let no other test look at the free space of the disk meanwhile."""
    return alone(Path(gettempdir(), "rai-test-disk"))


@contextmanager
def _least_free(site: Site) -> Iterator[None]:
    """Note how much the disk lost at most while a run lasted."""
    with alone_on_the_disk():
        yield from _watched(site)


def _watched(site: Site) -> Iterator[None]:
    ended, before = Event(), _free(site.root)
    lost = [0]

    def watch() -> None:
        while not ended.wait(0.02):
            lost.append(before - _free(site.root))

    thread = Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        _LOST[site.mark] = max(lost)


def _not_far_past(ended: Ended) -> None:
    lost = _LOST[ended.site.mark]
    assert lost < MOST_PAST, f"the disk lost {lost:,} bytes"


def _fills(name: str, tries: str, command: str, **more: object) -> Case:
    """Return a case whose command takes more of the disk than ``LIMIT``."""
    settings = {"limits": LIMIT, "ends": Reason.DISK_LIMIT, **more}
    return Case(name=name, tries=tries, commands=(command,), **settings)


CASES = (
    _fills(
        "fast writer",
        "Fills /build as fast as it can, and ignores SIGTERM.",
        "trap '' TERM; n=0; while :; do"
        " head -c 200000000 /dev/zero > f$n; n=$((n+1)); done",
        around=_least_free,
        check=_not_far_past,
        ci=("root",),
    ),
    _fills(
        "files in messages",
        "Removes files that only messages between sockets hold.",
        "perl /src/send.pl",
        files={"send.pl": SEND},
        around=alone_on_the_disk,
        needs=UNSEEN,
        ci=("local bubblewrap", "docker compatible root"),
    ),
    _fills(
        "folder of mode 0",
        "Fills a folder that nobody may read.",
        f"mkdir shut; {BIG} shut/big; chmod 0 shut; sleep 60",
    ),
    _fills(
        "empty files",
        "Makes files without end that are empty.",
        "mkdir many; cd many; seq 20000 | xargs touch; sleep 60",
        needs=UNSEEN,
    ),
    _fills(
        "stops everything",
        "Stops all processes that it can reach, so that nobody measures.",
        f"{BIG} big; while :; do kill -STOP -1; done 2>/dev/null",
    ),
    _fills(
        "own du",
        "Replaces du, as far as the image lets it.",
        "{ printf '#!/bin/sh\\necho 4 /build\\n' > /usr/bin/du; } 2>/dev/null;"
        f" {BIG} big; sleep 60",
        columns=("docker",),
    ),
    _fills(
        "sparse file",
        "Makes a file of 1 GB that has a hole for content.",
        "truncate -s 1G f; sleep 60",
    ),
    Case(
        name="filled /tmp",
        tries="Fills /tmp instead of /build.",
        commands=(
            "n=0; while head -c 300000000 /dev/zero > /tmp/f$n; do n=$((n+1)); done;"
            " exit 3",
        ),
        limits={**LIMIT, "memory": "256MiB"},
        ends={"": Reason.DISK_LIMIT, "docker strict": Reason.COMMAND_FAILED},
        around=_least_free,
        check=_not_far_past,
    ),
    Case(
        name="root file system",
        tries="Fills /opt, where the image lets it.",
        commands=(f"{BIG} /opt/big && sleep 60",),
        limits=LIMIT,
        ends={"": Reason.COMMAND_FAILED, "docker compatible": Reason.DISK_LIMIT},
    ),
)

"""What takes more than a run may have: processes, memory, disk."""

from __future__ import annotations

from runner.core import Reason
from tests.hostile.case import Case

HOG = "$RAI_SOURCE_DIR/hog"
BOMB = """\
for (1..300) { $p = fork; die "$!\\n" unless defined $p; sleep 20, exit unless $p }
"""
MEMORY = {"memory": "128MiB", "pids": 128}
DISK = {"disk": "16MiB", "time": 15}


def _takes(name: str, tries: str, what: str, ends: Reason, **more: object) -> Case:
    limits = more.pop("limits", MEMORY)
    return Case(
        name=name,
        tries=tries,
        programs=("hog",),
        commands=(f"{HOG} {what}",),
        limits=limits,
        ends=ends,
        **more,
    )


CASES = (
    Case(
        name="fork bomb",
        tries="Starts 300 processes of 64.",
        files={"bomb.pl": BOMB},  # it ends by itself where nothing else ends it
        commands=("perl $RAI_SOURCE_DIR/bomb.pl",),
        limits={"pids": 64},
        ends=Reason.PIDS_LIMIT,
        needs="pids",
        ci=("",),
    ),
    Case(
        name="endless fork bomb",
        tries="Starts processes that start processes, without end.",
        commands=("bash -c 'f() { f & f & wait; }; f' 2>/dev/null",),
        limits={"pids": 64, "time": 4},
        limit_s=14,
        ends=Reason.TIME_LIMIT,
        columns=("docker", "local root"),
        elsewhere="not enforced, reported",
    ),
    _takes(
        "thread bomb",
        "Starts 400 threads of 64.",
        "threads",
        Reason.PIDS_LIMIT,
        limits={"pids": 64},
        needs="pids",
    ),
    Case(
        name="memory bomb",
        tries="Takes 400 MB of 64 MiB.",
        commands=("head -c 400000000 /dev/zero | tail",),
        limits={"memory": "64MiB"},
        ends=Reason.MEMORY_LIMIT,
        needs="memory",
        ci=("",),
    ),
    *(
        _takes(name, tries, what, Reason.MEMORY_LIMIT, needs="memory")
        for name, tries, what in (
            ("mapped memory", "Maps 512 MiB of 128, writes to each page.", "mapped"),
            ("divided memory", "Takes 512 MiB of 128 by 64 processes.", "divided"),
            ("memory files", "Writes 512 MiB of 128 to a memfd.", "memfd"),
            ("queued bytes", "Fills all socket queues that it can open.", "queues"),
        )
    ),
    _takes("inotify", "Adds 3,000 inotify watches.", "watches", Reason.DONE),
    Case(
        name="shared memory",
        tries="Fills /dev/shm, of 8 MiB.",
        commands=("! head -c 20000000 /dev/zero >/dev/shm/x",),
        limits={"shm": "8MiB"},
        ci=("local",),
    ),
    Case(
        name="devices folder",
        tries="Fills /dev itself.",
        commands=("! head -c 200000000 /dev/zero >/dev/x",),
        columns=("docker strict", "local"),
        elsewhere="counts as memory",
    ),
    Case(
        name="filled /build",
        tries="Writes 100 MB of 16 MiB to /build.",
        commands=("head -c 100000000 /dev/zero >x; sleep 20",),
        limits=DISK,
        ends=Reason.DISK_LIMIT,
        ci=("",),
    ),
    _takes(
        "removed files",
        "Writes 512 MiB of 16 to files of /build that it has removed.",
        "removed",
        Reason.DISK_LIMIT,
        limits=DISK,
        needs="disk of removed and empty files",
        ci=("",),
    ),
    Case(
        name="large file",
        tries="Writes a file of more than 2 GiB.",
        commands=("dd if=/dev/zero of=x bs=1M seek=2048 count=1 && exit 1; rm -f x",),
    ),
)

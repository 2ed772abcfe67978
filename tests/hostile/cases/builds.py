"""What the Dockerfile of a project tries while its image is built."""

from __future__ import annotations

from runner.core import Reason
from tests.hostile.case import IMAGE, NO_IMAGE, Case

ROOT = ("docker strict root",)
ANYBODY = ("docker strict",)
ELSEWHERE = {
    "docker compatible": "as strict",
    "docker strict": "not enforced, reported",
    "local": NO_IMAGE,
}
"""The profile of the run makes no difference to the build of its image."""


def _case(
    name: str,
    tries: str,
    ends: Reason,
    *lines: str,
    columns: tuple[str, ...] = ANYBODY,
    ignored: str = "",
    time: int = 60,
    ci: tuple[str, ...] = (),
) -> Case:
    limits = (
        f"{{memory: 64MiB, build_pids: 100, build_disk: 60MiB, output: 4MiB,"
        f" build_time: {time}s, time: 60s}}"
    )
    spec = (
        f"rai: {{version: 0.2}}\nresources:\n  limits: {limits}\n"
        "commands:\n  build_image: {no_cache: true}\n  build: ['true']\n"
    )
    first = (f"FROM {IMAGE}", "LABEL rai-test=@MARK@")
    return Case(
        name=name,
        tries=tries,
        spec=spec,
        files={
            "Dockerfile": "\n".join((*first, *lines)) + "\n",
            ".dockerignore": ignored,
        },
        ends=ends,
        columns=columns,
        elsewhere=ELSEWHERE,
        limit_s=float(time),
        ci=ci,
    )


CASES = (
    _case(
        "image build, memory",
        "A step takes all memory.",
        Reason.MEMORY_LIMIT,
        "RUN tail /dev/zero",
        ci=("root",),
    ),
    _case(
        "image build, processes",
        "A step starts 300 processes of 100.",
        Reason.PIDS_LIMIT,
        "RUN for i in $(seq 300); do sleep 9 & done; wait",
        columns=ROOT,
        ci=("root",),
    ),
    _case(
        "image build, endless",
        "A step prints past the time limit, and leaves processes.",
        Reason.TIME_LIMIT,
        "RUN trap '' TERM; setsid sleep 300 & while :; do echo y; sleep 0.1; done",
        time=5,
        ci=("",),
    ),
    _case(
        "image build, output",
        "A step prints without end, no line ends.",
        Reason.OUTPUT_LIMIT,
        "RUN cat /dev/zero",
    ),
    _case(
        "image build, disk",
        "A step writes 300 MB of 60.",
        Reason.DISK_LIMIT,
        "RUN head -c 300m /dev/zero >/x; sleep 300",
    ),
    _case(
        "image build, layers",
        "Six steps write 20 MB of 60 each.",
        Reason.DISK_LIMIT,
        *(f"RUN head -c 20m /dev/urandom >/x{n}; sleep 1" for n in range(6)),
    ),
    _case(
        "image build, fetches",
        "Has the engine fetch from its own machine.",
        Reason.NOT_ALLOWED,
        "ADD http://127.0.0.1:1/x /x",
        ci=("",),
    ),
    _case(
        "image build, variables",
        "A variable doubles itself forty times.",
        Reason.BUILD_FAILED,
        "ARG A=xx",
        *(40 * ["ARG A=$A$A"]),
    ),
    _case(
        "image build, ignore rules",
        "Patterns whose search never ends.",
        Reason.DONE,
        "RUN true",
        ignored="*a" * 300 + "b\n!" + "**/" * 200 + "x\n",
    ),
)

"""What will not end, or ends what it should not."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from subprocess import Popen

from runner.core import Reason
from tests.hostile.case import IMAGE, Case, Site

BUSY = "sh -c 'echo up > up; sleep 600'"
NEXT = f"rai: {{version: 0.2, image: {IMAGE}}}\ncommands: {{build: ['true']}}\n"


def _once_up(
    *signals: int, pause_s: float = 0.3
) -> Callable[[Site, Popen[bytes]], None]:
    """Return a function that sends signals to rai once a command runs."""

    def send(site: Site, rai: Popen[bytes]) -> None:
        end = time.monotonic() + 20
        while time.monotonic() < end and rai.poll() is None:
            if any(
                b'"CommandStarted"' in file.read_bytes()
                for file in site.rai_home.glob("runs/*/events.jsonl")
            ):
                break
            time.sleep(0.05)
        for number in signals:
            time.sleep(pause_s)
            if rai.poll() is None:
                os.kill(rai.pid, number)

    return send


def _stays(name: str, tries: str, command: str, **more: object) -> Case:
    """Return a case that its time limit ends."""
    settings = {"limits": {"time": 2}, "ends": Reason.TIME_LIMIT, **more}
    return Case(name=name, tries=tries, commands=(command,), **settings)


CASES = (
    _stays("sleep forever", "Sleeps past the time limit.", "sleep infinity", ci=("",)),
    _stays(
        "ignored signals",
        "Ignores every signal that can be ignored.",
        "trap '' TERM INT HUP QUIT USR1 USR2; while :; do sleep 1; done",
        limit_s=12,
    ),
    Case(
        name="daemon",
        tries="Leaves a daemon in a session of its own.",
        commands=(
            "(setsid sleep 600 &) ; (setsid setsid sleep 600 >/dev/null &); true",
        ),
        ci=("",),
    ),
    Case(
        name="held output",
        tries="Leaves a child that keeps stdout and stderr open.",
        commands=("sleep 600 & echo started", "echo next"),
    ),
    _stays("kill all", "Kills every process that it can.", "kill -KILL -1; sleep 600"),
    _stays(
        "stop all",
        "Stops every other process that it can.",
        "for p in /proc/[0-9]*; do p=${p#/proc/}; [ $p = $$ ] || kill -STOP $p;"
        " done 2>/dev/null; kill -STOP -1; sleep 600",
        limit_s=12,
    ),
    _stays("stopped itself", "Stops itself.", "kill -STOP $$", limit_s=12),
    Case(
        name="kill the keeper",
        tries="Signals process 1 with each signal.",
        commands=("for n in $(seq 1 64); do kill -$n 1; done 2>/dev/null; sleep 600",),
        limits={"time": 3},
        # Root in a container may end its first process.
        ends={"": Reason.TIME_LIMIT, "docker compatible": Reason.COMMAND_FAILED},
    ),
    Case(
        name="orphans",
        tries="Forks twice and again until the time is over.",
        commands=("while :; do (setsid sleep 0.2 &); done",),
        limits={"time": 2, "pids": 128},
        limit_s=12,
        ends={"": Reason.TIME_LIMIT},
    ),
    _stays(
        "closed descriptors",
        "Closes its stdin, stdout and stderr and goes on.",
        "exec 0<&- 1>&- 2>&-; sleep 600",
    ),
    *(
        Case(
            name=f"rai gets {'+'.join(names)}",
            tries=f"rai itself is sent {', then '.join(names)} while a command runs.",
            commands=(BUSY,),
            limits={"time": 60},
            limit_s=15,
            during=_once_up(*(signal.Signals[name] for name in names)),
            ends=Reason.CANCELLED,
        )
        for names in (("SIGTERM",), ("SIGINT", "SIGINT"), ("SIGHUP",), ("SIGQUIT",))
    ),
    Case(
        name="rai is killed",
        tries="rai itself is killed while a command runs; the next run tidies up.",
        commands=(BUSY,),
        files={"next/rai_build.yml": NEXT},
        limits={"time": 60},
        limit_s=15,
        during=_once_up(signal.SIGKILL),
        then=(("ps",), ("run", "-p", "@PROJECT@/next")),
        after_s=20,
        ends=Reason.RUNNER_LOST,
        exit_code=-signal.SIGKILL,
        ci=("docker strict root", "local bubblewrap"),
    ),
    Case(
        name="rai is stopped",
        tries="rai itself is stopped for 3 s.",
        commands=("sleep 1",),
        limits={"time": 20},
        during=_once_up(signal.SIGSTOP, signal.SIGCONT, pause_s=1.5),
    ),
)

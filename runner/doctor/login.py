"""Whether detached runs outlive the login that started them."""

from __future__ import annotations

import os
import re
from pathlib import Path

from runner import process
from runner.core.errors import EngineError
from runner.doctor.finding import Finding, Health

ASK = (
    "busctl",
    "get-property",
    "org.freedesktop.login1",
    "/org/freedesktop/login1",
    "org.freedesktop.login1.Manager",
    "KillUserProcesses",
)
ASK_S = 2.0


def findings() -> list[Finding]:
    """Return a note where logind ends a session's processes; nothing if not known."""
    if os.getuid() == 0:  # logind leaves root's alone, unless it is told otherwise
        return []
    try:
        groups = Path("/proc/self/cgroup").read_text()
        answer = process.run(ASK, timeout_s=ASK_S).stdout
    except (OSError, EngineError):
        return []
    return judged(groups, answer)


def judged(groups: str, answer: bytes) -> list[Finding]:
    """Decide by the control groups of this process and by what logind answers."""
    in_session = re.search(r"/session-[^/]+\.scope(/|$)", groups, re.MULTILINE)
    if not in_session or answer.strip() != b"b true":
        return []
    text = "logind ends them at logout (KillUserProcesses=yes)"
    advice = (
        "`loginctl enable-linger` once, and start them with `systemd-run --user --scope"
        " rai run --detach`"
    )
    return [Finding("detached runs", Health.NOTE, text, advice)]

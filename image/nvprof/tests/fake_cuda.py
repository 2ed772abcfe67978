"""Stand for a program that uses CUDA, with the library's part played in Python.

Its words are done in turn: `cuda` records, `cut` records without an orderly end,
`say TEXT`, `sleep SECONDS`, `fork WORDS` (the rest, in a child, waited for),
`exec WORDS`, `exit STATUS`, `kill SIGNAL`, `catch` (SIGINT, SIGTERM, SIGUSR1 exit 3),
`deaf` (to SIGTERM), `slow` (record, and end a while after SIGTERM), `over` (say so),
`stdin` (copy it), `closed FD` (exit 1 unless it is).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import recording


def record(ended: bool) -> Path | None:
    if "NVPROF_SESSION" not in os.environ:
        return None
    made = recording.small(trace=os.environ["NVPROF_TRACE"] == "1")
    command = ("python", Path(sys.argv[0]).name, *sys.argv[1:])
    return recording.commit(made, command, ended=int(ended))


def end_slowly(path: Path) -> None:
    def ends(*_: object) -> None:
        time.sleep(0.5)
        recording.end(path)
        sys.exit(0)

    signal.signal(signal.SIGTERM, ends)


def is_closed(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return True
    return False


def caught(*_: object) -> None:
    os.write(1, b"caught\n")  # print may be interrupted by itself
    os._exit(3)


def main(words: list[str]) -> int:
    while words:
        word = words.pop(0)
        if word == "cuda":
            record(ended=True)
        elif word == "cut":
            record(ended=False)
        elif word == "slow":
            path = record(ended=False)
            assert path is not None
            end_slowly(path)
        elif word == "deaf":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        elif word == "over":
            line = f"end {os.getpid()}"
            recording.tell(Path(os.environ["NVPROF_SESSION"]), line)
        elif word == "closed":
            if not is_closed(int(words.pop(0))):
                return 1
        elif word == "say":
            print(words.pop(0), flush=True)
        elif word == "stdin":
            sys.stdout.write(sys.stdin.read())
        elif word == "sleep":
            time.sleep(float(words.pop(0)))
        elif word == "catch":
            signal.signal(signal.SIGINT, caught)
            signal.signal(signal.SIGTERM, caught)
            signal.signal(signal.SIGUSR1, caught)
        elif word == "fork":
            child = subprocess.run([sys.executable, __file__, *words], check=False)
            return child.returncode
        elif word == "exec":
            os.execv(sys.executable, [sys.executable, __file__, *words])
        elif word == "kill":
            os.kill(os.getpid(), signal.Signals[words.pop(0)])
        elif word == "exit":
            return int(words.pop(0))
        else:
            raise SystemExit(f"no such word: {word}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

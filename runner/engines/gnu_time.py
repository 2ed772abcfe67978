"""A replacement for GNU time on machines without /usr/bin/time.

It is a program, started as ``python -I -S gnu_time.py [options] COMMAND...``, and
imports nothing of rai. It supports ``-p``, ``-v``, ``-f``, ``-o`` and ``-a`` with GNU
time's formats, messages and exit codes. The maximum resident size is at least this
program's own, some 8 MB.
"""

# ruff: noqa: PTH123
# (pathlib would double the time that this program takes to start)

import getopt
import os
import resource
import signal
import sys
import time

DEFAULT = (
    "%Uuser %Ssystem %Eelapsed %PCPU (%Xavgtext+%Davgdata %Mmaxresident)k\n"
    "%Iinputs+%Ooutputs (%Fmajor+%Rminor)pagefaults %Wswaps"
)
PORTABLE = "real %e\nuser %U\nsys %S"
VERBOSE = """\
Command being timed: "%C"
User time (seconds): %U
System time (seconds): %S
Percent of CPU this job got: %P
Elapsed (wall clock) time (h:mm:ss or m:ss): %E
Average shared text size (kbytes): %X
Average unshared data size (kbytes): %D
Average stack size (kbytes): %p
Average total size (kbytes): %K
Maximum resident set size (kbytes): %M
Average resident set size (kbytes): %t
Major (requiring I/O) page faults: %F
Minor (reclaiming a frame) page faults: %R
Voluntary context switches: %w
Involuntary context switches: %c
Swaps: %W
File system inputs: %I
File system outputs: %O
Socket messages sent: %s
Socket messages received: %r
Signals delivered: %k
Page size (bytes): %Z
Exit status: %x"""
LONG = ["append", "format=", "output=", "portability", "verbose"]
USAGE = "Usage: time [-apv] [-f format] [-o file] command [arg...]"
ESCAPES = {"n": "\n", "t": "\t", "\\": "\\"}
CANCELLED, NOT_EXECUTABLE, NOT_FOUND = 125, 126, 127


def seconds(value: float) -> str:
    """Return seconds with two decimals, truncated."""
    return f"{int(value * 100 + 1e-6) / 100:.2f}"


def elapsed(value: float) -> str:
    """Return a duration as ``m:ss.cc``, or ``h:mm:ss`` from one hour on."""
    whole = int(value)
    if whole >= 3600:
        return f"{whole // 3600}:{whole % 3600 // 60:02}:{whole % 60:02}"
    return f"{whole // 60}:{whole % 60:02}.{int(value * 100 + 1e-6) % 100:02}"


def percent(cpu_s: float, wall_s: float) -> str:
    """Return the CPU time as a percentage of the wall time."""
    wall_ms = int(wall_s * 1000)
    return f"{int(cpu_s * 1000) * 100 // wall_ms}%" if wall_ms else "?%"


def figures(
    command: list[str], wall_s: float, usage: resource.struct_rusage, status: int
) -> dict[str, str]:
    """Return the text for each letter of a format."""
    cpu_s = usage.ru_utime + usage.ru_stime
    return {
        "%": "%",
        "C": " ".join(command),
        "E": elapsed(wall_s),
        "e": seconds(wall_s),
        "U": seconds(usage.ru_utime),
        "S": seconds(usage.ru_stime),
        "P": percent(cpu_s, wall_s),
        "M": str(usage.ru_maxrss),
        "F": str(usage.ru_majflt),
        "R": str(usage.ru_minflt),
        "I": str(usage.ru_inblock),
        "O": str(usage.ru_oublock),
        "W": str(usage.ru_nswap),
        "w": str(usage.ru_nvcsw),
        "c": str(usage.ru_nivcsw),
        "s": str(usage.ru_msgsnd),
        "r": str(usage.ru_msgrcv),
        "k": str(usage.ru_nsignals),
        "Z": str(resource.getpagesize()),
        "x": str(os.WEXITSTATUS(status)),
        # Averages that Linux does not measure.
        **dict.fromkeys("DKXpt", "0"),
    }


def fill_in(text: str, values: dict[str, str]) -> str:
    """Return a format with its letters replaced by their values."""
    filled = ""
    letters = iter(text)
    for letter in letters:
        if letter == "%":
            key = next(letters, "")
            filled += values.get(key, "?" + key)
        elif letter == "\\":
            key = next(letters, "")
            filled += ESCAPES.get(key, "?\\" + key)
        else:
            filled += letter
    return filled + "\n"


def start(command: list[str]) -> int:
    """Start the command; return its process id."""
    child = os.fork()
    if child:
        return child
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        os.write(2, f"time: cannot run {command[0]}: {error.strerror}\n".encode())
        missing = isinstance(error, FileNotFoundError)
        os._exit(NOT_FOUND if missing else NOT_EXECUTABLE)


def ending(status: int) -> str:
    """Return the line about a failed command; empty for a successful one."""
    if os.WIFSIGNALED(status):
        return f"Command terminated by signal {os.WTERMSIG(status)}\n"
    if os.WEXITSTATUS(status):
        return f"Command exited with non-zero status {os.WEXITSTATUS(status)}\n"
    return ""


def options(words: list[str]) -> tuple[str, str, str, list[str]]:
    """Parse the options; return the format, the file, its mode and the command."""
    text, file, mode = DEFAULT, "", "w"
    found, command = getopt.getopt(words, "af:o:pv", LONG)
    for name, value in found:
        match name:
            case "-f" | "--format":
                text = value
            case "-p" | "--portability":
                text = PORTABLE
            case "-v" | "--verbose":
                text = "\t" + VERBOSE.replace("\n", "\n\t")
            case "-o" | "--output":
                file = value
            case _:
                mode = "a"
    if not command:
        raise getopt.GetoptError("missing program to run")
    return text, file, mode, command


def main(words: list[str]) -> int:
    """Run a command, write what it used, and return its exit code."""
    try:
        text, file, mode, command = options(words)
        out = open(file, mode) if file else sys.stderr  # noqa: SIM115 - ends with it
    except (getopt.GetoptError, OSError) as error:
        sys.stderr.write(f"time: {error}\n{USAGE}\n")
        return CANCELLED
    began = time.monotonic()
    child = start(command)
    for number in (signal.SIGINT, signal.SIGQUIT):  # meant for the command
        signal.signal(number, signal.SIG_IGN)
    _, status, usage = os.wait4(child, 0)
    wall_s = time.monotonic() - began
    out.write(ending(status) + fill_in(text, figures(command, wall_s, usage, status)))
    out.flush()
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

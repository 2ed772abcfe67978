"""Write to streams whose terminal, file or pipe may go away."""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import TextIO

from runner.core.screen import printable


def open_closed() -> None:
    """Open /dev/null for each standard stream that is closed.

    Otherwise the next file to be opened would get its number, and a program's output.
    A closed stdout still cannot be written to, so that a command whose answer is lost
    does not end well.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            access = os.O_RDONLY if name == "stdout" else os.O_RDWR
            null = os.open(os.devnull, access)
            if null != number:
                os.dup2(null, number)
                os.close(null)
            mode = "w" if number else "r"
            setattr(sys, name, os.fdopen(number, mode, closefd=False))


def pass_names() -> None:
    """Let stdout take the name of any file, whose bytes need not be UTF-8."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="surrogateescape")


def say(text: str = "", *, to_stderr: bool = False, now: bool = False) -> None:
    """Print words of rai's own, in which what they quote of others is escaped.

    ``now`` shows them before what comes next on the other stream.
    """
    stream = sys.stderr if to_stderr else sys.stdout
    write_line(printable(text), stream)
    if now:
        stream.flush()


def write_line(line: str, stream: TextIO) -> None:
    """Print a line that is safe to show; raise OSError that names the stream."""
    try:
        print(line, file=stream)
    except OSError as error:
        raise unwritten(error, stream) from error


def put(text: str) -> None:
    """Write a document to stdout as it is; raise OSError that names the stream."""
    try:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.flush()
            sys.stdout.buffer.write(text.encode(errors="replace"))
        else:
            sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        raise unwritten(error, sys.stdout) from error


def unwritten(error: OSError, stream: TextIO) -> OSError:
    """Return the error of a stream that cannot be written, with the stream's name."""
    name = "stderr" if stream is sys.stderr else "stdout"
    why = "it is closed" if error.errno == errno.EBADF else error.strerror
    return OSError(error.errno, f"cannot write to {name}: {why}")


def discard(stream: TextIO) -> None:
    """Redirect a stream to /dev/null."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)

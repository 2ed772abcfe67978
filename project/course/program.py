"""How the project's programs end: an error is one message and an exit status."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from course.errors import GpuError, ProjectError


def run(action: Callable[[], None]) -> None:
    """Run a program; print an error as one message and exit with its status."""
    try:
        action()
    except BrokenPipeError:
        # The reader closed the pipe. Without this Python fails to flush at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(ProjectError.exit_code)
    except (ProjectError, OSError) as error:
        warn(str(error))
        code = getattr(error, "exit_code", ProjectError.exit_code)
        if isinstance(error, GpuError):
            # Skip clean-up: PyCUDA prints an error for all that it cannot free now.
            sys.stdout.flush()
            os._exit(code)
        sys.exit(code)
    except KeyboardInterrupt:
        # Python still ends by the signal, as shells expect; only hide the traceback.
        sys.excepthook = lambda *_: None
        raise


def warn(message: str | None) -> None:
    """Print a message to stderr, after the script's name."""
    if message:
        print(f"{Path(sys.argv[0]).name}: {message}", file=sys.stderr, flush=True)

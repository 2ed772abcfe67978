"""One run, from a request to its events: all of `rai run` except its display.

    prepared = session.prepare(Path("project"), session.Options(engine="local"))
    for event in session.start(prepared).events(Cancel()):
        ...

The command line, a worker and a program that imports rai start runs by the same calls.
"""

from runner.session.prepare import (
    Options,
    Prepared,
    opened,
    prepare,
    reopen,
    replay,
    staged,
)
from runner.session.run import Run, detach, resume, start, tidy
from runner.session.shell import Shell
from runner.session.validation import Validation, validate
from runner.session.watching import Watcher, watcher

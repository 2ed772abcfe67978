"""Run a project's rai_build.yml from Python, check it, and read programs' output.

    import runner

    for event in runner.run("project"):
        print(event)

The functions are the public interface; what they return is in ``runner.core``. Modules
are loaded by the first call, so that importing the package costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import BinaryIO

    from runner.core import Findings
    from runner.core.errors import Cancel
    from runner.core.events import Event
    from runner.execution.validation import Validation

__version__ = "0.1.0"
__all__ = ["__version__", "parse", "run", "validate"]


def run(
    project: str | Path = ".",
    *,
    engine: str | None = None,
    profile: str | None = None,
    gpus: str | None = None,
    gpu_wait: str | None = None,
    keep_going: bool = False,
    env: Mapping[str, str] | None = None,
    only: Sequence[str] = (),
    image: str | None = None,
    repeat: int = 1,
    measured: Sequence[str] = (),
    budget: str | None = None,
    home: str | Path | None = None,
    cancel: Cancel | None = None,
) -> Iterator[Event]:
    """Run a project's build file as `rai run` does; yield the events as they happen.

    The first event is ``Created`` with the run's id, the last is ``Finished`` with its
    verdict; a command that fails is part of the verdict, not an exception. What is not
    given comes from the settings and the build file. ``gpus`` is a number or UUIDs,
    ``gpu_wait`` a time span such as "10m", ``image`` a name that is used in place of
    the build file's image. ``env`` are variables for the commands: in output and events
    their values are masked. ``only`` are names or numbers of the commands to run.
    ``repeat`` is how many rounds there are, ``measured`` names or numbers of the
    commands that those after the first have, ``budget`` the time span that these may
    take together, such as "10m". ``home`` is where the run is kept in place of
    RAI_HOME. ``cancel.request()``, from any thread, ends the run cleanly; closing the
    iterator ends it at once.

    Raises:
        runner.core.errors.RaiError: the run could not be started; ``problems`` lists
            why, ``reason.exit_code`` is what `rai run` would exit with.
    """
    from pathlib import Path

    from runner.core.errors import Cancel
    from runner.core.work import Secrets
    from runner.execution import prepare, session

    options = prepare.Options(
        engine=engine,
        profile=profile,
        gpus=gpus,
        gpu_wait=gpu_wait,
        keep_going=keep_going,
        secrets=Secrets(env or {}),
        only=tuple(only),
        image=image,
        repeat=repeat,
        measured=tuple(measured),
        budget=budget,
        home=Path(home) if home is not None else None,
    )
    prepared = prepare.prepare(Path(project), options)
    session.tidy(prepared.settings)
    return session.start(prepared).events(cancel or Cancel())


def validate(project: str | Path = ".", *, engine: str | None = None) -> Validation:
    """Check a project's build file, and plan its image and commands.

    ``engine`` matters to a project that names no image and has no Dockerfile.

    Raises:
        runner.core.errors.UsageError: there is no build file.
    """
    from pathlib import Path

    from runner.execution import prepare, validation

    return validation.validate(Path(project), prepare.Options(engine=engine))


def parse(output: bytes | BinaryIO) -> Findings:
    """Return the figures in a program's output: times, correctness, profile tables."""
    from runner.figures.scanner import EVERYTHING, Scanner

    scanner = Scanner(first=EVERYTHING)
    if isinstance(output, bytes):
        scanner.feed(output)
    else:
        while data := output.read(1 << 20):
            scanner.feed(data)
    return scanner.findings()

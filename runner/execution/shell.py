"""A shell where a run's commands ran, or where the next run's would."""

from __future__ import annotations

import shlex
from collections.abc import Generator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

from msgspec.structs import replace

from runner import pack
from runner.core import BuildSpec, Command
from runner.core import events as ev
from runner.core.errors import Cancel
from runner.core.policy import Policy
from runner.core.screen import Terminal
from runner.engines.folders import temporary
from runner.execution.prepare import Prepared
from runner.execution.session import preparation, ready
from runner.pack import Unpacked
from runner.store import outputs
from runner.store.paths import RunPaths

TIME_S = 8 * 3600.0
"""How long a shell may take, where a site's policy does not allow less."""

START_SHELL = """\
if command -v bash >/dev/null 2>&1; then
    export PROMPT_COMMAND="PS1='rai:\\w\\\\$ '; unset PROMPT_COMMAND"
    exec bash
fi
export PS1='rai:$PWD$ '
exec /bin/sh
"""
"""Start bash, or sh if there is no bash; the prompt says where one is.

Bash sets it after its own files, which name a user that may have no name there.
"""


class Shell:
    """A shell, or another command, on a terminal of its own; no run is recorded.

    It has what a run's commands have: image, project, data, variables, GPUs, profile,
    limits but for the time. Of an earlier run it also has the build folder. ``ended``
    says how it ended, ``unpacked`` what came back to ``output``.
    """

    def __init__(
        self,
        prepared: Prepared,
        command: Sequence[str] = (),
        output: Path | None = None,
        *,
        force: bool = False,
    ) -> None:
        """Check the build folder of the earlier run, if there is one.

        Raises:
            RaiError: it is damaged, or larger than it may be.
        """
        self._prepared = prepared
        self._output, self._force = output, force
        words = tuple(command) or ("/bin/sh", "-c", START_SHELL)
        request = prepared.request
        limits = replace(request.spec.limits, time_s=_time_s(request.policy))
        command_of_all = Command(shlex.join(words), env=_variables(request.spec))
        spec = replace(request.spec, limits=limits, commands=(command_of_all,))
        asked = replace(request.asked, only=())
        self._request = replace(request, asked=asked, spec=spec, left_out=frozenset())
        self.limits = limits
        self._caps = pack.build_caps(limits)
        self.has_build = False
        if self._earlier is not None and self._earlier.build.is_file():
            pack.files(self._earlier.build, self._caps, root="build")
            self.has_build = True
        self.ended: ev.CommandFinished | None = None
        self.unpacked: Unpacked | None = None

    def events(
        self, terminal: Terminal, cancel: Cancel
    ) -> Generator[ev.Event, None, None]:
        """Prepare and use the shell; yield what happens, its CommandFinished at last.

        Between CommandStarted and the next event it uses ``terminal``.

        Raises:
            RaiError: there is no engine, image or GPU for it, or the engine failed.
        """
        given, choice, home = ready(replace(self._prepared, request=self._request))
        name = f"shell-{self._earlier.id}" if self._earlier else "shell"
        with ExitStack() as stack:
            folders = stack.enter_context(temporary(name))
            paths = RunPaths(folders.root / name)
            paths.root.mkdir()
            preparing = preparation(given, choice.engines, home, paths, cancel)
            stack.enter_context(closing(preparing.project))
            prepared = yield from preparing.events(stack)
            if prepared is None:
                return
            engine, work = prepared
            if self._earlier is not None and self.has_build:
                build = self._earlier.build
                work = replace(work, open_build=lambda: pack.open_tar(build))
            yield from self._use(engine.run(work, cancel, terminal), paths)
            if self._output is not None and paths.build.exists():
                self.unpacked = outputs.bring_back(
                    paths.build,
                    self._output,
                    self._caps,
                    given.request.project,
                    force=self._force,
                )

    @property
    def _earlier(self) -> RunPaths | None:
        return self._prepared.parcel

    def _use(
        self, events: Generator[ev.Event, None, None], paths: RunPaths
    ) -> Generator[ev.Event, None, None]:
        """Yield the engine's events; bring the build folder back if that is wanted."""
        with ExitStack() as stack:
            stack.enter_context(closing(events))
            writer: pack.BuildWriter | None = None
            for event in events:
                if isinstance(event, ev.BuildFolder):
                    if writer is None:
                        writer = pack.BuildWriter(paths.build, self._caps)
                        stack.enter_context(writer)
                    writer.write(event.data)
                    continue
                yield event
                if isinstance(event, ev.CommandFinished):
                    self.ended = event
                    if self._output is None:
                        return


def _variables(spec: BuildSpec) -> tuple[tuple[str, str], ...]:
    """Return the variables that the file gives a single value, to whatever command."""
    own = [pair for command in spec.commands for pair in command.env]
    values: dict[str, set[str]] = {}
    for name, value in (*spec.env, *own):
        values.setdefault(name, set()).add(value)
    return tuple(
        (name, found.pop()) for name, found in values.items() if len(found) == 1
    )


def _time_s(policy: Policy) -> float:
    ceiling = policy.ceilings.get("time_s")
    return min(TIME_S, ceiling.most) if ceiling else TIME_S

"""A command on a terminal of its own, on every engine for real."""

from __future__ import annotations

import io
import os
import re
import secrets
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from runner.core import Profile, Reason, Workspace
from runner.core.errors import Cancel, EngineError
from runner.core.events import BuildFolder, CommandFinished, Event, Output
from runner.core.screen import TerminalSize
from runner.core.work import Secrets
from runner.engines.bare import BareEngine
from runner.engines.base import Engine
from runner.engines.docker import DockerEngine
from runner.engines.local import LocalEngine
from runner.engines.local.sandbox import Sandbox
from tests.kit import needs
from tests.kit.ordinary import USER, as_ordinary_user
from tests.kit.running import IMAGE, LIMITS, SOURCE, Result, direct, shell, source

pytestmark = pytest.mark.programs

USUAL = replace(LIMITS, time_s=20)
ENGINES = [
    pytest.param(BareEngine(), id="bare"),
    pytest.param(
        LocalEngine(kind="bubblewrap"),
        marks=[pytest.mark.local, pytest.mark.bubblewrap],
        id="bubblewrap",
    ),
    pytest.param(
        LocalEngine(kind="unshare"),
        marks=[pytest.mark.local, pytest.mark.unshare],
        id="unshare",
    ),
    pytest.param(DockerEngine(), marks=pytest.mark.docker, id="docker"),
]


class Typist:
    """A person who answers each text that appears by typing the next keys.

    ``None`` in place of keys leaves, a size resizes the terminal.
    """

    def __init__(
        self, *answers: tuple[bytes, bytes | TerminalSize | None], rows: int = 24
    ) -> None:
        self.seen = b""
        self._answers = list(answers)
        self._size = TerminalSize(rows, 80)
        self._typed, self._keys = os.pipe()
        self._look()

    def fileno(self) -> int:
        return self._typed

    def read(self) -> bytes:
        return os.read(self._typed, 4096)

    def write(self, data: bytes) -> None:
        self.seen += data
        self._look()

    def size(self) -> TerminalSize:
        return self._size

    def close(self) -> None:
        os.close(self._typed)
        if self._keys >= 0:
            os.close(self._keys)

    def _look(self) -> None:
        while self._answers and self._answers[0][0] in self.seen:
            _, keys = self._answers.pop(0)
            if isinstance(keys, bytes):
                os.write(self._keys, keys)
            elif keys is not None:
                self._size = keys
            else:
                os.close(self._keys)
                self._keys = -1


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Engine:
    return request.param


@pytest.fixture
def typists() -> Iterator[list[Typist]]:
    made: list[Typist] = []
    yield made
    for typist in made:
        typist.close()


def use(
    engine: Engine,
    typist: Typist,
    command: str | Sequence[str],
    *,
    build: Mapping[str, bytes] | None = None,
    cancel: Cancel | None = None,
    **more: object,
) -> Result:
    """Run a command (a string is a shell line) on a terminal that somebody uses."""
    step = shell(command) if isinstance(command, str) else direct(*command)
    work = Workspace(
        run_id=f"shell{secrets.token_hex(4)}",
        steps=(step,),
        open_source=source(SOURCE),
        image=IMAGE,
        open_build=None if build is None else source(build),
        **{"limits": USUAL, **more},
    )
    result = Result()
    result.events += engine.run(work, cancel or Cancel(), typist)
    return result


def end(result: Result) -> CommandFinished:
    (finished,) = result.finished
    return finished


def test_the_command_has_a_terminal_of_its_own_of_the_same_size(engine, typists):
    typist = Typist((b"ready", b"typed\n"), rows=33)
    typists.append(typist)
    line = (
        "until [ $(stty size | cut -d' ' -f1) = 33 ]; do sleep 0.05; done; stty size;"
        " for n in 0 1 2; do test -t $n || exit 9; done; : </dev/tty && echo ready;"
        " read -r word; echo got $word; echo err >&2; exit 3"
    )

    result = use(engine, typist, line)

    assert (end(result).exit_code, end(result).reason) == (3, None)
    assert [line for line in typist.seen.split(b"\r\n") if line != b"typed"] == [
        b"33 80",
        b"ready",
        b"got typed",
        b"err",
        b"",
    ]
    assert not any(isinstance(event, Output) for event in result.events)


def test_its_keys_and_its_new_size_reach_the_command_and_nothing_else(engine, typists):
    typist = Typist(
        (b"one", b"\x03"), (b"raw", b"\x1a\x03\x1c"), (b"three", TerminalSize(50, 132))
    )
    typists.append(typist)
    line = (
        "trap 'got=it; echo two' INT; echo one; until [ $got ]; do sleep 0.05; done;"
        " stty raw -echo; echo raw; echo typed $(head -c 3 | od -An -tx1) three;"
        " until [ \"$(stty size)\" = '50 132' ]; do sleep 0.05; done; echo four"
    )

    result = use(engine, typist, line)

    assert end(result).exit_code == 0, typist.seen
    assert b"typed 1a 03 1c three" in typist.seen
    assert typist.seen.rstrip().endswith(b"four")


def test_jobs_can_be_stopped_and_the_command_leads_the_session(engine, typists):
    typist = Typist(
        (b"$ ", b"sed -u s/^/got-/\n"),
        (b"got-/\r\n", b"hello\n"),
        (b"got-hello\r\n", b"\x1a"),
        (b"Stopped", b"exit 4\nexit 4\n"),
    )
    typists.append(typist)

    result = use(engine, typist, ["env", "PS1=$ ", "bash", "--norc", "--noprofile"])

    assert b"job control" not in typist.seen
    assert re.search(rb"\[1\]\+ +Stopped +sed", typist.seen)
    assert end(result).exit_code == 4, typist.seen


def test_the_build_folder_begins_as_given_and_comes_back_changed(engine, typists):
    typists.append(typist := Typist())
    given = {"build/old.txt": b"old\n", "build/sub/deep.txt": b"deep\n"}
    line = "cat old.txt sub/deep.txt $RAI_SOURCE_DIR/hello.txt; rm old.txt; echo x >new"

    result = use(engine, typist, line, build=given, profile=Profile.COMPATIBLE)

    assert typist.seen.split() == [b"old", b"deep", b"hello"]
    assert set(result.members) == {
        "build",
        "build/new",
        "build/sub",
        "build/sub/deep.txt",
    }
    assert result.content("build/new") == b"x\n"


def test_variables_are_there_and_on_no_command_line(engine, typists):
    typists.append(typist := Typist())
    secret = secrets.token_hex(8)
    line = 'test "$TOKEN" && echo $TOKEN | tr a-f A-F; cat /proc/[0-9]*/cmdline'

    use(engine, typist, line, secrets=Secrets({"TOKEN": secret}))

    assert secret.upper().encode() in typist.seen
    assert secret.encode() not in typist.seen


ENDS = [
    pytest.param(*each.values, how, marks=each.marks, id=f"{each.id}-{how}")
    for each in ENGINES
    # Of those without images one shows how all end it.
    for how in ("leaves", "cancel", "time")
    if how == "leaves" or each.id in ("bare", "docker")
]


@pytest.mark.lengthy
@pytest.mark.parametrize(("engine", "how"), ENDS, indirect=["engine"])
def test_it_ends_when_the_person_leaves_on_a_cancel_and_at_its_time(
    engine, typists, how
):
    cancel = Cancel()
    typist = Typist((b"ready", None if how == "leaves" else b""))
    typists.append(typist)
    before = typist.write

    def write(data: bytes) -> None:
        before(data)
        if how == "cancel" and b"ready" in typist.seen:
            cancel.request()

    typist.write = write
    time_s = 0.8 if how == "time" else 60.0
    line = "trap 'echo hung up > hup; exit' HUP; echo ready; sleep 60 & wait"

    result = use(
        engine,
        typist,
        line,
        cancel=cancel,
        limits=replace(USUAL, time_s=time_s),
    )

    wanted = Reason.TIME_LIMIT if how == "time" else Reason.CANCELLED
    assert end(result).reason is wanted
    assert result.content("build/hup") == b"hung up\n"


def test_one_that_ignores_its_hang_up_is_killed(typists, monkeypatch):
    monkeypatch.setattr("runner.system.interactive.HANG_UP_S", 0.3)
    typists.append(typist := Typist((b"ready", None)))
    line = "trap '' HUP TERM; echo ready; while :; do sleep 0.1; done"

    result = use(BareEngine(), typist, line)

    assert (end(result).reason, end(result).exit_code) == (Reason.CANCELLED, 137)


def test_a_program_that_does_not_exist_is_told_on_the_terminal(engine, typists):
    typists.append(typist := Typist())

    result = use(engine, typist, ["no-such-program", "x"])

    assert end(result).exit_code == 127
    assert b"command not found: no-such-program" in typist.seen


def test_much_output_and_much_input_arrive_whole(engine, typists):
    typist = Typist((b"ready", b"".join(b"%0999d\n" % n for n in range(60))))
    typists.append(typist)
    line = "stty -echo; echo ready; head -n 60 | cksum; seq 200000 | tail -c 1000000"

    result = use(engine, typist, line)

    assert end(result).exit_code == 0
    _, sum_, *_ = typist.seen.split(b"\r\n")
    assert sum_.split()[1] == b"60000"
    assert typist.seen.endswith(b"199999\r\n200000\r\n")
    assert len(typist.seen) > 1_000_000


@pytest.mark.local
@pytest.mark.parametrize("kind", needs.SANDBOXES)
def test_a_sandbox_that_does_not_start_is_told_in_its_words(kind, typists, monkeypatch):
    typists.append(typist := Typist())
    argv = Sandbox.argv

    def broken(self: Sandbox, layout: object, command: Sequence[str]) -> list[str]:
        words = argv(self, layout, command)
        return ["/bin/sh", "-c", "echo it broke >&2; exit 1", *words]

    engine = LocalEngine(kind=kind)
    assert engine.facts().version  # found before it breaks
    monkeypatch.setattr(Sandbox, "argv", broken)

    with pytest.raises(EngineError, match="the sandbox did not start: it broke"):
        use(engine, typist, "true")


def test_a_build_folder_with_names_out_of_it_is_refused(typists):
    typists.append(typist := Typist())
    with pytest.raises(EngineError, match="build folder cannot be unpacked"):
        use(BareEngine(), typist, "true", build={"build/../../evil": b"x"})


def test_devices_in_a_build_folder_are_left_out_and_links_are_kept(typists):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, kind in (("pipe", tarfile.FIFOTYPE), ("null", tarfile.CHRTYPE)):
            member = tarfile.TarInfo(f"build/{name}")
            member.type = kind
            tar.addfile(member)
        link = tarfile.TarInfo("build/link")
        link.type, link.linkname = tarfile.SYMTYPE, "/data/file"
        tar.addfile(link)
    typists.append(typist := Typist())
    work = Workspace(
        "shell",
        (direct("ls", "-1"),),
        source(SOURCE),
        limits=USUAL,
        open_build=lambda: io.BytesIO(buffer.getvalue()),
    )

    events: list[Event] = list(BareEngine().run(work, Cancel(), typist))

    assert typist.seen.split() == [b"link"]
    assert any(isinstance(event, BuildFolder) for event in events)


@pytest.mark.local
@pytest.mark.root
@pytest.mark.parametrize("kind", needs.SANDBOXES)
def test_an_ordinary_user_gets_a_terminal_as_well(kind):
    line = "tty; id -u; echo one >/dev/tty; echo two >/dev/stderr; exit 3"
    program = [sys.executable, "-m", "tests.kit.one_shell", kind, line]
    with tempfile.TemporaryDirectory(prefix="rai-test-home-", dir="/tmp") as home:
        os.chown(home, int(USER), int(USER))
        done = as_ordinary_user(program, Path(home))
    assert done.returncode == 3, done.stderr
    assert done.stdout.split() == ["/dev/console", USER, "one", "two"]

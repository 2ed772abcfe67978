"""The Docker engine: the contract, and what only this engine promises."""

from __future__ import annotations

import io
import secrets
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import docker
import pytest
from docker.errors import NotFound
from msgspec.structs import replace

from runner.core import DataMount, Profile, Reason, Workspace
from runner.core.errors import Cancel, EngineError
from runner.core.events import CommandSkipped
from runner.engines.docker import DockerEngine, confinement, owner
from runner.engines.docker.endpoint import find
from runner.engines.docker.owner import reap
from runner.system import machine
from tests.kit.contract import *  # noqa: F403 - the tests are the contract's
from tests.kit.failing_calls import passing
from tests.kit.jobs import *  # noqa: F403 - the same
from tests.kit.running import (
    IMAGE,
    RUN_ID,
    Subject,
    data_file,
    direct,
    left_on,
    run,
    shell,
)
from tests.kit.sandboxed import *  # noqa: F403 - the same
from tests.kit.waiting import until

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def engine() -> DockerEngine:
    return DockerEngine()


@pytest.fixture
def subject(engine: DockerEngine) -> Subject:
    return Subject(engine, IMAGE)


@pytest.fixture
def impatient() -> tuple[Subject, float]:
    engine = DockerEngine()
    engine.timeout_s = 2.0
    return Subject(engine, IMAGE), 2.5


@pytest.fixture
def gpu_subject(subject: Subject, client: docker.APIClient) -> Subject:
    """The project's own image, where it was built with CUDA."""
    found = client.images(filters={"label": "rai.cuda"})
    ours = [each["Id"] for each in found if each["Labels"]["rai.cuda"]]
    return replace(subject, image=next(iter(ours), IMAGE))


def connections() -> set[str]:
    """Name the sockets that this process has open."""
    found = set()
    for file in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found.add(str(file.readlink()))
    return {name for name in found if name.startswith("socket:")}


def test_a_run_leaves_no_connection_open():
    before = connections()
    kept = Subject(DockerEngine(), IMAGE)  # as a cycle of references may be for long
    run(kept, [direct("true")])
    until(lambda: not connections() - before)


# Confinement


def test_a_strict_run_has_one_user_the_limits_of_the_run_and_a_small_tmp_for_programs(
    subject,
):
    disk = "cp /bin/true /tmp/t && /tmp/t && df -k /tmp | tail -1"
    script = f"id -u; id -g; ulimit -n; ulimit -c; ulimit -f; {disk}"
    result = run(subject, [script], memory_bytes=256 << 20, open_files=123)
    *ids, files, core, size, disk = result.stdout.decode().splitlines()
    assert (*ids, files, core) == ("10001", "10001", "123", "0")
    assert int(size) * 1024 == 2 << 30
    assert int(disk.split()[1]) == (128 << 10)


def test_a_compatible_run_is_root_with_the_file_owners_rights_and_a_writable_root(
    subject,
):
    script = (
        "id -u; chown 5:5 /etc/motd; echo x > /new && cat /new;"
        " grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status; pwd"
    )
    result = run(subject, [script], profile=Profile.COMPATIBLE)
    uid, written, *rows, folder = result.stdout.decode().splitlines()
    assert (uid, written, folder) == ("0", "x", "/build")
    values = dict(row.split(":\t") for row in rows)
    chown, dac_override, fowner, fsetid = 1 << 0, 1 << 1, 1 << 3, 1 << 4
    rights = chown | dac_override | fowner | fsetid
    assert int(values["CapEff"], 16) == int(values["CapBnd"], 16) == rights
    assert (values["NoNewPrivs"], values["Seccomp"]) == ("1", "2")


def test_a_command_that_kills_every_process_ends_neither_the_container_nor_the_job(
    subject,
):
    for profile in Profile:
        result = run(subject, ["kill -9 -1", "echo here"], profile=profile)
        assert result.stdout == b"here\n"


def test_a_container_that_its_command_ends_is_a_failure_of_the_command(
    subject: Subject,
):
    """Root of a compatible run may trace process 1, and make a signal count."""
    attach, kill = "syscall(101, 16, 1, 0, 0)", "syscall(101, 7, 1, 0, 9)"
    script = f"perl -e '{attach}; sleep 1; {kill}; sleep 10'"
    try:
        result = run(subject, [script], profile=Profile.COMPATIBLE)
    except EngineError as error:
        assert error.reason is Reason.COMMAND_FAILED
        assert "ended the container" in str(error)
    else:  # the engine told of the command's end first
        assert result.codes == [137]


def test_a_container_that_is_gone_at_the_next_look_at_its_command_has_ended(
    subject, monkeypatch
):
    look = docker.APIClient.exec_inspect

    def removing(client: docker.APIClient, command: str) -> object:
        with suppress(NotFound):
            container = look(client, command)["ContainerID"]
            client.remove_container(container, force=True)
        return look(client, command)

    monkeypatch.setattr(docker.APIClient, "exec_inspect", removing)
    with pytest.raises(EngineError, match="the container ended while") as caught:
        run(subject, ["sleep 20"])

    assert caught.value.reason is Reason.RUNNER_LOST


def test_nothing_is_lost_on_a_reader_that_takes_its_time(subject):
    script = "head -c 5000000 /dev/zero"
    result = run(subject, [script], pause_s=0.1)
    assert len(result.stdout) == 5_000_000


def test_orphans_are_buried_closed_outputs_waited_for_and_words_like_the_engines_kept(
    subject,
):
    said = "OCI runtime exec failed: exec failed: not really"
    lines = [
        f"echo '{said}'; for n in 1 2 3; do (setsid sleep 0.1 &); done; exit 3",
        "exec >&- 2>&-; sleep 0.7; exit 6",
        "cat /proc/[0-9]*/stat | grep -c ' Z ' || :",
    ]
    result = run(subject, lines, keep_going=True)
    assert result.said == [f"{said}\n".encode(), b"", b"0\n"]
    assert result.codes == [3, 6, 0]
    assert result.finished[1].wall_s > 0.7


def test_what_a_killed_job_used_is_known_all_the_same(subject):
    script = "trap '' TERM; head -c 50000000 /dev/zero | tail -c 1 ; sleep 60"
    step = shell(script, timeout_s=0.6)
    result = run(subject, [step], stop_grace_s=0.2)
    (finished,) = result.finished
    assert finished.reason is Reason.TIME_LIMIT
    assert finished.cpu_s is not None
    assert result.usage.peak_memory_bytes


def test_a_child_killed_for_memory_is_told_beside_an_exit_code_of_zero(subject):
    script = "head -c 400000000 /dev/zero | tail | cat > /dev/null; exit 0"
    result = run(subject, [script], memory_bytes=100 << 20)
    (finished,) = result.finished
    assert (finished.exit_code, finished.reason) == (0, None)
    assert finished.oom_killed


# What an image says itself


@pytest.fixture(scope="module")
def odd_image(client: docker.APIClient) -> Iterator[str]:
    text = f"""FROM {IMAGE}
    LABEL rai-test={RUN_ID}
    RUN rm /bin/bash && mkdir /src && echo old > /src/old
    ENV TOOL=yes PATH=/opt/tool:/usr/bin:/bin
    USER nobody
    VOLUME /build
    HEALTHCHECK CMD false
    ENTRYPOINT ["/bin/false"]
    CMD ["x"]
    """
    name = f"rai-test-{RUN_ID}:odd"
    for told in client.build(
        fileobj=io.BytesIO(text.encode()), tag=name, rm=True, decode=True
    ):
        assert "error" not in told, told
    yield name
    client.remove_image(name, force=True)


def test_of_an_image_its_variables_count_its_entrypoint_user_and_folders_do_not(
    engine, odd_image
):
    script = "id -u; echo ${BASH_VERSION:-sh} | cat; echo $TOOL; echo $PATH; ls /src"
    result = run(Subject(engine, odd_image), [script])
    uid, shell, tool, path, *names = result.stdout.decode().splitlines()
    assert (uid, shell, tool) == ("10001", "sh", "yes")  # it has no bash
    assert path.endswith(":/opt/tool:/usr/bin:/bin")
    assert names == ["hello.txt", "sub"]


def test_an_image_without_a_shell_is_refused_in_plain_words(engine, client):
    run_id = f"empty{RUN_ID}"
    name = f"rai-test-{RUN_ID}:empty"
    client.import_image_from_data(bytes(10240), *name.split(":"))
    try:
        with pytest.raises(EngineError, match=f"{name} has no /bin/sh"):
            run(Subject(engine, name), ["true"], run_id=run_id)
    finally:
        client.remove_image(name, force=True)
    assert left_on(client, run_id) == []


# Nothing stays


def test_nothing_is_left_behind_however_a_run_ends(subject, client):
    name = f"ends{RUN_ID}"
    for line in ("exit 1", shell("sleep 9", timeout_s=0.3)):
        run(subject, [line], run_id=name)
    assert left_on(client, name) == []


def test_nothing_is_left_behind_where_nobody_listens_to_the_end(subject, client):
    work = workspace(subject, direct("sleep", "60"))
    for stop_after in (1, 3):
        events = subject.engine.run(work, Cancel())
        for _ in range(stop_after):
            next(events)
        events.close()
        assert left_on(client, work.run_id) == []


def test_a_run_that_is_cancelled_while_it_is_sent_skips_everything(subject, client):
    cancel = Cancel()
    threading.Timer(0.5, cancel.request).start()
    work = replace(workspace(subject, direct("true")), open_source=lambda: Endless())
    events = list(subject.engine.run(work, cancel))
    (skipped,) = (e for e in events if isinstance(e, CommandSkipped))
    assert "cancelled" in skipped.why
    assert left_on(client, work.run_id) == []


def workspace(subject: Subject, *steps) -> Workspace:
    name = f"alone{RUN_ID}"
    return Workspace(name, steps, lambda: io.BytesIO(bytes(1024)), subject.image)


class Endless(io.RawIOBase):
    """A tar stream with one file that does not end."""

    def __init__(self):
        head = io.BytesIO()
        import tarfile

        member = tarfile.TarInfo("endless")
        member.size = 1 << 40
        head.write(member.tobuf())
        self._head = head.getvalue()

    def read(self, size=-1):
        piece, self._head = self._head[:size], self._head[size:]
        return piece or bytes(size)


def test_what_a_dead_owner_left_is_removed_and_what_a_living_one_has_is_not(client):
    # On a machine of its own, so that no other run's reaping sees whether it lives.
    me = replace(machine.this_process(), host=RUN_ID)
    dead, living = f"{RUN_ID}-dead", f"{RUN_ID}-living"
    owners = {dead: replace(me, started="1"), living: me}
    for name, whose in owners.items():
        labels = owner.labels(name, 60) | {owner.OWNER: str(whose)}
        client.create_container(IMAGE, ["true"], name=name, labels=labels)
        client.create_volume(name, labels=labels)
    try:
        removed = reap(client, me)
        assert removed.count(dead) == 2
        assert left_on(client, dead) == []
        assert len(left_on(client, living)) == 2
    finally:
        client.remove_container(living)
        client.remove_volume(living)


# Data


@pytest.fixture
def mount(tmp_path: Path, client: docker.APIClient) -> Iterator[DataMount]:
    content = secrets.token_hex(10).encode() * 100_000  # no other test's volume
    mount = DataMount("/data/some", (data_file(tmp_path / "set.bin", content),))
    yield mount
    name = confinement.data_volume(mount)
    for volume in (name, f"{name}.full"):
        with suppress(NotFound):
            client.remove_volume(volume, force=True)


def test_data_is_sent_once_and_then_reused(subject, mount, client):
    first = run(subject, ["md5sum < /data/some/set.bin"], data=[mount])
    mount.files[0].path.write_bytes(b"")  # it is not looked at again
    second = run(subject, ["md5sum < /data/some/set.bin"], data=[mount])
    assert first.stdout.split()[0].decode() == mount.files[0].md5
    assert second.stdout == first.stdout
    names = [v["Name"] for v in client.volumes()["Volumes"]]
    assert confinement.data_volume(mount) in names


def test_data_that_was_sent_in_part_is_sent_again(subject, mount, client):
    client.create_volume(confinement.data_volume(mount))
    result = run(subject, ["md5sum < /data/some/set.bin"], data=[mount])
    assert result.stdout.split()[0].decode() == mount.files[0].md5


def test_data_that_changed_since_it_was_verified_fills_no_volume(
    subject, mount, client
):
    path = mount.files[0].path
    content = path.read_bytes()
    path.write_bytes(content.swapcase())
    with pytest.raises(EngineError, match="changed while the run was being prepared"):
        run(subject, ["true"], data=[mount])
    path.write_bytes(content)
    result = run(subject, ["md5sum < /data/some/set.bin"], data=[mount])
    assert result.stdout.split()[0].decode() == mount.files[0].md5


def test_runs_that_need_the_same_data_at_once_all_get_it(subject, mount):
    def once(_: int) -> bytes:
        return run(subject, ["md5sum < /data/some/set.bin"], data=[mount]).stdout

    with ThreadPoolExecutor(2) as pool:
        said = set(pool.map(once, range(2)))
    assert len(said) == 1
    assert said.pop().split()[0].decode() == mount.files[0].md5


# An engine elsewhere


@pytest.fixture
def distant(monkeypatch, tmp_path) -> Iterator[Subject]:
    """The engine behind a TCP port; the host's own files are of no use to it."""
    here = Path(find({"HOME": str(tmp_path)}).url.removeprefix("unix://"))
    with socket.create_server(("127.0.0.1", 0)) as server, passing(here, server):
        port = server.getsockname()[1]
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{port}")
        yield Subject(DockerEngine(), IMAGE)


def test_an_engine_behind_a_tcp_port_serves_alike(distant, mount):
    result = run(
        distant,
        [
            "cat $RAI_SOURCE_DIR/hello.txt; echo err >&2; echo kept > file",
            "md5sum < /data/some/set.bin",
            "seq 1000000 | tail -1",
            shell("sleep 60", timeout_s=0.5),
        ],
        data=[mount],
    )
    assert "tcp://127.0.0.1" in distant.engine.facts().how
    hello, digest, _, last = result.stdout.split()
    assert (hello, last) == (b"hello", b"1000000")
    assert digest.decode() == mount.files[0].md5
    assert result.stderr == b"err\n"
    assert result.content("build/file") == b"kept\n"
    assert result.finished[-1].reason is Reason.TIME_LIMIT


def test_the_counters_of_an_engine_elsewhere_are_asked_for_in_the_container(
    engine, client, monkeypatch
):
    monkeypatch.setattr("runner.engines.docker.usage.PROCESSES", Path("/nowhere"))
    busy = "n=0; while [ $n -lt 100000 ]; do n=$((n+1)); done"
    result = run(Subject(engine, IMAGE), [busy])
    assert result.finished[0].cpu_s
    assert result.usage.peak_memory_bytes

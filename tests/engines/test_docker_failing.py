"""Whatever call to the engine fails, a run ends and leaves nothing on the engine."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import docker
import pytest

from runner.core import DataMount, Gpu
from runner.core.errors import RaiError
from runner.engines.docker import DockerEngine
from runner.engines.docker.confinement import data_volume
from runner.engines.docker.gpu import hold
from runner.engines.docker.volumes import FULL
from tests.kit.failing_calls import How, failing
from tests.kit.running import IMAGE, Subject, data_file, left_on, run

pytestmark = [pytest.mark.docker, pytest.mark.slow]

SOCKET = Path("/var/run/docker.sock")


@pytest.fixture(scope="module")
def client() -> Iterator[docker.APIClient]:
    if not SOCKET.exists():
        pytest.skip(f"no engine at {SOCKET}")
    client = docker.APIClient(base_url=f"unix://{SOCKET}")
    yield client
    client.close()


def left(client: docker.APIClient, run_id: str, mount: DataMount) -> list[str]:
    """What is on the engine of a run; its data volume counts if it is not whole."""
    data = data_volume(mount)
    volumes = [v["Name"] for v in client.volumes()["Volumes"] or ()]
    kept = [name for name in volumes if name in (data, data + FULL)]
    return left_on(client, run_id) + (kept if len(kept) == 1 else [])


def one_run(
    client: docker.APIClient, folder: Path, fails: int, how: How
) -> tuple[list[str], list[str]]:
    """Run once; return the calls that were made, and what is left."""
    run_id = f"failing{secrets.token_hex(4)}"
    file = data_file(folder / "data.bin", secrets.token_bytes(1 << 16))
    mount = DataMount("/data", (file,))
    with failing(SOCKET, folder, fails, how) as (url, calls):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("DOCKER_HOST", url)
            with suppress(RaiError):
                engine = Subject(DockerEngine(), IMAGE)
                run(engine, ["cat /data/data.bin"], data=[mount], run_id=run_id)
        made = list(calls.calls)
    found = left(client, run_id, mount)
    for name in found:
        with suppress(docker.errors.APIError):
            client.remove_container(name, force=True)
    for name in (*found, data_volume(mount), data_volume(mount) + FULL):
        with suppress(docker.errors.APIError):
            client.remove_volume(name)
    return made, found


@pytest.mark.parametrize("how", How)
def test_whatever_call_fails_nothing_is_left(client: docker.APIClient, how: How):
    # In /tmp itself, as the path of a socket may have 107 characters only.
    with tempfile.TemporaryDirectory(prefix="raif-", dir="/tmp") as name:
        folder = Path(name)
        calls, found = one_run(client, folder, -1, how)
        assert found == []
        leftovers = {}
        for number in range(len(calls)):
            made, found = one_run(client, folder, number, how)
            if found:
                leftovers[made[number]] = found
    assert leftovers == {}


@pytest.mark.parametrize("how", How)
def test_whatever_call_fails_no_gpu_stays_locked(client: docker.APIClient, how: How):
    gpu = Gpu(f"GPU-{secrets.token_hex(8)}", "a test's", 0)
    with tempfile.TemporaryDirectory(prefix="raif-", dir="/tmp") as name:
        for number in range(-1, 5):
            with failing(SOCKET, Path(name), number, how) as (url, _):
                own = docker.APIClient(base_url=url, version="1.41")
                with suppress(RaiError), hold(own, gpu, "failing"):
                    pass
                own.close()
            wanted = {"name": f"rai-gpu-{gpu.uuid}"}
            assert client.containers(all=True, filters=wanted) == [], number

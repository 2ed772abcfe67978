"""The same calls as the docker engine makes for `true`, by the SDK only.

The benchmark `docker_engine` runs it as a process, without rai's own work.
"""

from __future__ import annotations

import io
import sys
import tarfile
from concurrent.futures import ThreadPoolExecutor

import docker
from docker.types import Mount, Ulimit

GIB = 1 << 30
IDLE = ["/bin/sh", "-c", "while sleep 3600; do :; done"]


def main(image: str, name: str) -> None:
    """Upload a project, run `true`, download the build folder, and clean up."""
    api = docker.APIClient(version="1.41")
    mounts = [Mount(f"/{f}", f"{name}-{f}", no_copy=True) for f in ("src", "build")]
    with ThreadPoolExecutor(2) as pool:
        files = pool.submit(send, api, image, mounts)
        job = pool.submit(start, api, image, mounts)
        helper, container = files.result(), job.result()
        run = api.exec_create(container, ["true"], stdin=False, tty=False)["Id"]
        for _ in api.exec_start(run, stream=True, demux=True):
            pass
        code = api.exec_inspect(run)["ExitCode"]
        api.kill(container)
        pieces, _ = api.get_archive(helper, "/build")
        for _ in pieces:
            pass
        removed = pool.map(
            lambda c: api.remove_container(c, force=True), (helper, container)
        )
        list(removed)
        list(pool.map(lambda f: api.remove_volume(f"{name}-{f}"), ("src", "build")))
    sys.exit(code)


def send(api: docker.APIClient, image: str, mounts: list[Mount]) -> str:
    """Fill the volumes through a container that is never started."""
    host = api.create_host_config(mounts=mounts, network_mode="none")
    helper: str = api.create_container(image, ["/never"], host_config=host)["Id"]
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for folder in ("src", "build"):
            info = tarfile.TarInfo(folder)
            info.type, info.mode = tarfile.DIRTYPE, 0o755
            info.uid = info.gid = 10001
            tar.addfile(info)
    api.put_archive(helper, "/", buffer.getvalue())
    return helper


def start(api: docker.APIClient, image: str, mounts: list[Mount]) -> str:
    """Create and start the confined container."""
    host = api.create_host_config(
        mounts=mounts,
        network_mode="none",
        cap_drop=["ALL"],
        security_opt=["no-new-privileges"],
        read_only=True,
        tmpfs={"/tmp": "rw,exec,nosuid,nodev,mode=1777,size=1073741824"},
        log_config={"Type": "none", "Config": {}},
        mem_limit=8 * GIB,
        memswap_limit=8 * GIB,
        pids_limit=512,
        ulimits=[Ulimit(name="nofile", soft=4096, hard=4096)],
    )
    container: str = api.create_container(
        image,
        entrypoint=IDLE,
        user="10001:10001",
        working_dir="/build",
        host_config=host,
    )["Id"]
    api.start(container)
    return container


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])

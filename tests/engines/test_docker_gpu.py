"""GPUs on a real Docker Engine: ways that fail, locks on the engine, one elsewhere."""

from __future__ import annotations

from pathlib import Path

import docker
import pytest
from msgspec.structs import replace

from runner.core import DockerGpus, Gpu, GpuWay, HostGpus, Reason
from runner.core.errors import BusyError, EngineError
from runner.core.events import Warned
from runner.engines.docker import DockerEngine, gpu, owner
from runner.engines.docker.gpu import GpuSupport, hold
from runner.engines.gpu import installed
from runner.system import machine
from tests.kit.gpu_standins import StandIn, stand_in
from tests.kit.running import IMAGE, RUN_ID, Subject, run

pytestmark = pytest.mark.docker

HELD = Gpu(f"GPU-of {RUN_ID}", "X", 0)
HOLDER = f"rai-gpu-GPU-of-{RUN_ID}"
TOLD = {"index": "0", "clocks.sm": "345", "temperature.gpu": "31"}


@pytest.fixture
def stand(tmp_path: Path) -> StandIn:
    return stand_in(tmp_path)


def on(stand: StandIn) -> DockerEngine:
    engine = DockerEngine()
    engine.machine = stand.machine
    return engine


def without_toolkit(client: docker.APIClient) -> None:
    if "nvidia" in (client.info()["Runtimes"] or {}):
        pytest.skip("nvidia-container-toolkit is here")


def test_a_way_that_the_engine_refuses_gives_place_to_the_next_and_is_told(
    client, stand
):
    without_toolkit(client)
    subject = Subject(on(stand), IMAGE)
    ways = (GpuWay.REQUEST, GpuWay.CDI, GpuWay.NODES)
    script = (
        f"test -c {stand.gpu.nodes[0]} && gpu-program; echo $NVIDIA_VISIBLE_DEVICES"
    )
    result = run(subject, [script], gpu=stand.grant(*ways))
    assert result.stdout == b"a program\nvoid\n"
    request, cdi = (e.text for e in result.events if isinstance(e, Warned))
    assert "nvidia-container-toolkit" in request
    assert "could not select device driver" in request
    assert "CDI" in cdi
    assert {use.way for use in result.gpu_uses} == {GpuWay.NODES}


def test_a_run_whose_every_way_is_refused_says_of_each_why(client, stand):
    without_toolkit(client)
    lost = replace(stand.machine, nodes=("/dev/no-such-device",))
    engine = DockerEngine()
    engine.machine = lost
    grant = stand.grant(GpuWay.REQUEST, GpuWay.NODES)
    with pytest.raises(EngineError) as caught:
        run(Subject(engine, IMAGE), ["true"], gpu=grant)
    assert caught.value.reason is Reason.GPU_ERROR
    said = str(caught.value)
    assert "could not select device driver" in said
    assert "/dev/no-such-device" in said
    assert "rai doctor" in said
    filters = {"label": f"{owner.RUN}={RUN_ID}"}
    assert client.containers(all=True, filters=filters) == []


def test_a_library_that_is_gone_is_told_as_the_ways_failure(stand):
    stand.driver_file.unlink()
    with pytest.raises(EngineError, match="real-library"):
        run(Subject(on(stand), IMAGE), ["true"], gpu=stand.grant())


# An engine elsewhere


def elsewhere(stand: StandIn) -> DockerEngine:
    """The same engine, as if another machine's: its name is not ours."""
    engine = on(stand)
    engine._info = engine._info | {"Name": "elsewhere"}
    return engine


def test_the_state_of_a_gpu_elsewhere_is_asked_for_in_the_container(
    stand, tmp_path: Path
):
    program = tmp_path / "nvidia-smi"
    row = TOLD | {"uuid": stand.gpu.uuid}
    line = ", ".join(row.get(field, "[N/A]") for field in installed.FIELDS)
    program.write_text(f"#!/bin/sh\necho '{line}'\n")
    program.chmod(0o755)
    engine = elsewhere(stand)
    engine.machine = replace(stand.machine, programs=(str(program),))
    result = run(Subject(engine, IMAGE), ["true"], gpu=stand.grant())
    before, after = result.gpu_uses
    for (state,) in (before.before, after.after):
        assert state.uuid == stand.gpu.uuid
        assert (state.sm_clock_mhz, state.temperature_c) == (345, 31)


def test_an_engine_elsewhere_that_refuses_each_way_shows_no_gpu_and_says_why(client):
    without_toolkit(client)
    engine = DockerGpus("1.45", here=False, runtimes=("nvidia",))
    support = GpuSupport(engine, HostGpus("linux"))
    unseen = gpu.situation(client, support, None)
    assert unseen.any
    assert unseen.gpus is None
    seen = gpu.situation(client, support, IMAGE)
    assert seen.gpus == ()
    assert "could not select device driver" in seen.problem
    assert seen.hint
    assert client.containers(all=True, filters={"name": "rai-gpus-"}) == []


def test_a_gpu_elsewhere_is_held_by_one_run_and_let_go_of(client):
    with (
        hold(client, HELD, "first"),
        pytest.raises(BusyError, match="run first since"),
        hold(client, HELD, "second"),
    ):
        pytest.fail("two runs have it")
    with hold(client, HELD, "second"):
        pass
    assert client.containers(all=True, filters={"name": HOLDER}) == []


def test_a_gpu_elsewhere_whose_holder_died_is_taken_over(client):
    dead = owner.labels("dead", 60) | {
        owner.OWNER: str(replace(machine.this_process(), started="1"))
    }
    client.create_container(IMAGE, ["true"], name=HOLDER, labels=dead)
    with hold(client, HELD, "next"):
        labels = client.inspect_container(HOLDER)["Config"]["Labels"]
        assert labels[owner.RUN] == "next"

"""What a container's settings become for a GPU, without a Docker Engine."""

from __future__ import annotations

import io
import platform

import pytest

from runner.core import DockerGpus, Gpu, GpuGrant, GpuWay, HostGpus, Profile, Workspace
from runner.engines.docker import confinement, facts
from runner.engines.docker.endpoint import Endpoint
from runner.engines.docker.gpu import NO_GPU, GpuSupport, grant_options, way_options
from runner.engines.docker.images import cuda_version

FIRST = Gpu("GPU-aaaa", "H200", 0, ("/dev/nvidia0",))
SECOND = Gpu("GPU-bbbb", "H200", 1, ("/dev/nvidia1",))
CAPS = ("/dev/nvidia-caps/nvidia-cap12", "/dev/nvidia-caps/nvidia-cap13")
SLICE = Gpu("MIG-cccc", "1g", 0, ("/dev/nvidia0", *CAPS), parent="GPU-aaaa")
MACHINE = HostGpus(
    "linux",
    driver="580.1",
    gpus=(FIRST, SECOND),
    nodes=("/dev/nvidiactl", "/dev/nvidia-uvm"),
    libraries=(("libcuda.so.1", "/usr/lib64/libcuda.so.580.1"),),
    programs=("/usr/bin/nvidia-smi",),
)
ENGINE = DockerGpus("1.45")
SUPPORT = GpuSupport(ENGINE, MACHINE)


def grant(*gpus: Gpu) -> GpuGrant:
    return GpuGrant(gpus, tuple(GpuWay), "580.1")


def work(given: GpuGrant | None, profile: Profile = Profile.STRICT) -> Workspace:
    return Workspace(
        "r", (), lambda: io.BytesIO(), image="i", gpu=given, profile=profile
    )


def settings(way: GpuWay, *gpus: Gpu, support: GpuSupport = SUPPORT) -> dict:
    """The host's half of a container's settings, by one way to some GPUs."""
    given = grant(*gpus)
    way_in = way_options(way, given, support)
    return confinement.host_options(work(given), "n", {}, way_in)


def names(way: GpuWay, image: list[str], *gpus: Gpu) -> dict[str, str]:
    given = grant(*gpus)
    return confinement.variables(work(given), image, way_options(way, given, SUPPORT))


def test_a_device_request_names_the_granted_gpus_and_never_counts():
    (request,) = settings(GpuWay.REQUEST, SECOND)["device_requests"]
    assert request["Driver"] == "nvidia"
    assert request["DeviceIDs"] == ["GPU-bbbb"]
    assert request["Count"] == 0
    assert request["Capabilities"] == [["gpu", "compute", "utility"]]


@pytest.mark.parametrize(
    ("known", "gpu", "device"),
    [
        (("nvidia.com/gpu=GPU-bbbb", "nvidia.com/gpu=1"), SECOND, "GPU-bbbb"),
        (("nvidia.com/gpu=0", "nvidia.com/gpu=1"), SECOND, "1"),
        (("nvidia.com/gpu=0", "nvidia.com/gpu=MIG-cccc"), SLICE, "MIG-cccc"),
        ((), SECOND, "GPU-bbbb"),
    ],
)
def test_cdi_names_a_gpu_as_its_specifications_do(known, gpu, device):
    for support in (
        GpuSupport(DockerGpus("1.45", cdi_devices=known), HostGpus("linux")),
        GpuSupport(ENGINE, HostGpus("linux", cdi=known)),
    ):
        (request,) = settings(GpuWay.CDI, gpu, support=support)["device_requests"]
        assert request["Driver"] == "cdi"
        assert request["DeviceIDs"] == [f"nvidia.com/gpu={device}"]


@pytest.mark.parametrize(
    ("gpus", "own"),
    [
        ([SECOND], ["/dev/nvidia1"]),
        ([FIRST, SECOND], ["/dev/nvidia0", "/dev/nvidia1"]),
        ([SLICE], ["/dev/nvidia0", *CAPS]),
    ],
)
def test_device_files_are_the_common_ones_and_the_granted_gpus_own(gpus, own):
    devices = settings(GpuWay.NODES, *gpus)["devices"]
    wanted = ["/dev/nvidiactl", "/dev/nvidia-uvm", *own]
    assert devices == [f"{path}:{path}:rw" for path in wanted]


@pytest.mark.parametrize("way", GpuWay)
@pytest.mark.parametrize("profile", Profile)
def test_no_way_to_a_gpu_loosens_the_confinement(way: GpuWay, profile: Profile):
    given = grant(FIRST)
    passed = way_options(way, given, SUPPORT)
    with_gpu = confinement.host_options(work(given, profile), "n", {}, passed)
    without = confinement.host_options(work(None, profile), "n", {})
    ours = ("devices", "device_requests", "mounts")
    assert {k: v for k, v in with_gpu.items() if k not in ours} == {
        k: v for k, v in without.items() if k not in ours
    }
    more = with_gpu["mounts"][len(without["mounts"]) :]
    assert all(mount["ReadOnly"] for mount in more)
    assert not {"privileged", "runtime", "device_cgroup_rules"} & set(with_gpu)


@pytest.mark.parametrize(
    ("way", "visible"),
    [
        (GpuWay.REQUEST, "GPU-aaaa,GPU-bbbb"),
        (GpuWay.CDI, "void"),
        (GpuWay.NODES, "void"),
    ],
)
def test_nvidias_own_runtime_adds_no_gpu_that_an_image_asks_for(way, visible):
    image = ["NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_DRIVER_CAPABILITIES=all"]
    found = names(way, image, FIRST, SECOND)
    assert found["NVIDIA_VISIBLE_DEVICES"] == visible
    assert found["NVIDIA_DRIVER_CAPABILITIES"] == "compute,utility"
    assert found["CUDA_VISIBLE_DEVICES"] == "GPU-aaaa,GPU-bbbb"


def test_a_run_without_a_gpu_closes_the_default_runtimes_way_too():
    assert grant_options(None, None) == (NO_GPU,)
    assert not {"devices", "device_requests"} & set(
        confinement.host_options(work(None), "n", {})
    )
    asked = Workspace(
        "r",
        (),
        lambda: io.BytesIO(),
        image="i",
        environment={"NVIDIA_VISIBLE_DEVICES": "all"},
    )
    found = confinement.variables(asked, ["NVIDIA_VISIBLE_DEVICES=all"])
    assert found["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert found["CUDA_VISIBLE_DEVICES"] == ""


def test_the_runs_user_joins_the_group_that_a_device_file_is_kept_to(tmp_path):
    kept, open_, owners = (tmp_path / name for name in ("kept", "open", "owners"))
    for path, mode in ((kept, 0o660), (open_, 0o666), (owners, 0o600)):
        path.touch()
        path.chmod(mode)
    group = kept.stat().st_gid

    def joined(*paths: object) -> list:
        machine = HostGpus("linux", nodes=tuple(map(str, paths)))
        options = [
            confinement.host_options(work(given), "n", {}, way)
            for way in grant_options(given, GpuSupport(ENGINE, machine))
        ]
        return [each.get("group_add") for each in options]

    given = grant(Gpu("GPU-aaaa", "X", 0))
    assert joined(open_, kept) == [[group]] * 3
    assert joined(open_, owners, tmp_path / "none") == [None] * 3


# What an engine tells of itself

SOCKET = Endpoint("unix:///var/run/docker.sock", "a test")
INFO = {"ServerVersion": "29.0.1", "Name": "lab", "KernelVersion": "6.1"}


def test_what_decides_about_gpus_is_picked_from_what_an_engine_tells():
    told = facts.gpus(
        INFO
        | {
            "Runtimes": {"runc": {"path": "runc"}, "nvidia": {"path": "x"}},
            "CDISpecDirs": ["/etc/cdi", "/var/run/cdi"],
            "DiscoveredDevices": [{"Source": "cdi", "ID": "nvidia.com/gpu=0"}],
        },
        "1.52",
        SOCKET,
    )
    assert told == DockerGpus(
        "1.52",
        here=False,
        runtimes=("runc", "nvidia"),
        cdi_devices=("nvidia.com/gpu=0",),
        cdi_folders=("/etc/cdi", "/var/run/cdi"),
    )


def test_an_engine_is_here_where_it_has_this_machines_name_and_kernel():
    here = {"Name": platform.node(), "KernelVersion": platform.release()}
    assert facts.gpus(INFO | here, "1.41", SOCKET).here
    assert not facts.gpus(INFO | here | {"Name": "docker-desktop"}, "1.41", SOCKET).here
    assert not facts.gpus(INFO | here | {"KernelVersion": "6.1"}, "1.41", SOCKET).here
    copy = Endpoint("ssh://user@copy", "a test")
    assert not facts.gpus(INFO | here, "1.41", copy).here


# What an image tells of itself


@pytest.mark.parametrize(
    ("config", "cuda"),
    [
        ({"Labels": {"rai.cuda": "13.0.88"}, "Env": ["CUDA_VERSION=12.8"]}, "13.0.88"),
        ({"Labels": None, "Env": ["PATH=/bin", "CUDA_VERSION=12.8.1"]}, "12.8.1"),
        ({"Labels": {"rai.cuda": ""}, "Env": None}, ""),
    ],
)
def test_the_cuda_of_an_image_is_its_labels_or_what_nvidias_images_say(config, cuda):
    assert cuda_version(config) == cuda

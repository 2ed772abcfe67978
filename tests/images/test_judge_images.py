"""The images in which the judge compiles and measures, built for real."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import docker
import pytest

from runner.core import BuildImage, BuildSpec
from runner.core.errors import Cancel
from runner.engines.docker import DockerEngine
from runner.pack import FolderProject
from runner.spec import images
from tests.images.conftest import ROOT, need_packages
from tests.kit.kept import alone

pytestmark = [pytest.mark.docker, pytest.mark.slow]

MB = 1_000_000
JUDGE = ROOT / "runner" / "judge"
TARGETS = {"measure": 130, "host": 270, "compile": 440}
"""The most megabytes of each."""

JOB = {"units": [{"file": "naive.cu", "target": "sm_90", "defines": {"TILE": 16}}]}


@pytest.fixture
def judge_image(
    engine: DockerEngine, builds: Path, tmp_path: Path
) -> Callable[..., str]:
    """Return a function that builds a target and returns the name of the image."""

    def build(target: str, **args: str) -> str:
        folder = tmp_path / "image"
        folder.mkdir(exist_ok=True)
        for name in ("Dockerfile", "requirements.txt"):
            shutil.copyfile(JUDGE / name, folder / name)
        wanted = BuildImage(target=target, args=tuple(sorted(args.items())))
        spec = BuildSpec("rai_build.yml", build_image=wanted)
        with alone(builds / "images"):
            plan = images.plan(spec, engine.image_facts(FolderProject(folder), spec))
            if not args and plan.action is not plan.action.REUSE:
                need_packages()
            for _ in engine.prepare(plan, FolderProject(folder), Cancel()):
                pass
        return plan.reference

    return build


def brought() -> dict[str, bytes]:
    """What a compile run brings: a job, a team's file, the judge."""
    judge = {f"runner/judge/{p.name}": p.read_bytes() for p in JUDGE.glob("*.py")}
    naive = (ROOT / "project" / "cuda" / "ladder" / "naive.cu").read_bytes()
    return {
        **judge,
        "runner/__init__.py": b"",
        "job.json": json.dumps(JOB).encode(),
        "team/naive.cu": naive,
    }


@pytest.mark.parametrize("target", TARGETS)
def test_each_is_small_and_has_python(
    judge_image, confined, client: docker.DockerClient, target
):
    image = judge_image(target)
    assert client.api.inspect_image(image)["Size"] <= TARGETS[target] * MB

    needed = "argparse, ctypes, json, mmap, resource, secrets, socket, statistics"
    result = confined(
        image,
        f"python3 -c 'import {needed}; import sys; assert sys.version_info >= (3, 11)'",
        "sh -c 'command -v pip pip3 venv || true'",
    )
    assert (result.codes, result.stdout) == ([0, 0], b""), result.stderr


def test_kernels_are_compiled_in_it_and_programs_are_too(judge_image, confined):
    result = confined(
        judge_image("compile"),
        "env PYTHONPATH=/src python3 -m runner.judge.compiling",
        "sh -c 'echo int main\\(\\) {} >/tmp/a.cpp && g++ -O3 -o /tmp/a /tmp/a.cpp'",
        files=brought(),
    )
    assert result.codes == [0, 0], result.stderr
    assert result.content("build/0.cubin").startswith(b"\x7fELF")


def test_on_a_base_that_has_all_it_is_built_without_a_network(
    judge_image, client: docker.DockerClient
):
    base = judge_image("compile")
    built, _ = client.images.build(
        path=str(JUDGE),
        target="compile",
        buildargs={"BASE": base},
        network_mode="none",
        rm=True,
    )
    sizes = [client.api.inspect_image(name)["Size"] for name in (base, built.id)]
    assert sizes[0] == sizes[1]
    client.images.remove(built.id)

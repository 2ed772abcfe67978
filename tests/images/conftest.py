"""The project's own images, each built once at most, and not where it is there."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import docker
import pytest

from runner.core import BuildImage, BuildSpec, ImageAction
from runner.core.errors import Cancel
from runner.engines.docker import DockerEngine
from runner.pack import FolderProject
from runner.spec import images
from tests.kit.kept import alone
from tests.kit.needs import REQUIRED
from tests.kit.running import Result, Subject, run

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("pypi.org", 443)


@pytest.fixture(scope="session")
def engine() -> DockerEngine:
    return DockerEngine()


@pytest.fixture
def client() -> Iterator[docker.DockerClient]:
    client = docker.from_env()
    yield client
    client.close()


@pytest.fixture(scope="session")
def built(engine: DockerEngine, builds: Path) -> Callable[..., str]:
    """Return a function that builds a target and returns the name of the image."""

    @cache
    def build(target: str, **args: str) -> str:
        wanted = BuildImage(target=target, args=tuple(sorted(args.items())))
        spec = BuildSpec("rai_build.yml", build_image=wanted)
        with alone(builds / "images"):  # what one worker builds, the others use
            plan = images.plan(spec, engine.image_facts(FolderProject(ROOT), spec))
            if plan.action is ImageAction.BUILD and target != "cpu":
                need_packages()
            for _ in engine.prepare(plan, FolderProject(ROOT), Cancel()):
                pass
        return plan.reference

    return build


@pytest.fixture(scope="session")
def confined(engine: DockerEngine) -> Callable[..., Result]:
    """Return a function that runs commands in an image, confined as those of a job."""

    def start(reference: str, *commands: str, **options: object) -> Result:
        return run(Subject(engine, reference), commands, **options)

    return start


def need_packages() -> None:
    """Skip, saying why, where an image is not there and cannot be built."""
    try:
        socket.create_connection(PACKAGES, timeout=5).close()
    except OSError as error:
        if "docker" not in REQUIRED:
            pytest.skip(f"docker: no image yet, and no {PACKAGES[0]}: {error}")

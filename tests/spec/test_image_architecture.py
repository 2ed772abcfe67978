"""Architectures of images and machines."""

from __future__ import annotations

import pytest

from runner.core import Reason
from runner.execution import prepare, validation
from runner.spec import images
from runner.system import machine


@pytest.mark.parametrize(
    ("wanted", "own", "differ"),
    [
        ("amd64", "x86_64", False),
        ("ppc64le", "x86_64", True),
        ("386", "amd64", False),
        ("arm64", "aarch64", False),
        ("arm", "aarch64", False),
        ("amd64", "aarch64", True),
        ("", "x86_64", False),
        ("amd64", "", False),
    ],
)
def test_an_emulator_is_needed_for_a_foreign_architecture_alone(wanted, own, differ):
    assert images.differ(wanted, own) is differ


def test_emulators_have_the_names_of_qemu():
    names = ["amd64", "aarch64", "i386", "ppc64le"]
    emulators = [images.emulator(name) for name in names]
    assert emulators == ["qemu-x86_64", "qemu-aarch64", "qemu-i386", "qemu-ppc64le"]


def test_an_image_that_cannot_run_names_both_architectures_and_what_to_do():
    error = images.unsuitable("a/b:1", "ppc64le", "x86_64")
    assert error.reason is Reason.IMAGE_NOT_FOUND
    assert "a/b:1 is for ppc64le, and the engine's machine is amd64" in str(error)
    assert "use an image for amd64: `--image NAME`" in str(error)


@pytest.mark.parametrize("engine", ["bare", "auto"])
def test_validate_warns_of_an_architecture_that_the_engine_does_not_have(
    engine, tmp_path, monkeypatch
):
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere")
    monkeypatch.delenv("CI", raising=False)
    here = images.normal(machine.architecture())
    other = "s390x" if here != "s390x" else "amd64"
    options = prepare.Options(engine=engine)

    def warnings(name: str) -> list[str]:
        cpu = f"resources: {{cpu: {{architecture: {name}}}}}\n"
        text = f"rai: {{image: gcc}}\n{cpu}commands: {{build: [ls]}}\n"
        (tmp_path / "rai_build.yml").write_text(text)
        return [p.message for p in validation.validate(tmp_path, options).problems]

    assert warnings(here) == []
    (said,) = warnings(other)
    assert said.startswith(f"resources.cpu.architecture is {other}, and commands would")
    assert f"run on {here}, by the " in said

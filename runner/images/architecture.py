"""Which images a machine can run: names of architectures, and what differs. Pure."""

from __future__ import annotations

from runner.core import Problem, Reason
from runner.core.errors import ImageError

ALIASES = {
    "x86_64": "amd64",
    "x64": "amd64",
    "aarch64": "arm64",
    "armv6l": "arm",
    "armv7l": "arm",
    "armhf": "arm",
    "i386": "386",
    "i686": "386",
    "powerpc64le": "ppc64le",
}
"""What kernels and people call an architecture, and what images call it."""

RUN_TOO = {"amd64": ("386",), "arm64": ("arm",)}
"""The architectures whose programs another one runs without an emulator."""

EMULATED_AS = {"amd64": "x86_64", "arm64": "aarch64", "386": "i386"}
"""What QEMU calls an architecture, where images call it something else."""


def normal(name: str) -> str:
    """Return an architecture's name as images have it; "" stays."""
    name = name.strip().lower()
    return ALIASES.get(name, name)


def differ(wanted: str, machine: str) -> bool:
    """Whether a machine needs an emulator for an architecture; not if one is ""."""
    wanted, machine = normal(wanted), normal(machine)
    if not (wanted and machine) or wanted == machine:
        return False
    return wanted not in RUN_TOO.get(machine, ())


def emulator(wanted: str) -> str:
    """Return the name that QEMU's emulator of an architecture is registered by."""
    name = normal(wanted)
    return f"qemu-{EMULATED_AS.get(name, name)}"


def emulated(image: str, wanted: str, machine: str) -> str:
    """Return the warning for an image that may only run emulated."""
    return (
        f"the image {image} is for {normal(wanted)}, and the engine's machine is"
        f" {normal(machine)}: it runs only with an emulator, and far slower"
    )


def unsuitable(image: str, wanted: str, machine: str) -> ImageError:
    """Return the error for an image that a machine cannot run."""
    wanted, machine = normal(wanted), normal(machine)
    text = (
        f"the image {image} is for {wanted}, and the engine's machine is {machine},"
        f" which cannot run it: no emulator ({emulator(wanted)}) is registered"
    )
    hint = (
        f"use an image for {machine}: `--image NAME`, or `images:` in your settings"
        f" file; or register an emulator of {wanted}"
    )
    return ImageError(Problem(text, hint=hint), reason=Reason.IMAGE_NOT_FOUND)

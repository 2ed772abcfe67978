"""Machines with and without GPUs, as their files and nvidia-smi show them.

Each is written below a folder that stands for its root. The NVML library in it is a
text, which no loader takes: so the GPUs are told by nvidia-smi, a script with the
recorded answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

QUERY = "--query-gpu="
VERSION = """\
NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {driver}  Release Build  (dvs)
GCC version:  gcc version 12.2.0 (Debian 12.2.0-14+deb12u1)
"""
INFORMATION = """\
Model: \t\t {name}
IRQ:   \t\t 42
GPU UUID: \t {uuid}
Bus Type: \t PCIe
Bus Location: \t {bus}
Device Minor: \t {minor}
GPU Excluded:\t No
"""
SMI = """\
#!/bin/sh
case "$1" in
--query-gpu=*) cat <<'END'
{query}END
;;
--query-compute-apps=*) cat <<'END'
{processes}END
;;
esac
exit {code}
"""
CDI = """\
---
cdiVersion: 0.5.0
kind: nvidia.com/gpu
devices:
- name: "0"
  containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
- name: {uuid}
  containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
- name: all
  containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
containerEdits:
  env:
  - NVIDIA_VISIBLE_DEVICES=void
"""


class Card(Struct, frozen=True):
    """One GPU as nvidia-smi tells it."""

    uuid: str
    name: str
    index: int = 0
    memory_mib: int = 143771
    compute: str = "9.0"
    bus: str = "0000:0A:00.0"
    mig: str = "Disabled"

    def row(self, driver: str) -> str:
        """Return its line of nvidia-smi --query-gpu."""
        words = [self.index, self.uuid, driver, self.mig, self.memory_mib, self.compute]
        words += [f"0000{self.bus}", 345, 1980, 3201, 33, "76.40", self.name]
        return ", ".join(map(str, words)) + "\n"


class Recorded(Struct, frozen=True):
    """A machine's files: texts, links and programs by path."""

    driver: str = ""
    cards: Sequence[Card] = ()
    nodes: Sequence[str] = ()
    libraries: str = "usr/lib/x86_64-linux-gnu"
    smi: str = "usr/bin/nvidia-smi"
    processes: str = ""
    failure: str = ""
    texts: Mapping[str, str] = field(default_factory=dict)
    programs: Sequence[str] = ()

    def write(self, root: Path) -> Path:
        """Write the machine below ``root``."""
        for path, text in {**self._proc(), **self.texts}.items():
            _write(root / path, text)
        for node in self.nodes:
            _write(root / "dev" / node, "")
        for program in self.programs:
            _program(root / program, "#!/bin/sh\n")
        if self.driver:
            libraries(root / self.libraries, self.driver)
            _program(root / self.smi, self._smi())
        return root

    def _proc(self) -> dict[str, str]:
        if not self.driver:
            return {}
        found = {"proc/driver/nvidia/version": VERSION.format(driver=self.driver)}
        for card in self.cards:
            path = f"proc/driver/nvidia/gpus/{card.bus.lower()}/information"
            found[path] = INFORMATION.format(
                name=card.name, uuid=card.uuid, bus=card.bus, minor=card.index
            )
        return found

    def _smi(self) -> str:
        if self.failure:
            return SMI.format(query=self.failure + "\n", processes="", code=9)
        return SMI.format(
            query="".join(card.row(self.driver) for card in self.cards),
            processes=self.processes,
            code=0,
        )


def libraries(folder: Path, driver: str) -> None:
    """Lay the driver's libraries there as its installer does: files, and links."""
    for name, link in (
        ("libcuda", "so.1"),
        ("libnvidia-ml", "so.1"),
        ("libnvidia-ptxjitcompiler", "so.1"),
        ("libnvidia-nvvm", "so.4"),
        ("libnvidia-gpucomp", ""),
        ("libcudadebugger", "so.1"),
    ):
        file = folder / f"{name}.so.{driver}"
        _write(file, "no library\n")
        if link:
            (folder / f"{name}.{link}").unlink(missing_ok=True)
            (folder / f"{name}.{link}").symlink_to(file.name)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _program(path: Path, text: str) -> None:
    _write(path, text)
    path.chmod(0o755)


def pci(address: str) -> dict[str, str]:
    """Return the files of an NVIDIA card below /sys, as those of a machine's texts."""
    folder = f"sys/bus/pci/devices/{address}"
    return {f"{folder}/vendor": "0x10de\n", f"{folder}/class": "0x030200\n"}


NODES = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools")
H200 = Card("GPU-5e1f0c2a-9d1b-47aa-8f0e-6b1c2d3e4f50", "NVIDIA H200")
RTX = Card(
    "GPU-1b2c3d4e-0000-1111-2222-333344445555",
    "NVIDIA GeForce RTX 4070",
    memory_mib=12282,
    compute="8.9",
    bus="0000:01:00.0",
    mig="[N/A]",
)
A100 = Card(
    "GPU-c0ffee00-1111-2222-3333-444455556666",
    "NVIDIA A100-SXM4-40GB",
    memory_mib=40960,
    compute="8.0",
    bus="0000:07:00.0",
    mig="Enabled",
)
FOUR = tuple(
    Card(
        f"GPU-{n}0000000-aaaa-bbbb-cccc-00000000000{n}",
        "NVIDIA L40S",
        n,
        46068,
        "8.9",
        f"0000:{n + 1:02X}:00.0",
        "[N/A]",
    )
    for n in range(4)
)

LAPTOP = Recorded(
    texts={
        "sys/bus/pci/devices/0000:00:02.0/vendor": "0x8086\n",
        "sys/bus/pci/devices/0000:00:02.0/class": "0x030000\n",
    }
)
UNDRIVEN = Recorded(texts=pci("0000:01:00.0"))
WORKSTATION = Recorded(
    "570.124.06",
    (RTX,),
    ("nvidia0", *NODES),
    programs=("usr/bin/nvidia-container-runtime-hook",),
)
CDI_ONLY = Recorded(
    "575.57.08",
    (RTX,),
    ("nvidia0", *NODES),
    texts={"etc/cdi/nvidia.yaml": CDI.format(uuid=RTX.uuid)},
)
MICROVM = Recorded(
    "580.159.04",
    (H200,),
    ("nvidia0", *NODES),
    libraries="usr/local/nvidia/lib64",
    smi="usr/local/nvidia/bin/nvidia-smi",
)
SLICED = Recorded(
    "550.90.07",
    (A100,),
    ("nvidia0", *NODES, *(f"nvidia-caps/nvidia-cap{n}" for n in (12, 13, 21, 22))),
    texts={
        "proc/driver/nvidia-caps/mig-minors": "config 1\nmonitor 2\n"
        "gpu0/gi1/access 12\ngpu0/gi1/ci0/access 13\n"
        "gpu0/gi2/access 21\ngpu0/gi2/ci0/access 22\n",
    },
)
NODELESS = Recorded("570.124.06", (RTX,))
FOUR_GPUS = Recorded(
    "580.65.06",
    FOUR,
    (*(f"nvidia{n}" for n in range(4)), *NODES),
    processes=f"{FOUR[0].uuid}, 7001, 40960, /opt/conda/bin/python\n"
    f"{FOUR[0].uuid}, 7002, 512, /usr/bin/ollama\n"
    f"{FOUR[2].uuid}, 7003, [N/A], [Not Found]\n",
)
MISMATCHED = Recorded(
    "570.124.06",
    (RTX,),
    ("nvidia0", *NODES),
    failure="Failed to initialize NVML: Driver/library version mismatch\n"
    "NVML library version: 575.57",
)
WSL = Recorded(
    nodes=("dxg",),
    texts={
        "proc/sys/kernel/osrelease": "5.15.167.4-microsoft-standard-WSL2\n",
        "usr/lib/wsl/lib/libcuda.so.1": "no library\n",
        "usr/lib/wsl/lib/libnvidia-ml.so.1": "no library\n",
        "usr/lib/wsl/lib/nvidia-smi": SMI.format(
            query=RTX.row("576.02"), processes="", code=0
        ),
    },
)


def wsl(root: Path) -> Path:
    """Write the machine with Windows' driver, whose nvidia-smi lies in its folder."""
    WSL.write(root)
    (root / "usr/lib/wsl/lib/nvidia-smi").chmod(0o755)
    return root

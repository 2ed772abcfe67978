"""`rai server` of a machine whose GPU is the stand-in of ``tests.exploits.standin``.

`python -m tests.kit.standin server serve ...`

The runs of a submission are as they are, but for the machine code: behind nvcc's own
the milestone's command puts what g++ made of the same kernel.
"""

from __future__ import annotations

import json
import shlex
import sys
from functools import cache
from pathlib import Path

from msgspec.structs import replace

from runner.cli.main import main
from runner.core import Gpu, HostGpus
from runner.engines.gpu import nvidia, watch
from runner.execution import local, worker
from runner.spec.milestones import OURS
from runner.submit import staging
from runner.submit.staging import GoldenFiles
from tests.exploits import standin
from tests.exploits.standin import library as standin_library
from tests.exploits.standin import measuring
from tests.kit import sample_submission as sample

UUID = "GPU-00000000-1111-2222-3333-444444444444"
OTHER = sample.KERNEL.replace("= sum;", "= sum + 1;")
"""The sample's kernel with wrong sums."""

CHOOSES = "cp /src/runner/judge/standin/$(grep -c 'sum + 1' /src/team/naive.cu) 0.cubin"


def milestone() -> str:
    """Return final.yml for shapes that a CPU computes at once, with two attempts."""
    text, _, _ = (OURS / "final.yml").read_text().partition("references:")
    layers, images = text[text.index("images:") : text.index("runs:")], 4
    shapes = {name: dict(shape) for name, shape in standin.SHAPES.items()}
    assert {shape.pop("B") for shape in shapes.values()} == {images}
    small = json.dumps([{"name": name, **shape} for name, shape in shapes.items()])
    text = text.replace(layers, f"images: {images}\nlayers: {small}\n")
    chooses = f"sh -c {shlex.quote(CHOOSES)}"
    compiling = "      - python3 -m runner.judge.compiling\n"
    text = text.replace(compiling, f"{compiling}      - {json.dumps(chooses)}\n")
    text = text.replace("folders.py]", 'folders.py, "standin/*"]')
    return f"{text}rules: {json.dumps(dict(standin.RULES))}\nattempts: 3\n"


def entry() -> dict[str, object]:
    """Return the entry of a plan for these shapes."""
    found = sample.entry(architectures=("sm_90",))
    (plan,) = found["plans"]
    shapes = standin.SHAPES.items()
    plan["convolutions"] = [sample.convolution(*each, "sm_90") for each in shapes]
    return found


@cache
def golden() -> GoldenFiles:
    """Return the judge's files with the stand-in's code among them."""
    code = (standin.compiled(source) for source in (sample.KERNEL, OTHER))
    more = {f"standin/{number}": data for number, data in enumerate(code)}
    usual = GOLDEN()
    return replace(usual, files={**usual.files, **measuring._own(), **more})


def machine() -> HostGpus:
    """Return a machine with one GPU, the library of whose driver is the stand-in."""
    names = ("libcuda.so.1", "device")
    folder = standin_library()
    libraries = tuple((name, str(folder / name)) for name in names)
    gpu = Gpu(UUID, "Stand-in", 0, compute="9.0")
    return HostGpus("wsl", "580.1", (gpu,), libraries=libraries)


GOLDEN = staging.judge_files

if __name__ == "__main__":
    watch.this_machine = machine
    nvidia.states = lambda gpus: ()
    if "--for-server" in sys.argv:
        sys.exit(worker.main())
    root = Path(__file__).resolve().parents[2]
    again = f"import sys, runpy; sys.path.insert(0, {str(root)!r}); "
    again += f"runpy.run_module({__spec__.name!r}, run_name='__main__')"
    local.WORKER = (sys.executable, "-c", again)
    staging.judge_files = golden
    main()

"""The image `course`: unchanged projects of 2017 to 2019 are made and run in it."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from backends.numpy_cpu import NumpyCpu
from course import checkpoints, editions, params
from course.resize import resize
from milestones import synthetic

from runner.core import DataMount, Profile, Step
from tests.images.test_gpu_image import MB
from tests.kit.running import Result, data_file, direct

pytestmark = [pytest.mark.docker, pytest.mark.slow]

HERE = Path(__file__).resolve().parent
IMAGES = 20
COPIES = tuple(
    direct("/bin/bash", "-c", script)
    for script in (
        "cp -rv /ece408_src/* /mxnet/src/operator/custom",
        "cp -rv /src/* /build",
        "for src in ece408_src/*; do cp -v $src /mxnet/src/operator/custom/.; done",
    )
)
MAKE = "nice -n20 make -C /mxnet"
MADE = (*COPIES, MAKE, "pip2 install --user -e /mxnet/python")
NOT_WRITTEN = """\
namespace mxnet { namespace op {
template <typename cpu, typename DType>
void forward(mshadow::Tensor<cpu, 4, DType> &y, const mshadow::Tensor<cpu, 4, DType> &x,
             const mshadow::Tensor<cpu, 4, DType> &k) { CHECK_EQ(0, 1) << "write me"; }
}}
"""


@pytest.fixture(scope="module")
def image(built: Callable[..., str]) -> str:
    return built("course")


def project(year: int = 2019) -> dict[str, bytes]:
    """A project of a year, which in 2017 brings all of the operator."""
    folder = HERE / "course_project"
    files = {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    files["classify.py"] = files.pop("classify.py2")
    if year == 2017:  # without reader.py, which the image has, too
        del files["reader.py"]
        for path in (HERE / "course_2017").iterdir():
            files[f"ece408_src/{path.name}"] = path.read_bytes()
    return files


@pytest.fixture
def garments(tmp_path: Path) -> Callable[[str], DataMount]:
    """Return a function that makes t10k; its labels are those of an edition's model."""

    def make(edition_name: str) -> DataMount:
        edition = editions.edition(edition_name)
        (model,) = edition.with_convolutions(own=True)[:1]
        images = synthetic.images()[:IMAGES]
        network = checkpoints.load(edition, model)
        labels = NumpyCpu().infer(network, resize(images, edition.size)).labels
        header = struct.pack(">4I", 0x803, IMAGES, 28, 28)
        names = {
            "t10k-images-idx3-ubyte.gz": header + images.tobytes(),
            "t10k-labels-idx1-ubyte.gz": header[:8] + labels.tobytes(),
        }
        return DataMount(
            "/data/fashion-mnist",
            tuple(data_file(tmp_path / n, gzip.compress(b)) for n, b in names.items()),
        )

    return make


@pytest.fixture
def run(confined: Callable[..., Result], image: str) -> Callable[..., Result]:
    def start(*commands: str | Step, year: int = 2019, **options: object) -> Result:
        chosen = {"files": project(year), "profile": Profile.COMPATIBLE, "time_s": 600}
        return confined(image, *commands, **(chosen | options))

    return start


def test_it_adds_little_to_the_image_gpu(client, built, image):
    of = client.api.inspect_image
    assert of(image)["Size"] - of(built("gpu"))["Size"] <= 300 * MB


def test_an_unchanged_project_classifies_by_its_forward_in_mxnet(run, garments):
    done = run(
        *MADE,
        "/usr/bin/time python classify.py 70 ece408 2",
        "python classify.py 70 baseline 2",
        data=[garments("2019fa")],
    )
    assert set(done.codes) == {0}, done.stderr
    own, mxnets = (said.decode().splitlines() for said in done.said[-2:])
    assert own[0] == mxnets[0] == "Loading images... done"
    assert [line.split()[:2] for line in own[1:3]] == [["Op", "Time:"]] * 2
    assert own[3:] == ["Correctness: 1.0 Model: ece408"]
    assert mxnets[1:] == ["Correctness: 1.0 Model: baseline"]


def test_2017s_own_operator_and_images_of_another_size_take_their_model(run, garments):
    done = run(
        "cp /src/ece408_src/* $MXNET_SRC_ROOT/src/operator/custom/",
        "make -j2 -C $MXNET_SRC_ROOT",
        "python /src/classify.py 28 ece408-high 1",
        year=2017,
        data=[garments("2017fa")],
    )
    assert done.codes[-1] == 0, done.stderr
    assert done.said[-1].endswith(b"Correctness: 1.0 Model: ece408-high\n")
    assert b"50 maps by 2017's operator" in done.stderr


def test_a_forward_that_is_not_written_says_so(run, garments):
    files = project() | {"ece408_src/new-forward.h": NOT_WRITTEN.encode()}
    script = "python classify.py 70 ece408 2"
    done = run(*MADE, script, files=files, data=[garments("2019fa")])

    assert done.codes[-1] == 1
    assert b"Check failed: 0 == 1 (0 vs. 1) write me" in done.stderr


def test_a_wrong_forward_says_where(run, garments):
    files = project()
    path = "ece408_src/new-forward.h"
    files[path] = files[path].replace(b"+= x[b]", b"+= x[b - (b == 19 && m == 3)]")
    script = "python classify.py 70 ece408 2"
    done = run(*MADE, script, files=files, data=[garments("2019fa")])

    assert done.codes[-1] == 0
    wrong = b"forward() is wrong: map 3, row 0, column 15 of image 19 of 20 is "
    assert wrong in done.stderr


def test_weights_of_a_project_come_first(run, garments):
    arrays = params.read(checkpoints.MODELS / "2019fa-ece408.params")
    last = list(arrays)[-1]
    always_9 = {**arrays, last: np.arange(10, dtype=np.float32) * 1000}
    other = checkpoints.MODELS / "2018sp-ece408.params"
    own = "2019fa-ece408-0002.params"
    files = {f"models/{own}": params.dumps(always_9), f"b/{own}": other.read_bytes()}
    script = "python classify.py 70 ece408 2"
    done = run(
        *(*MADE, script, f"RAI_MODELS_DIR=/src/b {script}"),
        files=project() | files,
        data=[garments("2019fa")],
    )

    assert last == "fullyconnected1_bias"
    assert done.codes[-2:] == [0, 1]
    assert b"Correctness: 1.0" not in done.said[-2]
    assert b"these are not the weights of 2019fa ece408" in done.stderr


@pytest.mark.parametrize("year", [2017, 2019])
def test_with_an_architecture_the_gpus_operator_is_compiled_and_asks_for_one(
    run, garments, year
):
    done = run(
        *COPIES,
        f"{MAKE} ARCH=sm_90",
        "python classify.py 70 ece408 2 gpu",
        year=year,
        data=[garments("2019fa")],
    )
    assert set(done.codes[:-1]) == {0}, done.stderr
    assert done.codes[-1] == 1
    assert b"MXNetError" in done.stderr
    assert b"CUDA: " in done.stderr


def test_without_a_gpu_mxs_gpu_says_what_to_do(run, garments):
    script = "python classify.py 70 ece408 2 gpu"
    done = run(*MADE, script, data=[garments("2019fa")])

    assert b"There is no GPU: only new.cc is compiled" in done.stdout
    assert b"mx.gpu(): no CUDA-capable device is detected, or none was" in done.stderr


def test_without_a_library_mxs_gpu_does_not_lay_it_on_the_gpu(run, garments):
    done = run("python /src/classify.py 70 baseline 2 gpu", data=[garments("2019fa")])

    assert b"operator New is not made" in done.stderr
    assert b"CUDA" not in done.stderr


def test_the_gpus_layers_are_called_with_the_arrays_that_they_need(run, garments):
    # A stand-in for layers.cu computes on the CPU; that file is compiled above.
    link = (
        "g++ -shared -fPIC -fopenmp -I/mxnet -o /mxnet/lib/libnew.so /src/layers.cpp"
        " /mxnet/lib/new.cc.o /mxnet/lib/parts.o"
    )
    layers = (HERE / "course_layers.cpp").read_bytes()
    done = run(
        *MADE,
        link,
        "python classify.py 70 ece408 2 gpu",
        "python classify.py 70 baseline 2 gpu",
        files=project() | {"layers.cpp": layers},
        data=[garments("2019fa")],
    )
    assert set(done.codes) == {0}, done.stderr
    assert done.said[-2].count(b"Op Time: ") == 2
    assert b"Correctness: 1.0 Model: ece408\n" in done.said[-2]
    assert b"Correctness: 1.0 Model: baseline\n" in done.said[-1]


def test_every_edition_has_its_models_and_the_newest_ones_are_there_without_a_size(run):
    ask = (
        "import mxnet; symbol, arrays, _ = mxnet.model.load_checkpoint"
        "('/models/ece408', 2); print(arrays['new0_weight'].shape, symbol.name)"
    )
    done = run(*MADE, f'python -c "{ask}"', "cd /models && ls -d ??/*.params")

    assert done.said[-2] == b"(12, 1, 5, 5) softmax\n", done.stderr
    assert done.said[-1].decode().split() == sorted(
        f"{edition.size}/{model.name}-000{1 if edition.names_model else 2}.params"
        for edition in editions.EDITIONS.values()
        for model in edition.models
    )


def test_pythons_and_pips_other_uses(run):
    done = run(
        "python2 -c 'print(6 * 7)'",
        "pip install scikit-learn",
        "nvprof --version",
        "python missing.py",
        keep_going=True,
    )
    assert done.codes == [0, 1, 0, 2]
    assert done.said[0] == b"42\n"
    assert b"only /mxnet/python can be installed" in done.stderr

"""The vendor's convolution on the GPU."""

import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from backends import cuda_gpu
from backends.cuda_gpu import images_that_fit, most_bytes
from backends.numpy_cpu import NumpyCpu
from course import checkpoints, editions, graph
from course.errors import NoGpuError
from course.shapes import ConvShape
from gpu.device import Device
from host import reference
from milestones import milestone

from tests.kit.program import run_program

SCRIPT = checkpoints.MODELS.parent / "m1.2.py"
SHAPES = [
    ConvShape(100, 12, 1, 70, 70, 5),
    ConvShape(100, 24, 12, 33, 33, 5),
    ConvShape(10, 24, 12, 33, 33, 7),
    ConvShape(10, 50, 1, 28, 28, 5),
    ConvShape(3, 4, 3, 20, 31, 3),
    ConvShape(1, 1, 1, 5, 5, 5),
]
GIB = 1 << 30
FP32 = 1e-6  # ||y - reference|| / ||reference||; TF32 is over 1e-4


@pytest.fixture
def bare(tmp_path):
    """Run the script by a Python that has NumPy, what is put beside it, and no more."""
    (tmp_path / "numpy").symlink_to(Path(np.__file__).parent)

    def run(*arguments):
        return run_program(
            [sys.executable, "-S", SCRIPT, *arguments],
            env={"PYTHONPATH": str(tmp_path)},
        )

    return run


def test_without_a_library_milestone_1_2_is_one_sentence_and_no_gpu(bare):
    done = bare("10")

    assert done.returncode == NoGpuError.exit_code
    assert done.stdout == ""
    assert done.stderr == (
        "m1.2.py: cannot use cuDNN: No module named 'cudnn'; run `pip install -e "
        "'.[gpu]'` at the project's top\n"
    )


def test_a_library_that_does_not_load_is_said_in_its_own_words(bare, tmp_path):
    why = "libcudnn.so.9: cannot open shared object file"
    (tmp_path / "cudnn").mkdir()
    (tmp_path / "cudnn" / "__init__.py").write_text(f"raise ImportError({why!r})")

    done = bare("10")

    assert done.returncode == NoGpuError.exit_code
    assert done.stderr.startswith(f"m1.2.py: cannot use cuDNN: {why}; run `pip")


@pytest.fixture
def backend():
    pytest.importorskip("pycuda.driver", reason="pycuda is not installed")
    pytest.importorskip("cudnn", reason="nvidia-cudnn-frontend is not installed")
    from backends.cudnn_gpu import CudnnGpu

    with Device() as device, closing(CudnnGpu(device)) as backend:
        yield backend


@pytest.mark.gpu
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_vendors_convolution_is_the_references_in_fp32(shape, backend):
    rng = np.random.default_rng()
    x = rng.standard_normal((shape.B, shape.C, shape.H, shape.W), np.float32)
    k = rng.standard_normal((shape.M, shape.C, shape.K, shape.K), np.float32)
    expected = np.empty((shape.B, shape.M, shape.H_out, shape.W_out))
    reference.convolve(expected, x.astype(float), k.astype(float))

    backend.prepare([shape])
    y = backend.put(np.full(expected.shape, np.nan, np.float32))
    backend.convolution(y, backend.put(x), backend.put(k))
    backend.wait()

    wrong = np.linalg.norm(backend.get(y) - expected)
    assert wrong < FP32 * np.linalg.norm(expected)


@pytest.mark.gpu
def test_the_vendors_network_says_of_every_image_what_numpy_says(backend):
    images = milestone.load_images(editions.DEFAULT, 1000).pixels
    baseline = checkpoints.load(editions.DEFAULT, editions.DEFAULT.model("baseline"))

    found = backend.infer(baseline, images)

    expected = NumpyCpu().infer(baseline, images)
    assert (found.labels == expected.labels).all()
    assert np.allclose(found.probabilities, expected.probabilities, atol=1e-4)


@pytest.mark.gpu
def test_what_is_left_over_of_a_batch_has_a_plan_of_its_own(backend, monkeypatch):
    images = milestone.load_images(editions.DEFAULT, 300).pixels
    baseline = checkpoints.load(editions.DEFAULT, editions.DEFAULT.model("baseline"))
    convolutions = graph.convolutions(baseline.model.layers, *images.shape[:2])
    room = 128 * GIB // images_that_fit(GIB, most_bytes(convolutions))
    share = room / backend.device.free_bytes()
    monkeypatch.setattr(cuda_gpu, "SHARE_OF_MEMORY", share)

    found = backend.infer(baseline, images)

    assert 1 < backend.batch < 150
    expected = NumpyCpu().infer(baseline, images)
    assert (found.labels == expected.labels).all()


@pytest.mark.gpu
@pytest.mark.parametrize("images", ["1", "1000"])
def test_milestone_1_2_prints_what_1_1_prints(images):
    said = [
        run_program([sys.executable, SCRIPT.with_name(name), images, *words])
        for name, *words in (("m1.1.py", "--backend", "numpy"), ("m1.2.py",))
    ]

    assert [done.stderr for done in said] == ["", ""]
    assert [done.returncode for done in said] == [0, 0]
    assert said[1].stdout == said[0].stdout

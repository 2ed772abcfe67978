"""Networks in MXNet: the course's own files, our operator, and what may be missing."""

import os
import sys
from dataclasses import replace

import numpy as np
import pytest
from backends import mxnet_cpu
from backends.mxnet_cpu import MxnetCpu
from backends.numpy_cpu import NumpyCpu
from course import editions, network, params, symbol
from course.errors import MissingError, ProjectError
from host import cpu_convolution, mxnet_package
from host.mxnet_package import INSTALL
from milestones import milestone

from tests.kit import outside
from tests.kit.needs import ROOT
from tests.kit.program import run_program

pytestmark = pytest.mark.usefixtures("compiled_once")

PROJECT = ROOT / "project"
NOT_INSTALLED = ModuleNotFoundError("No module named 'mxnet'", name="mxnet")
COURSE = editions.edition("2019sp")


def random_network(edition_name, model_name, seed=0):
    """Set weights of a model that let no layer saturate."""
    edition = editions.edition(edition_name)
    model = edition.model(model_name)
    rng = np.random.default_rng(seed)
    weights = {}
    for name, shape in network.shapes(edition, model).items():
        # Bytes come into the first layer, and numbers of about 1 into all others.
        share = 1 / 50 if not weights else 2
        spread = share / np.prod(shape[1:]) ** 0.5
        weights[name] = (spread * rng.standard_normal(shape)).astype(np.float32)
    return network.assemble(edition, model, weights)


def random_images(count, size, seed=1):
    """Return images of large squares, which networks tell from each other."""
    rng = np.random.default_rng(seed)
    squares = rng.integers(0, 256, (count, 5, 5), np.uint8)
    return squares.repeat(16, axis=1).repeat(16, axis=2)[:, :size, :size]


def course():
    """Load the course's weights and its symbol file, as they are."""
    folder = outside.path("course-models")
    weights = folder / "2019sp-ece408-0002.params"
    text = (folder / "2019sp-ece408-symbol.json").read_text("utf-8")
    model = replace(COURSE.model("ece408"), layers=symbol.loads(text))
    return network.assemble(COURSE, model, params.read(weights))


@pytest.mark.mxnet
@pytest.mark.data
def test_the_courses_own_files_give_the_published_accuracies(capfd, monkeypatch):
    monkeypatch.setenv("RAI_DATA_DIR", outside.fashion_mnist())
    images = milestone.load_images(COURSE, 10_000)
    capfd.readouterr()

    found = MxnetCpu(own=True).infer(course(), images.pixels)

    right = found.labels == images.labels
    assert capfd.readouterr() == ("", "")
    assert {n: float(right[:n].mean()) for n in (100, 1000, 10_000)} == {
        100: 0.84,
        1000: 0.852,
        10_000: 0.8397,
    }
    assert len(found.op_times_s) == 2
    assert min(found.op_times_s) > 0


@pytest.mark.mxnet
@pytest.mark.parametrize(
    ("edition", "model"),
    [(e.name, m.name) for e in editions.EDITIONS.values() for m in e.models],
)
def test_mxnet_finds_what_numpy_finds(edition, model, capfd):
    one = random_network(edition, model)
    images = random_images(7, one.edition.size)

    found = MxnetCpu(own=one.model.own).infer(one, images)

    assert capfd.readouterr() == ("", "")
    expected = NumpyCpu(dtype=np.float64).infer(one, images)
    assert expected.probabilities.std(axis=0).max() > 0.01  # the images do differ
    np.testing.assert_allclose(
        found.probabilities, expected.probabilities, rtol=1e-3, atol=1e-6
    )


@pytest.mark.mxnet
@pytest.mark.parametrize("model", ["baseline", "ece408"])
@pytest.mark.parametrize("count", [1, 3, 4, 7])
def test_pieces_that_do_not_divide_give_the_same(model, count):
    three = 3 * 4 * 12 * 66 * 66
    one = random_network("2019fa", model)
    images = random_images(count, 70)
    whole = MxnetCpu().infer(one, images)

    found = MxnetCpu(piece_bytes=three).infer(one, images)

    np.testing.assert_allclose(
        found.probabilities, whole.probabilities, rtol=1e-4, atol=1e-7
    )
    ours = 2 if model == "ece408" else 0
    assert len(found.op_times_s) == len(whole.op_times_s) == ours


@pytest.mark.mxnet
def test_a_network_can_follow_another_in_one_process():
    backend = MxnetCpu(own=True)
    small, large = (
        random_network("2017fa", "ece408-low"),
        random_network("2018fa", "ece408"),
    )
    images = {28: random_images(3, 28), 72: random_images(3, 72)}

    for one in (small, large, small):
        found = backend.infer(one, images[one.edition.size])
        expected = NumpyCpu(cpu_convolution.convolve).infer(
            one, images[one.edition.size]
        )
        np.testing.assert_allclose(
            found.probabilities, expected.probabilities, rtol=1e-3, atol=1e-6
        )


@pytest.mark.mxnet
def test_a_symbol_that_mxnet_refuses_is_an_error_of_one_line(monkeypatch):
    monkeypatch.setattr(symbol, "dumps", lambda layers: "{}")
    one = random_network("2019sp", "ece408")

    with pytest.raises(ProjectError, match=r"^MXNet: [^\n]+$"):
        MxnetCpu().infer(one, random_images(1, 48))


def in_a_process(code):
    """Run it as a script runs: beside the modules, and with nothing loaded yet."""
    return run_program([sys.executable, "-c", code], cwd=PROJECT)


@pytest.mark.mxnet
@pytest.mark.parametrize(
    "code",
    [
        "import ctypes, os; from course import cores; from host import mxnet_package\n"
        "before = dict(os.environ)\n"
        "mxnet_package.loaded()\n"
        "most = ctypes.CDLL('libgomp.so.1').omp_get_max_threads()\n"
        "assert most == cores.COUNT, most\n"
        "assert os.environ['OMP_NUM_THREADS'] == before['OMP_NUM_THREADS']",
        "from course import cores; import numpy; before = set(vars(numpy))\n"
        "from host import mxnet_package; mxnet_package.loaded()\n"
        "assert ('bool' in before) == ('bool' in vars(numpy))",
        "import os; os.close(2)\n"
        "from host import mxnet_package; mxnet_package.loaded()",
    ],
    ids=["on all cores", "leaves NumPy as it was", "without stderr"],
)
def test_mxnet_works_and_says_nothing(code):
    done = in_a_process(code)

    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


@pytest.mark.mxnet
def test_a_library_that_mxnet_does_not_load_is_missing(tmp_path):
    (tmp_path / "broken.so").write_text("broken")

    with pytest.raises(
        MissingError, match=r"^MXNet does not load .*broken.so: [^\n]+$"
    ):
        mxnet_cpu.register(tmp_path / "broken.so")


def test_why_mxnet_does_not_load_is_said_with_what_to_do():
    half = OSError("libquadmath.so.0: cannot open shared object file")

    assert mxnet_package.problem(NOT_INSTALLED) == f"MXNet is not installed; {INSTALL}"
    assert mxnet_package.problem(half) == f"MXNet does not load: {half}; {INSTALL}"


@pytest.mark.parametrize(
    ("package", "status", "said"),
    [
        ("__version__ = '1.9.1'", 0, "MXNet 1.9.1 is installed and loads.\n"),
        ("raise ImportError('half of it is missing')", 3, "MXNet "),
    ],
)
def test_make_mxnet_ends_by_saying_whether_it_loads(package, status, said, tmp_path):
    (tmp_path / "mxnet.py").write_text(package)

    done = run_program(
        [sys.executable, "-m", "host.mxnet_package"],
        cwd=PROJECT,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
    )

    assert done.returncode == status
    assert (done.stdout + done.stderr).startswith(said)
    assert (done.stdout + done.stderr).count("\n") == 1
    assert (mxnet_package.NEEDS in done.stderr) == (status != 0)

"""Kernels compiled without a GPU, and kept."""

import os
from dataclasses import replace
from importlib.util import find_spec
from itertools import product

import compile as table
import pytest
from course import editions
from course.errors import NoGpuError, ProjectError
from course.variants import LADDER_TARGETS, usual
from gpu import compiler, forward, planned
from gpu.compiler import Compiled, Unit
from plans import ladder, tensor_rungs
from plans.kernels import BEST, VARIANTS
from plans.layers import LAYERS

from tests.kit.kept import kept


class Counting:
    """A compiler whose machine code is the number of its calls."""

    version = "13.0.1"

    def __init__(self):
        self.calls = 0

    def compile(self, unit, architecture):
        self.calls += 1
        return Compiled(str(self.calls).encode(), "")


@pytest.fixture(scope="module")
def toolkit():
    return compiler.find()


FAST = {part.stem for name in BEST.values() for part in VARIANTS[name].parts}
FAST -= {rung.stem for rung in (*ladder.RUNGS, *tensor_rungs.RUNGS)}
FAST |= {*forward.FILES}
LEAST = 64  # bytes that a rung may spill in some size of an old edition


def chosen(*names):
    """Name what variants choose for the default edition, for every target."""
    shapes = planned.shapes(editions.DEFAULT, 10_000).values()
    for name, target, shape in product(names, LADDER_TARGETS, shapes):
        if not VARIANTS[name].refusal(shape, usual(target)):
            unit = compiler.unit_of(VARIANTS[name].of(shape, usual(target)), shape)
            yield unit, unit.target(target)


def jobs():
    """Name every file in every size for an H200, once for its oldest target too."""
    seen = set()
    for unit, targets in table.wanted():
        h200 = next((t for t in targets if t.startswith("sm_90")), targets[-1])
        yield unit, h200
        if unit.name not in seen:
            yield unit, targets[0]
        seen.add(unit.name)


USUAL = [*dict.fromkeys(chosen("best"))]
SLOW = [*dict.fromkeys([*jobs(), *chosen(*BEST.values())])]
JOBS = [
    pytest.param(job, id=" ".join([job[0].name, job[1], *job[0].options]), marks=marks)
    for job, marks in [
        *((job, ()) for job in USUAL),
        *((job, pytest.mark.slow) for job in SLOW if job not in USUAL),
    ]
]


@pytest.fixture
def compiled(toolkit, builds):
    """Return a function that compiles a file for a target and keeps the result."""

    def compile(unit, target):
        def make(folder):
            made = toolkit.compile(unit, target)
            (folder / "cubin").write_bytes(made.cubin)
            (folder / "log").write_text(made.log)

        parts = [compiler.key(unit, target, toolkit).encode()]
        folder = kept(builds, parts, make)
        return Compiled((folder / "cubin").read_bytes(), (folder / "log").read_text())

    return compile


@pytest.fixture
def one(tmp_path):
    """Return a file that includes headers, which include each other."""
    (tmp_path / "one.cu").write_text('#include "shared.cuh"\n')
    (tmp_path / "shared.cuh").write_text('  #  include "deep.cuh"\n')
    (tmp_path / "deep.cuh").write_text('#include "shared.cuh"\n')
    return Unit("one", folder=tmp_path)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "rai" / "cubins"


@pytest.mark.kernels
@pytest.mark.parametrize("job", JOBS)
def test_every_file_compiles_and_a_fast_one_spills_nothing(job, compiled):
    made = compiled(*job)

    usages = table.usages(made.log)
    assert made.cubin.startswith(b"\x7fELF")
    assert usages
    for usage in usages:
        assert usage.kernel.encode() in made.cubin
        assert 0 < usage.registers <= 255
        assert usage.spilled_bytes <= (0 if job[0].path.stem in FAST else LEAST)


@pytest.mark.kernels
def test_a_row_of_the_table_holds_what_a_kernel_takes(compiled):
    (unit, _) = next(table.wanted(["restrict_unroll"]))
    made = compiled(unit, "sm_90")
    (usage,) = table.usages(made.log)

    (row,) = table.rows(unit, "sm_90", made)

    assert row.split() == [
        *("restrict_unroll.cu", "sm_90", "conv_restrict_unroll"),
        *map(str, (usage.registers, 0, len(made.cubin))),
        *("-DTILE=16", "-DSHAPE_K=5"),
    ]


@pytest.mark.kernels
def test_a_file_without_its_sizes_is_refused_in_the_files_own_words(toolkit):
    with pytest.raises(ProjectError, match=r"naive\.cu.*\n?.*TILE is set by"):
        toolkit.compile(Unit(compiler.below("naive")), "sm_75")


def test_every_size_that_an_edition_needs_is_compiled():
    sizes = [
        dict(unit.defines)["SHAPE_K"] for unit, _ in table.wanted(["restrict_unroll"])
    ]

    assert sorted(sizes) == [5, 7]
    files = {part.stem for variant in VARIANTS.values() for part in variant.parts}
    compiled = {unit.path.stem for unit, _ in table.wanted()}
    assert compiled == {*files, *LAYERS, *forward.FILES}


def test_a_name_that_no_kernels_have_is_refused_with_those_there_are():
    with pytest.raises(ProjectError, match=r"choose from bytes, halves, .*, constant"):
        list(table.wanted(["naive", "nothing"]))


def test_what_the_assembler_says_is_read_for_each_kernel():
    log = (
        "ptxas info    : 0 bytes gmem\n"
        "ptxas info    : Compiling entry function 'first' for 'sm_86'\n"
        "ptxas info    : Function properties for first\n"
        "    16 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads\n"
        "ptxas info    : Used 64 registers, used 1 barriers, 9344 bytes smem\n"
        "ptxas info    : Compiling entry function 'second' for 'sm_86'\n"
        "ptxas info    : Function properties for second\n"
        "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
        "ptxas info    : Used 10 registers, used 0 barriers\n"
    )

    assert table.usages(log) == [
        table.Usage("first", 64, 28),
        table.Usage("second", 10, 0),
    ]


def test_machine_code_is_made_once(one, cache):
    counting = Counting()

    first = compiler.cached(one, "sm_90", counting)
    again = compiler.cached(one, "sm_90", counting)

    assert (first, again, counting.calls) == (b"1", b"1", 1)
    assert len(list(cache.iterdir())) == 1


def test_whatever_goes_into_machine_code_is_in_its_name(one):
    def key(*defines, target="sm_90", version="13.0.1"):
        counting = Counting()
        counting.version = version
        return compiler.key(replace(one, defines=defines), target, counting)

    keys = [
        key(),
        key(target="sm_80"),
        key(version="13.0.2"),
        key(("TILE", 16)),
        key(("TILE", 32)),
    ]
    (one.folder / "deep.cuh").write_text("// changed\n")
    keys.append(key())
    (one.folder / "one.cu").write_text("// changed\n")
    keys.append(key())

    assert len(set(keys)) == len(keys)
    assert key() == key()


@pytest.mark.parametrize(
    "damage", [lambda b: b[:-1], lambda b: b"", lambda b: b"x" + b]
)
def test_a_damaged_file_in_the_cache_is_made_anew(damage, one, cache):
    counting = Counting()
    compiler.cached(one, "sm_90", counting)
    (kept,) = cache.iterdir()
    kept.write_bytes(damage(kept.read_bytes()))

    assert compiler.cached(one, "sm_90", counting) == b"2"
    assert compiler.cached(one, "sm_90", counting) == b"2"


@pytest.mark.root
def test_another_users_file_in_the_cache_is_not_run(one, cache):
    counting = Counting()
    compiler.cached(one, "sm_90", counting)
    (kept,) = cache.iterdir()
    os.chown(kept, 65534, 65534)

    assert compiler.cached(one, "sm_90", counting) == b"2"
    assert compiler.cached(one, "sm_90", counting) == b"2"


def test_a_file_in_the_cache_that_others_can_write_is_not_run(one, cache):
    counting = Counting()
    before = os.umask(0o000)
    try:
        compiler.cached(one, "sm_90", counting)
        assert compiler.cached(one, "sm_90", counting) == b"1"
    finally:
        os.umask(before)
    (kept,) = cache.iterdir()
    kept.chmod(0o620)

    assert compiler.cached(one, "sm_90", counting) == b"2"


def test_a_cache_that_cannot_be_filled_is_left_clean(one, cache):
    path = cache / f"{compiler.key(one, 'sm_90', Counting())}.cubin"
    path.mkdir(parents=True)

    assert compiler.cached(one, "sm_90", Counting()) == b"1"
    assert list(cache.iterdir()) == [path]


def test_a_cache_that_cannot_be_written_is_no_error(one, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))

    assert compiler.cached(one, "sm_90", Counting()) == b"1"


def test_a_driver_runs_what_toolkits_of_its_own_major_version_and_older_ones_make():
    assert compiler.too_old((13, 0), "13.1.48") is None
    assert compiler.too_old((13, 0), "12.9.86") is None
    assert compiler.too_old((12, 4), "13.0.88") == (
        "the GPU's driver supports CUDA 12.4, but the kernels are compiled with CUDA "
        "13.0.88; update the driver, or install CUDA 12"
    )


@pytest.mark.skipif(
    find_spec("cuda.core") is not None, reason="compiler: there is NVRTC"
)
def test_without_a_compiler_it_is_said_where_one_was_looked_for(tmp_path):
    with pytest.raises(NoGpuError, match=r"found neither nvcc \(.*\) nor NVRTC"):
        compiler.find([tmp_path / "nvcc"])


def test_an_nvcc_that_says_no_version_is_refused(tmp_path):
    path = tmp_path / "nvcc"
    path.write_text("#!/bin/sh\necho nothing\n")
    path.chmod(0o755)

    with pytest.raises(NoGpuError, match="prints no version; reinstall it"):
        compiler.find([path])

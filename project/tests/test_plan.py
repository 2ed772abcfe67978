"""plan.json: the registry's launches as data."""

import hashlib
import json
import shutil
import subprocess
import sys
from dataclasses import asdict, replace
from functools import cache

import plan
import pytest
from course import editions, variants
from course.errors import ProjectError, UsageError
from course.variants import usual
from gpu import compiler, planned
from plan import Choice
from plans.kernels import BEST, VARIANTS

from runner.judge.arithmetic import evaluate
from tests.kit.program import run_program


@cache
def of_all(architecture):
    """Make the plan of all variants that an architecture supports, class by class."""
    shapes = plan.shapes(editions.DEFAULT, 10_000).values()
    names = [
        name
        for name, variant in VARIANTS.items()
        if not any(variant.refusal(s, usual(architecture)) for s in shapes)
    ]
    classes = {
        accuracy: tuple(name for name in names if VARIANTS[name].accuracy == accuracy)
        for accuracy in BEST
    }
    return plan.made(replace(only("", architecture), milestones=classes))


def only(name, architecture):
    return Choice(architectures=(architecture,), milestones={"final": (name,)})


@pytest.mark.smoke
def test_the_plan_of_the_repository_is_up_to_date():
    kept, choice = plan.read(plan.FILE)

    assert choice == Choice()
    assert plan.changes(kept, plan.made(choice)) == [], plan.AGAIN
    assert plan.FILE.read_text() == f"{plan.text(kept)}\n"


@pytest.mark.parametrize("architecture", variants.SHARED)
@pytest.mark.parametrize("name", VARIANTS)
def test_a_plan_is_what_the_registry_says(name, architecture):
    variant, gpu = VARIANTS[name], usual(architecture)
    shapes = plan.shapes(editions.DEFAULT, 10_000)
    if any(variant.refusal(shape, gpu) for shape in shapes.values()):
        with pytest.raises(UsageError, match=f"no plan of {name}: conv1: it needs sm_"):
            plan.made(only(name, architecture))
        return

    made = of_all(architecture)

    milestone = made["milestones"][variant.accuracy]
    (entry,) = [e for e in milestone if e["variant"] == name]
    (found,) = entry["plans"]
    assert (entry["variant"], entry["class"]) == (name, variant.accuracy)
    assert found["architectures"] == [architecture]
    for layer, (called, shape) in zip(
        found["convolutions"], shapes.items(), strict=True
    ):
        part = variant.serve(shape, gpu)
        unit = compiler.unit_of(part, shape)
        for count in (1, 14, gpu.multiprocessors, 1024):
            here, known = (
                replace(gpu, multiprocessors=count),
                {"MULTIPROCESSORS": count},
            )
            launches = [planned.launch(one.on(here)) for one in part.planned(shape)]
            assert json.loads(json.dumps(launches)) == [
                one | {"grid": [evaluate(str(size), known) for size in one["grid"]]}
                for one in layer["launches"]
            ]
        assert layer == {
            "name": called,
            "shape": asdict(shape),
            "storage": "float16" if variant.accuracy == "half" else "float32",
            "unit": {
                "file": f"{unit.name}.cu",
                "target": unit.target(architecture),
                "defines": part.defines(shape),
            },
            "constants": list(part.constants),
            "scratch": part.scratch(shape),
            "launches": layer["launches"],
        }
        assert f"project/cuda/{unit.name}.cu" in made["sources"]


def test_sources_are_the_files_of_the_units_and_the_headers_that_they_include():
    made = plan.made(only("best", "sm_90"))

    folder = "project/cuda"
    files = ("hopper/best_one.cu", "hopper/best_split.cu", "parts/toeplitz.cuh")
    assert {f"{folder}/{name}" for name in files} <= {*made["sources"]}
    for name, sha256 in made["sources"].items():
        content = (plan.ROOT / name).read_bytes()
        assert hashlib.sha256(content).hexdigest() == sha256


def test_the_registry_is_every_module_that_the_plan_is_made_of():
    kept = plan.registry_files()

    code = "import sys, plan; print(*(m for m in sys.modules.values()), sep='\\n')"
    loaded = subprocess.run(
        [sys.executable, "-c", code], cwd=plan.HERE, capture_output=True, check=True
    ).stdout.decode()
    assert kept == {path for path in plan.HERE.rglob("*.py") if str(path) in loaded}
    assert "numpy" not in loaded


@pytest.fixture
def copy(tmp_path):
    """A copy of what plan.json is made of, and how to call its script."""
    for name in json.loads(plan.FILE.read_bytes())["registry_files"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(plan.ROOT / name, tmp_path / name)
    shutil.copytree(compiler.FOLDER, tmp_path / "project" / "cuda")
    shutil.copy(plan.FILE, tmp_path)

    def call(*words):
        done = run_program([sys.executable, "project/plan.py", *words], cwd=tmp_path)
        return done.returncode, done.stderr

    call.folder = tmp_path
    return call


@pytest.mark.programs
def test_a_check_says_what_has_changed(copy):
    assert copy("--check") == (0, "")

    with (copy.folder / "project/cuda/parts/tensor.cuh").open("a") as file:
        file.write("// faster\n")
    ladder = copy.folder / "project/plans/ladder.py"
    ladder.write_text(
        ladder.read_text().replace('params={"TILE": 16}', 'params={"TILE": 8}')
    )

    assert copy("--check") == (
        1,
        "plan.py: plan.json is stale; run python project/plan.py\n"
        "  it is older than project/cuda/parts/tensor.cuh, or names it in vain\n"
        "  it is older than the registry, project/plans/kernels.py and its imports\n",
    )
    assert copy() == (0, "")
    assert copy("--check") == (0, "")


@pytest.mark.programs
def test_a_plan_made_again_keeps_what_was_chosen(copy):
    assert copy("--final", "per_layer", "--architecture", "sm_90") == (0, "")
    assert copy("--m3", "tiled") == (0, "")

    _, choice = plan.read(copy.folder / "plan.json")
    assert choice == Choice(
        architectures=("sm_90",),
        milestones=plan.CHOSEN | {"m3": ("tiled",), "final": ("per_layer",)},
    )


@pytest.mark.programs
def test_a_sites_own_milestone_has_the_kernels_named_for_it(copy):
    words = ("--milestone", "half", "tensor_half", "--milestone", "m3", "tiled")
    assert copy(*words) == (0, "")
    assert copy("--m3", "tree") == (0, "")

    document, choice = plan.read(copy.folder / "plan.json")
    assert choice == Choice(
        milestones=plan.CHOSEN | {"m3": ("tree",), "half": ("tensor_half",)}
    )
    (entry,) = document["milestones"]["half"]
    assert entry["variant"] == "tensor_half" and entry["class"] == "half"


@pytest.mark.programs
@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("--final", "fastest"), 2, "unknown variant `fastest`; choose from naive, "),
        (("--images", "0"), 2, "0 images; expected at least 1\n"),
        (("--edition", "1999"), 2, "unknown edition `1999`; choose one of 2017fa, "),
        (("--check", "--out", "none.json"), 1, "none.json is missing; run python "),
    ],
)
def test_a_wrong_choice_is_told(copy, words, status, said):
    code, printed = copy(*words)
    assert code == status
    assert printed.startswith(f"plan.py: {said}")


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"milestones": {"m3": [1]}}'])
def test_a_file_that_is_no_plan_is_not_overwritten(tmp_path, content):
    file = tmp_path / "plan.json"
    file.write_bytes(content)
    with pytest.raises(ProjectError, match="is no plan of this script; remove it"):
        plan.read(file)


def test_an_edited_plan_is_stale():
    kept, choice = plan.read(plan.FILE)
    assert plan.changes({**kept, "version": 0}, plan.made(choice)) == [
        "it has been edited"
    ]
    sources = {**kept["sources"], "project/cuda/gone.cu": "0"}
    assert plan.changes({**kept, "sources": sources}, plan.made(choice)) == [
        "it is older than project/cuda/gone.cu, or names it in vain"
    ]

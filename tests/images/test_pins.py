"""What the images are made of is pinned, and nothing else of the project is in them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from runner.engines.docker import context
from runner.pack import FolderProject
from tests.images.conftest import ROOT

REQUIREMENTS = sorted((ROOT / "image" / "requirements").glob("*.txt"))
JUDGE = ROOT / "runner" / "judge" / "requirements.txt"
PIN = re.compile(
    r"^(?P<name>[\w-]+)==(?P<version>[\w.]+)(?:; [^\\\n]+)?"
    r"(?P<sums>(?: \\\n    --hash=sha256:[0-9a-f]{64})+)$",
    re.MULTILINE,
)

COURSE = (
    *(f"cuda/network/{name}.cu" for name in ("dense", "pooling", "softmax", "tanh")),
    *("cpp/operator.cpp", "cpp/forward.h"),
    *("course/*.py", "host/mxnet_package.py", "models/*.params"),
)
"""What the image `course` has of project/."""


def pins(name: str) -> list[tuple[str, str]]:
    (file,) = (each for each in REQUIREMENTS if each.stem == name)
    return pinned(file)


def pinned(file: Path) -> list[tuple[str, str]]:
    return [(m["name"], m["version"]) for m in PIN.finditer(file.read_text())]


def test_the_memory_checker_is_of_the_compiler_s_release():
    (checker,) = [v for name, v in pins("minidnn") if name.endswith("sanitizer-api")]
    (compiler,) = [v for name, v in pins("cuda13") if name == "nvidia-cuda-nvcc"]
    assert checker.rsplit(".", 1)[0] == compiler.rsplit(".", 1)[0]


def test_the_judge_compiles_with_the_compiler_of_the_project_s_image():
    assert set(pinned(JUDGE)) <= set(pins("cuda13"))


@pytest.mark.parametrize("file", [*REQUIREMENTS, JUDGE], ids=lambda file: file.stem)
def test_every_package_has_one_version_and_a_checksum(file):
    text = file.read_text()
    comments = r"^#.*\n|^\n"
    assert re.sub(comments, "", PIN.sub("", text), flags=re.M).strip() == ""
    assert PIN.search(text)


@pytest.mark.parametrize(
    ("label", "file", "package"),
    [("mxnet", "python", "mxnet"), ("pycuda", "pycuda", "pycuda")],
)
def test_the_labels_say_the_versions_that_are_pinned(label, file, package):
    text = (ROOT / "Dockerfile").read_text()
    (said,) = re.findall(rf'rai\.{label}="([^"]+)"', text)
    assert (package, said) in pins(file)


def test_numpys_label_is_the_version_for_the_python_of_the_usual_base():
    (said,) = re.findall(r"^ARG NUMPY=(.+)$", (ROOT / "Dockerfile").read_text(), re.M)
    versions = [version for name, version in pins("python") if name == "numpy"]
    assert said == versions[0]


def test_cudnns_label_is_the_major_version_for_both_cudas():
    (said,) = re.findall(r'rai\.cudnn="(\d+)"', (ROOT / "Dockerfile").read_text())
    for cuda in ("12", "13"):
        versions = dict(pins(f"cudnn{cuda}"))
        assert versions[f"nvidia-cudnn-cu{cuda}"].split(".")[0] == said


def test_a_build_sees_the_pins_nvprof_and_what_old_projects_need_and_nothing_else():
    seen = set(context.names(FolderProject(ROOT), "Dockerfile"))
    files = {name for name in seen if (ROOT / name).is_file()}
    nvprof = ROOT / "image" / "nvprof"
    sources = [nvprof / "Makefile", *nvprof.glob("nvprof/*.py")]
    sources += [p for p in nvprof.glob("injection/**/*") if p.is_file()]
    sources += [
        path
        for path in (ROOT / "image" / "course").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    ]
    sources += [path for name in COURSE for path in (ROOT / "project").glob(name)]
    minidnn = ROOT / "image" / "minidnn"
    sources += [p for p in minidnn.iterdir() if p.is_file() and p.name != "train.py"]
    wanted = {str(file.relative_to(ROOT)) for file in (*REQUIREMENTS, *sources)}
    assert files == {"Dockerfile", ".dockerignore", *wanted}


def test_the_page_about_images_names_every_target_and_every_file_of_pins():
    page = (ROOT / "docs" / "images.md").read_text()
    targets = ("cpu", "gpu", "full", "course", "minidnn")
    for name in (*targets, *(file.name for file in REQUIREMENTS)):
        assert f"`{name}`" in page

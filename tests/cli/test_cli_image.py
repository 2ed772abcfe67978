"""`rai image build|ls|prune`, as a user types them, on a real Docker Engine."""

from __future__ import annotations

import json
import os
import pty
import signal
from pathlib import Path
from subprocess import PIPE, CompletedProcess

import pytest

from tests.kit import program
from tests.kit.program import Forked
from tests.kit.running import long_sleep

SPEC = """\
commands:
  build_image: {image_name: %s, target: cpu, args: {WHO: me}}
  build: [echo hello]
"""
NOWHERE = "unix:///nowhere/docker.sock"


def rai(*words: str | Path, **environ: str) -> CompletedProcess[str]:
    return program.rai("image", *words, env={**os.environ, **environ})


@pytest.fixture
def project(tmp_path: Path, name: str) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "rai_build.yml").write_text(SPEC % name)
    (folder / "tool").write_text("1")
    write(folder, name)
    return folder


def write(project: Path, name: str, *lines: str) -> None:
    head = ["FROM debian:bookworm-slim AS cpu", f"LABEL rai-test={name} rai.numpy=1.2"]
    text = "\n".join([*head, *lines, "COPY tool /tool", "FROM cpu AS gpu"])
    (project / "Dockerfile").write_text(text + "\n")


def listed(project: Path) -> tuple[list[dict], dict]:
    """Return this project's images, newest first, and how a run would get its own."""
    found = json.loads(rai("ls", "-p", project, "--json").stdout)
    mine = found["project"]["origin"]
    return [i for i in found["images"] if i["origin"] == mine], found["project"]


def why(project: Path) -> str:
    (plan,) = listed(project)[1]["plans"]
    return f"{plan['action']}: {plan['why']}"


pytestmark = pytest.mark.docker


def test_an_image_is_built_once_and_its_reference_is_all_of_stdout(
    project, name, client
):
    first = rai("build", "-p", project)
    again = rai("build", "-p", project)

    assert (first.returncode, again.returncode) == (0, 0)
    steps = [line for line in first.stderr.splitlines() if line.startswith("Step")]
    assert [line[:9] for line in steps] == ["Step 1/3 ", "Step 2/3 ", "Step 3/3 "]
    assert "rai.build" not in first.stderr
    assert "was built: no earlier build." in first.stderr
    assert "exists: nothing that goes into it has changed" in again.stderr
    assert "MiB" in again.stderr
    reference = again.stdout.removesuffix("\n")
    assert first.stdout == again.stdout
    assert set(client.inspect_image(reference)["RepoTags"]) == {reference, name}


def test_the_list_says_what_a_run_would_start_from_and_why_it_would_build(
    project, name
):
    assert why(project) == "build: no earlier build"
    reference = rai("build", "-p", project).stdout.strip()

    shown = rai("ls", "-p", project).stdout

    (row,) = (li.split() for li in shown.splitlines() if li.endswith("current"))
    assert row[:2] == [reference, "cpu"]
    assert f"numpy 1.2, {name}" in shown
    assert f"project cpu  {reference}: nothing that goes into it has" in shown

    (project / "tool").write_text("2")
    assert why(project) == "build: files changed"
    (project / "tool").write_text("1")
    assert why(project).startswith("reuse")
    spec = (project / "rai_build.yml").read_text()
    (project / "rai_build.yml").write_text(spec.replace("WHO: me", "WHO: you"))
    # The build file is in the context, as no .dockerignore leaves it out.
    assert why(project) == "build: build arguments changed"
    (project / "rai_build.yml").write_text(spec)
    write(project, name, "RUN true")
    assert why(project) == "build: Dockerfile changed"


def test_a_target_is_chosen_and_both_that_a_run_may_have_are_current(project):
    file = project / "rai_build.yml"
    file.write_text(file.read_text().replace("cpu,", "cpu, gpu_target: gpu,"))

    references = {
        rai("build", "-p", project, *words).stdout.strip()
        for words in ([], ["--gpu"], ["--no-gpu"], ["--target", "cpu"])
    }

    images, mine = listed(project)
    assert len(references) == 2
    assert {i["parts"]["target"] for i in images if i["current"]} == {"cpu", "gpu"}
    assert [plan["action"] for plan in mine["plans"]] == ["reuse", "reuse"]
    assert rai("prune", "-p", project, "--yes").stdout == "Nothing to remove.\n"


def test_a_failed_build_ends_with_three_and_an_unknown_target_too(project, name):
    write(project, name, "RUN exit 7")

    failed = rai("build", "-p", project)
    unknown = rai("build", "-p", project, "--target", "other")

    assert (failed.returncode, failed.stdout) == (3, "")
    assert "RUN exit 7: exit code 7" in failed.stderr
    assert unknown.returncode == 3
    assert "its stages are: `cpu`, `gpu`" in unknown.stderr


def test_what_a_later_build_replaced_is_removed_and_the_rest_is_not(
    project, name, client
):
    first = rai("build", "-p", project).stdout.strip()
    (project / "tool").write_text("2")
    second = rai("build", "-p", project).stdout.strip()
    rai("build", "-p", project, "--no-cache")
    images, _ = listed(project)
    assert [i["older"] for i in images] == [False, True, True]
    (nameless,) = (i["id"] for i in images if not i["tags"])

    looked = rai("prune", "-p", project, "--dry-run")
    refused = rai("prune", "-p", project)
    assert len(listed(project)[0]) == 3
    pruned = rai("prune", "-p", project, "--yes")

    assert looked.returncode == 0
    assert "2 images to remove; at least" in looked.stdout
    assert first in looked.stdout
    assert nameless[7:19] in looked.stdout
    assert refused.returncode == 2
    assert "--yes" in refused.stderr
    assert "2 images removed" in pruned.stdout
    ((kept,), _) = listed(project)
    assert set(kept["tags"]) == {second, name}
    assert rai("prune", "-p", project, "--yes").stdout == "Nothing to remove.\n"


def test_on_a_terminal_it_asks(project):
    rai("build", "-p", project)
    (project / "tool").write_text("2")
    rai("build", "-p", project)
    ours, theirs = pty.openpty()
    for answer, left in (b"n\n", 2), (b"y\n", 1):
        os.write(ours, answer)
        child = Forked("image", "prune", "-p", project, stdin=theirs, stderr=PIPE)
        _, error = child.communicate()
        assert child.returncode == 0
        assert "Remove 1 image?" in error
        assert len(listed(project)[0]) == left
    os.close(ours)
    os.close(theirs)


def test_a_named_image_is_not_built_and_that_is_said(project):
    text = "rai: {image: debian:bookworm-slim}\ncommands: {build: [ls]}\n"
    (project / "rai_build.yml").write_text(text)

    found = rai("build", "-p", project)
    refused = rai("build", "-p", project, "--target", "cpu")

    assert found.stdout == "debian:bookworm-slim\n"
    assert refused.returncode == 2
    assert "names the image debian:bookworm-slim" in refused.stderr
    assert "the engine has it" in rai("ls", "-p", project).stdout


def test_a_dockerfile_that_is_not_there_is_told_and_the_list_is_shown(project):
    rai("build", "-p", project)
    (project / "Dockerfile").unlink()

    shown = rai("ls", "-p", project)

    assert shown.returncode == 0
    assert "the Dockerfile `Dockerfile` does not exist" in shown.stdout
    assert len(listed(project)[0]) == 1


def test_ctrl_c_ends_a_build_and_gives_no_reference(project, name):
    sleep = long_sleep()
    write(project, name, f"RUN {sleep}")
    child = Forked("image", "build", "-p", project, stdout=PIPE, stderr=PIPE)
    assert any(sleep in line for line in child.stderr)

    child.send_signal(signal.SIGINT)
    out, _ = child.communicate(timeout=60)

    assert (child.returncode, out) == (130, "")
    assert listed(project)[0] == []

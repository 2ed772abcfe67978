"""Another image in place of the build file's: who decides, and who is told."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from runner import engines, pack
from runner.core import (
    Archive,
    BuildImage,
    BuildSpec,
    DataResource,
    GpuRequest,
    Place,
    Problem,
    Profile,
    Reason,
    Substitute,
)
from runner.core.errors import ConfigError, EngineError, ImageError, UsageError
from runner.core.policy import AllowList, Policy
from runner.execution import prepare, validation
from runner.report.phrases import named_by
from runner.spec import image_names, images
from runner.spec.image_names import Rule
from runner.store import settings
from runner.store.paths import RunPaths

OLD = "illinoisimpact/ece408_mxnet_docker:amd64-gpu-latest"
PLACE = Place("config.yml", 2, 3)


def rule(pattern: str, image: str = "my/course") -> Rule:
    return Rule(pattern, image, PLACE)


def named(image: str | None = OLD, **more) -> BuildSpec:
    return BuildSpec("rai_build.yml", image=image, **more)


def test_the_option_wins_then_the_first_rule_that_fits():
    rules = [rule("a/*", "none"), rule("illinoisimpact/*", "one"), rule("*", "two")]

    assert image_names.decide(named(), "b/c:1", rules) == Substitute(
        OLD, "b/c:1", "--image"
    )
    by_rule = image_names.decide(named(), None, rules)
    assert by_rule == Substitute(OLD, "one", "images in config.yml:2:3")
    assert image_names.decide(named("gcc"), None, rules[:2]) is None


def test_no_rule_concerns_an_image_that_is_built_and_the_option_does():
    built = named(build_image=BuildImage())

    assert image_names.decide(built, None, [rule("*")]) is None
    assert image_names.decide(named(None), None, [rule("*")]) is None
    run = image_names.applied(built, image_names.decide(built, "b/c", ()))
    assert (run.image, run.build_image, run.profile) == ("b/c", None, "compatible")
    assert images.plan(run, None).build is None


def test_an_option_that_is_no_name_is_refused_with_an_example():
    with pytest.raises(UsageError, match=r'--image is "Bad Name".*someone/project:1'):
        image_names.decide(named(), "Bad Name", ())


def write(file: Path, text: str) -> Path:
    file.parent.mkdir(exist_ok=True, parents=True)
    file.write_text(text)
    return file


def test_the_rules_of_the_users_file_come_before_the_machines(tmp_path):
    machine = write(tmp_path / "etc" / "c.yml", 'images: {"a/*": m/1, "b/*": m/2}\n')
    user = write(tmp_path / "user" / "c.yml", 'images:\n  "a/*": u/1\n')

    found, warnings = settings.load({}, [machine, user], {})

    assert [each.image for each in found.images] == ["u/1", "m/1", "m/2"]
    assert found.images[0].place == Place(str(user), 2, 3)
    assert warnings == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("images: my/course\n", r':1:9: images is "my/course"; expected a mapping'),
        ('images: {"a:*": [b]}\n', r":1:17: images: the image for `a:\*` is a list"),
        ('images: {"a:*": B}\n', r'the image for `a:\*` is "B"; expected the name'),
    ],
)
def test_a_wrong_rule_is_told_with_its_place_and_an_example(text, said, tmp_path):
    file = write(tmp_path / "c.yml", text)

    with pytest.raises(ConfigError, match=said) as caught:
        settings.load({}, [file], {})

    assert "someone/project:1" in str(caught.value)


@pytest.fixture
def project(tmp_path, home) -> Path:
    write(home / "config" / "rai" / "config.yml", 'images: {"*/*": my/course}\n')
    text = f"rai: {{image: '{OLD}'}}\ncommands: {{build: [ls]}}\n"
    write(tmp_path / "project" / "rai_build.yml", text)
    return tmp_path / "project"


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path


def test_a_parcel_carries_what_was_decided_whatever_the_settings_say_now(
    project, home, tmp_path
):
    request = prepare.prepare(project).request
    assert (request.spec.image, request.profile) == ("my/course", Profile.COMPATIBLE)
    folder = RunPaths(tmp_path / "run")
    folder.root.mkdir()
    packed = Archive(folder.source, "c0ffee", 1, 1, 1)
    pack.seal(request.asked, packed, None, folder.parcel)
    write(home / "config" / "rai" / "config.yml", 'images: {"*/*": another/one}\n')

    again = prepare.reopen(folder).request

    assert again.spec == request.spec
    assert again.spec.substitute.asked == OLD


def test_validate_plans_the_image_of_a_run_and_says_who_names_it(project):
    by_rule = validation.validate(project)
    by_option = validation.validate(project, prepare.Options(image="b/c:1"))

    assert by_rule.image.reference == "my/course:latest"
    assert (by_option.image.reference, by_option.image.asked) == ("b/c:1", OLD)
    assert named_by(by_option.image) == f"named by --image, in place of {OLD}"


def test_an_image_that_cannot_be_pulled_is_told_with_both_names():
    spec = image_names.applied(named(), Substitute(OLD, "b/c:1", "--image"))
    pulled = ImageError("b/c:1 cannot be pulled", reason=Reason.IMAGE_NOT_FOUND)

    error = image_names.explained(pulled, images.plan(spec, None))

    assert str(error) == f"b/c:1 cannot be pulled (--image names it in place of {OLD})"
    assert error.reason is Reason.IMAGE_NOT_FOUND
    assert '`"b/c:*": NAME`' in image_names.advice("b/c:1")
    assert "--image NAME" in image_names.advice("b/c:1")


def test_an_engine_without_images_says_which_name_it_ignores():
    spec = image_names.applied(named(), Substitute(OLD, "b/c:1", "--image"))

    said = images.ignored(spec, "local")

    assert said.startswith("ignoring the image b/c:1 of --image: the local engine")


GONE = [
    (OLD, "course"),
    ("illinoisimpact/ece408_mxnet_docker_2019sp:amd64-gpu-latest", "course"),
    ("docker.io/cwpearson/2017fa_ece408_mxnet_docker:amd64-cpu-latest", "course"),
    ("cwpearson/ece408_mxnet_docker:amd64-gpu-2018sp-latest", "course"),
    ("jnativ/ece408_minidnn_docker_sp21", "minidnn"),
    ("illinoisimpact/ece408_minidnn_docker:amd64-gpu-cu10.2-fa20", "minidnn"),
]


@pytest.mark.parametrize(("image", "target"), GONE)
def test_rai_makes_an_image_in_place_of_one_that_no_registry_has(image, target):
    instead = image_names.decide(named(image), None, [rule("debian:*")])

    assert instead == Substitute(image, f"rai/{target}", "rai")
    spec = image_names.applied(named(image), instead)
    assert (spec.profile, spec.names_image) == (Profile.COMPATIBLE, True)
    assert {one.directory for one in spec.data} == {"/data/fashion-mnist"}
    plan = images.plan(image_names.making(spec), None)
    assert plan.build == BuildImage(target=target)
    assert (plan.asked, plan.named_by) == (image, "rai")


def test_what_needs_no_gpu_runs_in_such_an_image_without_one():
    asked = GpuRequest(count=1)
    spec = image_names.applied(named(gpu=asked), image_names.decide(named(), None, ()))

    assert spec.gpu == GpuRequest(count=1, optional=True)
    mine = (DataResource("/data", "a", "http://a/a"),)
    instead = image_names.decide(named(), None, ())
    assert image_names.applied(named(data=mine), instead).data == mine


def test_what_names_an_image_of_rai_s_own_gets_it_and_runs_as_it_says(tmp_path):
    asked = GpuRequest(count=1)
    own = named("rai/minidnn", gpu=asked)
    assert image_names.decide(own, None, ()) is None

    spec = image_names.applied(own, None)

    assert spec.gpu == asked
    assert {one.directory for one in spec.data} == {"/data/fashion-mnist"}
    made = image_names.making(spec)
    assert made.build_image == BuildImage(target="minidnn")
    assert "from rai's own Dockerfile" in images.plan(made, None).why
    (refused,) = images.not_allowed(made, Policy(images=(AllowList(("a",), PLACE),)))
    assert "rai.image is rai/minidnn, which is not allowed by" in str(refused)
    text = "rai: {image: rai/minidnn}\ncommands: {build: [ls]}\n"
    write(tmp_path / "rai_build.yml", text)
    assert not prepare.prepare(tmp_path).request.asked.keep_going


@pytest.mark.parametrize("name", ["rai/minidnn:x", "docker.io/rai/other"])
def test_no_registry_gives_an_image_of_rai_s_own_names(name):
    spec = image_names.applied(named(name), None)

    assert not image_names.made_here(spec)
    with pytest.raises(ImageError, match="no registry has the image"):
        images.plan(spec, None)


def test_the_same_name_with_the_usual_tag_or_of_one_s_own_build():
    built = named("rai/minidnn", build_image=BuildImage())

    assert image_names.made_here(named("docker.io/rai/minidnn:latest")) == "minidnn"
    assert not image_names.made_here(built)
    assert "rai's own" not in images.plan(built, None).why


def test_a_rule_and_the_option_win_over_the_image_that_rai_makes():
    by_rule = image_names.decide(named(), None, [rule("*/*")])
    by_option = image_names.decide(named(), "b/c:1", ())

    for instead in (by_rule, by_option):
        spec = image_names.applied(named(), instead)
        assert not image_names.made_here(spec)
        assert image_names.making(spec) is spec


def test_another_machine_cannot_choose_what_is_built():
    wrong = Substitute(OLD, "rai/full", "rai")
    spec = image_names.applied(named(), wrong)

    assert image_names.making(spec) is spec


def test_the_image_that_rai_makes_is_allowed_by_its_name():
    spec = image_names.applied(named(), image_names.decide(named(), None, ()))

    def refused(*patterns: str) -> list[str]:
        rules = Policy(images=(AllowList(patterns, PLACE),))
        found = images.not_allowed(image_names.making(spec), rules)
        return [str(problem) for problem in found]

    assert refused("rai/*") == []
    (only,) = refused("debian:*", "build")
    assert "rai names rai/course, which is not allowed by config.yml:2:3" in only


def test_a_run_in_an_image_that_rai_makes_goes_on_after_a_failure(tmp_path):
    text = f"rai: {{image: '{OLD}'}}\ncommands: {{build: [ls]}}\n"
    write(tmp_path / "project" / "rai_build.yml", text)

    assert prepare.prepare(tmp_path / "project").request.asked.keep_going
    image = validation.validate(tmp_path / "project").image
    assert image is not None
    assert (image.reference, image.asked) == ("rai/course", OLD)
    assert "from rai's own Dockerfile" in image.why


def test_auto_takes_no_engine_without_images_for_an_image_that_rai_makes(monkeypatch):
    class Engine:
        def __init__(self, name: str) -> None:
            self.name = name

        def check(self, spec: BuildSpec) -> list[Problem]:
            return [Problem("it is off")] if self.name == "docker" else []

    monkeypatch.setattr(engines, "make", Engine)
    spec = image_names.applied(named(), image_names.decide(named(), None, ()))

    with pytest.raises(EngineError) as caught:
        engines.choose("auto", spec, ci=False)

    assert caught.value.reason is Reason.NO_ENGINE
    assert "install a Docker Engine" in str(caught.value)
    (chosen,) = engines.choose("local", spec, ci=False).engines
    assert chosen.name == "local"


def test_an_installed_rai_has_what_its_images_are_built_from():
    root = Path(__file__).parents[2]
    made = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["hatch"]
    there = made["build"]["targets"]["wheel"]["force-include"]
    assert all(there[name] == f"runner/images/{name}" for name in there)
    assert {"Dockerfile", ".dockerignore"} < there.keys()
    copied = re.findall(
        r"^COPY (?!--from)(.*) ", (root / "Dockerfile").read_text(), re.M
    )
    # One in brackets may be absent.
    names = {name for line in copied for name in line.split() if "[" not in name}
    assert names
    for name in names:
        assert any(name == kept or name.startswith(f"{kept}/") for kept in there), name

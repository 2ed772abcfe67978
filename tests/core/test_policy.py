"""A site's policy: what it may say, who may write it, and what it refuses."""

from __future__ import annotations

import os
from ipaddress import ip_network
from pathlib import Path

import pytest

from runner.core import GIB, Limits, Profile
from runner.core.errors import ConfigError
from runner.core.policy import NO_POLICY, fit, over
from runner.store import policy
from tests.kit.policies import ME, read, written


def refused(folder: Path, text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read(folder, text)
    return [str(p).removeprefix(f"{folder}/") for p in caught.value.problems]


def test_without_a_policy_everything_is_allowed(tmp_path):
    rules = policy.read(tmp_path / "policy.yml", ME)
    asked = Limits(time_s=1e9, memory_bytes=1 << 50, network=True)
    assert rules == NO_POLICY
    assert over(asked, Profile.COMPATIBLE, rules) == []
    assert fit(asked, rules) == asked
    assert policy.read(tmp_path / "absent" / "policy.yml", ME) == NO_POLICY


def test_going_over_a_ceiling_names_the_ceiling_and_the_line_that_sets_it(tmp_path):
    file = written(
        tmp_path,
        "limits:\n  time: 30m\n  memory: 4GiB\n  network: false\nprofile: strict\n",
    )
    rules = policy.read(file, ME)
    asked = Limits(time_s=7200, memory_bytes=6 * GIB, network=True)
    assert [str(p) for p in over(asked, Profile.COMPATIBLE, rules)] == [
        "resources.limits.time is 7,200 s, and at most 1,800 s is allowed by "
        f"{file}:2:9",
        "resources.limits.memory is 6,144 MiB, and at most 4,096 MiB is allowed by "
        f"{file}:3:11",
        f"resources.limits.network is on, which is not allowed by {file}:4:12",
        f"the compatible profile is not allowed by {file}:5:10; "
        "give `--profile strict`, or have the project's Dockerfile build the image",
    ]


def test_a_default_over_a_ceiling_is_lowered_because_nobody_asked_for_it(tmp_path):
    rules = read(tmp_path, "limits: {memory: 4GiB, pids: 1000}\n")
    fitted = fit(Limits(), rules)
    assert fitted == Limits(memory_bytes=4 * GIB)
    assert over(fitted, Profile.STRICT, rules) == []
    asked = Limits(memory_bytes=6 * GIB)
    assert fit(asked, rules) == asked


def test_each_part_is_read_with_the_line_that_says_it(tmp_path):
    text = """\
strict_limits: true
images:
  - debian:*
data: ["*.example.org", files.lab]
private:
  - 10.1.0.0/16
  - files.lab
  - "::1"
"""
    rules = read(tmp_path, text)
    assert rules.strict is None
    assert rules.strict_limits and rules.strict_limits.line == 1
    (images,) = rules.images
    assert images.patterns == ("debian:*",)
    assert images.place.line == 3
    assert rules.data_hosts and rules.data_hosts.place.line == 4
    assert [(p.name, p.network, p.place.line) for p in rules.private] == [
        ("10.1.0.0/16", ip_network("10.1.0.0/16"), 6),
        ("files.lab", None, 7),
        ("::1", ip_network("::1"), 8),
    ]


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("www.example.org", True),
        ("A.B.Example.ORG.", True),
        ("example.org", False),
        ("files.lab.evil.net", False),
    ],
)
def test_hosts_fit_a_pattern_whatever_their_case(tmp_path, host, allowed):
    rules = read(tmp_path, 'data: ["*.example.org", Files.lab]\n')
    assert rules.data_hosts.has_host(host) is allowed


def test_an_empty_list_allows_nothing(tmp_path):
    rules = read(tmp_path, "data: []\nimages: []\n")
    assert [names.patterns for names in rules.images] == [()]
    assert rules.data_hosts is not None and not rules.data_hosts.has_host("a.org")


def test_all_that_is_wrong_in_a_policy_is_said_at_once(tmp_path):
    text = """\
limts: {time: 1h}
limits: {memory: lots, tme: 1h}
profile:
images: ["https://registry.example.org/x", "a b"]
data: [https://files.lab/x, "a b", {a: b}]
private: [10.0.0.0/33, 10.1.2.3/16, "*.lab", files.lab/x, [a]]
"""
    told = [
        ("1:1", "unknown key `limts`; did you mean `limits`?"),
        ("2:18", 'limits.memory is "lots"; expected a size of at least 6MiB'),
        ("2:24", "unknown key `tme` in limits; did you mean `time`?"),
        ("3:9", "profile is empty"),
        ("4:10", "names of images have no `https://`; expected e.g."),
        ("4:44", 'images[2] is "a b", which fits no name of an image'),
        ("5:8", 'data[1] is "https://files.lab/x", which is more than a host'),
        ("5:29", 'data[2] is "a b", which is no name of a host'),
        ("5:36", "data[3] is a mapping, which is not a name; expected e.g."),
        ("6:11", "which is no network: its part after the slash is wrong"),
        ("6:24", "which is no network: did you mean 10.1.0.0/16?"),
        ("6:37", 'private[3] is "*.lab", which has a pattern: only whole names'),
        ("6:46", "which is more than a host: write its name alone"),
        ("6:59", "private[5] is a list, which is not a name; expected e.g."),
    ]
    for problem, (place, said) in zip(refused(tmp_path, text), told, strict=True):
        assert problem.startswith(f"policy.yml:{place}: ") and said in problem


@pytest.mark.parametrize("text", ["limits:\n", "- a\n", "a: [\n", "limits: 3\n"])
def test_a_policy_with_a_mistake_is_refused_rather_than_passed_over(tmp_path, text):
    assert refused(tmp_path, text)


def cannot_be_read(file: Path, owner: int = ME) -> str:
    with pytest.raises(ConfigError) as caught:
        policy.read(file, owner)
    (problem,) = caught.value.problems
    assert problem.hint.startswith("nothing runs without it")
    start = f"the site's policy {file} cannot be read: "
    return problem.message.removeprefix(start)


def test_a_policy_that_others_may_change_is_refused(tmp_path):
    file = written(tmp_path, "limits: {time: 1h}\n")
    assert cannot_be_read(file, ME + 1).endswith(f"belongs to user {ME}, not {ME + 1}")
    file.chmod(0o664)
    assert cannot_be_read(file) == "it may be written by its group"
    file.chmod(0o646)
    assert cannot_be_read(file) == "it may be written by others"
    file.chmod(0o644)
    tmp_path.chmod(0o777)
    assert cannot_be_read(file) == f"its folder {tmp_path} may be written by others"


def test_a_policy_that_is_no_file_of_its_own_is_refused(tmp_path):
    elsewhere = written(tmp_path / "elsewhere", "limits: {time: 1h}\n")
    folder = tmp_path / "rai"
    folder.mkdir(0o755)
    file = folder / "policy.yml"
    for target in (elsewhere, tmp_path / "absent", Path("/dev/zero")):
        file.symlink_to(target)
        assert cannot_be_read(file) == "policy.yml is a link"
        file.unlink()
    os.mkfifo(file, 0o644)
    assert cannot_be_read(file) == "it is not a regular file"
    file.unlink()
    file.mkdir(0o755)
    assert cannot_be_read(file) == "it is not a regular file"
    (tmp_path / "linked").symlink_to(elsewhere.parent)
    linked = tmp_path / "linked" / "policy.yml"
    assert cannot_be_read(linked) == f"{linked.parent} is a link"
    below = elsewhere / "policy.yml"
    assert cannot_be_read(below) == f"{elsewhere} is no folder"


def test_a_policy_that_is_too_large_is_not_read(tmp_path):
    file = written(tmp_path, "")
    os.truncate(file, 8 * GIB)
    assert cannot_be_read(file) == "it is larger than 1,048,576 bytes"

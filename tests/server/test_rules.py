"""server.yml: what it may say, and all that is wrong with one at once."""

from __future__ import annotations

import pytest

from runner.core import GIB
from runner.core.errors import ConfigError
from runner.core.quantities import DAY_S
from runner.server import rules
from runner.server.scheduling import STAFF, STUDENT, Role, ServerRules
from runner.store import policy


def parse(text: str) -> ServerRules:
    return rules.parse(text.encode(), "server.yml")


def refused(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse(text)
    return [str(problem) for problem in caught.value.problems]


def test_a_new_server_s_file_says_what_holds_without_it(tmp_path):
    file = tmp_path / "server.yml"
    assert rules.read(file) == ServerRules()
    assert rules.read(rules.TEMPLATE) == ServerRules()
    text = rules.TEMPLATE.read_text()
    assert all(f" {key}" in text for key in policy.LIMIT_KEYS)
    usual = parse("slurm: {place: slurm}")
    gpu, cpu = usual.gpu_jobs, usual.cpu_jobs
    assert f"gpu_jobs: {gpu}\n" in text and f"cpu_jobs: {cpu}\n" in text


def test_what_the_new_file_suggests_can_be_said():
    text = (
        rules.TEMPLATE.read_text()
        .replace("#slots", "slots")
        .replace("      #", "      ")
    )
    found = parse(text)
    assert found.slots == 4
    limits = {**STUDENT.ceilings, "memory_bytes": 8 * GIB}
    assert found.roles["student"].ceilings == limits


def test_each_part_is_read():
    found = parse("""\
slots: 3
low_disk: 1GiB
term: 2026fa
code_valid: 2h
login_valid: none
roles:
  ta: {priority: 5, waiting: 7, a_day: none, limits: {pids: 64, network: yes}}
  student: {at_once: none, keep: 1d, images: ["debian:*"], gpu_a_day: 90m}
""")
    assert (found.slots, found.low_disk_bytes, found.term) == (3, GIB, "2026fa")
    assert found.least_free(submission=True) == GIB // 2
    assert found.code_valid_s == 7200.0
    assert found.token_valid_s is None
    student = found.roles["student"]
    assert (student.at_once, student.keep_s) == (None, DAY_S)
    assert student.images == ("debian:*",)
    assert (student.ceilings, student.a_day) == (STUDENT.ceilings, 200)
    assert student.gpu_a_day_s == 5400.0
    assert found.roles["ta"] == Role(
        "ta",
        priority=5,
        ceilings={"time_s": 600.0, "pids": 64, "network": True},
        images=student.images,
        at_once=None,
        waiting=7,
        gpu_a_day_s=5400.0,
        keep_s=DAY_S,
    )
    assert found.roles["staff"] == STAFF


def test_a_role_that_is_not_there_may_do_what_students_may():
    found = parse("roles: {student: {at_once: 9}}")
    assert found.role("gone").at_once == 9
    assert ServerRules(roles={}).role("gone") == STUDENT


def test_all_that_is_wrong_is_said_at_once():
    assert refused("""\
slot: 4
low_disk: much
roles:
  Student: {}
  student: {at_onse: 2, waiting: 0, images: ["a b", [x]]}
  staff: {limits: {memory: 1}, keep: never, at_once: 0}
code_valid: soon
""") == [
        "server.yml:1:1: unknown key `slot`; did you mean `slots`?",
        'server.yml:2:11: low_disk is "much"; expected a size, e.g. `low_disk: 5GiB`',
        'server.yml:4:3: no role is called "Student"; expected small letters, digits,'
        " `-` and `_`, a letter first",
        "server.yml:5:13: unknown key `at_onse` in roles.student;"
        " did you mean `at_once`?",
        'server.yml:5:34: roles.student.waiting is "0"; expected a whole number from 1,'
        " e.g. `waiting: 100`",
        'server.yml:5:46: roles.student.images[1] is "a b", which fits no name of an'
        ' image; expected e.g. `images: ["debian:*", "registry.example.org/course/*"]`',
        "server.yml:5:53: roles.student.images[2] is a list, which is not a name;"
        ' expected e.g. `images: ["debian:*", "registry.example.org/course/*"]`',
        'server.yml:6:28: roles.staff.limits.memory is "1"; expected a size of at least'
        " 6MiB, e.g. `memory: 8GiB`",
        'server.yml:6:38: roles.staff.keep is "never"; expected a time, e.g.'
        " `keep: 30d`",
        'server.yml:6:54: roles.staff.at_once is "0"; expected a whole number from 1,'
        " or none, e.g. `at_once: 2`",
        'server.yml:7:13: code_valid is "soon"; expected a time, e.g.'
        " `code_valid: 14d`",
    ]


@pytest.mark.parametrize("text", ["[1, 2]", "roles: [student]", "a: [", "\x00"])
def test_what_is_no_mapping_is_refused(text):
    assert refused(text)[0].startswith("server.yml:")


def test_an_empty_file_says_nothing_and_an_odd_one_is_refused(tmp_path):
    assert parse("") == parse("# nothing\n") == ServerRules()
    (tmp_path / "folder").mkdir()
    with pytest.raises(ConfigError, match="cannot be read"):
        rules.read(tmp_path / "folder")


def test_a_server_s_place_is_this_machine_or_slurm():
    assert parse("slots: 2").place == ""
    assert parse("slurm: {place: slurm}").place == "slurm"
    found = parse("slurm: {place: 'slurm:gpu', gpu_jobs: 3, cpu_jobs: 5}")
    assert (found.place, found.gpu_jobs, found.cpu_jobs) == ("slurm:gpu", 3, 5)
    (problem,) = refused("slurm: {place: 'slurm:--wrap=x'}")
    assert "slurm or slurm:PARTITION" in problem


def test_a_role_says_what_slurm_is_asked_for():
    role = parse("roles: {ta: {account: course, qos: short, partition: gpu}}").role(
        "ta"
    )
    assert role.slurm == {"account": "course", "qos": "short", "partition": "gpu"}
    assert parse("slots: 2").role("student").slurm == {}
    for name in ("account", "qos", "partition"):
        for value in ("--wrap=id", "a b", "'a,b'", "'-x'", "'a\\nb'", "é"):
            (problem,) = refused(f"roles: {{ta: {{{name}: {value}}}}}")
            assert "a name of letters, digits" in problem

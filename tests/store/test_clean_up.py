"""Runs are removed, pruned and tagged: what goes, what stays, and after a crash."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from runner.core import GIB, BuildSpec, DataResource, Reason, Verdict, events, record
from runner.core.errors import ConfigError, UsageError
from runner.core.policy import NO_POLICY
from runner.core.quantities import DAY_S
from runner.execution import places
from runner.pack import datafiles
from runner.store import home as homes
from runner.store import prune, removal, run_files, runs
from runner.store.claim import Claim
from runner.store.paths import Home, RunPaths
from runner.store.prune import Retention
from runner.system import files
from runner.system.machine import describe
from tests.kit import program
from tests.submit.test_standings import measured

MONTH = Retention(30 * DAY_S, 20 * GIB)
PLENTY = 100 * GIB
NOW = time.time()
OVER = events.Finished(Verdict(True, True, None, Reason.DONE))


def rai(
    home: Home, *words: str, engine: str = "bare"
) -> subprocess.CompletedProcess[str]:
    # The images and volumes of this machine's Docker Engine belong to others.
    environ = {**os.environ, "RAI_HOME": str(home.root), "RAI_ENGINE": engine}
    return program.rai(*words, env=environ)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return homes.make(tmp_path / "home")


@contextmanager
def begun(home: Home) -> Iterator[runs.Recorder]:
    """Begin a run, which this process holds."""
    paths = runs.create(home)
    with Claim(paths), runs.Recorder(paths) as recorder:
        made = events.Created(paths.id, "/p", "f.yml", None, describe())
        recorder.keep(made)
        yield recorder


def ended(
    home: Home, *, days: float = 0, project: str = "/p", size: int = 0
) -> RunPaths:
    """Make a run that ended some days ago and has a file of some bytes."""
    at = NOW - days * DAY_S
    paths = runs.create(home)
    made = events.Created(paths.id, project, "f.yml", None, describe())
    paths.events.write_bytes(events.to_line(made, at) + events.to_line(OVER, at))
    found = runs.read(paths)
    assert found is not None
    files.write(paths.record, record.to_json(found))
    paths.build.write_bytes(b"x" * size)
    return paths


def listed(home: Home) -> set[str]:
    return {run.id for run in homes.list_runs(home)}


def policy(home: Home, now: float, free: float = PLENTY) -> list[str]:
    return prune.by_policy(home.root, MONTH, now, lambda _: free)


def test_a_run_that_is_removed_is_gone_with_its_folder(home):
    one, two = ended(home), ended(home)

    prune.remove(home, [one.id])

    assert not one.root.exists()
    assert listed(home) == {two.id}
    assert list((home.runs / removal.TRASH).iterdir()) == []


def test_after_a_crash_in_the_middle_nothing_looks_like_a_run_and_the_rest_goes(home):
    one, two = ended(home), ended(home)
    assert listed(home) == {one.id, two.id}

    removal.discard(home.runs, one.id)
    removal.discard(home.runs, one.id)

    assert listed(home) == {two.id}
    assert len(list((home.runs / removal.TRASH).iterdir())) == 1
    places.open_home(home.root)
    assert list((home.runs / removal.TRASH).iterdir()) == []
    assert listed(home) == {two.id}


def test_of_a_link_only_the_link_is_removed(home, tmp_path):
    outside = tmp_path / "outside"
    ended(Home(outside))
    (kept,) = (outside / "runs").iterdir()
    home.runs.mkdir()
    (home.runs / "link").symlink_to(kept)
    run = ended(home)
    (run.root / "inside").symlink_to(outside)
    assert listed(home) == {"link", run.id}

    prune.remove(home, ["link", run.id])

    assert listed(home) == set()
    assert (kept / "events.jsonl").exists()


def test_a_trash_that_is_a_link_is_not_followed(home, tmp_path):
    outside = tmp_path / "outside"
    (outside / "precious").mkdir(parents=True)
    run = ended(home)
    (home.runs / removal.TRASH).symlink_to(outside)

    removal.empty(home.runs, wait=True)
    with pytest.raises(OSError, match=r"\.trash"):
        removal.discard(home.runs, run.id)

    assert (outside / "precious").exists()
    assert listed(home) == {run.id}


def test_folders_that_their_owner_may_not_change_are_removed(home):
    run = ended(home)
    inner = run.root / "project" / "locked" / "deep"
    inner.mkdir(parents=True)
    (inner / "file").write_text("x")
    inner.chmod(0o500)
    inner.parent.chmod(0)

    prune.remove(home, [run.id])

    assert list((home.runs / removal.TRASH).iterdir()) == []


def test_a_second_process_leaves_the_trash_to_the_first(home):
    removal.discard(home.runs, ended(home).id)
    with removal._held(home.runs / removal.TRASH, wait=False) as trash:
        assert trash is not None
        removal.empty(home.runs)
        assert len(os.listdir(trash)) == 1  # noqa: PTH208


def list_until_none_is_left(home: Home) -> None:
    from runner.cli.runs import read

    while read(home, homes.RunQuery(active=False), 50)[0]:
        pass


@pytest.mark.lengthy
def test_runs_that_are_removed_while_others_list_them_harm_nobody(home):
    made = [ended(home).id for _ in range(150)]
    context = multiprocessing.get_context("fork")
    others = [
        context.Process(target=list_until_none_is_left, args=(home,)) for _ in range(2)
    ]
    for other in others:
        other.start()
    for number in range(0, len(made), 10):
        prune.remove(home, made[number : number + 10])
    for other in others:
        other.join()

    assert [other.exitcode for other in others] == [0, 0]
    assert listed(home) == set()


@pytest.mark.lengthy
def test_a_process_that_is_killed_while_it_removes_leaves_no_half_of_a_run(home):
    context = multiprocessing.get_context("fork")
    for number in range(20):
        made = [ended(home).id for _ in range(10)]
        killed = context.Process(target=prune.remove, args=(home, made))
        killed.start()
        killed.join(0.002 * number)
        killed.kill()
        killed.join()

        for name in listed(home):
            assert home.run(name).events.exists()
        places.open_home(home.root)
        assert list((home.runs / removal.TRASH).glob("*")) == []


def test_rm_says_every_problem_at_once_and_then_removes_nothing(home):
    done = ended(home)
    with begun(home) as held:
        name = held.paths.id
        refused = rai(home, "rm", done.id, name, "nope", "latest")
        assert listed(home) == {done.id, name}
        held.keep(OVER)

    assert refused.returncode == 2
    assert f"run {name} has not ended; `rai cancel {name}` ends it" in refused.stderr
    assert "no run 'nope'" in refused.stderr
    removed = rai(home, "rm", done.id[:6], done.id, name, "--json", "--yes")
    facts = json.loads(removed.stdout)
    assert sorted(facts["runs"]) == sorted([done.id, name])
    assert facts["freed_bytes"] > 0
    assert listed(home) == set()


def test_prune_removes_by_age_or_size_what_has_ended_and_has_no_tag(home):
    old, kept, big, new = (
        ended(home, days=days, size=size)
        for days, size in ((40, 0), (50, 0), (5, 3 << 20), (1, 0))
    )
    run_files.write_text(kept.tag, "kept")
    with begun(home) as held:
        always = {kept.id, held.paths.id}

        planned = rai(home, "prune", "--dry-run")
        assert old.id in planned.stdout
        assert "1 run to remove" in planned.stdout
        assert planned.stdout.endswith(f"Kept: {kept.id} (kept)\n")
        assert listed(home) == {old.id, big.id, new.id} | always

        facts = json.loads(rai(home, "prune", "--json", "--yes").stdout)
        assert [run["id"] for run in facts["runs"]] == [old.id]
        assert listed(home) == {big.id, new.id} | always

        # Only --size is given, so the age does not count.
        refused = rai(home, "prune", "--size", "1MB")
        assert refused.returncode == 2
        assert "add --yes" in refused.stderr
        assert big.id in refused.stdout and big.root.exists()
        done = rai(home, "prune", "--size", "1MB", "--yes")
        assert done.stdout.endswith("\n1 run removed; 3.0 MiB freed\n")
        assert listed(home) == {new.id} | always
        assert "1 run removed" in rai(home, "prune", "--older", "1h", "-y").stdout
        assert (
            rai(home, "prune", "--older", "1h", "--yes").stdout
            == "Nothing to remove.\n"
        )
        ended(home)
        assert "1 run removed" in rai(home, "prune", "--older", "0s", "-y").stdout
        assert listed(home) == always
        held.keep(OVER)


def test_prune_needs_no_docker_engine(home, monkeypatch):
    old = ended(home, days=40)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{home.root}/none.sock")
    done = rai(home, "prune", "--older", "1d", "--yes", engine="docker")
    assert (done.returncode, done.stderr) == (0, "")
    assert not old.root.exists()


def test_a_run_that_came_into_use_since_the_plan_stays(home):
    one, two, three = (ended(home, days=40) for _ in range(3))
    what = prune.plan(home, MONTH, NOW)
    assert {run.id for run in what.runs} == {one.id, two.id, three.id}
    homes.set_tag(home, one, "wanted")
    with Claim(two):
        done = prune.apply(home, what)
        assert [run.id for run in done.runs] == [three.id]
        assert 0 < done.freed_bytes < what.freed_bytes
        assert listed(home) == {one.id, two.id}


def test_the_policy_says_once_that_it_removes_and_then_only_counts(home):
    ended(home, days=45)
    latest = ended(home, days=40)
    # The first look after a long time removes nothing: the clock may be wrong.
    assert policy(home, NOW - 1.5 * DAY_S) == []

    (said,) = policy(home, NOW)

    assert "Removed 1 old run " in said
    assert "`rai tag RUN NAME` keeps a run" in said
    assert listed(home) == {latest.id}
    ended(home, days=39)
    assert policy(home, NOW + 1) == []
    assert latest.id in listed(home), "it looks only once a day"
    assert policy(home, NOW + 2 * DAY_S) == []
    assert prune.tally(home).runs == 2
    assert latest.id not in listed(home)


def test_a_clock_that_is_wrong_for_a_day_removes_nothing(home):
    policy(home, NOW)
    ended(home)
    ended(home)
    everyone = listed(home)

    policy(home, NOW + 4000 * DAY_S)
    policy(home, NOW + 1)
    policy(home, NOW - 4000 * DAY_S)
    policy(home, NOW + 2)

    assert listed(home) == everyone


@pytest.mark.parametrize("content", [b"", b"[]", b'{"looked_at": "x"}'])
def test_a_damaged_count_of_what_was_removed_is_begun_again(home, content):
    home.pruned.write_bytes(content)
    policy(home, NOW)
    assert prune.tally(home).looked_at == NOW


def test_with_both_settings_off_nothing_is_removed_or_looked_at(home):
    run = ended(home, days=4000)
    prune.by_policy(home.root, Retention(), NOW, lambda _: GIB)
    assert run.root.exists()
    assert not home.pruned.exists()


def test_with_little_space_the_oldest_go_but_no_latest_and_none_of_today(home):
    old, latest = ended(home, days=3), ended(home, days=2)
    young = ended(home, project="/q")
    younger = ended(home, project="/q")

    (said,) = policy(home, NOW, free=4 * GIB)

    assert "since only 4.0 GiB were free" in said
    assert listed(home) == {latest.id, young.id, younger.id}
    assert not old.root.exists()
    assert policy(home, NOW, free=4 * GIB) == []


def test_without_space_for_a_run_none_begins(home):
    with pytest.raises(ConfigError, match=r"only 100 MiB are free .*`rai prune"):
        policy(home, NOW, free=100 << 20)


def test_downloaded_data_that_no_run_used_goes_and_nothing_beside_it(home, tmp_path):
    used = hashlib.md5(b"data", usedforsecurity=False).hexdigest()
    unused, link = "b" * 32, "c" * 32
    outside = tmp_path / "outside"
    outside.mkdir()
    for name in (used, unused, "mine"):
        (home.data / name).mkdir(parents=True)
        (home.data / name / "train.bin").write_bytes(b"data")
        os.utime(home.data / name, (NOW, NOW - 60 * DAY_S))
    (home.data / link).symlink_to(outside)
    found = DataResource("/data", "train.bin", "http://x.invalid/", used)
    places = datafiles.DataPlaces(None, tmp_path, home.data)
    rules = datafiles.DataRules(NO_POLICY, lambda _: None, download=False)
    with ExitStack() as held:
        spec = BuildSpec("rai_build.yml", data=(found,))
        list(datafiles.resolve(spec, places, rules, held))

    prune.apply(home, prune.plan(home, MONTH, NOW))

    assert not (home.data / unused).exists()
    left = {p.name for p in home.data.iterdir()}
    assert left == {used, "mine", link, removal.TRASH}


def downloaded(home: Home, name: str, size: int, days: float) -> Path:
    """Keep a data file that was used some days ago."""
    folder = home.data / (name * 32)
    folder.mkdir(parents=True)
    (folder / "train.bin").write_bytes(bytes(size))
    os.utime(folder, (NOW, NOW - days * DAY_S))
    return folder


def test_the_oldest_data_files_go_until_the_rest_fits(home):
    old, new = downloaded(home, "a", 1 << 20, 2), downloaded(home, "b", 1 << 20, 1)

    keep = Retention(data_bytes=1.5 * (1 << 20))
    what = prune.plan(home, keep, NOW)
    assert what.data == (old.name,)
    prune.apply(home, what)

    assert not old.exists() and new.exists()


def test_data_files_that_a_run_uses_stay_and_make_no_room(home):
    used, free = downloaded(home, "a", 1 << 20, 2), downloaded(home, "b", 1 << 20, 1)
    with datafiles.using(used):
        prune.make_room(home.data, 2 << 20, 1000)
        assert used.exists() and not free.exists()
        with pytest.raises(ConfigError, match=r"more than 2MiB, the setting keep_size"):
            prune.make_room(home.data, 2 << 20, 2 << 20)
    prune.make_room(home.data, 2 << 20, 2 << 20)
    assert not used.exists()


def test_a_folder_of_data_that_another_process_removes_is_made_again(home):
    folder = downloaded(home, "a", 1, 1)
    with datafiles.removing(folder) as may:
        assert may
        removal.discard(home.data, folder.name)
        with datafiles.using(folder, make=True), datafiles.removing(folder) as again:
            assert folder.is_dir() and not again


def test_a_submission_that_counts_stays_as_a_tagged_run_does(home):
    counted, rehearsed = (ended(home, days=40) for _ in range(2))
    found = measured(0.7)
    runs.keep_measurement(counted, found)
    assert found.host
    why = replace(found.host, why_not_ranked=("a rehearsal",))
    runs.keep_measurement(rehearsed, replace(found, host=why))

    planned = rai(home, "prune", "--dry-run").stdout
    assert planned.endswith(f"Kept: {counted.id} (in rai ranking)\n")
    rai(home, "prune", "--older", "1d", "--yes")
    assert listed(home) == {counted.id}


def test_a_tag_names_one_run_wherever_a_run_is_named(home):
    one, two = ended(home), ended(home)

    assert homes.set_tag(home, one, "best") == []
    assert homes.find(home, "best") == one
    assert homes.set_tag(home, two, "best") == [one.id]
    assert homes.find(home, "best") == two
    assert (run_files.read_tag(one), run_files.read_tag(two)) == ("", "best")
    assert homes.set_tag(home, two, "") == []
    with pytest.raises(UsageError, match="no run 'best'"):
        homes.find(home, "best")


@pytest.mark.parametrize(
    "text",
    ["latest", "", "beef", "0123456789", ".a", "-x", "a/b", "a b", "x" * 65, "é"],
)
def test_a_tag_reads_neither_as_a_run_nor_as_an_option_nor_as_a_path(text):
    assert run_files.tag_problem(text)


@pytest.mark.parametrize(
    "text", ["best", "v1.2", "2019-final", "A", "beef_1", "x" * 64]
)
def test_a_word_is_a_tag(text):
    assert run_files.tag_problem(text) is None


@pytest.mark.parametrize("content", [b"latest", b"\x1b[31m", b"x" * 500, b"beef\n"])
def test_what_is_no_tag_in_a_folder_that_somebody_copied_is_none(home, content):
    run = ended(home)
    run.tag.write_bytes(content)
    assert run_files.read_tag(run) == ""
    assert listed(home) == {run.id}


def test_history_shows_the_date_the_size_and_the_tag(home):
    run = ended(home, size=5 << 20)
    assert (
        rai(home, "tag", run.id, "best").stdout == f"Run {run.id} has the tag best.\n"
    )

    _, line = rai(home, "history").stdout.splitlines()

    day = time.strftime("%b %d %H:%M", time.localtime(NOW))
    assert f"{run.id}  best  {day}" in line
    assert " 5.0 MiB" in line
    assert json.loads(rai(home, "show", "best", "--json").stdout)["tag"] == "best"
    other = ended(home)
    moved = rai(home, "tag", other.id, "best").stdout
    assert moved.startswith(f"Run {run.id} no longer has the tag best.\n")
    assert rai(home, "tag", "best", "--remove").returncode == 0
    assert rai(home, "tag", "best", "--remove").returncode == 2
    assert rai(home, "tag", run.id).returncode == 2


def test_only_runs_that_have_not_ended_are_looked_at(home):
    done = ended(home)
    (home.runs / "note.txt").write_text("no run")
    with begun(home) as held:
        assert homes.unfinished(home) == [held.paths]
        assert done.id in listed(home)
        held.keep(OVER)
    assert len(json.loads(rai(home, "history", "--json").stdout)) == 2
    assert homes.unfinished(home) == []


def test_a_run_whose_process_died_between_its_last_event_and_its_record_is_looked_at(
    home,
):
    run = ended(home)
    run.record.unlink()
    Claim(run).close()
    assert homes.unfinished(home) == [run]
    assert [one.id for one in places.sweep(home)] == [run.id]
    assert homes.unfinished(home) == []


def test_the_policy_spares_a_run_that_is_just_replayed(home):
    needed, other, _ = ended(home, days=60), ended(home, days=60), ended(home)

    for now in (NOW - 2 * DAY_S, NOW):
        prune.by_policy(home.root, MONTH, now, lambda _: PLENTY, spare=needed.id)

    assert needed.root.exists()
    assert not other.root.exists()

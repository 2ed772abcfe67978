"""What a run left behind, read for a report."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from image.nvprof.tests import recording
from runner.core import CommandRecord, ProfileFile, Stream, events
from runner.core.evidence import RunEvidence
from runner.core.kernel_shapes import KernelShapes
from runner.figures.traces import sums
from runner.pack.write import zstd
from runner.report import evidence
from runner.store.paths import RunPaths
from tests.figures.test_nvprof_file import stored
from tests.kit.records import command, ended
from tests.kit.running import source

OUT, ERR = Stream.STDOUT, Stream.STDERR


class KeptRun:
    """The folder of a run, to which output and a build folder are added."""

    def __init__(self, root: Path, *commands: CommandRecord) -> None:
        self.paths = RunPaths(root)
        self.record = ended("0123456789", *commands)
        self._sizes = dict.fromkeys(Stream, 0)
        for path in (self.paths.stdout, self.paths.stderr, self.paths.events):
            path.touch()

    def printed(self, index: int, data: bytes, stream: Stream = OUT) -> None:
        with self.paths.log(stream).open("ab") as log:
            log.write(data)
        event = events.Output(index, stream, b"", self._sizes[stream], len(data))
        self._sizes[stream] += len(data)
        with self.paths.events.open("ab") as file:
            file.write(events.to_line(event, 1.0))

    def built(self, files: dict[str, bytes]) -> None:
        tar = source({f"build/{name}": data for name, data in files.items()})
        self.paths.build.write_bytes(zstd.compress(tar().read()))

    def read(self) -> RunEvidence:
        return evidence.read(self.paths, self.record).run


@pytest.fixture
def kept(tmp_path: Path) -> KeptRun:
    return KeptRun(tmp_path, command(0), command(1))


def test_what_commands_printed_is_apart_and_in_the_order_in_which_it_came(kept):
    kept.printed(0, b"one\n")
    kept.printed(0, b"two\n", ERR)
    kept.printed(1, b"other\n")
    kept.printed(0, b"three\n")

    found = kept.read().outputs

    assert found[0].head == "one\ntwo\nthree"
    assert found[1].head == "other"
    assert found[0].left_out_bytes == 0


def test_of_a_long_output_the_beginning_and_the_end_are_kept_in_whole_lines(kept):
    lines = [b"line %07d\n" % n for n in range(100_000)]
    for start in range(0, len(lines), 1000):
        kept.printed(0, b"".join(lines[start : start + 1000]))

    found = kept.read().outputs[0]

    head, tail = found.head.split("\n"), found.tail.split("\n")
    assert head == [line.decode().rstrip() for line in lines[: len(head)]]
    assert tail == [line.decode().rstrip() for line in lines[-len(tail) :]]
    kept_bytes = 13 * (len(head) + len(tail))
    assert found.left_out_bytes == 13 * len(lines) - kept_bytes
    assert kept_bytes <= 2 * evidence.PART_BYTES


def test_one_endless_line_is_cut_as_well(kept):
    kept.printed(0, b"x" * 300_000 + b"y")

    found = kept.read().outputs[0]

    assert len(found.head) == len(found.tail) == evidence.PART_BYTES
    assert found.tail.endswith("y")


def test_many_commands_share_the_room(tmp_path: Path):
    kept = KeptRun(tmp_path, *(command(n) for n in range(200)))
    for index in range(200):
        kept.printed(index, b"0123456\n" * 4000)

    found = kept.read().outputs

    every = sum(len(one.head) + len(one.tail) for one in found.values())
    assert len(found) == 200
    assert every <= evidence.MOST_BYTES


def test_what_steers_a_terminal_is_gone(kept):
    kept.printed(0, b"\x1b[31mred\x1b[0m \x1b]0;title\x07\x1b[2J\x00 end\r\n")

    found = kept.read().outputs[0].head

    assert "\x1b" not in found
    assert "\x00" not in found
    assert found.startswith("red")


@pytest.mark.parametrize("offset", [-1, 1 << 70])
def test_damaged_events_are_told_of_and_what_came_before_them_stands(kept, offset):
    kept.printed(0, b"before\n")
    text = kept.paths.events.read_text()
    damaged = text.replace('"offset":0', f'"offset":{offset}')
    kept.paths.events.write_text(text + damaged)

    found = kept.read()

    assert found.outputs[0].head == "before"
    assert "events.jsonl cannot be read to its end" in found.problems[0]


def test_a_log_that_is_gone_is_told_of(kept):
    kept.printed(0, b"gone\n")
    kept.paths.stdout.unlink()

    assert any("cannot be read" in problem for problem in kept.read().problems)


def test_layers_and_kernels_come_from_the_build_folder(kept):
    kept.built({"rai-kernels.json": b'{"networks": [{"name": "net"}]}', "other": b"x"})

    found = kept.read()

    assert [network.name for network in found.shapes.networks] == ["net"]
    assert found.problems == ()


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"no archive", "the build folder cannot be read"), (None, "no build folder")],
)
def test_a_damaged_build_folder_is_told_of_and_the_rest_stands(kept, content, words):
    kept.printed(0, b"said\n")
    if content is not None:
        kept.paths.build.write_bytes(content)

    found = kept.read()

    assert found.outputs[0].head == "said"
    assert any(words in problem for problem in found.problems)


def test_a_file_that_is_no_profile_is_told_of_by_its_name(tmp_path: Path):
    file = ProfileFile("nvprof", "a.nvprof", 3)
    kept = KeptRun(tmp_path, command(0, "nvprof -o a.nvprof x", profile_files=(file,)))
    kept.built({"a.nvprof": b"abc", "rai-kernels.json": b"[" * 100_000})

    found = kept.read()

    assert (found.traces, found.shapes) == ((), None)
    for name in ("a.nvprof", "rai-kernels.json"):
        assert any(name in problem for problem in found.problems)


def profile(folder: Path) -> bytes:
    """Return a file that rai's nvprof wrote of two kernels."""
    return stored(folder, recording.small(trace=True)).read_bytes()


@pytest.mark.parametrize("timelines", [False, True])
def test_a_profile_has_its_sums_and_where_wanted_its_timeline(tmp_path, timelines):
    file = ProfileFile("nvprof", "runs/m3.1.nvprof", 1)
    kept = KeptRun(tmp_path, command(0, "nvprof -o m3.1.nvprof", profile_files=(file,)))
    kept.built({"runs/m3.1.nvprof": profile(tmp_path), "link.nvprof": b"SQLite format"})

    found = evidence.read(kept.paths, kept.record, timelines=timelines)

    (trace,) = found.run.traces
    assert (trace.path, trace.spans) == ("runs/m3.1.nvprof", 9)
    assert list(found.timelines) == (["runs/m3.1.nvprof"] if timelines else [])
    assert any("link.nvprof" in problem for problem in found.run.problems)


def test_more_profiles_than_a_report_has_room_for_are_named(tmp_path: Path):
    kept = KeptRun(tmp_path, command(0))
    every = evidence.MOST_TRACES + 2
    kept.built({f"{n:02}.nvprof": b"x" for n in range(every)})

    problems = [p for p in kept.read().problems if "is not shown" in p]

    assert [p.split(" ")[0] for p in problems] == ["32.nvprof", "33.nvprof"]


def test_profiles_that_take_too_long_together_are_named(tmp_path, monkeypatch):
    monkeypatch.setattr(evidence, "MOST_CPU_S", -1)
    kept = KeptRun(tmp_path, command(0))
    kept.built({"a.nvprof": profile(tmp_path)})

    assert kept.read().problems == (
        "a.nvprof is not read: the profiles before it took too long",
    )


def test_many_profiles_share_the_names_that_one_may_have(tmp_path, monkeypatch):
    monkeypatch.setattr(sums, "FEWEST", 1)
    monkeypatch.setattr(sums, "MOST_LAUNCHES", 3)
    kept = KeptRun(tmp_path, command(0))
    file = profile(tmp_path)
    kept.built({"a.nvprof": file})
    (alone,) = kept.read().traces
    kept.built({"a.nvprof": file, "b.nvprof": file})

    traces = kept.read().traces

    assert len(alone.totals) > 4
    for trace in traces:
        assert len(trace.launches) == 1
        assert len(trace.totals) == 4
        assert len(trace.problems) == 3
        assert [one.name for one in trace.totals if one.name == sums.OTHERS]
        for figure in ("count", "total_s"):
            before, now = (
                sum(getattr(one, figure) for one in each.totals)
                for each in (alone, trace)
            )
            assert now == pytest.approx(before)


def test_what_stands_before_the_damage_of_a_build_folder_is_read(kept):
    noise = random.Random(1).randbytes(1 << 20)
    kept.built({"rai-kernels.json": b'{"format": 1}', "1.nvprof": noise})
    whole = kept.paths.build.read_bytes()
    kept.paths.build.write_bytes(whole[: len(whole) // 2])

    found = kept.read()

    assert found.shapes == KernelShapes()
    (problem,) = found.problems
    assert problem.startswith("the build folder cannot be read")


def test_however_many_files_there_are_few_are_named_and_the_others_counted(tmp_path):
    kept = KeptRun(tmp_path, command(0))
    wanted = evidence.BuildFiles(kept.record)

    for n in range(1000):
        wanted.take(f"{n}.nvprof", 1)

    assert len(wanted.problems) == evidence.MOST_NAMED + 1
    left = 1000 - evidence.MOST_TRACES - evidence.MOST_NAMED
    assert wanted.problems[-1] == f"{left} more files are not read"


def test_a_profile_for_which_the_others_leave_no_room_is_told_from_a_large_one(
    tmp_path,
):
    wanted = evidence.BuildFiles(KeptRun(tmp_path, command(0)).record)

    sizes = (evidence.MOST_TRACE_BYTES + 1, *[evidence.MOST_TRACE_BYTES] * 2, 1)
    taken = [wanted.take(f"{n}.nvprof", size) for n, size in enumerate(sizes)]

    assert taken == [False, True, True, False]
    assert wanted.problems == (
        "0.nvprof is not read: it has over 512 MiB",
        "3.nvprof is not read: all profiles have over 1024 MiB",
    )


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("spans.json", True),
        ("results.json", False),
        ("more.json", False),
        ("trace.json", True),
        ("log/host_12.34.pt.trace.json", True),
        ("m3-trace.json.gz", True),
        ("backtrace.json", False),
        ("traced.json", False),
    ],
)
def test_json_is_read_where_a_profiler_s_command_names_it_or_its_name_says_trace(
    name, read, tmp_path
):
    named = command(0, "nvprof --export-perfetto spans.json ./x")
    kept = KeptRun(tmp_path, named, command(1, "./x > results.json"))
    kept.built({name: b"!"})

    assert any(name in problem for problem in kept.read().problems) is read


def test_nothing_is_left_on_the_disk(kept, tmp_path, monkeypatch):
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    kept.built({"rai-kernels.json": b"{}"})

    kept.read()

    assert list((tmp_path / "tmp").iterdir()) == []

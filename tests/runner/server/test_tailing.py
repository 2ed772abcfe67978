"""The order in which a followed run's files are sent."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runner.core import Stream
from runner.core.events import CommandStarted, Output, to_line
from runner.server.bounds import STEP_BYTES
from runner.server.tailing import EVENTS, Position, next_step, whole_lines
from runner.wire.frames import FILES, FilePart, from_line


class Folder:
    """A run's files in memory."""

    def __init__(self):
        self.files = dict.fromkeys(FILES, b"")

    def say(self, data, stream=Stream.STDOUT):
        name = f"{stream}.log"
        at = len(self.files[name])
        self.files[name] += data
        event = Output(0, stream, b"", at, len(data))
        self.files[EVENTS] += to_line(event, 1.0)

    def read(self, file, at, size):
        return self.files[file][at : at + size]

    def sizes(self):
        return {name: len(data) for name, data in self.files.items()}


def parts(frames):
    found = []
    while frames:
        line, _, frames = frames.partition(b"\n")
        header = from_line(line + b"\n")
        assert isinstance(header, FilePart)
        found.append((header.file, header.at, frames[: header.size]))
        frames = frames[header.size :]
    return found


def followed(folder, at=None, over=True):
    """Return all that is sent, part by part, and the copies it adds up to."""
    at, sent = at or Position(), []
    copies = {name: folder.files[name][: at.of(name)] for name in FILES}
    while step := next_step(folder.read, folder.sizes(), at, over=over):
        for file, begin, data in parts(step.frames):
            assert begin == len(copies[file])
            copies[file] += data
            sent.append((file, dict(copies)))
        at = step.after
    return sent, copies


def named(events):
    """Return how much output whole lines speak of."""
    from runner.core.events import from_line as event_from

    ends = {Stream.STDOUT: 0, Stream.STDERR: 0}
    for line in events.splitlines(keepends=True):
        if line.endswith(b"\n"):
            _, event = event_from(line)
            if isinstance(event, Output):
                ends[event.stream] = max(
                    ends[event.stream], event.offset + event.length
                )
    return ends


SAID = st.lists(st.tuples(st.sampled_from(Stream), st.binary(max_size=50)), max_size=20)


@given(SAID, st.booleans())
def test_no_line_comes_before_the_output_that_it_speaks_of(said, over):
    folder = Folder()
    for stream, data in said:
        folder.say(data, stream)
    sent, copies = followed(folder, over=over)
    assert copies == folder.files
    for _, copy in sent:
        ends = named(copy[EVENTS])
        assert ends[Stream.STDOUT] <= len(copy["stdout.log"])
        assert ends[Stream.STDERR] <= len(copy["stderr.log"])


@given(SAID, st.data())
def test_from_any_place_where_it_broke_the_rest_follows(said, data):
    folder = Folder()
    for stream, text in said:
        folder.say(text, stream)
    sizes = folder.sizes()
    at = Position(*(data.draw(st.integers(0, sizes[name])) for name in FILES))
    assert followed(folder, at)[1] == folder.files


def test_a_line_waits_for_output_that_is_not_there_yet():
    folder = Folder()
    folder.say(b"first")
    folder.files[EVENTS] += to_line(Output(0, Stream.STDOUT, b"", 5, 6), 1.0)
    _, copies = followed(folder, over=False)
    assert copies["stdout.log"] == b"first"
    assert copies[EVENTS].count(b"\n") == 1
    folder.files["stdout.log"] += b"second"
    assert followed(folder, over=False)[1] == folder.files


def test_what_no_line_speaks_of_comes_once_the_run_is_over():
    folder = Folder()
    folder.say(b"named")
    folder.files["stderr.log"] += b"not named"
    folder.files[EVENTS] += b'{"half a line'
    assert followed(folder, over=True)[1] == folder.files


def test_a_step_is_bounded_however_much_there_is():
    folder = Folder()
    folder.say(bytes(3 * STEP_BYTES + 7))
    for _ in range(20):
        folder.say(bytes(STEP_BYTES // 5), Stream.STDERR)
    folder.files[EVENTS] += to_line(CommandStarted(1, "x" * 3 * STEP_BYTES), 1.0)
    at, steps = Position(), []
    while step := next_step(folder.read, folder.sizes(), at, over=False):
        steps.append(len(step.frames))
        at = step.after
    assert max(steps) < STEP_BYTES + STEP_BYTES + 1000
    assert followed(folder, over=False)[1] == folder.files


def test_lines_that_are_no_events_are_sent_as_they_are():
    folder = Folder()
    folder.files[EVENTS] = (
        b'{"event":"Output","stream":"stdout","offset":-5,"length":99999999999}\n'
        b'"Output"\n{"event":"Output","stream":"disk"}\n\n\xff\n'
    )
    assert followed(folder, over=True)[1] == folder.files


def test_the_end_of_the_last_whole_line_is_found():
    folder = Folder()
    folder.files[EVENTS] = b"one\ntwo\n" + b"x" * 3 * STEP_BYTES
    size = len(folder.files[EVENTS])
    assert whole_lines(folder.read, 0, size) == 8
    assert whole_lines(folder.read, 4, size) == 8
    assert whole_lines(folder.read, 8, size) == 8
    assert whole_lines(folder.read, 0, 2) == 0

"""The order in which a followed run's files are sent."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runner.core import Stream
from runner.core.events import CommandStarted, Output, from_line, to_line
from runner.core.wire import EVENTS, FILES, MOST_TAIL_BYTES, STDERR, STDOUT
from runner.server.bounds import LINES_BYTES
from runner.server.downloads import reach


class Folder:
    """A run's files in memory."""

    def __init__(self):
        self.files = {name: bytearray() for name in FILES}

    def say(self, data, stream=Stream.STDOUT):
        name = f"{stream}.log"
        at = len(self.files[name])
        self.files[name] += data
        event = Output(0, stream, b"", at, len(data))
        self.files[EVENTS] += to_line(event, 1.0)

    def sizes(self):
        return {name: len(data) for name, data in self.files.items()}


class Copy:
    """What a follower has of it."""

    def __init__(self, folder, at=None):
        self.folder = folder
        at = at or dict.fromkeys(FILES, 0)
        self.files = {name: folder.files[name][: at[name]] for name in FILES}

    def sizes(self):
        return {name: len(data) for name, data in self.files.items()}

    def answer(self, over=False):
        """Return the next answer, as parts of files in their order."""
        at, sizes = self.sizes(), self.folder.sizes()
        lines = bytes(self.folder.files[EVENTS][at[EVENTS] :][:LINES_BYTES])
        after = reach(at, sizes, lines, over=over)
        return [(n, self.folder.files[n][at[n] : after[n]]) for n in FILES]

    def take(self, parts, cut=None):
        """Append the parts, or so many bytes of them; return how many there were."""
        left = whole = sum(len(data) for _, data in parts)
        left = whole if cut is None else cut
        for name, data in parts:
            self.files[name] += data[:left]
            left -= min(left, len(data))
        return whole

    def follow(self, over):
        while self.take(self.answer(over)):
            pass

    def is_one_the_folder_had(self):
        """Whether no whole line speaks of output that is not here."""
        for line in self.files[EVENTS].splitlines(keepends=True):
            event = from_line(line)[1] if line.endswith(b"\n") else None
            if isinstance(event, Output):
                have = len(self.files[f"{event.stream}.log"])
                if event.offset + event.length > have:
                    return False
        return all(self.folder.files[n].startswith(self.files[n]) for n in FILES)


SAID = st.lists(st.tuples(st.sampled_from(Stream), st.binary(max_size=50)), max_size=20)


@given(SAID, SAID, st.data())
def test_wherever_answers_break_off_the_copy_is_one_that_the_folder_had(
    said, later, data
):
    folder, copy = Folder(), None
    for stream, text in said:
        folder.say(text, stream)
    copy = Copy(folder)
    for stream, text in later:
        parts = copy.answer()
        whole = sum(len(text) for _, text in parts)
        copy.take(parts, data.draw(st.integers(0, whole)))
        assert copy.is_one_the_folder_had()
        folder.say(text, stream)
    copy.follow(over=data.draw(st.booleans()))
    assert copy.files == folder.files


@given(SAID, st.data())
def test_from_any_sizes_the_rest_follows(said, data):
    folder = Folder()
    for stream, text in said:
        folder.say(text, stream)
    at = {n: data.draw(st.integers(0, size)) for n, size in folder.sizes().items()}
    copy = Copy(folder, at)
    copy.follow(over=True)
    assert copy.files == folder.files


def test_a_line_waits_for_output_that_is_not_there_yet():
    folder = Folder()
    folder.say(b"first")
    folder.files[EVENTS] += to_line(Output(0, Stream.STDOUT, b"", 5, 6), 1.0)
    copy = Copy(folder)
    copy.follow(over=False)
    assert copy.files[STDOUT] == b"first"
    assert copy.files[EVENTS].count(b"\n") == 1
    folder.files[STDOUT] += b"second"
    copy.follow(over=False)
    assert copy.files == folder.files


def test_what_no_line_speaks_of_comes_once_the_run_is_over():
    folder = Folder()
    folder.say(b"named")
    folder.files[STDERR] += b"not named"
    folder.files[EVENTS] += b'{"half a line'
    copy = Copy(folder)
    copy.follow(over=False)
    assert copy.sizes() == {STDOUT: 5, STDERR: 0, EVENTS: copy.sizes()[EVENTS]}
    assert copy.files[EVENTS].endswith(b"\n")
    copy.follow(over=True)
    assert copy.files == folder.files


def test_an_answer_is_bounded_however_much_there_is():
    folder = Folder()
    folder.say(bytes(3 * MOST_TAIL_BYTES + 7))
    for _ in range(20):
        folder.say(bytes(MOST_TAIL_BYTES // 5), Stream.STDERR)
    folder.files[EVENTS] += to_line(CommandStarted(1, "x" * 3 * MOST_TAIL_BYTES), 1.0)
    copy = Copy(folder)
    while size := copy.take(copy.answer()):
        assert size <= MOST_TAIL_BYTES
    assert copy.files == folder.files


def test_the_events_of_a_run_get_on_that_prints_faster_than_it_is_followed():
    folder = Folder()
    copy, gap = Copy(folder), 64 << 10
    for round_ in range(1, 10):
        for n in range(3 * MOST_TAIL_BYTES // gap):
            folder.say(bytes(gap), Stream.STDERR if n % 7 == 0 else Stream.STDOUT)
        assert copy.take(copy.answer()) > MOST_TAIL_BYTES - 2 * gap
        had = len(copy.files[STDOUT]) + len(copy.files[STDERR])
        # No output is here that the events do not speak of.
        assert copy.files[EVENTS].count(b"\n") * gap == had > (round_ * 0.8) * (1 << 20)


def test_lines_that_are_no_events_are_sent_as_they_are():
    folder = Folder()
    folder.files[EVENTS] += (
        b'{"event":"Output","stream":"stdout","offset":-5,"length":99999999999}\n'
        b'"Output"\n{"event":"Output","stream":"disk"}\n\n\xff\r\n'
    )
    copy = Copy(folder)
    copy.follow(over=True)
    assert copy.files == folder.files

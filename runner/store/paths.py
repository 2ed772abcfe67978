"""The file names of a run, and of rai's home folder."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from runner.core import Stream

BUILD_FILES = ("rai_build.yml", "rai-build.yml")
"""The names of a project's build file."""


WRITABLE = "set RAI_HOME to a folder that you can write to"
"""What to do where the home folder cannot be used."""


class Entry:
    """A file or folder of a run's folder or of the home folder, by its name there."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, paths: RunPaths | Home, _: type | None = None) -> Path:
        """Return its path."""
        return paths.root / self._name


class RunPaths(Struct, frozen=True):
    """The folder of one run."""

    root: Path

    @property
    def id(self) -> str:
        """The run's id, which is the folder's name."""
        return self.root.name

    @property
    def home(self) -> Home:
        """The home folder that it is in."""
        return Home(self.root.parent.parent)

    events = Entry("events.jsonl")
    """The events, one JSON line each, which all else is derived from."""

    stdout = Entry("stdout.log")
    """The commands' output to stdout, unchanged."""

    stderr = Entry("stderr.log")
    """The commands' output to stderr, unchanged."""

    source = Entry("source.tar.zst")
    """The packed project."""

    def log(self, stream: Stream) -> Path:
        """The raw bytes of a stream."""
        return self.stdout if stream is Stream.STDOUT else self.stderr

    parcel = Entry("parcel.json")
    """What to run and how; with the packed project, all that a worker needs."""

    unpacked = Entry("project")
    """The files of a sealed project, during its run."""

    build = Entry("build.tar.zst")
    """The build folder that came back."""

    measurement = Entry("measurement.json")
    """The outcome of a submission, beside the run that measured it."""

    record = Entry("record.json")
    """The RunRecord, derived from the events."""

    spec = Entry("spec.yml")
    """The build file as it was read."""

    tag = Entry("tag")
    """The name that the user gave the run."""

    note = Entry("note")
    """What the user wrote about the run."""

    holder = Entry("holder.json")
    """The process of the run, which locks it for as long as it lives."""

    seen = Entry("seen.json")
    """What the server of the run said of it last."""

    mirror = Entry("mirror.lock")
    """Locked by the process that keeps the copy of a run on a server up to date."""

    handed = Entry("handed.json")
    """Where the run was handed to, and under which number, if to another place."""

    order = Entry("order.json")
    """What a worker on another machine shall do; gone once it has read it."""

    beat = Entry("beat")
    """Changed all the time while the worker on another machine lives."""

    cancel = Entry("cancel")
    """There once somebody has asked for the run to be cancelled."""

    latest = Entry("latest.json")
    """What the running command uses, each second anew; gone when the run ends."""

    worker_log = Entry("worker.log")
    """What the worker of a detached run printed: nothing, unless rai failed."""


class Home(Struct, frozen=True):
    """The folder in which rai keeps runs and data files."""

    root: Path

    runs = Entry("runs")
    """The folders of the runs."""

    slurm = Entry("slurm.json")
    """What Slurm's queue said last, for all processes."""

    data = Entry("data")
    """Downloaded data files, each in a folder named by its md5."""

    pruned = Entry("pruned.json")
    """When rai last removed old runs by itself, and how much so far."""

    submissions = Entry("submissions")
    """The folders of the runs of submissions, while these are made."""

    benches = Entry("benches")
    """The files of the commits that are benched, while that goes on."""

    pages = Entry("pages")
    """Pages that a browser was shown, for a day."""

    def run(self, run_id: str) -> RunPaths:
        """Return the paths of one run."""
        return RunPaths(self.runs / run_id)

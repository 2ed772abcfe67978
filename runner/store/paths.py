"""The file names of a run, and of rai's home folder."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from runner.core import Stream

BUILD_FILES = ("rai_build.yml", "rai-build.yml")
"""The names of a project's build file."""


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

    @property
    def events(self) -> Path:
        """The events, one JSON line each, which all else is derived from."""
        return self.root / "events.jsonl"

    @property
    def stdout(self) -> Path:
        """The commands' output to stdout, unchanged."""
        return self.root / "stdout.log"

    @property
    def stderr(self) -> Path:
        """The commands' output to stderr, unchanged."""
        return self.root / "stderr.log"

    @property
    def source(self) -> Path:
        """The packed project."""
        return self.root / "source.tar.zst"

    def log(self, stream: Stream) -> Path:
        """The raw bytes of a stream."""
        return self.stdout if stream is Stream.STDOUT else self.stderr

    @property
    def parcel(self) -> Path:
        """What to run and how; with the packed project, all that a worker needs."""
        return self.root / "parcel.json"

    @property
    def unpacked(self) -> Path:
        """The files of a sealed project, during its run."""
        return self.root / "project"

    @property
    def build(self) -> Path:
        """The build folder that came back."""
        return self.root / "build.tar.zst"

    @property
    def measurement(self) -> Path:
        """The outcome of a submission, beside the run that measured it."""
        return self.root / "measurement.json"

    @property
    def record(self) -> Path:
        """The RunRecord, derived from the events."""
        return self.root / "record.json"

    @property
    def spec(self) -> Path:
        """The build file as it was read."""
        return self.root / "spec.yml"

    @property
    def tag(self) -> Path:
        """The name that the user gave the run."""
        return self.root / "tag"

    @property
    def note(self) -> Path:
        """What the user wrote about the run."""
        return self.root / "note"

    @property
    def holder(self) -> Path:
        """Who carries the run out; locked by that process for as long as it lives."""
        return self.root / "holder.json"

    @property
    def seen(self) -> Path:
        """What the server that carries the run out said of it last."""
        return self.root / "seen.json"

    @property
    def mirror(self) -> Path:
        """Locked by the process that keeps the copy of a run on a server up to date."""
        return self.root / "mirror.lock"

    @property
    def handed(self) -> Path:
        """Where the run was handed to, and under which number, if to another place."""
        return self.root / "handed.json"

    @property
    def order(self) -> Path:
        """What a worker on another machine shall do; gone once it has read it."""
        return self.root / "order.json"

    @property
    def beat(self) -> Path:
        """Changed all the time while the worker on another machine lives."""
        return self.root / "beat"

    @property
    def cancel(self) -> Path:
        """There once somebody has asked for the run to be cancelled."""
        return self.root / "cancel"

    @property
    def latest(self) -> Path:
        """What the running command uses, each second anew; gone when the run ends."""
        return self.root / "latest.json"

    @property
    def worker_log(self) -> Path:
        """What the worker of a detached run printed: nothing, unless rai failed."""
        return self.root / "worker.log"


class Home(Struct, frozen=True):
    """The folder in which rai keeps runs and data files."""

    root: Path

    @property
    def runs(self) -> Path:
        """The folders of the runs."""
        return self.root / "runs"

    @property
    def slurm(self) -> Path:
        """What Slurm's queue said last, for all processes."""
        return self.root / "slurm.json"

    @property
    def data(self) -> Path:
        """Downloaded data files, each in a folder named by its md5."""
        return self.root / "data"

    @property
    def pruned(self) -> Path:
        """When rai last removed old runs by itself, and how much so far."""
        return self.root / "pruned.json"

    @property
    def submissions(self) -> Path:
        """The folders of the runs of submissions, while these are made."""
        return self.root / "submissions"

    @property
    def benches(self) -> Path:
        """The files of the commits that are benched, while that goes on."""
        return self.root / "benches"

    @property
    def pages(self) -> Path:
        """Pages that a browser was shown, for a day."""
        return self.root / "pages"

    def run(self, run_id: str) -> RunPaths:
        """Return the paths of one run."""
        return RunPaths(self.runs / run_id)

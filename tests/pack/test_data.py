"""Data files: found by name and checksum, else downloaded, else said to be missing."""

from __future__ import annotations

import hashlib
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_network
from pathlib import Path

import pytest

from runner.core import BuildSpec, DataMount, DataResource, Place
from runner.core.events import DataMissing, DataReady, Event, Progress, Warned
from runner.core.policy import Policy, PrivateTarget
from runner.pack import datafiles
from runner.pack.datafiles import DataPlaces
from runner.system import machine

CONTENT = b"ten thousand pictures" * 100_000
MD5 = hashlib.md5(CONTENT).hexdigest()
NOWHERE = "http://127.0.0.1:9/images.gz"


def resource(url: str = NOWHERE, md5: str | None = MD5, name: str = "images.gz"):
    return DataResource("/data/fashion-mnist", name, url, md5)


LINE = Place("/etc/rai/policy.yml", 3, 1)
HERE = Policy(private=(PrivateTarget("127.0.0.1", LINE, ip_network("127.0.0.1")),))
"""A policy for the servers of these tests."""


def resolved(
    places: DataPlaces,
    *resources: DataResource,
    download: bool = True,
    policy: Policy = HERE,
) -> tuple[list[Event], tuple[DataMount, ...]]:
    spec = BuildSpec("rai_build.yml", data=resources)
    rules = datafiles.DataRules(policy, lambda _: None, download)
    seen: list[Event] = []
    with ExitStack() as held:
        steps = datafiles.resolve(spec, places, rules, held)
        while True:
            try:
                seen.append(next(steps))
            except StopIteration as end:
                return seen, end.value


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DataPlaces:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    return DataPlaces(tmp_path / "sets", tmp_path / "project", tmp_path / "cache")


def put(path: Path, content: bytes = CONTENT) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


class Server(ThreadingHTTPServer):
    """Answers each path in its own way, and counts."""

    asked: list[str]

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that leaves early is part of the tests."""


class Answers(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        first = self.server.asked.count(self.path) == 1
        if self.path == "/absent" or (self.path == "/shaky" and first):
            self.send_error(404 if self.path == "/absent" else 503)
            return
        if self.path.startswith("/to/"):
            self.send_response(302)
            self.send_header("Location", self.path.removeprefix("/to/"))
            self.end_headers()
            return
        cut = self.path == "/cut" or (self.path == "/cut-once" and first)
        self.send_response(200)
        if self.path != "/no-length":
            self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        self.wfile.write(CONTENT[: 1000 if cut else len(CONTENT)])

    def log_message(self, format: str, *args: object) -> None:
        """Stay silent."""


@contextmanager
def serving() -> Iterator[tuple[Server, str]]:
    with Server(("127.0.0.1", 0), Answers) as server:
        server.asked = []
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server, f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    "where",
    [
        "sets/images.gz",
        "sets/fashion-mnist/images.gz",
        "project/data/images.gz",
        "project/data/fashion-mnist/images.gz",
        f"cache/{MD5}/images.gz",
    ],
)
def test_a_file_is_found_by_name_and_checksum_without_any_network(
    where, places, tmp_path
):
    path = put(tmp_path / where)
    events, (mount,) = resolved(places, resource(), download=False)
    assert events == [DataReady("images.gz", "/data/fashion-mnist", str(path), MD5)]
    assert mount.directory == "/data/fashion-mnist"
    (file,) = mount.files
    assert (file.name, file.path, file.md5) == ("images.gz", path, MD5)
    assert file.size_bytes == len(CONTENT)


def test_a_checksum_may_be_written_in_capitals(places, tmp_path):
    put(tmp_path / "sets/images.gz")
    events, _ = resolved(places, resource(md5=MD5.upper()), download=False)
    assert isinstance(events[-1], DataReady)


def test_a_file_with_the_wrong_checksum_is_said_and_the_search_goes_on(
    places, tmp_path
):
    wrong = put(tmp_path / "sets/images.gz", b"something else")
    right = put(tmp_path / "project/data/images.gz")
    (warned, ready), _ = resolved(places, resource(), download=False)
    assert str(wrong) in warned.text and MD5 in warned.text
    assert ready == DataReady("images.gz", "/data/fashion-mnist", str(right), MD5)


def test_a_file_without_a_checksum_is_taken_by_its_name_with_a_warning(
    places, tmp_path
):
    put(tmp_path / "sets/images.gz", b"whatever")
    (warned, ready), (mount,) = resolved(places, resource(md5=None))
    assert isinstance(warned, Warned) and "unchecked" in warned.text
    assert isinstance(ready, DataReady)
    assert mount.files[0].md5 == hashlib.md5(b"whatever").hexdigest()


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("data/images.gz", "/outside/images.gz"),
        ("data/images.gz", "../../outside/images.gz"),
        ("data/images.gz", "inner"),
        ("data/images.gz", "images.gz"),
        ("data", "../outside"),
        ("data/fashion-mnist", "/outside"),
    ],
)
@pytest.mark.parametrize("md5", [MD5, None])
def test_a_link_of_the_project_leads_to_no_file_outside(
    name, target, md5, places, tmp_path
):
    put(tmp_path / "outside/images.gz")
    link = places.project / name
    link.parent.mkdir(parents=True)
    (places.project / "data").mkdir(exist_ok=True)
    (places.project / "data/inner").symlink_to("../../outside/images.gz")
    if name == "data":
        (places.project / "data/inner").unlink()
        (places.project / "data").rmdir()
    absolute = target.startswith("/")
    link.symlink_to(f"{tmp_path}{target}" if absolute else target)

    events, mounts = resolved(places, resource(md5=md5), download=False)

    assert mounts == ()
    assert isinstance(events[-1], DataMissing)
    if target != "images.gz":  # a link to itself is no file at all
        warned = events[0]
        assert "leads out" in warned.text and "RAI_DATA_DIR" in warned.text


def test_a_link_of_the_project_that_stays_inside_is_followed(places):
    put(places.project / "sets/1/images.gz")
    data = places.project / "data"
    data.mkdir()
    (data / "newest").symlink_to("../sets/./1/")
    (data / "images.gz").symlink_to("newest/images.gz")

    _, (mount,) = resolved(places, resource(), download=False)

    (file,) = mount.files
    assert (file.md5, file.within) == (MD5, places.project)


@pytest.mark.parametrize("where", ["sets", "cache"])
def test_links_in_the_users_own_folders_lead_where_they_lead(where, places, tmp_path):
    outside = put(tmp_path / "outside/images.gz")
    link = tmp_path / where / ("" if where == "sets" else MD5) / "images.gz"
    link.parent.mkdir(parents=True)
    link.symlink_to(outside)

    _, (mount,) = resolved(places, resource(), download=False)

    assert mount.files[0].within is None


def test_a_data_folder_that_the_user_names_may_be_the_projects(places):
    outside = put(places.project.parent / "outside/images.gz")
    data = places.project / "data"
    data.mkdir(parents=True)
    (data / "images.gz").symlink_to(outside)
    named = DataPlaces(data, places.project, places.cache)

    _, mounts = resolved(named, resource(), download=False)

    assert mounts


def test_files_of_one_directory_become_one_mount_in_the_order_asked_for(
    places, tmp_path
):
    for name in ("b", "a"):
        put(tmp_path / "sets" / name)
    put(tmp_path / "sets/c")
    other = DataResource("/data/other", "c", NOWHERE, MD5)
    _, mounts = resolved(places, resource(name="b"), other, resource(name="a"))
    assert [(m.directory, [f.name for f in m.files]) for m in mounts] == [
        ("/data/fashion-mnist", ["b", "a"]),
        ("/data/other", ["c"]),
    ]


def test_what_is_not_here_is_downloaded_with_progress_and_kept(places):
    with serving() as (server, base):
        wanted = resource(f"{base}/images")
        events, (mount,) = resolved(places, wanted)
        again, _ = resolved(places, wanted)
    progress = [e for e in events if isinstance(e, Progress)]
    assert {e.task for e in progress} == {"download images.gz"}
    assert progress[0].done == 0 and progress[-1].done == len(CONTENT)
    assert {e.total for e in progress} == {len(CONTENT)}
    folder, url = "/data/fashion-mnist", f"{base}/images"
    assert events[-1] == DataReady("images.gz", folder, url, MD5)
    assert mount.files[0].path == places.cache / MD5 / "images.gz"
    assert mount.files[0].path.read_bytes() == CONTENT
    assert len(again) == 1, "the second time it is found in the cache"
    assert server.asked == ["/images"]


def test_what_a_killed_download_left_goes_with_the_next_one(places):
    script = "from runner.system import machine; print(machine.this_process().tag)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True)
    for tag in (done.stdout.decode().strip(), machine.this_process().tag):
        put(places.cache / "key" / f".new-{tag}-abc.part")
    with serving() as (_, base):
        resolved(places, resource(f"{base}/images"))
    (kept,) = places.cache.glob("key/.*")
    assert machine.this_process().tag in kept.name


def test_a_download_without_a_checksum_is_kept_by_its_address(places):
    with serving() as (server, base):
        for _ in range(2):
            events, _ = resolved(places, resource(f"{base}/no-length", md5=None))
            assert isinstance(events[-1], DataReady)
    assert server.asked == ["/no-length"]


@pytest.mark.parametrize("path", ["/shaky", "/cut-once"])
def test_a_download_that_breaks_is_tried_once_more(path, places):
    with serving() as (server, base):
        events, mounts = resolved(places, resource(base + path))
    assert isinstance(events[-1], DataReady) and mounts
    assert server.asked == [path, path]


@pytest.mark.parametrize(
    ("path", "md5", "why", "tries"),
    [
        ("/absent", MD5, "127.0.0.1 answers 404 Not Found", 1),
        ("/cut", MD5, "127.0.0.1 closed the connection early", 2),
        ("/images", "0" * 32, "does not have the md5 " + "0" * 32, 2),
        ("/to/file:///etc/passwd", MD5, "", 1),
        ("/to/ftp://127.0.0.1/x", MD5, "", 1),
    ],
)
def test_a_download_that_fails_makes_the_file_missing_and_leaves_nothing(
    path, md5, why, tries, places
):
    with serving() as (server, base):
        events, mounts = resolved(places, resource(base + path, md5))
    missing = events[-1]
    assert missing.why.endswith(why) and "it is not in" in missing.why
    assert mounts == () and len(server.asked) == tries
    assert [p for p in places.cache.rglob("*") if p.is_file()] == []


def test_a_server_that_was_not_reached_is_not_asked_for_the_next_file(
    places, monkeypatch
):
    asked = []

    def unknown(host: str, port: int | None, *_: object, **options: object) -> None:
        if port is not None:
            asked.append(host)
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    numbers = []
    for names in ("a", "abcd"):
        asked.clear()
        url = f"http://nowhere-{names}.invalid/a"
        events, mounts = resolved(places, *(resource(url, name=n) for n in names))
        missing = [e for e in events if not isinstance(e, Progress)]  # while it waits
        assert [type(e) for e in missing] == [DataMissing] * len(names)
        assert all(f"nowhere-{names}.invalid" in e.why for e in missing)
        assert mounts == ()
        numbers.append(len(asked))
    assert numbers[0] == numbers[1] > 0


def test_a_refused_connection_is_said_in_a_sentence(places):
    (*_, missing), _ = resolved(places, resource())
    assert missing.why.endswith("127.0.0.1 refuses the connection")


def test_with_downloads_off_no_server_is_asked(places):
    with serving() as (server, base):
        (missing,), _ = resolved(places, resource(f"{base}/images"), download=False)
    assert missing.why.endswith("downloads are switched off")
    for place in ("sets", "project/data", "cache"):
        assert place in missing.why
    assert server.asked == []


@pytest.mark.parametrize("name", ["../images.gz", "/etc/passwd", "..", ""])
def test_a_name_that_points_elsewhere_is_missing(name, places):
    (missing,), mounts = resolved(places, resource(name=name))
    assert isinstance(missing, DataMissing) and mounts == ()


def test_a_place_that_cannot_be_written_to_makes_the_file_missing(places):
    put(places.cache, b"a file where the cache should be")
    with serving() as (_, base):
        (*_, missing), _ = resolved(places, resource(f"{base}/images"))
    assert "cannot be written to" in missing.why

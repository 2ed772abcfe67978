"""Streams of the Docker engine, from an engine that answers late or never."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from contextlib import suppress

import docker
import pytest

from runner.core.errors import Cancel, EngineError
from runner.engines.docker.attach import upload
from runner.engines.docker.client import connect
from runner.engines.docker.endpoint import Endpoint, EngineProbe
from runner.engines.docker.transfer import LONGEST, Message, decoded, messages

pytestmark = pytest.mark.programs

API_TIMEOUT_S = 0.3


class GivenUpError(Exception):
    pass


class SlowEngine(http.server.ThreadingHTTPServer):
    """Takes a request, and answers when it is told to."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked, self.may_answer = threading.Event(), threading.Event()
        url = f"tcp://127.0.0.1:{self.server_address[1]}"
        self.answer = EngineProbe(Endpoint(url, "a test"), api_version="1.41")


class _Handler(http.server.BaseHTTPRequestHandler):
    server: SlowEngine

    def do_POST(self) -> None:
        self.server.asked.set()
        self.server.may_answer.wait()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"status": "done"}\n')

    do_PUT = do_POST

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        with suppress(OSError):
            while True:
                self.wfile.write(bytes(1 << 20))

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def slow() -> Iterator[SlowEngine]:
    engine = SlowEngine()
    thread = threading.Thread(target=engine.serve_forever, args=[0.05])
    thread.start()
    yield engine
    engine.may_answer.set()
    engine.shutdown()
    engine.server_close()
    thread.join()


def push(client):
    return client.push("name", "tag", stream=True)


def holding_up_the_end_of_the_process() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if not thread.daemon}


def test_an_upload_may_take_the_engine_longer_than_a_call(slow):
    client = connect(slow.answer, API_TIMEOUT_S)
    threading.Timer(3 * API_TIMEOUT_S, slow.may_answer.set).start()
    upload(client, "c", "/", iter([b"x"]), lambda _: None)
    assert slow.may_answer.is_set()


def test_an_upload_that_the_engine_does_not_answer_can_be_given_up(slow):
    before = holding_up_the_end_of_the_process()

    def sent(_: int) -> None:
        if slow.asked.is_set():
            raise GivenUpError

    with pytest.raises(GivenUpError):
        upload(connect(slow.answer), "c", "/", iter([b"x"]), sent)
    assert holding_up_the_end_of_the_process() <= before


def test_a_pull_push_or_build_has_no_time_out_of_a_call(slow):
    threading.Timer(3 * API_TIMEOUT_S, slow.may_answer.set).start()
    assert list(messages(slow.answer, push, Cancel())) == [Message(status="done")]


def test_an_answer_without_an_end_is_not_collected(slow):
    client = connect(slow.answer)
    with pytest.raises(docker.errors.DockerException, match="over 16,777,216 bytes"):
        client.inspect_image("a")


def test_a_message_without_an_end_is_not_collected():
    taken = 0

    def pieces():
        nonlocal taken
        while True:
            taken += 1 << 16
            yield bytes(1 << 16)

    with pytest.raises(EngineError, match="bytes a line"):
        list(decoded(pieces()))
    assert taken <= LONGEST + (1 << 17)


def test_messages_are_found_however_they_are_cut():
    text = b'{"stream":"a\\nb"}\r\n{"status":"x","progressDetail":{}}\n\n{"id":"y"}'
    whole = [Message(stream="a\nb"), Message(status="x"), Message(id="y")]
    for size in (1, 2, 5, len(text)):
        cut = (text[at : at + size] for at in range(0, len(text), size))
        assert list(decoded(cut)) == whole
    with pytest.raises(EngineError, match="no message"):
        list(decoded(iter([b"<html>\n"])))


def test_a_push_that_the_engine_does_not_answer_can_be_cancelled(slow):
    before = holding_up_the_end_of_the_process()
    cancel = Cancel()
    threading.Thread(target=lambda: slow.asked.wait() and cancel.request()).start()
    assert list(messages(slow.answer, push, cancel)) == []
    assert holding_up_the_end_of_the_process() <= before

"""Mask secret values in what a run shows and records."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import asdict, replace

from runner.core import events as ev
from runner.core.errors import EngineError
from runner.core.work import Stream

MASK = "***"
SHORTEST_BYTES, SHORTEST_NUMBER = 4, 8
"""Shorter values, and shorter numbers, stand in any output: masking would garble it."""

_NUMBER = re.compile(rb"[-+.\deE]+")
_OTHERS = (
    ev.Created
    | ev.StateChanged
    | ev.EngineChosen
    | ev.Packed
    | ev.ImageReady
    | ev.GpuGiven
    | ev.Collected
    | ev.BuildFolder
)
"""Events of rai's own: their text comes from no program, and leads to files."""

_E = TypeVar("_E", bound=Struct)


class Mask:
    """The secret values of a run, as patterns of bytes."""

    def __init__(self, values: Iterable[str]) -> None:
        parts = {p for value in values for p in _parts(value.encode()) if _secret(p)}
        self.secrets = sorted(parts, key=lambda part: (-len(part), part))
        self._pattern = re.compile(b"|".join(map(re.escape, self.secrets)))

    def event(self, event: _E) -> _E:
        """Return an event with the secrets in its texts masked; not that of Output."""
        if not self.secrets or isinstance(event, _OTHERS):
            return event
        masked: _E = self._value(event)  # type: ignore[assignment]
        return masked

    def follow(self, events: Iterator[ev.Event]) -> Iterator[ev.Event]:
        """Yield the events of a run masked, also a value that two pieces share.

        Output that may begin a secret waits for more.
        """
        if not self.secrets:
            yield from events
            return
        held: dict[Stream, ev.Output] = {}

        def rest() -> Iterator[ev.Event]:
            for waiting in held.values():
                yield replace(waiting, data=self.apply(waiting.data))
            held.clear()

        try:
            for event in events:
                if isinstance(event, ev.Output):
                    earlier = held.pop(event.stream, None)
                    before = earlier.data if earlier else b""
                    data, begun = self.split(before + event.data)
                    if begun:
                        held[event.stream] = replace(event, data=begun)
                    if data:
                        yield replace(event, data=data)
                    continue
                if isinstance(event, ev.CommandFinished):
                    yield from rest()
                yield self.event(event)
        except EngineError:
            yield from rest()
            raise

    def apply(self, data: bytes) -> bytes:
        """Return bytes with the secrets in them masked."""
        return self._pattern.sub(MASK.encode(), data) if self.secrets else data

    def split(self, data: bytes) -> tuple[bytes, bytes]:
        """Mask a piece of a stream; return it, and its end that may begin a secret."""
        done, at, held = bytearray(), 0, self._beginning(data, 0)
        for match in self._pattern.finditer(data):
            if match.start() >= held:
                break
            done += data[at : match.start()] + MASK.encode()
            at = match.end()
            held = max(held, at)
        held = self._beginning(data, at) if at else held
        return bytes(done + data[at:held]), data[held:]

    def _beginning(self, data: bytes, start: int) -> int:
        """Return where from ``start`` the data ends with a part of a secret."""
        found = len(data)
        for secret in self.secrets:
            at = max(start, len(data) - len(secret) + 1)
            while (at := data.find(secret[:1], at, found)) >= 0:
                if secret.startswith(data[at:]):
                    found = at
                at += 1
        return found

    def _value(self, value: object) -> object:
        if type(value) is str:  # an enum is no text of anybody's
            masked = self.apply(value.encode(errors="surrogateescape"))
            return masked.decode(errors="surrogateescape")
        if isinstance(value, tuple):
            return tuple(map(self._value, value))
        if isinstance(value, Struct):
            fields = {name: self._value(each) for name, each in asdict(value).items()}
            return replace(value, **fields)
        return value


def too_short(value: str) -> bool:
    """Whether no part of a value that is not empty can be masked."""
    return bool(value) and not any(map(_secret, _parts(value.encode())))


def _parts(value: bytes) -> Iterator[bytes]:
    """Yield a value, and each of its lines, as programs print them."""
    yield value
    for line in value.splitlines():
        yield line.strip()


def _secret(part: bytes) -> bool:
    number = _NUMBER.fullmatch(part) is not None
    return len(part) >= (SHORTEST_NUMBER if number else SHORTEST_BYTES)

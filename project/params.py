"""Weights in MXNet's .params format: named arrays, all little-endian."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from math import prod
from pathlib import Path

import numpy as np
from errors import ProjectError

FILE_MAGIC = 0x112
V2_MAGIC = 0xF993FAC9  # storage type, then 64-bit dimensions
V1_MAGIC = 0xF993FAC8  # 64-bit dimensions; what is older has 32-bit ones and no magic
DENSE = 0
CPU = 1
DTYPES = {0: "<f4", 1: "<f8", 2: "<f2", 3: "|u1", 4: "<i4"}
MOST_DIMENSIONS = 32


class _Reader:
    """Takes values off the front of a file, and says where it ends too early."""

    def __init__(self, content: bytes, source: str) -> None:
        self.content = content
        self.source = source
        self.at = 0

    def error(self, problem: str) -> ProjectError:
        return ProjectError(f"{self.source}: byte {self.at}: {problem}")

    def take(self, size: int, what: str) -> bytes:
        left = len(self.content) - self.at
        if size > left:
            raise self.error(f"truncated: {what} needs {size} bytes, {left} are left")
        self.at += size
        return self.content[self.at - size : self.at]

    def numbers(self, form: str, what: str) -> tuple[int, ...]:
        form = "<" + form
        return struct.unpack(form, self.take(struct.calcsize(form), what))

    def number(self, form: str, what: str) -> int:
        return self.numbers(form, what)[0]


def loads(content: bytes, source: str = "params") -> dict[str, np.ndarray]:
    """Read the arrays by name, without their ``arg:`` or ``aux:``."""
    reader = _Reader(content, source)
    magic, _, count = reader.numbers("QQQ", "the header")
    if magic != FILE_MAGIC:
        raise ProjectError(f"{source}: not an MXNet .params file (magic {magic:#x})")
    arrays: list[np.ndarray] = []
    while len(arrays) < count:
        arrays.append(_array(reader))
    named = reader.number("Q", "the number of names")
    if named != count:
        raise reader.error(f"{named} names for {count} arrays")
    weights = {_name(reader): array for array in arrays}
    if len(weights) != count:
        raise reader.error("two arrays have one name")
    if reader.at != len(content):
        raise reader.error("bytes are left after the last name")
    return weights


def _array(reader: _Reader) -> np.ndarray:
    magic = reader.number("I", "an array")
    if magic == V2_MAGIC and reader.number("i", "a storage type") != DENSE:
        raise reader.error("sparse arrays are not read")
    modern = magic in (V1_MAGIC, V2_MAGIC)
    ndim = reader.number("I", "a shape") if modern else magic
    if not 0 < ndim <= MOST_DIMENSIONS:
        raise reader.error(f"corrupt: an array of {ndim} dimensions")
    shape = reader.numbers(f"{ndim}{'q' if modern else 'I'}", "a shape")
    if min(shape) < 0:
        raise reader.error(f"corrupt: an array of shape {shape}")
    _, _, code = reader.numbers("iii", "a device and a type")
    if code not in DTYPES:
        raise reader.error(f"corrupt: unknown type {code}")
    dtype = np.dtype(DTYPES[code])
    values = reader.take(prod(shape) * dtype.itemsize, f"an array of shape {shape}")
    return np.frombuffer(values, dtype).reshape(shape)


def _name(reader: _Reader) -> str:
    raw = reader.take(reader.number("Q", "a name"), "a name")
    try:
        name = raw.decode()
    except UnicodeDecodeError:
        raise reader.error("corrupt: a name is not text") from None
    return name.removeprefix("arg:").removeprefix("aux:")


def dumps(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Write arrays as version 2 does, all of them as arguments."""
    parts = [struct.pack("<QQQ", FILE_MAGIC, 0, len(arrays))]
    parts += map(_packed, arrays.values())
    parts.append(struct.pack("<Q", len(arrays)))
    for name in arrays:
        raw = f"arg:{name}".encode()
        parts += [struct.pack("<Q", len(raw)), raw]
    return b"".join(parts)


def _packed(array: np.ndarray) -> bytes:
    little = array.dtype.newbyteorder("<")
    code = next(code for code, name in DTYPES.items() if np.dtype(name) == little)
    shape = struct.pack(f"<IiI{array.ndim}q", V2_MAGIC, DENSE, array.ndim, *array.shape)
    return shape + struct.pack("<iii", CPU, 0, code) + array.astype(little).tobytes()


def read(path: Path) -> dict[str, np.ndarray]:
    """Read a file's arrays by name."""
    return loads(path.read_bytes(), str(path))


def write(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays to a file, which is never seen half written."""
    aside = path.with_name(f".{path.name}.part")
    aside.write_bytes(dumps(arrays))
    aside.replace(path)

"""Read and write MXNet's .params format: named arrays, little-endian.

The format is that of NDArray::Save in MXNet's src/ndarray/ndarray.cc.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from math import prod
from pathlib import Path

import numpy as np
from course.errors import ProjectError

FILE_MAGIC = 0x112
V1, V2, V3 = 0xF993FAC8, 0xF993FAC9, 0xF993FACA  # V2 and V3 have a storage type
DENSE, CPU = 0, 1
NAMES = "float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool"
DTYPES = {code: np.dtype(name).newbyteorder("<") for code, name in enumerate(NAMES)}
MOST_DIMENSIONS = 32
ARGUMENT, AUXILIARY = "arg:", "aux:"


class _Reader:
    """Reads values one after another; errors name the byte."""

    def __init__(self, content: bytes, source: str) -> None:
        self.content = content
        self.source = source
        self.at = 0

    def error(self, problem: str) -> ProjectError:
        return ProjectError(f"{self.source}: byte {self.at}: {problem}")

    def take(self, size: int, what: str) -> bytes:
        left = len(self.content) - self.at
        if size > left:
            raise self.error(f"truncated: {what} needs {size} bytes; {left} are left")
        self.at += size
        return self.content[self.at - size : self.at]

    def numbers(self, form: str, what: str) -> tuple[int, ...]:
        form = "<" + form
        return struct.unpack(form, self.take(struct.calcsize(form), what))

    def number(self, form: str, what: str) -> int:
        return self.numbers(form, what)[0]


def loads(content: bytes, source: str = "params") -> dict[str, np.ndarray]:
    """Parse a file; return arrays by name, without ``arg:`` and ``aux:``.

    Raises ProjectError.
    """
    reader = _Reader(content, source)
    magic, _, count = reader.numbers("QQQ", "the header")
    if magic != FILE_MAGIC:
        raise ProjectError(f"{source}: not an MXNet .params file (magic {magic:#x})")
    arrays: list[np.ndarray] = []
    while len(arrays) < count:
        arrays.append(_array(reader))
    named = reader.number("Q", "the number of names")
    if named != count:
        raise reader.error(f"{named} names for {count} arrays; save a dict")
    found = {_name(reader): array for array in arrays}
    if len(found) != count:
        raise ProjectError(f"{source}: two arrays have the same name")
    if reader.at != len(content):
        raise reader.error("corrupt: data after the last name")
    return found


def _array(reader: _Reader) -> np.ndarray:
    if (magic := reader.number("I", "an array")) not in {V1, V2, V3}:
        raise reader.error(f"no array of MXNet 0.9 or newer (magic {magic:#x})")
    storage = DENSE if magic == V1 else reader.number("i", "a storage type")
    if storage != DENSE:
        raise reader.error(
            f"storage type {storage}, which is not supported; save a dense array"
        )
    ndim = reader.number("i", "a shape")
    if not 0 < ndim <= MOST_DIMENSIONS:
        raise reader.error(f"an array of {ndim} dimensions; save it with values")
    shape = reader.numbers(f"{ndim}q", "a shape")
    if min(shape) < 0:
        raise reader.error(f"corrupt: an array of shape {shape}")
    _, _, code = reader.numbers("iii", "a device and a type")
    if code not in DTYPES:
        raise reader.error(f"type {code}, which is not supported; save float32")
    dtype = DTYPES[code]
    values = reader.take(prod(shape) * dtype.itemsize, f"an array of shape {shape}")
    if dtype.kind == "b" and values.strip(b"\0\1"):
        raise reader.error("corrupt: a boolean is neither 0 nor 1")
    try:
        return np.frombuffer(values, dtype).reshape(shape)
    except ValueError:  # an empty array with dimensions too large for NumPy
        raise reader.error(f"corrupt: an array of shape {shape}") from None


def _name(reader: _Reader) -> str:
    raw = reader.take(reader.number("Q", "a name"), "a name")
    try:
        return raw.decode().removeprefix(ARGUMENT).removeprefix(AUXILIARY)
    except UnicodeDecodeError:
        raise reader.error("corrupt: a name is not UTF-8") from None


def dumps(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Return the file of some arrays with dimensions, whose names get ``arg:``.

    Raises KeyError for a type that the format cannot store.
    """
    codes = {dtype: code for code, dtype in DTYPES.items()}
    parts = [struct.pack("<QQQ", FILE_MAGIC, 0, len(arrays))]
    for array in arrays.values():
        little = array.dtype.newbyteorder("<")
        form = f"<Iii{array.ndim}qiii"
        head = V2, DENSE, array.ndim, *array.shape, CPU, 0, codes[little]
        parts += [struct.pack(form, *head), array.astype(little).tobytes()]
    parts.append(struct.pack("<Q", len(arrays)))
    for raw in ((ARGUMENT + name).encode() for name in arrays):
        parts += [struct.pack("<Q", len(raw)), raw]
    return b"".join(parts)


def read(path: Path) -> dict[str, np.ndarray]:
    """Read a file's arrays by name; raise ProjectError."""
    return loads(path.read_bytes(), str(path))


def write(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays to a file atomically."""
    temporary = path.with_name(f".{path.name}.part")
    temporary.write_bytes(dumps(arrays))
    temporary.replace(path)

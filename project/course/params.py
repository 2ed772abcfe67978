"""Read and write MXNet's .params format: named arrays, little-endian.

The format is that of NDArray::Save in MXNet's src/ndarray/ndarray.cc.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from enum import Enum
from math import prod
from pathlib import Path

import numpy as np
from course.errors import ProjectError

FILE_MAGIC = 0x112
DENSE = 0
SPARSE = {1: "row_sparse", 2: "csr"}
CPU = 1
NAMES = "float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool"
DTYPES = {code: np.dtype(name).newbyteorder("<") for code, name in enumerate(NAMES)}
UNSUPPORTED = {12: "bfloat16"}  # NumPy has no such type
MOST_DIMENSIONS = 32
ARGUMENT, AUXILIARY = "arg:", "aux:"


class Layout(Enum):
    """The versions of an array's header; the value is its magic number, if any."""

    V3 = 0xF993FACA  # as V2, but an array without dimensions is a scalar
    V2 = 0xF993FAC9  # storage type, then 64-bit dimensions
    V1 = 0xF993FAC8  # 64-bit dimensions
    V0 = None  # starts with the number of dimensions; 32-bit dimensions

    @property
    def stored(self) -> bool:
        """Return whether the header has a storage type."""
        return self in (Layout.V2, Layout.V3)

    @property
    def dimension(self) -> str:
        """Return the struct format of one dimension."""
        return "I" if self is Layout.V0 else "q"


LAYOUTS = {layout.value: layout for layout in Layout if layout.value is not None}


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
    weights: dict[str, np.ndarray] = {}
    for key, array in entries(content, source).items():
        name = key.removeprefix(ARGUMENT).removeprefix(AUXILIARY)
        if name in weights:
            raise ProjectError(f"{source}: two arrays are named `{name}`")
        weights[name] = array
    return weights


def entries(content: bytes, source: str = "params") -> dict[str, np.ndarray]:
    """Parse a file; return arrays by their full names; raise ProjectError."""
    reader = _Reader(content, source)
    magic, _, count = reader.numbers("QQQ", "the header")
    if magic != FILE_MAGIC:
        raise ProjectError(f"{source}: not an MXNet .params file (magic {magic:#x})")
    arrays: list[np.ndarray] = []
    while len(arrays) < count:
        arrays.append(_array(reader))
    named = reader.number("Q", "the number of names")
    if count and not named and reader.at == len(content):
        raise reader.error(
            f"{count} arrays without names, saved from a list; save a dict instead"
        )
    if named != count:
        raise reader.error(f"corrupt: {named} names for {count} arrays")
    found = {_name(reader): array for array in arrays}
    if len(found) != count:
        raise ProjectError(f"{source}: two arrays have the same name")
    if reader.at != len(content):
        raise reader.error("corrupt: data after the last name")
    return found


def _array(reader: _Reader) -> np.ndarray:
    first = reader.number("I", "an array")
    layout = LAYOUTS.get(first, Layout.V0)
    storage = reader.number("i", "a storage type") if layout.stored else DENSE
    if storage in SPARSE:
        raise reader.error(
            f"{SPARSE[storage]} arrays are not supported; save a dense array"
        )
    if storage != DENSE:
        raise reader.error(f"corrupt: unknown storage type {storage}")
    shape = _shape(reader, layout, first)
    _, _, code = reader.numbers("iii", "a device and a type")
    if code in UNSUPPORTED:
        raise reader.error(
            f"{UNSUPPORTED[code]} arrays are not supported; save float32"
        )
    if code not in DTYPES:
        raise reader.error(f"corrupt: unknown type {code}")
    dtype = DTYPES[code]
    values = reader.take(prod(shape) * dtype.itemsize, f"an array of shape {shape}")
    if dtype.kind == "b" and values.strip(b"\0\1"):
        raise reader.error("corrupt: a boolean is neither 0 nor 1")
    try:
        return np.frombuffer(values, dtype).reshape(shape)
    except ValueError:  # an empty array with dimensions too large for NumPy
        raise reader.error(f"corrupt: an array of shape {shape}") from None


def _shape(reader: _Reader, layout: Layout, first: int) -> tuple[int, ...]:
    """Read the dimensions; without any, V3 stores a scalar and older ones nothing."""
    ndim = first if layout is Layout.V0 else reader.number("i", "a shape")
    if ndim == 0 and layout is not Layout.V3:
        raise reader.error("an array without a shape; save it after it has values")
    if not 0 <= ndim <= MOST_DIMENSIONS:
        raise reader.error(f"corrupt: an array of {ndim} dimensions")
    shape = reader.numbers(f"{ndim}{layout.dimension}", "a shape")
    if min(shape, default=0) < 0:
        raise reader.error(f"corrupt: an array of shape {shape}")
    return shape


def _name(reader: _Reader) -> str:
    raw = reader.take(reader.number("Q", "a name"), "a name")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise reader.error("corrupt: a name is not UTF-8") from None


def dumps(arrays: Mapping[str, np.ndarray], layout: Layout = Layout.V2) -> bytes:
    """Return the file of some arrays; names without a prefix get ``arg:``.

    Raises ProjectError for arrays that the format cannot store.
    """
    keys = [
        name if name.startswith((ARGUMENT, AUXILIARY)) else ARGUMENT + name
        for name in arrays
    ]
    if len(set(keys)) != len(keys):
        raise ProjectError("two arrays would have the same name: " + ", ".join(keys))
    parts = [struct.pack("<QQQ", FILE_MAGIC, 0, len(arrays))]
    for key, array in zip(keys, arrays.values(), strict=True):
        parts += _packed(key, array, layout)
    parts.append(struct.pack("<Q", len(arrays)))
    for raw in map(str.encode, keys):
        parts += [struct.pack("<Q", len(raw)), raw]
    return b"".join(parts)


def _packed(key: str, array: np.ndarray, layout: Layout) -> Iterator[bytes]:
    little = array.dtype.newbyteorder("<")
    codes = [code for code, dtype in DTYPES.items() if dtype == little]
    if not codes:
        known = ", ".join(NAMES)
        raise ProjectError(f"{key}: cannot store {array.dtype}; supported are {known}")
    if not array.ndim and layout is not Layout.V3:
        raise ProjectError(f"{key}: only layout V3 can store a scalar")
    if layout.value is not None:
        yield struct.pack("<I", layout.value)
    if layout.stored:
        yield struct.pack("<i", DENSE)
    try:
        form = f"<I{array.ndim}{layout.dimension}"
        yield struct.pack(form, array.ndim, *array.shape)
    except struct.error:
        raise ProjectError(f"{key}: {array.shape} is too large for {layout}") from None
    yield struct.pack("<iii", CPU, 0, codes[0])
    yield array.astype(little).tobytes()


def read(path: Path) -> dict[str, np.ndarray]:
    """Read a file's arrays by name; raise ProjectError."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ProjectError(f"{path}: cannot read: {error.strerror}") from None
    return loads(content, str(path))


def write(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays to a file atomically."""
    temporary = path.with_name(f".{path.name}.part")
    temporary.write_bytes(dumps(arrays))
    temporary.replace(path)

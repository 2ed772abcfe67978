"""The header of one archive member: GNU format, which keeps names byte for byte."""

from __future__ import annotations

import os
import tarfile
from functools import cache

from runner.archive.contents import Kind, Member

BLOCK = 512
_NAME, _LARGEST = 100, 8**11 - 1
_TYPES = {
    Kind.FILE: tarfile.REGTYPE,
    Kind.FOLDER: tarfile.DIRTYPE,
    Kind.LINK: tarfile.SYMTYPE,
}


def header(member: Member, size: int) -> bytes:
    """Give the header: no times, no owners, and only two modes.

    An ordinary file's is put together here, as tarfile takes ten times as long.
    """
    name = os.fsencode(member.name)
    if member.kind is not Kind.FILE or len(name) > _NAME or size > _LARGEST:
        return _by_tarfile(member, size)
    mode, rest, blank_sum = _around(member.executable)
    digits = b"%011o" % size
    checksum = blank_sum + sum(name) + sum(digits)
    return b"%s%s%s%s%06o%s" % (
        name.ljust(_NAME, b"\0"), mode, digits, _MTIME, checksum, rest
    )  # fmt: skip


_MTIME = b"\0" + b"0" * 11 + b"\0"


@cache
def _around(executable: bool) -> tuple[bytes, bytes, int]:
    blank = _by_tarfile(Member("", Kind.FILE, executable=executable), 0)
    unsummed = blank[:148] + b" " * 8 + blank[156:]
    without_size = unsummed[:124] + unsummed[135:]
    return blank[_NAME:124], blank[154:], sum(without_size)


def _by_tarfile(member: Member, size: int) -> bytes:
    info = tarfile.TarInfo(member.name)
    info.type, info.size, info.linkname = _TYPES[member.kind], size, member.target
    loose = member.executable or member.kind is Kind.FOLDER
    info.mode = 0o755 if loose else 0o644
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")

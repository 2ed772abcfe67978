"""``resources.dataresources``: the files that a run sees under /data."""

from __future__ import annotations

import posixpath
import re

from runner.core import DataResource
from runner.core.quantities import Kind
from runner.yamlfile import Fields

ROOT = "/data"
MOST_FILES = 256
LONGEST_NAME = 255
"""The most bytes of a name that file systems allow."""

_URL = r"https?://[^/\s?#]+/[^\s?#]*?([^/\s?#]+)(?:[?#]\S*)?"
_ESCAPED = "%([0-9A-Fa-f]{2})"
_MOUNT_EXAMPLE = "/data/fashion-mnist"
_URL_EXAMPLE = "https://host/path/file.gz"
_MD5_EXAMPLE = "bef4ecab320f06d8554ea6380940ec79"


def read(resources: Fields) -> tuple[DataResource, ...]:
    """Parse the list of data files."""
    found: list[DataResource] = []
    for path, node in resources.items("dataresources", "[{mount: ..., source: ...}]"):
        if len(found) == MOST_FILES:
            hint = "put them into an archive, and unpack that in a command"
            text = f"there are more than {MOST_FILES} data files"
            resources.problems.error(text, node.place, hint)
            break
        fields = resources.item(node, path)
        resource = _resource(fields) if fields else None
        if fields and resource:
            _refuse_clash(fields, resource, found)
            found.append(resource)
    return tuple(found)


def file_name(url: str) -> str | None:
    """Return the file name at the end of an address; None if there is none."""
    match = re.fullmatch(_URL, url)
    if match is None:
        return None
    raw = re.sub(_ESCAPED, lambda m: chr(int(m[1], 16)), match[1])
    name = raw.encode("latin-1", "replace").decode("utf-8", "replace")
    bad = name in (".", "..") or "/" in name or not name.isprintable()
    return None if bad or len(name.encode()) > LONGEST_NAME else name


def _resource(fields: Fields) -> DataResource | None:
    source = _require(fields, "source", f"{{url: {_URL_EXAMPLE}}}") and fields.child(
        "source", f"`url: {_URL_EXAMPLE}`"
    )
    if not _require(fields, "mount", _MOUNT_EXAMPLE) or not source:
        return None
    path = Kind("a path under /data", _mount)
    mount = fields.read("mount", None, path, _MOUNT_EXAMPLE)
    url = _url(source)
    if mount is None or url is None:
        return None
    name = file_name(url) or ""
    directory, last = posixpath.split(mount)
    return DataResource(
        directory if last == name and mount != ROOT else mount,
        name,
        url,
        _md5(source),
        fields.place(),
    )


def _require(fields: Fields, key: str, example: str) -> bool:
    if not fields.has(key):
        hint = f"add it, e.g. `{key}: {example}`"
        fields.problems.error(f"{fields.path} has no `{key}`", fields.place(), hint)
    return fields.has(key)


def _mount(text: str) -> str | None:
    """Return the normalised path; None if it is not under /data."""
    if not text.startswith("/") or ".." in text.split("/") or not text.isprintable():
        return None
    path = posixpath.normpath("/" + text.lstrip("/"))
    return path if path == ROOT or path.startswith(ROOT + "/") else None


def _url(source: Fields) -> str | None:
    if not _require(source, "url", _URL_EXAMPLE):
        return None
    address = Kind(
        "the http or https address of a file",
        lambda text: text if file_name(text) else None,
    )
    return source.read("url", None, address, _URL_EXAMPLE)


def _md5(source: Fields) -> str | None:
    if source.read("extract", False, Kind("true or false", _asks), "false"):
        source.problems.warn(
            f"{source.name('extract')} has no effect",
            source.place("extract"),
            "extract the file in a command",
        )
    if not source.has("md5"):
        hint = "the downloaded file is not verified; add `md5:`"
        source.problems.warn(f"{source.path} has no md5", source.place(), hint)
    digits = re.compile("[0-9a-f]{32}")
    checksum = Kind(
        "32 hexadecimal digits",
        lambda text: text.lower() if digits.fullmatch(text.lower()) else None,
    )
    return source.read("md5", None, checksum, _MD5_EXAMPLE)


def _asks(text: str) -> bool:
    return text.lower() not in ("false", "no", "off")


def _refuse_clash(fields: Fields, new: DataResource, found: list[DataResource]) -> None:
    path = f"{new.directory}/{new.file_name}"
    for old in found:
        other = f"{old.directory}/{old.file_name}"
        if (
            path == other
            or _inside(new.directory, other)
            or _inside(old.directory, path)
            or _below(new.directory, old.directory)
            or _below(old.directory, new.directory)
        ):
            fields.problems.error(
                f"{fields.path} puts {path} in the place of {other}",
                fields.place(),
                "choose a mount that is neither inside the other's nor around it",
            )
            return


def _below(directory: str, other: str) -> bool:
    return directory.startswith(other + "/")


def _inside(directory: str, file: str) -> bool:
    return directory == file or directory.startswith(file + "/")

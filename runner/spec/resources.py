"""``resources``: the processor, the GPU and the limits."""

from __future__ import annotations

import posixpath
import re
from typing import Any

from runner.core import LIMITS, DataResource, GpuRequest, Limits, quantities
from runner.core.quantities import Kind
from runner.spec.fields import Fields
from runner.spec.yamlfile import ScalarNode

_LEAST_COUNT = -1_000_000

ROOT = "/data"
MOST_FILES = 256
LONGEST_NAME = 255
"""The most bytes of a name that file systems allow."""

_URL = r"https?://[^/\s?#]+/[^\s?#]*?([^/\s?#]+)(?:[?#]\S*)?"
_ESCAPED = "%([0-9A-Fa-f]{2})"
_MOUNT_EXAMPLE = "/data/fashion-mnist"
_URL_EXAMPLE = "https://host/path/file.gz"
_MD5_EXAMPLE = "bef4ecab320f06d8554ea6380940ec79"


def cpu(resources: Fields) -> tuple[str, int | None]:
    """Parse the architecture, and how many cores a cluster is asked for."""
    node = resources.node.get("cpu")
    if isinstance(node, ScalarNode) and not node.null:
        resources.problems.warn(
            f'{resources.name("cpu")} is "{node.text}"',
            node.place,
            "expected a mapping, e.g. `architecture: amd64` with a space after the `:`",
        )
        return node.text.removeprefix("architecture:").strip(), None
    fields = resources.section("cpu")
    return fields.text("architecture", "", "amd64"), fields.whole("cores", None)


def gpu(resources: Fields) -> GpuRequest | None:
    """Parse the request for GPUs; None if there is none."""
    if resources.has("gpus"):
        return _of_version_01(resources)
    fields = resources.child("gpu", "`count: 1`", "no GPU is asked for")
    if fields is None:
        return None
    if fields.has("memory"):
        hint = "GPUs are not chosen by memory"
        fields.problems.warn(
            f"{fields.name('memory')} has no effect", fields.place("memory"), hint
        )
    count = _count(fields)
    if count is None:
        return None
    return GpuRequest(
        count,
        fields.boolean("optional", False),
        fields.text("architecture", "", "volta"),
        fields.text("memory", "", "8GiB"),
    )


def limits(resources: Fields) -> Limits:
    """Read what the run may use."""
    fields = resources.section("limits")
    if fields.has("datasize"):
        fields.problems.warn(
            f"{fields.name('datasize')} has no effect",
            fields.place("datasize"),
            "`data` limits data files, `disk` what may be written to /build",
        )
    if quantities.boolean(resources.text("cache", "no")) is not False:
        resources.problems.warn(
            f"{resources.name('cache')} has no effect", resources.place("cache")
        )
    # The network has a key in both places.
    usual = Limits(network=resources.boolean("network", Limits().network))
    found = read_limits(fields, usual)
    if found.network != usual.network and resources.has("network"):
        resources.problems.warn(
            "resources.network and resources.limits.network differ",
            resources.place("network"),
            "the latter takes precedence: the network is "
            + ("on" if found.network else "off"),
        )
    return found


def read_limits(fields: Fields, usual: Limits) -> Limits:
    """Parse a mapping of limits; those that it does not have are the usual ones."""
    read: dict[str, Any] = {
        limit.field: fields.limit(limit, limit.of(usual)) for limit in LIMITS
    }
    return Limits(**read)


def _of_version_01(resources: Fields) -> GpuRequest | None:
    place = resources.place("gpus")
    if resources.has("gpu"):
        resources.problems.warn(
            "ignoring resources.gpus: resources.gpu takes precedence",
            place,
            "remove it",
        )
        return gpu(_without(resources, "gpus"))
    count = resources.whole("gpus", 0, "1", at_least=0)
    hint = f"write `gpu: {{count: {count}}}`"
    resources.problems.warn(
        "resources.gpus is the spelling of version 0.1", place, hint
    )
    return GpuRequest(count) if count else None


def _without(fields: Fields, key: str) -> Fields:
    entries = tuple(entry for entry in fields.node.entries if entry[0].text != key)
    node = type(fields.node)(fields.node.place, entries)
    return Fields(node, fields.grammar, fields.problems, fields.path)


def _count(fields: Fields) -> int | None:
    """Parse the count; None for no GPU."""
    if not fields.has("count"):
        hint = "using 1; write `count: 1`"
        fields.problems.warn(f"{fields.path} has no count", fields.place(), hint)
        return 1
    count = fields.whole("count", 1, "1", at_least=_LEAST_COUNT)
    if count == 0:
        hint = "the run gets no GPU; `count: 1` asks for one"
        fields.problems.warn(
            f"{fields.name('count')} is 0", fields.place("count"), hint
        )
        return None
    if count < 0:
        fields.problems.warn(
            f"{fields.name('count')} is {count}", fields.place("count"), "using 1"
        )
    return max(count, 1)


def data(resources: Fields) -> tuple[DataResource, ...]:
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

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
        hint = (
            "expected a mapping, e.g. `architecture: amd64` with a space after the `:`"
        )
        resources.warn("cpu", f'is "{node.text}"', hint)
        return node.text.removeprefix("architecture:").strip(), None
    fields = resources.section("cpu")
    return fields.text("architecture", "", "amd64"), fields.whole("cores", None)


def gpu(resources: Fields) -> GpuRequest | None:
    """Parse the request for GPUs; None if there is none."""
    if resources.has("gpus") and not resources.has("gpu"):
        old = resources.whole("gpus", 0, "1", at_least=0)
        hint = f"write `gpu: {{count: {old}}}`"
        resources.warn("gpus", "is the spelling of version 0.1", hint)
        return GpuRequest(old) if old else None
    if resources.has("gpus"):
        text = "ignoring resources.gpus: resources.gpu takes precedence"
        resources.problems.warn(text, resources.place("gpus"), "remove it")
    fields = resources.child("gpu", "`count: 1`", "no GPU is asked for")
    if fields is None:
        return None
    if fields.has("memory"):
        fields.warn("memory", "has no effect", "GPUs are not chosen by memory")
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
        hint = "`data` limits data files, `disk` what may be written to /build"
        fields.warn("datasize", "has no effect", hint)
    if quantities.boolean(resources.text("cache", "no")) is not False:
        resources.warn("cache", "has no effect")
    # The network has a key in both places.
    usual = Limits(network=resources.boolean("network", Limits().network))
    found = read_limits(fields, usual)
    if found.network != usual.network and resources.has("network"):
        state = "on" if found.network else "off"
        hint = f"the latter takes precedence: the network is {state}"
        resources.warn("network", "and resources.limits.network differ", hint)
    return found


def read_limits(fields: Fields, usual: Limits) -> Limits:
    """Parse a mapping of limits; those that it does not have are the usual ones."""
    read: dict[str, Any] = {
        limit.field: fields.limit(limit, limit.of(usual)) for limit in LIMITS
    }
    return Limits(**read)


def _count(fields: Fields) -> int | None:
    """Parse the count; None for no GPU."""
    if not fields.has("count"):
        fields.warn("", "has no count", "using 1; write `count: 1`")
        return 1
    count = fields.whole("count", 1, "1", at_least=_LEAST_COUNT)
    if count == 0:
        fields.warn("count", "is 0", "the run gets no GPU; `count: 1` asks for one")
        return None
    if count < 0:
        fields.warn("count", f"is {count}", "using 1")
    return max(count, 1)


def data(resources: Fields) -> tuple[DataResource, ...]:
    """Parse the list of data files."""
    found: list[DataResource] = []
    for fields in resources.mappings("dataresources", "[{mount: ..., source: ...}]"):
        if len(found) == MOST_FILES:
            hint = "put them into an archive, and unpack that in a command"
            text = f"there are more than {MOST_FILES} data files"
            resources.problems.error(text, fields.place(), hint)
            break
        if resource := _resource(fields):
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
        fields.error("", f"has no `{key}`", f"add it, e.g. `{key}: {example}`")
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
    asks = Kind(
        "true or false", lambda text: text.lower() not in ("false", "no", "off")
    )
    if source.read("extract", False, asks, "false"):
        source.warn("extract", "has no effect", "extract the file in a command")
    if not source.has("md5"):
        hint = "the downloaded file is not verified; add `md5:`"
        source.warn("", "has no md5", hint)
    digits = re.compile("[0-9a-f]{32}")
    checksum = Kind(
        "32 hexadecimal digits",
        lambda text: text.lower() if digits.fullmatch(text.lower()) else None,
    )
    return source.read("md5", None, checksum, _MD5_EXAMPLE)


def _refuse_clash(fields: Fields, new: DataResource, found: list[DataResource]) -> None:

    def within(inner: str, outer: str) -> bool:
        return f"{inner}/".startswith(f"{outer}/")

    path = f"{new.directory}/{new.file_name}"
    for old in found:
        other = f"{old.directory}/{old.file_name}"
        apart = new.directory != old.directory
        if (
            path == other
            or within(new.directory, other)
            or within(old.directory, path)
            or (apart and within(new.directory, old.directory))
            or (apart and within(old.directory, new.directory))
        ):
            hint = "choose a mount that is neither inside the other's nor around it"
            fields.error("", f"puts {path} in the place of {other}", hint)
            return

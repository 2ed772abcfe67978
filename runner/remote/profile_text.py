"""The text of ``~/.rai_profile``: its logins, and how they change. Pure."""

from __future__ import annotations

from collections.abc import Mapping as Table

from runner.core import Problem
from runner.remote.entries import Logins, ProfileEntry
from runner.wire import addresses
from runner.yamlfile import Mapping, Node, Problems, Scalar, compose, decode, dump, kind

OURS = ("host", "servers")
_KEPT = ("token", "fingerprint", "team", "person")


def parse(raw: bytes, file: str) -> tuple[Logins, list[Problem]]:
    """Return the logins in a profile; with problems, if it cannot be used or changed.

    An entry with a malformed address or token is ignored.
    """
    found = Problems()
    node = _document(raw, file, found)
    if node is None or found.fatal:
        return Logins(), found.in_file_order() if found.fatal else []
    if not isinstance(node, Mapping):
        hint = "it is no profile of this rai; move it aside"
        return Logins(), [Problem(f"{kind(node)} is no mapping", node.place, hint)]
    servers = {}
    given = node.get("servers")
    for key, value in given.entries if isinstance(given, Mapping) else ():
        url = addresses.spelled(key.text)
        if isinstance(value, Mapping) and url and url != addresses.HERE:
            servers[url] = ProfileEntry(url, **_texts(value))
    host = node.get("host")
    named = addresses.spelled(host.text) if isinstance(host, Scalar) else None
    # Of a file without logins it may be somebody else's.
    return Logins((named or "") if given is not None else "", servers), []


def changed(raw: bytes, logins: Logins, file: str) -> str | None:
    """Return a profile's text with other logins; None if more of it would change."""
    found = Problems()
    before = _document(raw, file, found)
    text = raw.decode(errors="replace")
    if isinstance(before, Mapping):
        text = _without(text, before)
    if text and not text.endswith("\n"):
        text += "\n"
    servers = {entry.url: _plain(entry) for entry in logins.servers.values()}
    host = {"host": logins.host} if logins.host else {}
    text += dump({**host, "servers": servers}) if servers or host else ""
    after = _document(text.encode(), file, found)
    same = _others(before) == _others(after) and not found.fatal
    return text if same and parse(text.encode(), file)[0] == logins else None


def _document(raw: bytes, file: str, problems: Problems) -> Node | None:
    text = decode(raw, file, problems)
    return compose(text, file, problems) if text is not None else None


def _texts(node: Mapping) -> dict[str, str]:
    values = {key: node.get(key) for key in _KEPT}
    texts = {k: v.text.strip() for k, v in values.items() if isinstance(v, Scalar)}
    pin = addresses.fingerprint(texts.pop("fingerprint", ""))
    return {**texts, "fingerprint": pin or ""}


def _plain(entry: ProfileEntry) -> dict[str, str]:
    values = {key: getattr(entry, key) for key in _KEPT}
    return {key: value for key, value in values.items() if value}


def _without(text: str, node: Mapping) -> str:
    """Return the text without the lines of our keys; comments before others stay."""
    lines = text.splitlines(keepends=True)
    starts = [key.place.line - 1 for key, _ in node.entries]
    gone: set[int] = set()
    for (key, _), start in zip(node.entries, starts, strict=True):
        if key.text in OURS:
            end = min((s for s in starts if s > start), default=len(lines))
            while end > start + 1 and not lines[end - 1].partition("#")[0].strip():
                end -= 1
            gone |= set(range(start, end))
    return "".join(line for at, line in enumerate(lines) if at not in gone)


def _others(node: Node | None) -> Table[str, object] | object:
    """Return all that is not ours, to compare it."""
    if not isinstance(node, Mapping):
        return {} if node is None else _value(node)
    return {
        key.text: _value(value) for key, value in node.entries if key.text not in OURS
    }


def _value(node: Node) -> object:
    if isinstance(node, Scalar):
        return node.text, node.plain
    if isinstance(node, Mapping):
        return [(key.text, _value(value)) for key, value in node.entries]
    return [_value(item) for item in node.items]

"""`rai server` of the next version: all that it answers has members that nobody knows.

`python -m tests.kit.newer server serve ...`
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from runner.cli.main import main
from runner.core.wire import ServerFacts

MORE = {"member_of_a_newer_version": [{"a": 1}, None]}
VERSION = "99.0.0"


def newer(value: object) -> bytes:
    """Return a value as JSON, and one of a server's answers as a newer one has it."""
    data = usual(value)
    if type(value).__module__ != "runner.core.wire":
        return data
    found = _more(json.loads(data))
    if isinstance(value, ServerFacts):
        found |= {"version": VERSION, "api": value.api + 1}
    return json.dumps(found).encode()


def _more(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _more(one) for name, one in value.items()} | MORE
    return [_more(one) for one in value] if isinstance(value, list) else value


if __name__ == "__main__":
    usual = msgspec.json.encode
    msgspec.json.encode = newer
    main()

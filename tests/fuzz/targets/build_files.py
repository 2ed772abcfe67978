"""A project's rai_build.yml: its bytes to a BuildSpec, or to every problem.

Nothing but SpecError is raised, each problem has a place in the file, both parsers of
YAML see the same, and what is below ``credentials`` is masked.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import yaml

from runner.core import BuildSpec, Limits, Problem, Severity
from runner.core.errors import SpecError
from runner.spec import buildfile, commandline
from runner.spec.yamlfile import (
    MappingNode,
    Node,
    Problems,
    ScalarNode,
    SequenceNode,
    compose,
)
from tests.fuzz.parts import Parts

FILE = "rai_build.yml"
SEEDS = (
    b"\0rai:\n  version: 0.2\n  image: gcc:12\nresources:\n  gpu: {count: 1, optional: "
    b"true}\n  cpu: {architecture: amd64}\n  network: no\n  limits: {time: 1h30m, "
    b"memory: 4GiB, pids: 64, output: 1.5M, disk: 2g, shm: 64k}\ncommands:\n  build:\n"
    b"    - make -C /src\n    - run: ./bench | tee x\n      name: b\n      needs: gpu\n"
    b"      timeout: 2m\n      continue_on_error: yes\n      env: [A=b, C=$D]\n"
    b"      expect: {correctness: '>= 0.8', output: /a+b$/}\n",
    b"\0commands:\n  build:\n  - run: x\n    expect:\n      any_of:\n      - accuracy: "
    b"0.85\n      - agreement: 1\n      - output: PASS\nenv: {A: b, C: '1:10'}\n",
    b"\0commands:\n  build_image:\n    image_name: me/it:1\n    dockerfile: Dockerfile"
    b"\n    target: cpu\n    gpu_target: gpu\n    args: {A: b}\n    no_cache: on\n"
    b"    push: {push: true, image_name: r.example/me/it, credentials: "
    b"{username: u, password: 'it''s'}}\n",
    b"\0resources:\n  gpus: 2\n  dataresources:\n  - mount: /data/x\n    source: {url: "
    b"'https://x.example/a/x', md5: 0123456789abcdef0123456789abcdef}\n    credentials:"
    b"\n      token: |\n        one\n        two\n      other: >-\n        folded\n"
    b"commands: {build: [x]}\n",
    b"\0a: &a {b: c, <<: *z}\nd: [*a, *a]\n<<: [*a]\n? [k]\n: v\n---\n...\n!t x:"
    b" !!str 1",
    b"\0commands:\n  build:\n\t- x\n  - 'y\n<<<<<<< a\n=======\n",
    b"\0\xff\xfec\0o\0m\0m\0",
    b'\0\xef\xbb\xbf%YAML 1.1\n---\n"a\\x41\\\n  b": "c\xc2\x85d\xe2\x80\xa8"\n',
)
LONGEST = 1 << 16
_DECODER = msgspec.json.Decoder(BuildSpec)


def one(data: bytes) -> None:
    """Parse the bytes, and now and then a part of them many times over."""
    parts = Parts(data)
    text = _decoded(b"".join(parts.stream()))
    if text is None:
        return
    _both_loaders(text)
    _credentials(text)
    spec = _parsed(text)
    if spec is None:
        return
    assert _DECODER.decode(msgspec.json.encode(spec)) == spec
    for command in spec.commands:
        assert command.text.strip()
        commandline.plan(command.text)  # what the file may say can be started
    _limited(spec.limits)


def _decoded(raw: bytes) -> str | None:
    try:
        return buildfile.decode(raw, FILE)
    except SpecError as error:
        _sound(error.problems, raw.decode("latin-1"))
        assert error.problems
    return None


def _parsed(text: str) -> BuildSpec | None:
    try:
        spec, warnings = buildfile.parse(text, FILE)
    except SpecError as error:
        _sound(error.problems, text)
        assert any(p.severity is Severity.ERROR for p in error.problems)
        return None
    _sound(warnings, text)
    assert all(p.severity is Severity.WARNING for p in warnings)
    return spec


def _sound(problems: tuple[Problem, ...] | list[Problem], text: str) -> None:
    lines = 2 + sum(map(text.count, "\n\r\x85\u2028\u2029"))
    for problem in problems:
        assert problem.message
        if problem.place:
            assert problem.place.file == FILE
            assert 1 <= problem.place.line <= lines, problem


def _limited(limits: Limits) -> None:
    for value in msgspec.to_builtins(limits).values():
        assert value is None or 0 <= value <= 1e15


def _both_loaders(text: str) -> None:
    """Whether libyaml and PyYAML's own parser see the same, if both find all well."""
    found = []
    for loader in (yaml.CSafeLoader, yaml.SafeLoader):
        problems = Problems()
        tree = compose(text, FILE, problems, loader)
        found += [] if problems.found else [_plain(tree)]
    assert found[:1] == found[1:] or len(found) < 2, "two parsers see two things"


def _plain(node: Node | None) -> object:
    if isinstance(node, MappingNode):
        return [(key.text, _plain(value)) for key, value in node.entries]
    if isinstance(node, SequenceNode):
        return tuple(map(_plain, node.items))
    return node and (node.text, node.plain)


def _credentials(text: str) -> None:
    problems = Problems()
    before = compose(text, FILE, problems)
    if problems.fatal:
        return
    masked = buildfile.redacted(text)
    again = Problems()
    after = compose(masked, FILE, again)
    assert not again.fatal, "masking made the file unreadable"
    assert {s.text for s in _secrets(after)} <= {"***"}, "a credential stays"
    assert len(list(_secrets(before))) == len(list(_secrets(after)))
    assert buildfile.redacted(masked) == masked
    buildfile.masked(masked)


def _secrets(node: Node | None, below: bool = False) -> Iterator[ScalarNode]:
    if isinstance(node, MappingNode):
        for key, value in node.entries:
            yield from _secrets(value, below or key.text == "credentials")
    elif isinstance(node, SequenceNode):
        for item in node.items:
            yield from _secrets(item, below)
    elif below and node is not None and not node.null:
        yield node

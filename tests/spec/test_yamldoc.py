"""YAML as a tree with places; what is wrong is said plainly, with line and column."""

from __future__ import annotations

import pytest
import yaml

from runner.core import Limit, Severity
from runner.core.quantities import SIZE
from runner.spec import yamlfile
from runner.spec.fields import Fields
from runner.spec.yamlfile import (
    MappingNode,
    Problems,
    ScalarNode,
    SequenceNode,
    compose,
    decode,
)

MEMORY = Limit("memory", SIZE.at_least(4096), "")
GRAMMAR = {
    "": ("name", "limits", "items", "on"),
    "limits": ("time", "memory", "count", "network"),
    "items[]": ("run",),
}


def tree(text):
    problems = Problems()
    return compose(text, "f.yml", problems), [str(p) for p in problems.found]


def plain(node):
    """Return a tree as Python values, all of them text."""
    if isinstance(node, MappingNode):
        return {key.text: plain(value) for key, value in node.entries}
    if isinstance(node, SequenceNode):
        return [plain(item) for item in node.items]
    return node.text


def fields(text):
    problems = Problems()
    found = Fields.of(compose(text, "f.yml", problems), GRAMMAR, problems)
    return found, problems


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 10:00", {"a": "10:00"}),
        ("a: 2018-13-45", {"a": "2018-13-45"}),
        ("a: yes\nb: ~\nc:", {"a": "yes", "b": "~", "c": ""}),
        ("a: 'x y'\nb: \"x\\ty\"", {"a": "x y", "b": "x\ty"}),
        ("a:\n- x\n- y", {"a": ["x", "y"]}),
        ("a: >-\n  x\n  y\nb: |\n  x\n  y\n", {"a": "x y", "b": "x\ny\n"}),
        ("{a: [x, {b: c}]}", {"a": ["x", {"b": "c"}]}),
        ("\ufeffa: é “x”", {"a": "é “x”"}),
        ("a: x\r\nb:\r\n  - y # z\r\n", {"a": "x", "b": ["y"]}),
        ("---\na: x\n...\n", {"a": "x"}),
        ("%YAML 1.1\n---\na: x\n", {"a": "x"}),
        ("a: !!int 1\nb: !!str ''", {"a": "1", "b": ""}),
        ("a: &x [1, 2]\nb: *x", {"a": ["1", "2"], "b": ["1", "2"]}),
        (
            "a: &x {k: 1, l: 2}\nb:\n  <<: *x\n  k: 3",
            {"a": {"k": "1", "l": "2"}, "b": {"k": "3", "l": "2"}},
        ),
    ],
)
def test_scalars_are_the_text_that_stands_there(text, value):
    node, problems = tree(text)

    assert problems == []
    assert value == plain(node)


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing\n", "---\n# x\n"])
def test_an_empty_document_is_no_problem_of_the_tree(text):
    node, problems = tree(text)

    assert node is None or (isinstance(node, ScalarNode) and node.null)
    assert problems == []


def test_every_node_knows_its_line_and_column_from_one():
    node, _ = tree("a: x\nb:\n  - é: y\n")

    key, items = node.entries[1]
    inner = items.items[0]
    value = inner.get("é")
    assert (str(key.place), str(items.place)) == ("f.yml:2:1", "f.yml:3:3")
    assert str(value.place) == "f.yml:3:8"


@pytest.mark.parametrize("head", ["", "# é “\n", "\ufeff", "x: 1\r\ny: 2\r\n"])
def test_a_scalar_knows_where_in_the_text_it_stands(head):
    text = head + "a: 'é b' # c\n"
    node, _ = tree(text)

    value = node.get("a")
    start, end = value.span
    assert text.removeprefix("\ufeff")[start:end] == "'é b'"


WRONG = [
    ("a:\n\tb: 1\n", "2:1", "a tab is used"),
    ("a:\n  -\tx\n", "2:4", "a tab is used"),
    ("a:\n  b:\n    - x\n- y\n", "4:1", "does not match the lines above"),
    ("a:\n   b: 1\n  c: 2\n", "3:3", "does not match the lines above"),
    ('a:\n  - "x\nb: c\n', "2:5", "opened here and never closed"),
    ("a: 'x\n---\nb'\n", "1:4", "not closed before `---`"),
    ('a: "x" y\n', "1:8", "text after a closing quote"),
    ("- {x} y\n", "1:7", "text after a closing quote or bracket"),
    ("a: @x\n", "1:4", "cannot begin with `@`"),
    ("- `x`\n", "1:3", "cannot begin with"),
    ("- %x\n", "1:3", "cannot begin with `%`"),
    ("- *.cu\n", "1:4", "cannot begin with a bare"),
    ("- && x\n", "1:4", "cannot begin with a bare"),
    ('- "make" && ./a\n', "1:", "text after a closing quote"),
    ("- [ -f x ] && make\n", "1:", "text after a closing quote or bracket"),
    (
        "<<<<<<< HEAD\na: 1\n=======\na: 2\n>>>>>>> x\n",
        "1:1",
        "git left merge conflict",
    ),
    ("a:\n- x\n=======\n- y\n", "3:1", "git left merge conflict markers"),
    ("%YAML 2.0\n---\na: 1\n", "1:1", "another version of YAML; remove its `%YAML`"),
    ("a: b: c\n", "1:5", "a `:` is not expected here"),
    ("a:1\nb: 2\n", "2:2", "a space after its `:`"),
    ("a: 1\nfoo\nb: 2\n", "2:1", "neither `key: value` nor"),
    ("a:\n  - |\n  x\n", "3:3", "neither `key: value` nor"),
    ("a: - b\n", "1:4", "a `- ` cannot begin here"),
    ("a: [b, c\nd: e\n", "1:4", "opened here and not closed"),
    ("b: [\n", "2:1", "opened here and not closed"),
    ("- > x\n", "1:5", "text follows `>` or `|`"),
    ('a: "\\$x"\n', "1:", "no such `\\` escape"),
    ('a: "C:\\x\\y"\n', "1:", "no such `\\` escape"),
    ("a: 1\n...\nfoo\n", "3:1", "after the end of the document"),
    ("a: 1\n---\nb: 2\n", "3:1", "document number 2 begins here"),
    ("a: *x\n", "1:4", "no anchor `&x` is defined above"),
    ("a: &x [*x]\n", "1:8", "no anchor `&x` is defined above"),
    ("? [a]\n: b\n", "1:3", "a key is not plain text"),
    ("a: x\x00y\n", "1:5", "U+0000 is not allowed"),
    ("a: 1\nb: \x1b[0m\n", "2:4", "U+001B is not allowed"),
    ("a: \ud800\n", "1:4", "U+D800 is not allowed"),
    ("[" * 100, "1:22", "more than 20 levels"),
    ("%foo\n", "", ":"),
]


@pytest.mark.parametrize("loader", [yamlfile.LOADER, yaml.SafeLoader])
@pytest.mark.parametrize(("text", "where", "said"), WRONG)
def test_what_is_no_yaml_is_one_error_with_its_place(text, where, said, loader):
    problems = Problems()
    compose(text, "f.yml", problems, loader)

    (problem,) = (str(p) for p in problems.found)
    assert problem.startswith(f"f.yml:{where}")
    assert said in problem


def test_each_second_use_of_a_key_is_an_error_that_names_the_first():
    _, problems = tree("a: 1\nb: {c: 1, c: 2}\na: 3\n")

    assert problems == [
        "f.yml:2:11: duplicate key `c`; the first one is on line 2; keep one of them",
        "f.yml:3:1: duplicate key `a`; the first one is on line 1; keep one of them",
    ]


def test_aliases_that_grow_without_bound_are_refused():
    bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"a{n}: &a{n} [" + ",".join([f"*a{n - 1}"] * 9) + "]\n" for n in range(1, 10)
    )
    node, problems = tree(bomb)

    assert node is None
    assert "more than 20000 values" in problems[0]


def test_a_file_of_brackets_alone_is_refused_before_it_is_too_deep_to_read():
    node, problems = tree("[" * 100_000 + "]" * 100_000)

    assert node is None
    (problem,) = problems  # rai's bound, or that of a newer libyaml
    assert "levels deep" in problem or "nesting depth" in problem


def test_an_anchor_that_is_used_again_names_the_latest_value():
    node, problems = tree("a: &x 1\nb: *x\nc: &x 2\nd: *x\n")

    assert problems == []
    assert plain(node) == {"a": "1", "b": "1", "c": "2", "d": "2"}


@pytest.mark.parametrize("tag", ["!", "!foo"])
def test_a_tag_that_changes_a_value_is_a_warning(tag):
    _, problems = tree(f"- {tag} grep x y\n")

    (problem,) = problems
    assert problem.startswith("f.yml:1:3: warning: ")
    assert "is a YAML tag and is ignored; if it is part of" in problem


def test_a_large_file_is_refused_unread():
    node, problems = tree("a: " + "x" * (256 * 1024))

    assert node is None
    assert "larger than 256 KiB" in problems[0]


def test_a_trailing_document_mark_is_only_odd():
    node, problems = tree("a: 1\n---\n")

    assert plain(node) == {"a": "1"}
    assert "warning: there is a `---` line with nothing after it" in problems[0]


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("a: é".encode(), "a: é"),
        (b"\xef\xbb\xbfa: x", "a: x"),
        ("a: é".encode("utf-16"), "a: é"),
        (b"\xfe\xff" + "a: é".encode("utf-16-be"), "a: é"),
        (b"", ""),
    ],
)
def test_utf_8_and_marked_utf_16_are_text(raw, text):
    problems = Problems()

    assert text == decode(raw, "f.yml", problems)
    assert problems.found == []


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"a: x\nb: \x93hi\x94\n", "f.yml:2:4: the byte 0x93 is not UTF-8"),
        ("# é ".encode() + b"\xe9", "f.yml:1:5: the byte 0xe9 is not UTF-8"),
        (b"\xff\xfea\x00b", "f.yml:1:2: the file begins as UTF-16"),
    ],
)
def test_other_bytes_are_an_error_with_their_place(raw, said):
    problems = Problems()

    assert decode(raw, "f.yml", problems) is None
    assert str(problems.found[0]).startswith(said)


def test_a_curly_quote_of_windows_is_recognised():
    problems = Problems()
    decode(b"\x93", "f.yml", problems)

    assert "it may be a `“` in a Windows encoding" in problems.found[0].message


def test_values_are_read_by_type_with_defaults():
    read, problems = fields(
        "name: ' x '\nlimits: {time: 10m, memory: '8GiB', count: 2, network: yes}\n"
    )
    limits = read.section("limits")

    assert read.text("name", None) == "x"
    assert limits.duration_s("time", None) == 600
    assert limits.limit(MEMORY, None) == 8 << 30
    assert limits.whole("count", None) == 2
    assert limits.boolean("network", False) is True
    assert read.text("on", "none") == "none"
    assert problems.found == []


def test_every_wrong_value_is_an_error_with_place_value_and_example():
    read, problems = fields(
        "name: [x]\nlimits: {time: soon, memory: 1, count: two, network: maybe}\n"
    )
    limits = read.section("limits")
    read.text("name", "")
    limits.duration_s("time", 1.0)
    limits.limit(MEMORY, 1)
    limits.whole("count", 1)
    limits.boolean("network", False)

    assert [str(p) for p in problems.found] == [
        "f.yml:1:7: name is a list; expected text, e.g. `name: some text`",
        'f.yml:2:16: limits.time is "soon"; expected a time, e.g. `time: 10m`',
        'f.yml:2:30: limits.memory is "1"; expected a size of at least 4KiB, '
        "e.g. `memory: 8GiB`",
        'f.yml:2:40: limits.count is "two"; expected a whole number from 1, '
        "e.g. `count: 2`",
        'f.yml:2:54: limits.network is "maybe"; expected true or false, '
        "e.g. `network: true`",
    ]


@pytest.mark.parametrize("value", ["", "~", "null", "''", "' '"])
def test_a_key_without_a_value_is_a_warning_and_its_default(value):
    read, problems = fields(f"name: {value}\n")

    assert read.text("name", "x") == "x"
    assert [p.message for p in problems.found] == ["name is empty"]
    assert not problems.fatal


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nmae: x", "unknown key `nmae`; did you mean `name`?"),
        ("Name: x", "unknown key `Name`; did you mean `name`?"),
        ("memory: x", "unknown key `memory`; it belongs under `limits`"),
        ("limits: {name: x}", "in limits; it belongs at the top of the file"),
        ("run: x", "it belongs in an item of `items`"),
        ("\u00a0on: x", "no-break space"),
        ("zzz: x", "it is ignored; valid keys are `name`, `limits`, `items`, `on`"),
    ],
)
def test_an_unknown_key_is_a_warning_that_says_what_to_do(text, said):
    read, problems = fields(text)
    read.section("limits")

    (problem,) = problems.found
    assert problem.severity is Severity.WARNING
    assert said in str(problem)


@pytest.mark.parametrize("text", ["x", "[x]"])
def test_what_should_be_a_mapping_and_is_not_says_which_keys_it_has(text):
    read, problems = fields(f"limits: {text}")

    assert read.child("limits") is None
    assert problems.fatal
    assert "such as `time:`, `memory:`" in problems.found[0].hint

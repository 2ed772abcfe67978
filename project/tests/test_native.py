"""C++ built for the processor at hand, and kept."""

import ctypes
import os
from dataclasses import replace

import pytest
from course.errors import CompilerError
from host import native
from host.native import Library

from tests.kit import needs

pytestmark = pytest.mark.programs


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "rai" / "native"


@pytest.fixture(scope="module")
def compiler():
    needs.need("cpp")
    return native.find()


@pytest.fixture
def answer(tmp_path):
    """Return a library of two sources and a header in a folder of its own."""
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "deep.h").write_text("#define DEEP 40\n")
    (tmp_path / "part.cpp").write_text("#include <deep.h>\nint part() { return DEEP; }")
    (tmp_path / "answer.cpp").write_text(
        'int part();\nextern "C" int answer() { return part() + 2; }\n'
    )
    sources = (tmp_path / "answer.cpp", tmp_path / "part.cpp")
    return Library("answer", sources, (tmp_path / "include",))


class Unreachable(native.Compiler):
    """A compiler that must not be needed."""

    def build(self, library, path):
        pytest.fail("compiled again")


def program(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def answered(path):
    return ctypes.CDLL(str(path)).answer()


def test_sources_become_one_library_that_loads(answer, compiler, cache):
    path = native.build(answer, compiler)

    assert answered(path) == 42
    assert [path] == list(cache.iterdir())


def test_what_is_glue_becomes_part_of_the_library(answer, compiler):
    first, second = answer.sources

    path = native.build(
        replace(answer, sources=(first,), unoptimised=(second,)), compiler
    )

    assert answered(path) == 42


def test_a_library_is_built_once(answer, compiler):
    path = native.build(answer, compiler)

    again = Unreachable(compiler.command, compiler.processor, compiler.macros)
    assert native.build(answer, again) == path


def test_whatever_goes_into_a_library_is_in_its_name(answer, compiler):
    keys = [
        native.key(answer, compiler),
        native.key(replace(answer, unoptimised=answer.sources[1:]), compiler),
        native.key(answer, replace(compiler, command=("/other/g++",))),
        native.key(answer, replace(compiler, processor=("-march=other",))),
        native.key(answer, replace(compiler, macros=b"#define __AVX9__ 1\n")),
    ]
    for path in (answer.includes[0] / "deep.h", answer.sources[1]):
        path.write_text(path.read_text() + "// changed\n")
        keys.append(native.key(answer, compiler))

    assert len(set(keys)) == len(keys)
    assert native.key(answer, compiler) == keys[-1]


def test_the_compiler_says_what_the_processor_can_do(compiler):
    macros = dict(line.split(b" ")[1:3] for line in compiler.macros.splitlines())

    assert b"__VERSION__" in macros
    assert b"_GLIBCXX_RELEASE" in macros or b"_LIBCPP_VERSION" in macros
    if os.uname().machine == "x86_64":
        plain = native.find(processors=[("-march=x86-64",)])
        assert b"__AVX" not in plain.macros
        assert plain.macros != compiler.macros


def test_an_option_for_the_processor_that_is_refused_is_left_out(compiler):
    found = native.find(processors=[("-march=none-such",), ()])

    assert found.processor == ()


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b""])
def test_a_damaged_library_is_built_anew(damage, answer, compiler):
    path = native.build(answer, compiler)
    path.write_bytes(damage(path.read_bytes()))

    assert answered(native.build(answer, compiler)) == 42


def test_without_a_cache_the_library_lies_in_a_folder_of_its_own(
    answer, compiler, tmp_path, monkeypatch
):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))

    path = native.build(answer, compiler)

    assert tmp_path not in path.parents
    assert answered(path) == 42


def test_where_no_file_can_be_written_nothing_is_built(
    answer, compiler, tmp_path, monkeypatch
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))

    with pytest.raises(CompilerError, match=r"^cannot build answer: .*No such file"):
        native.build(answer, compiler)


def test_cxx_names_the_compiler_and_its_options(tmp_path, compiler):
    mine = program(tmp_path / "mine", f'shift; exec {compiler.command[0]} "$@"')

    found = native.find({"CXX": f"{mine} --cache", "PATH": os.environ["PATH"]})

    assert found.command == (str(mine), "--cache")


@pytest.mark.parametrize(
    ("gxx", "cxx", "said"),
    [
        (
            None,
            "",
            "no C++ compiler found (g++, c++, clang++); install one, or set CXX",
        ),
        (None, "g++-99", "CXX: g++-99 not found"),
        (None, "g++ 'x", "CXX is not a valid command: No closing quotation"),
        (
            b"#!/bin/sh\necho x: error >&2; exit 1",
            "",
            "cannot compile C++: GXX: x: error",
        ),
        (b"#!/bin/sh\nexit 4", "", "cannot compile C++: GXX exited with status 4"),
        (b"\x7fELF no", "", "cannot run GXX: Exec format error"),
    ],
)
def test_why_no_compiler_is_used_is_said(gxx, cxx, said, tmp_path):
    place = tmp_path / "g++"
    if gxx:
        place.write_bytes(gxx)
        place.chmod(0o755)

    with pytest.raises(CompilerError) as report:
        native.find({"CXX": cxx, "PATH": str(tmp_path)})

    assert str(report.value).startswith(said.replace("GXX", str(place)))


def test_a_compiler_that_writes_nothing_is_reported(answer, tmp_path):
    program(tmp_path / "g++", "exit 0")

    with pytest.raises(CompilerError, match="exited 0 but wrote no file"):
        native.build(answer, native.find({"PATH": str(tmp_path)}))


def test_a_mistake_in_a_source_is_reported_with_its_line(answer, compiler, cache):
    answer.sources[0].write_text("\nint = 3;\n")

    with pytest.raises(
        CompilerError, match=r"^cannot build answer: .*answer.cpp:2:5: "
    ):
        native.build(answer, compiler)
    assert not cache.exists()

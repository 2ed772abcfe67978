"""A command line becomes a program with words, or a script for a shell."""

from __future__ import annotations

import shlex
import shutil
import subprocess

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from runner.core import Place, Reason, Severity
from runner.core.errors import SpecError
from runner.spec import command_problems, commandline
from tests.kit.program import run_program

BASH = shutil.which("bash")

DIRECT = [
    ("make", ["make"]),
    ("  make   -C  /src ", ["make", "-C", "/src"]),
    ("nice -n20 make -C /mxnet", ["nice", "-n20", "make", "-C", "/mxnet"]),
    (
        '/bin/bash -c "for src in e/*; do cp -v $src /x/.; done"',
        ["/bin/bash", "-c", "for src in e/*; do cp -v $src /x/.; done"],
    ),
    ('/bin/bash -c "a && b | c > d"', ["/bin/bash", "-c", "a && b | c > d"]),
    ("bash -c 'echo $HOME; echo `id`'", ["bash", "-c", "echo $HOME; echo `id`"]),
    (
        "nvprof --section '.*' --kernels \"::forward:1\" ./m3",
        ["nvprof", "--section", ".*", "--kernels", "::forward:1", "./m3"],
    ),
    ("time ./m1", ["time", "./m1"]),
    ("echo ''", ["echo", ""]),
    (r"echo a\ b \; \$x \* \'", ["echo", "a b", ";", "$x", "*", "'"]),
    (r'echo "\$x \` \" \\ \n"', ["echo", '$x ` " \\ \\n']),
    (r"echo a\nb", ["echo", "anb"]),
    ("make \\\n  -j8", ["make", "-j8"]),
    ("echo 'two\nlines'", ["echo", "two\nlines"]),
    (
        "find . -name x -exec rm {} +",
        ["find", ".", "-name", "x", "-exec", "rm", "{}", "+"],
    ),
    ("echo 5$ $", ["echo", "5$", "$"]),
    ('echo "$HOME"', ["echo", "$HOME"]),
    ("make # not a comment", ["make", "#", "not", "a", "comment"]),
    ("env FOO=1 ./a --x=2", ["env", "FOO=1", "./a", "--x=2"]),
    ("g++ -std=c++14 a~ b.cu", ["g++", "-std=c++14", "a~", "b.cu"]),
    ("'if' x", ["if", "x"]),
    ("echo a\\ ", ["echo", "a "]),
    ("echo é “x”", ["echo", "é", "“x”"]),
    ("echo a\\", ["echo", "a\\"]),
]

SHELL = [
    ("make && ./a", "has an unquoted `&&`"),
    ("make; ./a", "has an unquoted `;`"),
    ("make | tee log", "has an unquoted `|`"),
    ("./a > out", "has an unquoted `>`"),
    ("./a 2>&1", "has an unquoted `>&`"),
    ("./server &", "has an unquoted `&`"),
    ("(make)", "has an unquoted `(`"),
    ("make\n./a", "has more than one line"),
    ("echo $HOME", "has an unquoted `$HOME`"),
    ("echo ${HOME}", "has an unquoted `${`"),
    ("echo $(id)", "has an unquoted `$(`"),
    ("echo `id`", "has an unquoted backtick"),
    ("echo $'a\\tb'", "has an unquoted `$'`"),
    ("ls *.cu", "has an unquoted `*`"),
    ("ls m?.py", "has an unquoted `?`"),
    ("ls ~/x", "has an unquoted `~`"),
    ("cp a.{c,h} /x", "has an unquoted `{`"),
    ("FOO=1 ./a", "sets `FOO`"),
    ("cd /src", "`cd` is a builtin"),
    ("export A=1", "`export` is a builtin"),
    ("source x.sh", "`source` is a builtin"),
    (". x.sh", "`.` is a builtin"),
    ("ulimit -s unlimited", "`ulimit` is a builtin"),
    ("! grep -q x y", "begins with `!`"),
    ("[[ -f x ]]", "begins with `[[`"),
    ("if true; then make; fi", "begins with `if`"),
    ("make # a > b", "has a comment"),
]

SCRIPTS = [
    ('echo "$HOME" && ls', "echo '$HOME' && ls"),
    ("echo 'it'\\''s' > x", "echo 'it'\\''s' > x"),
    ('echo "it\'s" > x', "echo 'it'\\''s' > x"),
    ('cp "a b"/*.cu .', "cp 'a b'/*.cu ."),
    ('FOO="a $b" ./a', "FOO='a $b' ./a"),
    ('echo $"x" > y', "echo \\$'x' > y"),
    ('echo $$"x"', "echo $$'x'"),
    ("make  # don't\n./a", "make  \n./a"),
    (r"echo \* \" | cat", r"echo \* \" | cat"),
    ("make && \\\n ./a", "make &&  ./a"),
    ('cat <<E > f\nit\'s "$x"\nE\necho "$x"', "cat <<E > f\nit's \"$x\"\nE\necho '$x'"),
    ("echo $'it\\'s' \"a\"", "echo $'it\\'s' 'a'"),
]


@pytest.mark.parametrize(("line", "argv"), DIRECT)
def test_a_line_that_needs_no_shell_is_execd_as_its_words(line, argv):
    invocation = commandline.plan(line)

    assert not invocation.shell
    assert tuple(argv) == invocation.argv == commandline.argv(invocation, bash=True)
    assert invocation.why == "no shell needed"


@pytest.mark.parametrize(("line", "why"), SHELL)
def test_a_line_that_needs_a_shell_says_what_in_it_does(line, why):
    invocation = commandline.plan(line)

    assert invocation.shell
    assert f"bash: {why}" == invocation.why


@pytest.mark.parametrize(("line", "script"), SCRIPTS)
def test_what_is_quoted_stays_literal_in_a_shell(line, script):
    assert script == commandline.plan(line).script


def test_a_script_runs_under_bash_with_pipefail_or_else_under_sh():
    invocation = commandline.plan("make | tee log")

    bash = ("bash", "-o", "pipefail", "-c", "make | tee log")
    assert bash == commandline.argv(invocation, bash=True)
    assert commandline.argv(invocation, bash=False) == ("sh", "-c", "make | tee log")


@pytest.mark.parametrize(
    "line", ['echo "a', "echo 'a", "echo it's", 'make && "', '"\\"']
)
def test_a_quote_that_is_not_closed_is_an_error_with_its_place(line):
    place = Place("rai_build.yml", 12, 7)

    (problem,) = command_problems.problems(line, place)

    assert problem.severity is Severity.ERROR
    assert problem.place == place
    assert "is not closed" in problem.message
    with pytest.raises(SpecError) as caught:
        commandline.plan(line)
    assert caught.value.reason is Reason.BAD_SPEC


@pytest.mark.parametrize("line", ["", "  ", '""', "'' x", "a\0b"])
def test_a_line_without_a_program_to_start_is_an_error(line):
    (problem,) = command_problems.problems(line)

    assert problem.severity is Severity.ERROR


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("cd /src", "what `cd` changes"),
        ("export A=1", "what `export` changes"),
        ("A=1", "what `A=1` changes"),
        ("ls && pwd; export A=1", "what `export` changes"),
        ("make && cd x;", "what `cd` changes"),
        ('echo "hello $USER $HOME" > f', "`$USER`, `$HOME` are not expanded"),
        ('echo "$HOME"', "`$HOME` is not expanded"),
        ('cp "$f" x && y', "`$f` is not expanded"),
        ('echo "`id`"', "is not expanded"),
        ('/bin/bash "$VAR/x"', "`$VAR` is not expanded"),
        ("make # all", "does not begin a comment"),
        ("make \\ -j4", "a `\\` makes the space after it part of a word"),
        ("echo “hello”", "not a quote"),
        ("./a –n 3", "is not a hyphen"),
        ("make\u00a0-j8", "U+00A0 looks like a space"),
        ("rm a\u202etxt", "U+202E cannot be seen, and is part of a word"),
    ],
)
def test_what_is_probably_not_meant_gets_a_warning(line, said):
    (problem,) = command_problems.problems(line)

    assert problem.severity is Severity.WARNING
    assert said in problem.message


@pytest.mark.parametrize(
    "line",
    [
        '/bin/bash -c "for s in x; do cp $s y; done"',
        'nsys profile /bin/sh -c "echo $x"',
        "awk '{print $1}' x",
        'awk "{print $1}" x',
        r'echo "\$HOME"',
        "cd /src && make",
        "cd x; (cd y)",
        "cd x | cat",
        "A=1; ./a $A",
        "FOO=1 ./a",
        "make -j8",
        "# only\nmake",
        "echo 'it’s “so”'",
    ],
)
def test_an_ordinary_line_gets_no_warning(line):
    assert command_problems.problems(line) == []


words = st.lists(
    st.text(st.sampled_from("ab /.=-+:,'\"\\ \t~#%@^_é“0"), max_size=12), max_size=5
)


@settings(max_examples=60)
@given(words.map(" ".join))
@example(r'a "\\" \" ')
@example("a '' \"\"")
def test_without_a_shell_the_words_are_those_of_a_posix_split(line):
    try:
        expected = shlex.split(line)
    except ValueError:
        return
    if command_problems.problems(line) and not expected:
        return
    invocation = commandline.plan(line)
    if not invocation.shell:
        assert tuple(expected) == invocation.argv


@settings(max_examples=60)
@given(st.text(max_size=60))
def test_any_text_is_planned_or_refused_and_never_breaks(line):
    errors = [
        p for p in command_problems.problems(line) if p.severity is Severity.ERROR
    ]
    if not errors:
        invocation = commandline.plan(line)
        assert all(commandline.argv(invocation, bash=True)[:1])


@settings(max_examples=60)
@given(
    st.lists(st.text(st.characters(exclude_characters="\0", codec="utf-8")), min_size=1)
)
def test_quoting_any_words_gives_them_back(texts):
    if texts[0]:
        line = shlex.join(["x", *texts])
        assert ("x", *texts) == commandline.plan(line).argv


OUTPUTS = [
    ("echo a && echo b", "a\nb\n"),
    ('X=5; echo "$X" $X', "$X 5\n"),
    ("X='a b' sh -c 'echo \"$X\"'", "a b\n"),
    ("echo {a,b}c", "ac bc\n"),
    ('echo "{a,b}" {c,d}', "{a,b} c d\n"),
    ("echo $(echo \"a  b\" 'c')", "a b c\n"),
    ("echo `echo 'x y'`z", "x yz\n"),
    ('echo ${NONE:-"a b"}', "a b\n"),
    ('echo $"x"; echo $$"x" | grep -c x', "$x\n1\n"),
    ('echo \\$"x" | cat', "$x\n"),
    ("echo it\\'s; echo \"it's\"", "it's\nit's\n"),
    ('echo "a\\nb" > /dev/null; printf "%s\\n" x', "x\n"),
    ("# it's a comment\necho a # don't\necho b", "a\nb\n"),
    ("cat <<E\nit's \"$((1+1))\"\nE\necho 'done'", 'it\'s "2"\ndone\n'),
    ("cat <<'E'\n$HOME\nE", "$HOME\n"),
    ("if [[ a == a ]]; then echo yes; fi", "yes\n"),
    ('for f in a "b c"; do echo $f; done', "a\nb c\n"),
    ('case "x" in x) echo X;; esac', "X\n"),
    ('f() { echo "in f"; }; f', "in f\n"),
    ("echo $'a\\tb\\'c'", "a\tb'c\n"),
    ("set -e; false; echo never", ""),
]


@pytest.mark.skipif(BASH is None, reason="there is no bash here")
@pytest.mark.parametrize(("line", "stdout"), OUTPUTS)
def test_bash_does_what_the_line_says(line, stdout):
    argv = commandline.argv(commandline.plan(line), bash=True)

    done = run_program(argv, timeout=10)

    assert argv[0] == "bash"
    assert stdout == done.stdout


@pytest.mark.skipif(BASH is None, reason="there is no bash here")
def test_a_pipe_fails_where_any_part_of_it_does():
    argv = commandline.argv(commandline.plan("false | cat"), bash=True)

    assert subprocess.run(argv, timeout=10).returncode == 1


OURS_ALONE = ("$HOME", "$src", "make #", "[")
"""Lines that bash reads otherwise: it expands in double quotes and knows comments."""


@pytest.mark.skipif(BASH is None, reason="there is no bash here")
@pytest.mark.parametrize(
    ("line", "argv"),
    [case for case in DIRECT if not any(text in case[0] for text in OURS_ALONE)],
)
def test_a_direct_line_has_the_words_that_bash_would_give_it(line, argv):
    done = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {line}"], capture_output=True, timeout=10
    )

    assert argv == done.stdout.decode().split("\0")[:-1]


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("nvidia -smi", "nvidia-smi"),
        ("compute -sanitizer ./a.out", "compute-sanitizer"),
        ("pyhton x.py", "python"),
        ("time pyhton x.py", "python"),
        ("/usr/bin/time pyhton x.py", "python"),
        ("nvrpof ./a.out", "nvprof"),
        ("nvidia-sim", "nvidia-smi"),
        ("maek -C /src", "make"),
        ("pyhton3 x.py && ls", "python3"),
    ],
)
def test_a_misspelled_program_is_told_which_one_was_meant(line, name):
    (problem,) = command_problems.problems(line)
    assert problem.severity is Severity.WARNING
    assert problem.hint == f"did you mean `{name}`?"


@pytest.mark.parametrize(
    "line",
    [
        *("python x.py", "python2 x.py", "python3.11 x.py", "python4", "ipython x.py"),
        *("cython x.pyx", "cmake3 ..", "gmake", "qmake", "bmake", "nvidia-smi -L"),
        *("nvidia", "./pyhton x.py", "/opt/pyhton x.py", "act -l", "pytest -q", "pref"),
        *("time", "time -p ls", "cuda -v", "nvcc -o x x.cu", "echo pyhton", "icc"),
        *("./ece408", "pip2 install x", "pips", "mkdirs", "pythonw x.py", "ncx"),
    ],
)
def test_a_program_that_may_be_another_is_left_alone(line):
    assert [
        p for p in command_problems.problems(line) if "did you mean" in p.hint
    ] == []

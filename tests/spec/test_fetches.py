"""What a Dockerfile may not have the engine do by itself."""

from __future__ import annotations

import pytest

from runner.core import BuildImage, Reason
from runner.core.errors import ImageError
from runner.spec import dockerfile

ASKED = BuildImage()


@pytest.mark.parametrize(
    "line",
    [
        "ADD http://10.0.0.1/x /x",
        "add --chown=1 https://example.org/x /x",
        'ADD ["a", "http://10.0.0.1/x", "/x"]',
        r'ADD ["http\u003a//10.0.0.1/x", "/x"]',
        'ADD h"ttp:/"/10.0.0.1/x /x',
        "ADD git@example.org:a/b.git /x",
        "ONBUILD ADD http://10.0.0.1/x /x",
        "ADD \\\n  # a comment\n  http://10.0.0.1/x /x",
        "ADD \\\\\nhttp://10.0.0.1/x /x",
        "A\\\nDD ht\\\n# a comment\ntp://10.0.0.1/x /x",
        "ADD http://10.0.0.1/x \\\n/x\\\n",
        "# a comment \\\nAD\\\nD http://10.0.0.1/x /x",
        "RUN x `\nAD\\\nD http://10.0.0.1/x /x",
        "# escape=`\nADD `\n http://10.0.0.1/x /x",
        "RUN cat <<EOF\nADD http://10.0.0.1/x /x\nEOF",
        "ENV A=http\nADD $A://10.0.0.1/x /x",
        "ENV A=http://10.0.0.1/x\nADD ${A} /x",
        "ENV A=p://10.0.0.1/x\nADD htt$A /x",
        "ENV A=/10.0.0.1/x\nADD http:/$A /x",
    ],
)
def test_an_add_that_may_fetch_is_refused(line):
    with pytest.raises(ImageError, match="ADD") as caught:
        dockerfile.check(f"{line}\n", ASKED, buildkit=False)
    assert caught.value.reason is Reason.NOT_ALLOWED


@pytest.mark.parametrize(
    "line",
    [
        "ADD a.tar.gz /x",
        "ADD --chown=1:2 sub/*.tar \\\n # two\n b /y",
        'ADD ["a b", "/x"]',
        "COPY http://is/a/folder /x",
        "# ADD http://10.0.0.1/x /x",
        "RUN curl -fO https://example.org/x",
        "LABEL a=http://example.org",
    ],
)
def test_what_the_project_has_may_be_added(line):
    dockerfile.check(f"FROM a\n{line}\n", ASKED, buildkit=True)


def test_a_front_end_that_is_not_dockers_is_refused_where_there_are_any():
    for name in (
        "docker/dockerfile:1",
        "docker.io/docker/dockerfile-upstream@sha256:1",
    ):
        dockerfile.check(f"# syntax={name}\nFROM a\n", ASKED, buildkit=True)
    own = "# syntax=somebody/frontend\nFROM a\n"
    dockerfile.check(own, ASKED, buildkit=False)
    with pytest.raises(ImageError, match="somebody/frontend is none of Docker's"):
        dockerfile.check(own, ASKED, buildkit=True)
    given = BuildImage(args=(("BUILDKIT_SYNTAX", "somebody/frontend"),))
    with pytest.raises(ImageError, match="none of Docker's"):
        dockerfile.check("FROM a\n", given, buildkit=True)


@pytest.mark.parametrize(
    "line", ["ARG A=$A$A", "ENV A=$A$A", "ENV A ${A}${A}", "ENV A=${B:-$A$A}"]
)
def test_a_variable_that_doubles_itself_is_refused_at_its_line(line):
    text = "ARG A=xy\n" + f"{line}\n" * 40 + "FROM a\n"
    with pytest.raises(ImageError, match=r"Dockerfile:1[0-9]:1: the variable `A` is"):
        dockerfile.check_variables(text, ASKED)


def test_a_path_that_grows_line_by_line_is_none():
    line = "ENV PATH=/opt/bin:$PATH LD_LIBRARY_PATH=/opt/lib:$LD_LIBRARY_PATH\n"
    dockerfile.check_variables("FROM a\n" + line * 200, ASKED)

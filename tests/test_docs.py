"""The documents say what the code does.

`python tests/test_docs.py` rewrites those made of it: schemas/.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from tests.kit import schemas
from tools import site

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"


def test_the_site_has_every_page_and_what_pages_link_to(tmp_path, monkeypatch):
    monkeypatch.setattr(site, "commands", lambda: "# Commands\n")
    site.gather(tmp_path)
    there = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")}
    # PyYAML reads the configuration of the site as the site's builder does.
    listed = re.findall(r"[\w/]+\.md", (ROOT / "mkdocs.yml").read_text())

    assert set(listed) <= there
    assert {f"docs/{page.name}" for page in DOCS.glob("*.md")} <= there
    assert "docs/run.svg" in there


def test_the_line_of_each_command_is_what_its_own_help_says():
    from runner.cli.main import GROUPS, command

    for lines in GROUPS.values():
        for name, line in lines.items():
            assert command(name).help.splitlines()[0] == line


def test_every_engine_and_exit_status_is_documented():
    from runner.core import Reason
    from runner.engines import TABLE

    page = (DOCS / "architecture.md").read_text()
    rows = dict(re.findall(r"^\| (\d+) \| (.+) \|$", page, re.M))
    for reason in Reason:
        assert reason.value in rows[str(reason.exit_code)].split(", ")
    readme = (ROOT / "README.md").read_text()
    for name in TABLE:
        assert f"`{name}`" in readme
        assert f"**{name}**" in page


PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_line_of_prose_is_longer_than_120_columns(page: Path):
    prose = re.sub(
        r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE
    )
    lines = (one for one in prose.splitlines() if not one.startswith(("|", "    ")))
    assert [one for one in lines if len(one) > 120] == []


def test_every_setting_is_documented():
    from runner.store.settings import SETTINGS, Settings

    page = (DOCS / "settings.md").read_text()
    for setting in SETTINGS:
        option = f" `{setting.option}` " if setting.option else " "
        row = f"| `{setting.key}` |{option}| `{setting.variable}` |"
        (found,) = (line for line in page.splitlines() if line.startswith(row))
        default, meaning = found.removeprefix(row).split("|")[:2]
        assert meaning.strip().startswith(setting.meaning)
        match setting.of(Settings(Path())):
            case bool() as value:
                assert default.strip() == f"`{str(value).lower()}`"
            case float() | int() as value:
                assert default.strip() == f"`{setting.kind.write(value)}`"
            case str() as value if value:
                assert default.strip() == f"`{value}`"


def test_every_name_of_a_secret_is_documented():
    from runner.pack.ignore import HARMLESS, NESTED, SECRET_FILES, SECRET_FOLDERS

    page = (DOCS / "rai_build.md").read_text()
    folders = (f"{name}/" for name in SECRET_FOLDERS)
    for name in (*SECRET_FILES, *HARMLESS, *NESTED, *folders):
        assert f"`{name}`" in page


def test_every_limit_is_documented_with_its_default():
    from runner.core import LIMITS

    keys = (DOCS / "rai_build.md").read_text().splitlines()
    policy = (DOCS / "settings.md").read_text().partition("## A site's policy")[2]
    for limit in LIMITS:
        value = f"{limit.kind.words.removeprefix('a ')} | {limit.help}"
        assert (
            f"| `resources.limits.{limit.key}` | {value}; {limit.written()} |" in keys
        )
        assert f"\n  {limit.key}: " in policy


def test_every_dependency_is_named_with_what_it_is_for():
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    table = (DOCS / "architecture.md").read_text().partition("## Dependencies\n")[2]
    named = {
        name
        for row in re.findall(r"^\| ([^|]+) \|", table.lower(), re.M)
        for name in row.split(", ")
    }
    extras = project["optional-dependencies"]
    others = [*extras["project"], *extras["train"], *extras["mxnet"]]
    for need in [*project["dependencies"], *others]:
        name = re.split(r"[<>=\[;]", need)[0].lower()
        if name == project["name"]:
            continue  # another of its extras
        assert name in named


@pytest.mark.parametrize("name", schemas.TYPES)
def test_a_schema_is_that_of_the_type_that_rai_reads_with(name):
    shown = (schemas.FOLDER / f"{name}.json").read_text()
    assert shown == schemas.page(name), "run: python tests/test_docs.py"


@pytest.mark.parametrize(
    "page", [*ROOT.glob("*.md"), *DOCS.rglob("*.md")], ids=lambda p: p.name
)
def test_links_between_the_pages_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target


if __name__ == "__main__":
    schemas.write()

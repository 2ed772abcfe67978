"""docs/gpu.md uses options that there are, and names every column of the file."""

from __future__ import annotations

import re
import sqlite3

import pytest
from nvprof import layout, manual, store

from tests.kit.needs import ROOT

pytestmark = pytest.mark.smoke

PAGE = (ROOT / "docs" / "gpu.md").read_text()


def test_every_option_has_a_line_of_help():
    no_help = [o.name for o in manual.OPTIONS if not o.why and not o.help]
    assert no_help == ["profile-from-start-off"]


def test_the_page_uses_options_that_there_are():
    section = PAGE.partition("## Profile with nvprof\n")[2].partition("\n### ")[0]
    known = {option.name for option in manual.OPTIONS}
    used = set(re.findall(r"--([a-z][a-z-]+)", section))
    assert used >= {"print-summary", "kernels", "metrics"}
    assert used <= known
    letters = set(re.findall(r"nvprof (?:-\w+ )*-(\w) ", section))
    assert letters <= set(manual.SHORT)


def test_every_table_is_on_the_page_with_its_columns():
    base = sqlite3.connect(":memory:")
    base.executescript(store.TABLES)
    tables = [name for (name,) in base.execute("SELECT name FROM sqlite_master")]
    for table in tables:
        if table == "launch" or table.startswith("sqlite_"):
            continue
        (row,) = re.findall(rf"^\| `{table}` \| (.*) \|$", PAGE, re.MULTILINE)
        columns = [each[1] for each in base.execute(f"PRAGMA table_info({table})")]
        said = [word for word in re.findall(r"`(\w+)`", row) if word in columns]
        assert said == columns
    base.close()


def test_its_query_is_one():
    (query,) = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
    base = sqlite3.connect(":memory:")
    base.executescript(store.TABLES)
    assert [each[0] for each in base.execute(query).description] == [
        *("kernel", "waited", "ran")
    ]
    base.close()


def test_its_table_is_laid_out_as_printed():
    assert layout.HEAD in PAGE.splitlines()

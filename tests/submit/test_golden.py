"""The judge's own files: verified before each use."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from runner.core import work
from runner.core.errors import EngineError
from runner.submit import staging


def release(folder: Path, **contents: str) -> Path:
    """Write a judge's folder with its SHA256SUMS, as `sha256sum` writes them."""
    (folder / "deep").mkdir(parents=True)
    lines = []
    for name, text in {"deep/er.py": "", **contents}.items():
        (folder / name).write_text(text)
        lines.append(f"{hashlib.sha256(text.encode()).hexdigest()}  {name}\n")
    (folder / staging.SUMS).write_text("".join(lines))
    return folder


@pytest.fixture
def judge(tmp_path: Path) -> Path:
    files = {
        "measuring.py": "# golden\n",
        "kernels.ptx": "//\n",
        "Dockerfile": "FROM x\n",
    }
    return release(tmp_path / "judge", **files)


def test_the_files_are_read_with_one_digest_of_them_all(judge):
    found = staging.judge_files(judge)
    assert found.files["measuring.py"] == b"# golden\n"
    sums = {name: work.digest_of(content) for name, content in found.files.items()}
    assert found.digest == work.digest_of_set(sums)
    assert set(found.matching(("*.py", "*.ptx"))) == {"measuring.py", "kernels.ptx"}
    assert set(found.matching(("**/*.py",))) == {"measuring.py", "deep/er.py"}


def test_what_python_keeps_beside_them_does_not_count(judge):
    before = staging.judge_files(judge).digest
    (judge / "__pycache__").mkdir()
    (judge / "__pycache__/measuring.pyc").touch()
    assert staging.judge_files(judge).digest == before


def test_every_file_that_is_not_as_released_is_named(judge):
    (judge / "measuring.py").write_text("# mine\n")
    (judge / "kernels.ptx").unlink()
    (judge / "more.py").touch()
    with pytest.raises(EngineError) as error:
        staging.judge_files(judge)
    text = str(error.value)
    assert len(error.value.problems) == 3
    assert "measuring.py is not as it was released" in text
    assert "kernels.ptx cannot be read" in text
    assert "more.py is not in SHA256SUMS" in text


def test_a_link_in_place_of_a_file_leads_nowhere_else(judge):
    (judge / "measuring.py").unlink()
    (judge / "measuring.py").symlink_to("/etc/passwd")
    with pytest.raises(EngineError, match=r"measuring\.py cannot be read"):
        staging.judge_files(judge)


@pytest.mark.parametrize("text", [None, "", "nonsense\n"])
def test_without_digests_nothing_is_golden(judge, text):
    (judge / staging.SUMS).unlink()
    if text is not None:
        (judge / staging.SUMS).write_text(text)
    with pytest.raises(EngineError):
        staging.judge_files(judge)


def test_the_shipped_files_are_as_released():
    if not (staging.GOLDEN / staging.SUMS).exists():
        pytest.skip("SHA256SUMS is written at a release: python tools/golden.py")
    assert staging.judge_files().matching(("Dockerfile",))

"""The size of runner/: files, lines, functions, and imports inside of functions."""

from __future__ import annotations

import ast
import statistics
from collections.abc import Iterator
from pathlib import Path

from tools.benchmarks import rows

Function = ast.FunctionDef | ast.AsyncFunctionDef


def measure() -> Iterator[dict[str, object]]:
    """Count this checkout's runner/ and, beside it, that of RAI_BENCH_OTHER."""
    here = sizes(rows.ROOT / "runner")
    other = rows.other()
    before = {"before": sizes(other / "runner")} if other else {}
    yield rows.row(
        "size of runner/",
        "median function at most 8 lines, 90th percentile at most 30",
        here["function_median"] <= 8 and here["function_p90"] <= 30,
        **here,
        **before,
    )


def sizes(folder: Path) -> dict[str, float]:
    """Count a folder's Python files; lengths are in lines, docstrings included."""
    paths = sorted(folder.rglob("*.py"))
    texts = [path.read_text() for path in paths]
    trees = [ast.parse(text) for text in texts]
    functions = [n for tree in trees for n in ast.walk(tree) if isinstance(n, Function)]
    lengths = sorted((f.end_lineno or f.lineno) - f.lineno + 1 for f in functions)
    files = [len(text.splitlines()) for text in texts]
    return {
        "entries": len({p.relative_to(folder).parts[0] for p in paths}),
        "files": len(files),
        "lines": sum(files),
        "longest_file": max(files),
        "functions": len(lengths),
        "function_median": statistics.median(lengths),
        "function_p90": lengths[len(lengths) * 9 // 10],
        "imports_in_functions": sum(map(_imports, functions)),
    }


def _imports(function: Function) -> int:
    return sum(isinstance(n, ast.Import | ast.ImportFrom) for n in ast.walk(function))

"""Write runner/judge/SHA256SUMS: which files are the judge's, and their digests.

python tools/golden.py
"""

from runner.submission import golden

if __name__ == "__main__":
    (golden.FOLDER / golden.SUMS).write_text(golden.written(), encoding="utf-8")

"""Start the program, for `python -m nvprof` and `python -I FOLDER/nvprof`."""

from __future__ import annotations

import sys
from pathlib import Path

if not __package__:
    # Python was given this folder itself, so the package is in its parent.
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from nvprof.program import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""What a run left behind, read for a report: bounded, and whatever it can be read of.

    with evidence.opened(paths, record) as found:
        found.run          # RunEvidence
        found.traces       # the unpacked files of profilers, by their names

outputs.py (the beginning and end of each command's output), build.py (files of the
build folder), shapes.py (rai-kernels.json) -> reading.py (all of it)
"""

from runner.evidence.reading import FoundEvidence, opened

__all__ = ["FoundEvidence", "opened"]

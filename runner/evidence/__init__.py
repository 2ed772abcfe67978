"""What a run left behind, read for a report: bounded, and whatever it can be read of.

    found = evidence.read(paths, record)
    found.run          # RunEvidence
    found.timelines    # of each profile, by its name in the build folder

build.py (files of the build folder) -> reading.py (the ends of each command's output,
profiles, rai-kernels.json, and all of it)
"""

from runner.evidence.reading import FoundEvidence, read

__all__ = ["FoundEvidence", "read"]

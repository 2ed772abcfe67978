"""The worker of ``carried.CarriedEngine`` on a node: `carrying.py FOLDER`.

Signals, the claim and the sign of life are those of rai's own worker; what it carries
out is an engine's workspace, from a file that the test wrote.
"""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from runner import machine
from runner.core import Reason, Verdict
from runner.core.cancel import Cancel
from runner.core.errors import RaiError
from runner.core.events import BuildFolder, Created, Finished
from runner.store.claim import Claim
from runner.store.paths import RunPaths
from runner.store.runs import Recorder
from runner.worker import node
from tests.runner.slurm.carried import BUILD, FAULT, WORK

DONE = Verdict(True, True, None, Reason.DONE, "done")


def carry_out(paths: RunPaths, claim: Claim, cancel: Cancel) -> int:
    """Run the workspace; keep what comes in the run's folder."""
    (kind, arguments), given, work = pickle.loads((paths.root / WORK).read_bytes())
    paths.order.unlink()
    engine = kind(**arguments)
    for name, value in given.items():
        setattr(engine, name, value)
    with Recorder(paths) as kept, (paths.root / BUILD).open("wb") as build:
        kept.keep(Created(paths.id, "contract", "", None, machine.describe()))
        try:
            for event in engine.run(work, cancel):
                if isinstance(event, BuildFolder):
                    build.write(event.data)
                else:
                    kept.keep(event)
        except RaiError as error:
            (paths.root / FAULT).write_text(str(error))
        build.flush()
        kept.keep(Finished(DONE))
    return 0


if __name__ == "__main__":
    node._carry_out = carry_out
    sys.exit(node.main())

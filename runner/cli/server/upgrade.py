"""`rai server upgrade`."""

from __future__ import annotations

import os
import time

from runner.cli.server import opening
from runner.terminal.streams import say


def upgrade(state: opening.State = None) -> None:
    """Bring a server's store to what this rai needs, after a backup.

    Stop the server before. A store whose upgrade fails stays as it was.
    """
    from runner.database import schema
    from runner.server import keeping, locking, reached

    folder = opening.folder(state)
    with locking.locked(folder):
        url = reached.database_url(folder, os.environ)
        if (before := schema.revision(url)) == schema.newest():
            say(f"The store has the schema {before}, which is the newest")
            return
        stamp = time.strftime("%Y%m%d-%H%M%S")
        file = folder.root / f"before-upgrade-{before or 'none'}-{stamp}.tar"
        keeping.backup(folder, os.environ, file)
        say(f"Backup: {file}")
        before, after = schema.upgrade(url)
    with opening.opened(state) as (_, store):
        opening.note(store, "upgrade", f"{before} to {after}")
    say(f"The store had the schema {before}, and has {after}")

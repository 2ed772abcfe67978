"""The archives of a run: a project folder going in, a build folder coming back.

``survey`` and ``pack`` make the first, ``BuildWriter`` keeps the second as an engine
sends it. ``open_tar``, ``files``, ``checksums`` and ``unpack`` read either, and trust
neither.
"""

from runner.core.work import BUILD, UPLOAD, Caps, build_caps
from runner.pack.contents import RUN_FILE, MemberKind, Survey, exceeded, survey
from runner.pack.ignore import LeftBy
from runner.pack.meter import BuildWriter
from runner.pack.project import (
    FolderProject,
    Project,
    SealedProject,
    most_bytes,
    read_parcel,
    seal,
)
from runner.pack.read import (
    Unpacked,
    checksums,
    creatable,
    files,
    folder_beside,
    open_tar,
    pick,
    taken,
    unpack,
)
from runner.pack.write import PackCache, pack

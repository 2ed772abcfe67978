"""The archives of a run: a project folder going in, a build folder coming back.

``survey`` and ``pack`` make the first, ``BuildWriter`` keeps the second as an engine
sends it. ``open_tar``, ``files``, ``checksums`` and ``unpack`` read either, and trust
neither.
"""

from runner.archive.contents import (
    RUN_FILE,
    MemberKind,
    Survey,
    exceeded,
    survey,
)
from runner.archive.ignore import LeftBy
from runner.archive.meter import BuildWriter
from runner.archive.project import (
    FolderProject,
    Project,
    SealedProject,
    most_bytes,
    read_parcel,
    seal,
)
from runner.archive.read import (
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
from runner.archive.write import PackCache, pack
from runner.core.caps import BUILD, UPLOAD, Caps, build_caps

"""Where the members of an archive may go; names and links are not trusted."""

from __future__ import annotations

from runner.archive.contents import MemberKind


class HostileNameError(ValueError):
    """A name that only a hostile archive has."""


def inside(name: str, root: str) -> str:
    """Return the name below the root, "" for the root itself."""
    if name.startswith("/"):
        raise HostileNameError(f"{name!r} is an absolute name")
    if "\0" in name:
        raise HostileNameError(f"{name!r} contains a NUL character")
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise HostileNameError(f"{name!r} leads out of its folder")
    if root and parts[:1] != [root]:
        raise HostileNameError(f"{name!r} is not in {root}/")
    return "/".join(parts[1:] if root else parts)


class Tree:
    """The names taken so far; ``any_case`` if case does not tell two apart."""

    def __init__(self, *, any_case: bool) -> None:
        self._taken: dict[str, tuple[str, MemberKind]] = {}
        self._key = str.casefold if any_case else str

    def claim(self, name: str, place: MemberKind) -> None:
        """Take a name and its folders; raise HostileNameError if it is not free."""
        # What is above a taken folder was checked when that was taken.
        new, above = [], name
        while "/" in above:
            above = above.rpartition("/")[0]
            new.append(above)
            if self._key(above) in self._taken:
                break
        for folder in reversed(new):
            self._take(folder, MemberKind.FOLDER, name)
        self._take(name, place, name)

    def at(self, name: str) -> MemberKind | None:
        """Return what the name is, None if it is not taken."""
        taken, place = self._taken.get(self._key(name), ("", None))
        return place if taken == name else None

    def _take(self, name: str, place: MemberKind, whole: str) -> None:
        key = self._key(name)
        if key not in self._taken:
            self._taken[key] = (name, place)
            return
        taken, there = self._taken[key]
        if taken != name:
            raise HostileNameError(f"{whole!r} differs from {taken!r} only by case")
        if name != whole and there is not MemberKind.FOLDER:
            raise HostileNameError(f"{whole!r} is in {name!r}, which is not a folder")
        if not there is place is MemberKind.FOLDER:
            raise HostileNameError(f"{name!r} occurs twice")

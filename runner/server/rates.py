"""Count tries by key, with bounded memory: so many at once, then one now and then."""

from __future__ import annotations

from collections import OrderedDict
from ipaddress import ip_address


class TryCounter:
    """A bucket of tries for each key, which fills again with time.

    Of more than ``most_keys`` the one that was used least lately is forgotten.
    """

    def __init__(self, tries: int, refill_s: float, most_keys: int) -> None:
        self._tries, self._refill_s, self._most = float(tries), refill_s, most_keys
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, key: str, now: float) -> float | None:
        """Take a try; return when there is one again if none is left, else None."""
        left = self._now(key, now)
        if left < 1:
            return now + (1 - left) * self._refill_s
        self._keep(key, left - 1, now)
        return None

    def give_back(self, key: str, now: float) -> None:
        """Undo a try."""
        self._keep(key, min(self._now(key, now) + 1, self._tries), now)

    def _now(self, key: str, now: float) -> float:
        left, at = self._left.get(key, (self._tries, now))
        return min(left + max(now - at, 0) / self._refill_s, self._tries)

    def _keep(self, key: str, left: float, now: float) -> None:
        self._left[key] = left, now
        self._left.move_to_end(key)
        if len(self._left) > self._most:
            self._left.popitem(last=False)


def network(address: str) -> str:
    """Return what of an address belongs to one client: of IPv6 the first 64 bits."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return ""
    if found.version == 4:
        return str(found)
    return found.exploded[:19]

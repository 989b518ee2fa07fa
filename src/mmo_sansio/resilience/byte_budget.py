"""Limits how many bytes each merchant may have stored in an hour (a token bucket for each)."""

from __future__ import annotations

from mmo_sansio.values.clock import HOUR, MonotonicInstant


class ByteBudget:
    """Gives each brand so many bytes at once, which come back evenly within an hour. Times are of one clock that never
    goes back."""

    def __init__(self, bytes_per_hour: int) -> None:
        self._bytes_per_hour = bytes_per_hour
        self._used: dict[str, tuple[int, MonotonicInstant]] = {}
        """The bytes that each brand had in use, and when."""

    def take(self, brand: str, size_bytes: int, now: MonotonicInstant) -> bool:
        """Take so many bytes and return True; or take none and return False when the brand does not have them."""
        used, at = self._used.get(brand, (0, now))
        used = max(0, used - (now - at) * self._bytes_per_hour // HOUR)
        has_room = used + size_bytes <= self._bytes_per_hour
        self._used[brand] = (used + size_bytes if has_room else used, now)
        return has_room

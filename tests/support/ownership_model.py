"""Models what a store holds of leases and channels (`mmo_sansio.resilience.ownership`); stores are
compared with it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from zlib import crc32

from attrs import Factory, define, evolve, frozen

from mmo_sansio.resilience.circuit_breaker import INITIAL_SNAPSHOT, BreakerSnapshot
from mmo_sansio.resilience.ownership import LEASE_DURATION, Channel, OwnershipCounts
from mmo_sansio.values.clock import MonotonicInstant, Span, later


def is_in_wake_share(gateway_reference: str, holder: int, alive: Collection[int]) -> bool:
    """Tell whether waking this payment is this holder's part among those that are alive; each
    payment is the part of one holder."""
    every = sorted(alive)
    if holder not in every:
        return False
    return every[crc32(gateway_reference.encode()) % len(every)] == holder


@frozen
class _ChannelState:
    """Holds the state of one channel."""

    holder: int | None = None
    fence: int = 0
    breaker: BreakerSnapshot = INITIAL_SNAPSHOT


@define
class OwnershipModel:
    """Holds leases and channels as a store does."""

    lease_duration: Span = LEASE_DURATION
    _lease_ends: dict[int, MonotonicInstant] = Factory(dict)
    """When the lease of each holder ends."""
    _channels: dict[str, _ChannelState] = Factory(dict)
    """By brand."""
    _last_holder: int = 0

    def renew(self, holder: int | None, *, now: MonotonicInstant) -> int:
        """Renew this holder's lease; a holder without one, or whose lease was ended, gets a new
        number."""
        if holder is None or self.is_over(holder):
            self._last_holder += 1
            holder = self._last_holder
        self._lease_ends[holder] = later(now, self.lease_duration)
        return holder

    def end_lease(self, holder: int) -> None:
        """End a lease early."""
        self._lease_ends.pop(holder, None)

    def end_expired_leases(self, *, now: MonotonicInstant) -> None:
        """End the leases that have run out."""
        self._lease_ends = {holder: end for holder, end in self._lease_ends.items() if now < end}

    def is_over(self, holder: int) -> bool:
        """Tell whether this holder's lease was ended."""
        return holder not in self._lease_ends

    def alive(self, *, now: MonotonicInstant) -> Sequence[int]:
        """Return the numbers of all holders whose lease has not run out."""
        return [holder for holder, end in self._lease_ends.items() if now < end]

    def counts(self, *, now: MonotonicInstant) -> OwnershipCounts:
        """Count the holders and the channels that they share."""
        alive = self.alive(now=now)
        held = sum(1 for entry in self._channels.values() if entry.holder in alive)
        return OwnershipCounts(len(alive), held)

    def claim(
        self, holder: int, brands: Collection[str], *, known: Mapping[str, int] | None = None
    ) -> Sequence[Channel]:
        """Give this holder those of these brands' channels that nobody owns; none when its lease
        was ended. With `known`, the fences that it knows, those that it owns itself under another
        fence get a new one."""
        if self.is_over(holder):
            return ()
        taken = []
        for brand in brands:
            entry = self._channels.get(brand, _ChannelState())
            is_unknown = (
                known is not None and entry.holder == holder and entry.fence != known.get(brand)
            )
            if entry.holder is None or self.is_over(entry.holder) or is_unknown:
                entry = evolve(entry, holder=holder, fence=entry.fence + 1)
                self._channels[brand] = entry
                taken.append(Channel(brand, entry.fence, entry.breaker))
        return taken

    def fence(self, holder: int, brand: str) -> int | None:
        """Return the fence under which this holder has the channel; None when it does not have
        it."""
        entry = self._channels.get(brand, _ChannelState())
        return None if entry.holder != holder or self.is_over(holder) else entry.fence

    def release(
        self, holder: int, fences: Mapping[str, int], breakers: Mapping[str, BreakerSnapshot]
    ) -> None:
        """Free these channels and store the breakers, as far as the holder has them under these
        fences."""
        for brand, fence in fences.items():
            entry = self._channels.get(brand, _ChannelState())
            if (entry.holder, entry.fence) == (holder, fence):
                self._channels[brand] = evolve(
                    entry, holder=None, breaker=breakers.get(brand, entry.breaker)
                )

    def save_breaker(self, brand: str, fence: int, breaker: BreakerSnapshot) -> None:
        """Store a breaker, unless the channel has been claimed since."""
        entry = self._channels.get(brand, _ChannelState())
        if entry.fence <= fence:
            self._channels[brand] = evolve(entry, breaker=breaker)

    def breakers(self) -> Mapping[str, BreakerSnapshot]:
        """Return every breaker, by brand."""
        return {brand: entry.breaker for brand, entry in self._channels.items()}

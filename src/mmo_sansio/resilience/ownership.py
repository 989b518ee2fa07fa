"""Who calls a merchant back, where several processes have one store: leases, channels and fences (K3, K5).

    free ──a process takes it: its fence grows by one──▶ held
      ▲                                                   │
      └──given up, or the lease of its holder has ended───┘

A merchant's callbacks go through the merchant's channel, and one process at a time holds it. A process has one lease
for all that it holds, by the store's clock, and renews it in one go; a lease that has ended is never renewed: the
process begins another, under a new number, and what it held is free. The fence tells the claims of two holders of one
channel apart: what was claimed under an earlier one, and isn't concluded, is the new holder's to claim again.

A process that was stopped doesn't know that its lease has ended. So it keeps a clock of its own beside it, that goes on
while it sleeps, and begins nothing once that clock has come near the end (`trusted_until`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from zlib import crc32

from attrs import Factory, define, evolve, frozen

from mmo_sansio.resilience.circuit_breaker import INITIAL_SNAPSHOT, BreakerSnapshot
from mmo_sansio.values.clock import MILLISECOND, SECOND, MonotonicInstant, Span, earlier, later

LEASE_DURATION = Span(10 * SECOND)
"""How long a lease is good for after its renewal: a dead process's callbacks wait so long for another."""

LEASE_RENEWAL_INTERVAL = Span(2_500 * MILLISECOND)
"""How often a lease is renewed, so that three renewals may fail."""

LEASE_MARGIN = Span(2 * SECOND)
"""By how much its holder distrusts a lease: two clocks differ in speed, and the store's may be adjusted."""

RELEASE_COOLDOWN = Span(1 * SECOND)
"""Who gives up a channel for others' sake leaves it to them for so long."""

RELEASE_AGAIN_AFTER = Span(60 * SECOND)
"""How long a channel stays that came back from being given up: nobody else wanted it."""

OVERDUE_AFTER = Span(5 * SECOND)
"""What should have woken so long ago is anybody's to wake."""


def trusted_until(requested_at: MonotonicInstant) -> MonotonicInstant:
    """Until when, by the holder's clock, it may rely on a lease that it asked for at this time: the store can only have
    begun to count later."""
    return earlier(later(requested_at, LEASE_DURATION), LEASE_MARGIN)


def is_in_wake_share(gateway_reference: str, holder: int, alive: Collection[int]) -> bool:
    """Whether waking this payment falls to this holder of those that are alive; each falls to one of them."""
    every = sorted(alive)
    if holder not in every:
        return False
    return every[crc32(gateway_reference.encode()) % len(every)] == holder


@frozen
class OwnershipCounts:
    """How many share how many channels."""

    alive: int
    """Holders whose lease is good."""
    held: int
    """Channels that one of them holds."""


def beyond_share(brands: Collection[str], counts: OwnershipCounts) -> Sequence[str]:
    """Of the channels that a holder holds, those that it holds beyond its share. Which ones has nothing to do with how
    busy they are, so that the load is shared with the number."""
    share = -(-counts.held // max(1, counts.alive))
    return sorted(brands, key=lambda brand: (crc32(brand.encode()), brand))[share:]


@frozen
class Channel:
    """A merchant's channel, as who takes it gets it."""

    brand: str
    fence: int
    breaker: BreakerSnapshot
    """What the holder before has kept, in wall time."""


@frozen
class _ChannelState:
    """A line of the book."""

    holder: int | None = None
    fence: int = 0
    breaker: BreakerSnapshot = INITIAL_SNAPSHOT


@define
class OwnershipModel:
    """What a store keeps of leases and channels: the model that every store's own way is compared with."""

    lease_duration: Span = LEASE_DURATION
    _lease_ends: dict[int, MonotonicInstant] = Factory(dict)
    """When the lease of each holder ends."""
    _channels: dict[str, _ChannelState] = Factory(dict)
    """By brand."""
    _last_holder: int = 0

    def renew(self, holder: int | None, *, now: MonotonicInstant) -> int:
        """Let this holder's lease begin again; who has none, or one that has ended, gets a new number."""
        if holder is None or not self.is_alive(holder, now=now):
            self._last_holder += 1
            holder = self._last_holder
        self._lease_ends[holder] = later(now, self.lease_duration)
        return holder

    def end_lease(self, holder: int) -> None:
        """End a lease before its time."""
        self._lease_ends.pop(holder, None)

    def is_alive(self, holder: int, *, now: MonotonicInstant) -> bool:
        """Whether this holder's lease is good."""
        return now < self._lease_ends.get(holder, now)

    def alive(self, *, now: MonotonicInstant) -> Sequence[int]:
        """The numbers of all whose lease is good."""
        return [holder for holder, end in self._lease_ends.items() if now < end]

    def counts(self, *, now: MonotonicInstant) -> OwnershipCounts:
        """How many share how many channels."""
        alive = self.alive(now=now)
        held = sum(1 for entry in self._channels.values() if entry.holder in alive)
        return OwnershipCounts(len(alive), held)

    def claim(
        self, holder: int, brands: Collection[str], *, now: MonotonicInstant
    ) -> Sequence[Channel]:
        """Give this holder the channels of these brands that nobody alive holds; none when its lease has ended."""
        if not self.is_alive(holder, now=now):
            return ()
        taken = []
        for brand in brands:
            entry = self._channels.get(brand, _ChannelState())
            if entry.holder is None or not self.is_alive(entry.holder, now=now):
                entry = evolve(entry, holder=holder, fence=entry.fence + 1)
                self._channels[brand] = entry
                taken.append(Channel(brand, entry.fence, entry.breaker))
        return taken

    def fence(self, holder: int, brand: str, *, now: MonotonicInstant) -> int | None:
        """The fence under which this holder holds the channel; None when it doesn't."""
        entry = self._channels.get(brand, _ChannelState())
        if entry.holder != holder or not self.is_alive(holder, now=now):
            return None
        return entry.fence

    def release(self, holder: int, fences: Mapping[str, int]) -> None:
        """Free these channels, as far as the holder has them under these fences."""
        for brand, fence in fences.items():
            entry = self._channels.get(brand, _ChannelState())
            if (entry.holder, entry.fence) == (holder, fence):
                self._channels[brand] = evolve(entry, holder=None)

    def save_breaker(self, brand: str, fence: int, breaker: BreakerSnapshot) -> None:
        """Keep a breaker, unless somebody has taken the channel since."""
        entry = self._channels.get(brand, _ChannelState())
        if entry.fence <= fence:
            self._channels[brand] = evolve(entry, breaker=breaker)

    def breakers(self) -> Mapping[str, BreakerSnapshot]:
        """Every breaker, by brand."""
        return {brand: entry.breaker for brand, entry in self._channels.items()}

    def delete_breaker(self, brand: str) -> None:
        """The brand is gone, and its breaker with it; the fence isn't."""
        if brand in self._channels:
            self._channels[brand] = evolve(self._channels[brand], breaker=INITIAL_SNAPSHOT)

"""Models which process sends a merchant's callbacks, where several share one store: leases, channels and fences (K3,
K5).

    free ──a process claims it: its fence grows by one──▶ owned
      ▲                                                     │
      └──released, or the lease of its owner was ended──────┘

A merchant's callbacks go through the merchant's channel, which one process at a time owns. A process has one lease for
all its channels, by the store's clock, and renews it as a whole. A lease that has run out is ended by another process,
or else it can still be renewed. A lease that was ended is never renewed: the process begins another, under a new
number, and its channels are free. The fence distinguishes the claims of two owners of one channel: a callback that was
claimed under an earlier fence, and is not concluded, is claimed again by the new owner.

While a store stands still, nobody can renew, and all leases run out together although no process died. So a process
ends the leases of others only while it renews its own steadily (`RenewalHistory`): after a standstill everybody has
time to renew first. A process that does not know the outcome of a claim keeps its lease and claims its own channels
again, under new fences.

A process that was stopped does not know that its lease was ended. So it also reads a clock of its own, which runs on
while the process sleeps, and begins nothing once that clock is near the end (`trusted_until`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from zlib import crc32

from attrs import Factory, define, evolve, frozen

from mmo_sansio.resilience.circuit_breaker import INITIAL_SNAPSHOT, BreakerSnapshot
from mmo_sansio.values.clock import MILLISECOND, SECOND, MonotonicInstant, Span, earlier, later

LEASE_DURATION = Span(10 * SECOND)
"""How long a lease lasts after its renewal: so long the callbacks of a dead process wait for another."""

LEASE_RENEWAL_INTERVAL = Span(2_500 * MILLISECOND)
"""The interval of lease renewals; three of them may fail."""

LEASE_MARGIN = Span(2 * SECOND)
"""How long before its end the owner stops trusting a lease: two clocks differ in speed, and the store's may be
adjusted."""

STEADY_GAP = Span(4 * SECOND)
"""The longest time between two renewals of a process that renews steadily. The lease of another, which was renewed
steadily as well, cannot run out in this time."""

STEADY_FOR = Span(5 * SECOND)
"""How long a process must have renewed steadily before it ends the leases of others: so long these have to renew theirs
after the store stood still."""

RELEASE_COOLDOWN = Span(1 * SECOND)
"""How long a process leaves a channel to others after it has released it for them."""

RELEASE_AGAIN_AFTER = Span(60 * SECOND)
"""How long a process keeps a channel that no other process claimed after its release."""

OVERDUE_AFTER = Span(5 * SECOND)
"""A payment that is due for so long may be woken by any process."""


def trusted_until(requested_at: MonotonicInstant) -> MonotonicInstant:
    """Return the time of the owner's clock until which it may trust a lease that it requested at this time: the store
    can only have begun to count later."""
    return earlier(later(requested_at, LEASE_DURATION), LEASE_MARGIN)


@frozen
class RenewalHistory:
    """Holds how steadily a process has renewed its lease, by its own clock."""

    renewed_at: MonotonicInstant | None = None
    """When it renewed last; None before the first time."""
    steady_since: MonotonicInstant | None = None
    """Since when no more than STEADY_GAP lay between two renewals."""

    def renewed(self, now: MonotonicInstant) -> RenewalHistory:
        """Return the history after a renewal now."""
        is_steady = self.renewed_at is not None and now - self.renewed_at <= STEADY_GAP
        return RenewalHistory(now, self.steady_since if is_steady else now)

    def may_end_leases(self, now: MonotonicInstant) -> bool:
        """Tell whether this process may end the leases of others that have run out."""
        if self.renewed_at is None or self.steady_since is None:
            return False
        return now - self.renewed_at <= STEADY_GAP and now - self.steady_since >= STEADY_FOR


def is_in_wake_share(gateway_reference: str, holder: int, alive: Collection[int]) -> bool:
    """Tell whether waking this payment is this holder's part among those that are alive; each payment is the part of
    one holder."""
    every = sorted(alive)
    if holder not in every:
        return False
    return every[crc32(gateway_reference.encode()) % len(every)] == holder


@frozen
class OwnershipCounts:
    """Counts the holders and the channels that they share."""

    alive: int
    """Holders whose lease has not ended."""
    held: int
    """Channels that one of them holds."""


def beyond_share(brands: Collection[str], counts: OwnershipCounts) -> Sequence[str]:
    """Return the channels that a holder has beyond its share. The choice does not depend on their traffic, so that the
    load is shared with the number."""
    share = -(-counts.held // max(1, counts.alive))
    return sorted(brands, key=lambda brand: (crc32(brand.encode()), brand))[share:]


@frozen
class Channel:
    """Names a channel that a process has claimed, with its fence."""

    brand: str
    fence: int
    breaker: BreakerSnapshot
    """The breaker that the previous owner has stored, in wall time."""


@frozen
class _ChannelState:
    """Holds the state of one channel."""

    holder: int | None = None
    fence: int = 0
    breaker: BreakerSnapshot = INITIAL_SNAPSHOT


@define
class OwnershipModel:
    """Models what a store holds of leases and channels; every store is compared with it."""

    lease_duration: Span = LEASE_DURATION
    _lease_ends: dict[int, MonotonicInstant] = Factory(dict)
    """When the lease of each holder ends."""
    _channels: dict[str, _ChannelState] = Factory(dict)
    """By brand."""
    _last_holder: int = 0

    def renew(self, holder: int | None, *, now: MonotonicInstant) -> int:
        """Renew this holder's lease; a holder without one, or whose lease was ended, gets a new number."""
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
        """Give this holder those of these brands' channels that nobody owns; none when its lease was ended. With
        `known`, the fences that it knows, those that it owns itself under another fence get a new one."""
        if self.is_over(holder):
            return ()
        taken = []
        for brand in brands:
            entry = self._channels.get(brand, _ChannelState())
            is_unknown = known is not None and entry.holder == holder and entry.fence != known.get(brand)
            if entry.holder is None or self.is_over(entry.holder) or is_unknown:
                entry = evolve(entry, holder=holder, fence=entry.fence + 1)
                self._channels[brand] = entry
                taken.append(Channel(brand, entry.fence, entry.breaker))
        return taken

    def fence(self, holder: int, brand: str) -> int | None:
        """Return the fence under which this holder has the channel; None when it does not have it."""
        entry = self._channels.get(brand, _ChannelState())
        return None if entry.holder != holder or self.is_over(holder) else entry.fence

    def release(self, holder: int, fences: Mapping[str, int], breakers: Mapping[str, BreakerSnapshot]) -> None:
        """Free these channels and store the breakers, as far as the holder has them under these fences."""
        for brand, fence in fences.items():
            entry = self._channels.get(brand, _ChannelState())
            if (entry.holder, entry.fence) == (holder, fence):
                self._channels[brand] = evolve(entry, holder=None, breaker=breakers.get(brand, entry.breaker))

    def save_breaker(self, brand: str, fence: int, breaker: BreakerSnapshot) -> None:
        """Store a breaker, unless the channel has been claimed since."""
        entry = self._channels.get(brand, _ChannelState())
        if entry.fence <= fence:
            self._channels[brand] = evolve(entry, breaker=breaker)

    def breakers(self) -> Mapping[str, BreakerSnapshot]:
        """Return every breaker, by brand."""
        return {brand: entry.breaker for brand, entry in self._channels.items()}

"""Decides which process sends a merchant's callbacks, where several share one store: leases,
channels and fences (K3, K5).

    free ──a process claims it: its fence grows by one──▶ owned
      ▲                                                     │
      └──released, or the lease of its owner was ended──────┘

A merchant's callbacks go through the merchant's channel, which one process at a time owns. A
process has one lease for all its channels, by the store's clock, and renews it as a whole. A lease
that has run out is ended by another process, or else it can still be renewed. A lease that was
ended is never renewed: the process begins another, under a new number, and its channels are free.
The fence distinguishes the claims of two owners of one channel: a callback that was claimed under
an earlier fence, and is not concluded, is claimed again by the new owner.

While a store stands still, nobody can renew, and all leases run out together although no process
died. So a process ends the leases of others only while it renews its own steadily
(`RenewalHistory`): after a standstill everybody has time to renew first. A process that does not
know the outcome of a claim keeps its lease and claims its own channels again, under new fences.

A process that was stopped does not know that its lease was ended. So it also reads a clock of its
own, which runs on while the process sleeps, and begins nothing once that clock is near the end
(`trusted_until`)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from zlib import crc32

from attrs import frozen

from mmo_sansio.resilience.circuit_breaker import BreakerSnapshot
from mmo_sansio.values.clock import MILLISECOND, SECOND, MonotonicInstant, Span, earlier, later

# How long a lease lasts after its renewal: so long the callbacks of a dead process wait for
# another.
LEASE_DURATION = Span(10 * SECOND)

# The interval of lease renewals; three of them may fail.
LEASE_RENEWAL_INTERVAL = Span(2_500 * MILLISECOND)

# How long before its end the owner stops trusting a lease: two clocks differ in speed, and the
# store's may be adjusted.
LEASE_MARGIN = Span(2 * SECOND)

# The longest time between two renewals of a process that renews steadily. The lease of another,
# which was renewed steadily as well, cannot run out in this time.
STEADY_GAP = Span(4 * SECOND)

# How long a process must have renewed steadily before it ends the leases of others: so long these
# have to renew theirs after the store stood still.
STEADY_FOR = Span(5 * SECOND)

# How long a process leaves a channel to others after it has released it for them.
RELEASE_COOLDOWN = Span(1 * SECOND)

# How long a process keeps a channel that no other process claimed after its release.
RELEASE_AGAIN_AFTER = Span(60 * SECOND)

# A payment that is due for so long may be woken by any process.
OVERDUE_AFTER = Span(5 * SECOND)


def trusted_until(requested_at: MonotonicInstant) -> MonotonicInstant:
    """Return the time of the owner's clock until which it may trust a lease that it requested at
    this time: the store can only have begun to count later."""
    # Counted from the request, before the store can have counted anything.
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
        # One gap too long, and the count begins anew: the store may have stood still.
        is_steady = self.renewed_at is not None and now - self.renewed_at <= STEADY_GAP
        return RenewalHistory(now, self.steady_since if is_steady else now)

    def may_end_leases(self, now: MonotonicInstant) -> bool:
        """Tell whether this process may end the leases of others that have run out."""
        if self.renewed_at is None or self.steady_since is None:
            return False
        return now - self.renewed_at <= STEADY_GAP and now - self.steady_since >= STEADY_FOR


@frozen
class OwnershipCounts:
    """Counts the holders and the channels that they share."""

    alive: int
    """Holders whose lease has not ended."""
    held: int
    """Channels that one of them holds."""


def beyond_share(brands: Collection[str], counts: OwnershipCounts) -> Sequence[str]:
    """Return the channels that a holder has beyond its share. The choice does not depend on their
    traffic, so that the load is shared with the number."""
    # Rounded up, so that all channels have a place.
    share = -(-counts.held // max(1, counts.alive))
    return sorted(brands, key=lambda brand: (crc32(brand.encode()), brand))[share:]


@frozen
class Channel:
    """Names a channel that a process has claimed, with its fence."""

    brand: str
    fence: int
    breaker: BreakerSnapshot
    """The breaker that the previous owner has stored, in wall time."""

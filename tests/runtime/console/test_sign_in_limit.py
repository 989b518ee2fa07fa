"""Whatever is tried, and from whatever addresses: within the window no more attempts are let through than may fail."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from mmo_sansio.http.ip_rules import subscriber_network
from mmo_sansio.values.clock import MINUTE, SECOND, Instant, Span, later
from mmo_trio.console.sign_in_limit import FAILURES_PER_ADDRESS_MAX, FAILURES_PER_NAME_MAX, WINDOW, SignInLimiter

ADDRESSES = ["198.51.100.1", "198.51.100.2", *(f"2001:db8:0:{net}:{host:x}::1" for net in (7, 8) for host in range(9))]
ATTEMPTS = st.lists(
    st.tuples(
        st.integers(0, 3 * MINUTE),
        st.sampled_from(["ada", "bob", "eve", *(f"guess{each}" for each in range(60))]),
        st.sampled_from(ADDRESSES),
    ),
    max_size=300,
)


@given(attempts=ATTEMPTS)
def test_no_window_holds_more_failures_than_it_may(attempts: Sequence[tuple[int, str, str]]) -> None:
    limiter, now = SignInLimiter(), Instant(0)
    admitted: list[tuple[Instant, str, str]] = []
    for pause, name, address in attempts:
        now = later(now, Span(pause))
        wait = limiter.retry_after(name, address, now)
        assert 0 <= wait <= WINDOW
        if wait:
            assert limiter.retry_after(name, address, later(now, wait)) == 0
            continue
        limiter.record_failure(name, address, now)
        admitted.append((now, name, subscriber_network(address)))
    for at, name, network in admitted:
        recent = [each for each in admitted if at - WINDOW < each[0] <= at]
        assert sum(each[1] == name for each in recent) <= FAILURES_PER_NAME_MAX
        assert sum(each[2] == network for each in recent) <= FAILURES_PER_ADDRESS_MAX


@given(pause=st.integers(0, 60 * SECOND), hosts=st.sets(st.integers(0, 2**64 - 1), min_size=60, max_size=80))
def test_a_subscriber_gains_nothing_by_other_addresses(pause: int, hosts: set[int]) -> None:
    limiter, now, admitted = SignInLimiter(), Instant(0), 0
    for host in hosts:
        address = f"2001:db8:0:7:{host >> 48:x}:{host >> 32 & 0xFFFF:x}:{host >> 16 & 0xFFFF:x}:{host & 0xFFFF:x}"
        if now < WINDOW and not limiter.retry_after(f"user{host}", address, now):
            limiter.record_failure(f"user{host}", address, now)
            admitted += 1
        now = later(now, Span(pause))
    assert admitted <= FAILURES_PER_ADDRESS_MAX

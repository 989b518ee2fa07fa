"""Whatever is tried, from whatever addresses, at whatever process: no more attempts are let through
than may fail."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from mmo_sansio.values.clock import HOUR, MINUTE, SECOND, Instant, Span, later
from mmo_trio.console.sign_in_limit import (
    FAILURES_PER_NAME_MAX,
    FAILURES_PER_NETWORK_MAX,
    FAILURES_PER_PAIR_MAX,
    WINDOW,
    admit_attempt,
    forgive_failures,
    retry_after,
)
from mmo_trio.http.streams import subscriber_network
from mmo_trio.storage.interface.admin_types import SignInAttempt
from mmo_trio.storage.postgres import open_postgres
from mmo_trio.storage.sql.admin_store import AdminStore
from mmo_trio.storage.sqlite import SqliteStore
from tests.support.time_limits import HANGS_AFTER_S

NOW = Instant(1_000 * HOUR)
ADDRESSES = [
    "198.51.100.1",
    "198.51.100.2",
    *(f"2001:db8:0:{net}:{host:x}::1" for net in (7, 8) for host in range(9)),
]
ATTEMPTS = st.lists(
    st.tuples(
        st.integers(0, 3 * MINUTE),
        st.sampled_from(["ada", "bob", "eve", *(f"guess{each}" for each in range(60))]),
        st.sampled_from(ADDRESSES),
    ),
    max_size=300,
)


def failures(times: int, name: str, network: str, *, before: Span) -> list[SignInAttempt]:
    """So many failures, a second apart, the last one this long ago."""
    ages = [before + number * SECOND for number in range(times)]
    return [SignInAttempt(name, network, Instant(NOW - age)) for age in reversed(ages)]


def spread(times: int, *, names: int, networks: int) -> list[SignInAttempt]:
    """Failures just now, of "ada" and of the network "N" where there is one of these."""
    return [
        SignInAttempt(
            "ada" if names == 1 else f"name {number % names}",
            "N" if networks == 1 else f"{number % networks}",
            NOW,
        )
        for number in range(times)
    ]


@pytest.mark.parametrize(
    ("earlier_failures", "wait"),
    [
        ([], 0),
        (failures(FAILURES_PER_PAIR_MAX - 1, "ada", "N", before=Span(0)), 0),
        (failures(FAILURES_PER_PAIR_MAX, "ada", "N", before=Span(0)), WINDOW - 9 * SECOND),
        (failures(FAILURES_PER_PAIR_MAX + 1, "ada", "N", before=Span(0)), WINDOW - 9 * SECOND),
        (failures(FAILURES_PER_PAIR_MAX, "ada", "N", before=Span(WINDOW - 9 * SECOND)), 0),
        (failures(FAILURES_PER_PAIR_MAX, "ada", "N", before=Span(-SECOND)), WINDOW - 8 * SECOND),
        (failures(FAILURES_PER_PAIR_MAX, "ada", "N", before=Span(-WINDOW - 10 * SECOND)), 0),
        (failures(FAILURES_PER_PAIR_MAX, "ada", "M", before=Span(0)), 0),
        (failures(FAILURES_PER_PAIR_MAX, "bob", "N", before=Span(0)), 0),
        (spread(FAILURES_PER_NAME_MAX - 1, names=1, networks=49), 0),
        (spread(FAILURES_PER_NAME_MAX, names=1, networks=50), WINDOW),
        (spread(FAILURES_PER_NETWORK_MAX - 1, names=49, networks=1), 0),
        (spread(FAILURES_PER_NETWORK_MAX, names=50, networks=1), WINDOW),
    ],
)
def test_name_and_network_are_limited_together_first(
    earlier_failures: Sequence[SignInAttempt], wait: int
) -> None:
    assert retry_after(SignInAttempt("ada", "N", NOW), earlier_failures) == wait


@given(attempts=ATTEMPTS)
def test_no_window_holds_more_failures_than_it_may(
    attempts: Sequence[tuple[int, str, str]],
) -> None:
    now, admitted = NOW, list[SignInAttempt]()
    for pause, name, address in attempts:
        now = later(now, Span(pause))
        attempt = SignInAttempt(name, subscriber_network(address), now)
        wait = retry_after(attempt, admitted)
        assert 0 <= wait <= WINDOW
        if wait:
            again = SignInAttempt(name, attempt.network, later(now, wait))
            assert retry_after(again, admitted) == 0
            continue
        admitted.append(attempt)
    for last in admitted:
        recent = [each for each in admitted if last.at - WINDOW < each.at <= last.at]
        of_name = [each for each in recent if each.name == last.name]
        assert len(of_name) <= FAILURES_PER_NAME_MAX
        assert sum(each.network == last.network for each in of_name) <= FAILURES_PER_PAIR_MAX
        assert sum(each.network == last.network for each in recent) <= FAILURES_PER_NETWORK_MAX


async def fail_until_locked(store: AdminStore, name: str, addresses: Sequence[str]) -> int:
    """How many attempts are let through, from each of these addresses in turn."""
    for number in range(1_000):
        if await admit_attempt(store, name, addresses[number % len(addresses)], NOW):
            return number
    raise AssertionError("They are never locked.")


async def test_a_success_forgives_what_came_from_its_own_network_only(store: SqliteStore) -> None:
    admin = store.admin
    neighbours = ["2001:db8:0:7::1", "2001:db8:0:7::2"]
    assert await fail_until_locked(admin, "ada", neighbours) == FAILURES_PER_PAIR_MAX
    assert await admit_attempt(admin, "ada", "2001:db8:0:8::1", NOW) == 0
    await forgive_failures(admin, "ada", "2001:db8:0:8::1")
    assert await admit_attempt(admin, "ada", "2001:db8:0:7::3", NOW) == WINDOW
    assert await admit_attempt(admin, "bob", "2001:db8:0:7::3", NOW) == 0
    await forgive_failures(admin, "ada", "2001:db8:0:7::9")
    assert await admit_attempt(admin, "ada", "2001:db8:0:7::3", NOW) == 0


class ForgivenMeanwhile(AdminStore):
    """A store in which another sign-in of "ada" succeeds as soon as an attempt is counted."""

    async def record_sign_in_attempt(
        self, attempt: SignInAttempt, *, expire_before: Instant
    ) -> None:
        await super().record_sign_in_attempt(attempt, expire_before=expire_before)
        await forgive_failures(self, "ada", "198.51.100.1")


async def test_an_attempt_that_a_success_forgives_meanwhile_is_let_through(
    store: SqliteStore,
) -> None:
    admin = store.admin
    racing = ForgivenMeanwhile(admin.read, admin.write, admin.clear_breaker)
    assert await admit_attempt(racing, "ada", "198.51.100.1", NOW) == 0
    assert await admin.sign_in_attempts("ada", "198.51.100.1", since=Instant(0)) == []


async def test_a_success_meanwhile_forgives_no_failures_from_elsewhere(store: SqliteStore) -> None:
    admin = store.admin
    racing = ForgivenMeanwhile(admin.read, admin.write, admin.clear_breaker)
    elsewhere = [f"203.0.113.{number}" for number in range(FAILURES_PER_NAME_MAX - 1)]
    for address in elsewhere:
        assert await admit_attempt(admin, "ada", address, NOW) == 0
    assert await admit_attempt(racing, "ada", "198.51.100.1", NOW) == 0

    assert await admit_attempt(admin, "ada", "203.0.113.200", NOW) == 0
    assert await admit_attempt(racing, "ada", "198.51.100.1", NOW) == WINDOW


async def test_a_name_is_locked_from_everywhere_in_the_end(store: SqliteStore) -> None:
    admin = store.admin
    elsewhere = [f"203.0.113.{number}" for number in range(20)]
    assert await fail_until_locked(admin, "ada", elsewhere) == FAILURES_PER_NAME_MAX
    assert await admit_attempt(admin, "ada", "198.51.100.1", NOW) == WINDOW
    assert await admit_attempt(admin, "ada", "198.51.100.1", later(NOW, WINDOW)) == 0


async def test_two_processes_count_together(migrated_database: str) -> None:
    with trio.fail_after(HANGS_AFTER_S):
        async with (
            open_postgres(migrated_database, serving=True) as one,
            open_postgres(migrated_database, serving=True) as other,
        ):
            stores = [one.admin, other.admin]
            waits = [
                await admit_attempt(stores[number % 2], "ada", "::1", NOW) for number in range(12)
            ]
            assert waits == [0] * FAILURES_PER_PAIR_MAX + [WINDOW] * 2


async def test_of_attempts_at_once_no_more_are_let_through_than_may_fail(
    migrated_database: str,
) -> None:
    waits: list[Span] = []

    async def attempt(store: AdminStore, at: Instant) -> None:
        waits.append(await admit_attempt(store, "ada", "::1", at))

    with trio.fail_after(HANGS_AFTER_S):
        async with (
            open_postgres(migrated_database, serving=True) as one,
            open_postgres(migrated_database, serving=True) as other,
            trio.open_nursery() as nursery,
        ):
            for number in range(30):
                nursery.start_soon(
                    attempt, (one, other)[number % 2].admin, later(NOW, Span(number))
                )
    assert len(waits) == 30
    assert waits.count(Span(0)) <= FAILURES_PER_PAIR_MAX

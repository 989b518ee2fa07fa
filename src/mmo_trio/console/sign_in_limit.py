"""Limits failed attempts to sign in, counted in the store for all processes, by name and network
together first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mmo_sansio.values.clock import MINUTE, Instant, Span, earlier
from mmo_trio.http.streams import subscriber_network
from mmo_trio.storage.interface.admin_types import SignInAttempt
from mmo_trio.storage.sql.admin_store import AdminStore

WINDOW = Span(15 * MINUTE)
FAILURES_PER_PAIR_MAX = 10
FAILURES_PER_NAME_MAX = 50

# Limits of failures within the window: with one name from one network, with one name from anywhere,
# and from one network with any names. Strangers elsewhere have to fail more often to lock a user
# out; users may share a network. A browser that the user has signed in with before has the first
# limit to itself, and none of the others, so that nobody else locks the user out there.
FAILURES_PER_NETWORK_MAX = 50

# Stands before the id of a known browser in the place of a network.
_BROWSER: Final = "browser "


def retry_after(attempt: SignInAttempt, failures: Sequence[SignInAttempt]) -> Span:
    """Return the time until this attempt may be made; 0 when it may be now.

    `failures` are the other attempts with its name or from its network, in the order of time."""
    # The clock of another process may be ahead; after a clock was far ahead nobody is locked for as
    # long.
    recent = [failure for failure in failures if abs(failure.at - attempt.at) < WINDOW]
    of_name = [failure for failure in recent if failure.name == attempt.name]
    of_network = [failure for failure in recent if failure.network == attempt.network]
    of_pair = [failure for failure in of_name if failure.network == attempt.network]
    limits = [(of_pair, FAILURES_PER_PAIR_MAX)]
    if not attempt.network.startswith(_BROWSER):
        limits += [(of_name, FAILURES_PER_NAME_MAX), (of_network, FAILURES_PER_NETWORK_MAX)]

    return Span(
        max(
            found[-most].at + WINDOW - attempt.at if len(found) >= most else 0
            for found, most in limits
        )
    )


async def admit_attempt(
    store: AdminStore, name: str, address: str, now: Instant, *, browser: str | None = None
) -> Span:
    """Count an attempt as a failure until `forgive_failures`, and return 0; otherwise return the
    time to wait. `browser` is the id of a browser that this user has signed in with before."""
    attempt = SignInAttempt(name, _place(address, browser), now)
    since = earlier(now, WINDOW)
    others = list(await store.sign_in_attempts(name, attempt.network, since=since))
    if wait := retry_after(attempt, others):
        return wait

    # Judged again once it is counted: of attempts at the same time, in whatever processes, the last
    # one sees all.
    await store.record_sign_in_attempt(attempt, expire_before=since)
    others = list(await store.sign_in_attempts(name, attempt.network, since=since))

    # It is not among them where a success has forgiven it meanwhile.
    if attempt in others:
        others.remove(attempt)

    return retry_after(attempt, others)


async def forgive_failures(
    store: AdminStore, name: str, address: str, *, browser: str | None = None
) -> None:
    """Forget the failures of a name in this browser, or from the network of this address, after a
    success; those of other places stay."""
    await store.forget_sign_in_attempts(name, _place(address, browser))


def _place(address: str, browser: str | None) -> str:
    if browser is None:
        return subscriber_network(address)
    return _BROWSER + browser

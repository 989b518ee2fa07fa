"""The public suite for stores: every store that passes keeps the promises of `mmo_trio.storage.interface.store.Store`.

    await check_store(fresh)                                     # all of it, or
    @pytest.mark.parametrize("check", CHECKS)                    # one test for each check

`fresh()` makes an empty storage and gives a function that opens it, each time as its one serving process: closing
and opening again is a restart. Of a store that several processes share, what they agree on is checked as well: it
is then opened several times at once, as by processes of one gateway.

    @pytest.mark.parametrize("check", SHARED_CHECKS)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from mmo_trio.storage.conformance import batches, ownership, queries, work
from mmo_trio.storage.conformance.driver import OpenStore

Check: TypeAlias = Callable[[OpenStore], Awaitable[None]]

CHECKS: tuple[Check, ...] = (
    queries.check_an_empty_store,
    queries.check_a_payment_is_kept,
    batches.check_a_reference_is_consumed,
    batches.check_the_batch_law,
    batches.check_a_batch_is_all_or_nothing,
    batches.check_only_what_is_read_is_seen,
    batches.check_orphans_are_handed_out_once,
    batches.check_what_is_due,
    queries.check_records_page_both_ways,
    queries.check_people_find_transactions,
    queries.check_the_suspense_book,
    queries.check_brands_and_keys,
    queries.check_what_is_unknown,
    queries.check_what_is_waiting,
    queries.check_providers_are_closed,
    queries.check_a_closed_store_is_unavailable,
    ownership.check_breakers_are_kept,
    work.check_the_audit_log,
    work.check_operators_and_sessions,
    work.check_proposals,
    work.check_operators_find_payments,
    work.check_operators_see_what_is_stuck,
    work.check_payments_are_counted,
)
"""Every check, by itself."""

SHARED_CHECKS: tuple[Check, ...] = (
    ownership.check_one_process_holds_a_channel,
    ownership.check_processes_know_how_many_share_the_channels,
    ownership.check_a_successor_claims_anew,
    ownership.check_a_channel_is_given_up,
    ownership.check_what_is_due_is_shared_out,
    ownership.check_submissions_of_the_dead,
)
"""The checks of what a store that is shared promises beyond that."""


async def check_store(fresh: Callable[[], OpenStore], *, is_shared: bool = False) -> None:
    """Run every check, each on an empty storage; raises AssertionError at the first broken promise."""
    for check in CHECKS + (SHARED_CHECKS if is_shared else ()):
        await check(fresh())

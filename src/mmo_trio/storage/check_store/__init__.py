"""The public suite for stores: every store that passes keeps the promises of `mmo_trio.storage.base.Store`.

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

from mmo_trio.storage.check_store import asking, deciding, running, sharing
from mmo_trio.storage.check_store.feeding import OpenStore

Check: TypeAlias = Callable[[OpenStore], Awaitable[None]]

CHECKS: tuple[Check, ...] = (
    asking.check_an_empty_store,
    asking.check_a_payment_is_kept,
    deciding.check_a_reference_is_consumed,
    deciding.check_the_batch_law,
    deciding.check_a_batch_is_all_or_nothing,
    deciding.check_only_what_is_read_is_seen,
    deciding.check_orphans_are_handed_out_once,
    deciding.check_what_is_due,
    asking.check_records_page_both_ways,
    asking.check_people_find_transactions,
    asking.check_the_suspense_book,
    asking.check_brands_and_keys,
    asking.check_what_is_unknown,
    asking.check_what_is_waiting,
    asking.check_providers_are_closed,
    asking.check_a_closed_store_is_unavailable,
    sharing.check_breakers_are_kept,
    running.check_the_audit_log,
    running.check_operators_and_sessions,
    running.check_proposals,
    running.check_operators_find_payments,
    running.check_operators_see_what_is_stuck,
    running.check_payments_are_counted,
)
"""Every check, by itself."""

SHARED_CHECKS: tuple[Check, ...] = (
    sharing.check_one_process_holds_a_channel,
    sharing.check_processes_know_how_many_share_the_channels,
    sharing.check_a_successor_claims_anew,
    sharing.check_a_channel_is_given_up,
    sharing.check_what_is_due_is_shared_out,
    sharing.check_submissions_of_the_dead,
)
"""The checks of what a store that is shared promises beyond that."""


async def check_store(fresh: Callable[[], OpenStore], *, is_shared: bool = False) -> None:
    """Run every check, each on an empty storage; raises AssertionError at the first broken promise."""
    for check in CHECKS + (SHARED_CHECKS if is_shared else ()):
        await check(fresh())

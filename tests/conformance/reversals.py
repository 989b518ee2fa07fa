"""Checks of reversals: what is durable, what is due, and that only one process sends (S6)."""

from __future__ import annotations

import json

from attrs import evolve

from mmo_sansio.messages.inputs import BeginSubmission
from mmo_sansio.messages.queries import ListReversals, Position, Records
from mmo_sansio.messages.replies import Ignored, ReversalApplied
from mmo_sansio.messages.reversals import (
    DecideReversal,
    RequestReversal,
    ResolveReversal,
    ReversalFailed,
    ReversalSucceeded,
    ReversalUnreachable,
    ReversalWoke,
)
from mmo_sansio.values.clock import LAST_INSTANT, Instant
from mmo_sansio.values.model import Source
from mmo_sansio.values.money import Money
from mmo_sansio.values.reversals import ReversalState, reversal_id
from mmo_trio.storage.interface.admin_types import ApprovalKind
from tests.conformance.driver import NOON, OpenStore, after_noon, create_payments, submit_batch
from tests.conformance.inputs import failed, reference, succeeded

_ASKED = RequestReversal(
    reference(1),
    "acme",
    Money(1_000, "KES"),
    reason="Paid ü twice.",
    user="amina",
    needs_approval=False,
    daily_max=Money(100_000, "KES"),
)
_FIRST = reversal_id(reference(1), 1)


async def check_reversal_survives_restart(open_store: OpenStore) -> None:
    """Reversals are kept with all that they say, and what is due is due after a restart."""
    async with open_store() as store:
        await create_payments(store, (1, 2))
        for number in (1, 2):
            await submit_batch(
                store, (BeginSubmission(reference(number)), NOON), (succeeded(number), NOON)
            )
        assert await store.reversals(reference(1)) == []
        asked = await submit_batch(store, (_ASKED, after_noon(1)), (_ASKED, after_noon(2)))
        assert all(isinstance(each, ReversalApplied) for each in asked)
        kept = await store.reversals(reference(1))
        assert [(each.number, each.amount, each.reason) for each in kept] == [
            (number, Money(1_000, "KES"), "Paid ü twice.") for number in (1, 2)
        ]
    async with open_store() as store:
        assert await store.reversals(reference(1)) == kept
        assert await store.due_reversals(Instant(NOON), limit=10) == []
        assert await store.due_reversals(after_noon(1), limit=10) == [kept[0]]
        (woken,) = await submit_batch(store, (ReversalWoke(_FIRST, "one"), after_noon(3)))
        assert isinstance(woken, ReversalApplied)
        assert await store.due_reversals(after_noon(3), limit=10) == [kept[1]]
        assert await store.list_reversals(limit=10) == [woken.reversal, kept[1]]
        assert await store.list_reversals(only_unfinished=True, limit=10) == [
            woken.reversal,
            kept[1],
        ]
        here, newest = kept[-1].asked_at, [woken.reversal, kept[1]]
        assert await store.list_reversals(before=Position(here, reference(2)), limit=10) == newest
        assert await store.list_reversals(before=Position(here, reference(1)), limit=10) == []
        backlog = await store.admin.backlog(NOON, overdue_before=NOON)
        assert backlog.reversals == 2
        assert backlog.approvals[ApprovalKind.REVERSAL] == 0, "nobody has to approve these"
        await submit_batch(
            store,
            (ReversalSucceeded(_FIRST, "sandbox", Source.POLL, "R-1"), after_noon(4)),
            (ReversalWoke(reversal_id(reference(1), 2), "two"), after_noon(4)),
            (
                ReversalSucceeded(reversal_id(reference(1), 2), "sandbox", Source.POLL, "R-2"),
                after_noon(5),
            ),
        )
        assert [each.state for each in await store.reversals(reference(1))] == [
            ReversalState.SUCCEEDED
        ] * 2
        assert await store.list_reversals(only_unfinished=True, limit=10) == []
        assert (await store.admin.backlog(NOON, overdue_before=NOON)).reversals == 0


async def check_reversals_that_wait_for_approval(open_store: OpenStore) -> None:
    """What waits for another user is counted, until one approves or refuses it."""
    waiting = evolve(_ASKED, needs_approval=True)
    async with open_store() as store:
        await create_payments(store, (1,))
        await submit_batch(store, (BeginSubmission(reference(1)), NOON), (succeeded(1), NOON))
        await submit_batch(store, (waiting, after_noon(1)), (waiting, after_noon(2)))
        backlog = await store.admin.backlog(NOON, overdue_before=NOON)
        assert backlog.approvals[ApprovalKind.REVERSAL] == 2
        decision = DecideReversal(_FIRST, "bob", is_approved=True, four_eyes=True)
        await submit_batch(store, (decision, after_noon(3)))
        backlog = await store.admin.backlog(NOON, overdue_before=NOON)
        assert (backlog.reversals, backlog.approvals[ApprovalKind.REVERSAL]) == (2, 1)


async def check_reversal_that_moved_after_all(open_store: OpenStore) -> None:
    """What a failed reversal has moved after all counts against the payment and the day."""
    all_of_it = evolve(_ASKED, amount=None, daily_max=Money(1_000_000, "KES"))
    async with open_store() as store:
        await create_payments(store, (1, 2))
        for number in (1, 2):
            await submit_batch(
                store, (BeginSubmission(reference(number)), NOON), (succeeded(number), NOON)
            )
        await submit_batch(
            store,
            (all_of_it, after_noon(1)),
            (ReversalWoke(_FIRST, "one"), after_noon(2)),
            (ReversalFailed(_FIRST, "sandbox", Source.POLL, "No."), after_noon(3)),
        )
        await submit_batch(
            store, (ReversalSucceeded(_FIRST, "sandbox", Source.WEBHOOK, "R-1"), after_noon(4))
        )
        (moved,) = await store.reversals(reference(1))
        assert (moved.state, moved.sent_version) == (ReversalState.MOVED_AFTER_ALL, 2)
        assert await store.list_reversals(only_unfinished=True, limit=10) == []
        limit = Money(moved.amount.minor, "KES")
        other = evolve(all_of_it, payment=reference(2), daily_max=limit)
    async with open_store() as store:
        for again in (all_of_it, other):
            (refused,) = await submit_batch(store, (again, after_noon(5)))
            assert isinstance(refused, Ignored)


async def check_suspense_entry_of_returned_money(open_store: OpenStore) -> None:
    """The entry by which money came late is closed when all of it is back, once."""
    async with open_store() as store:
        await create_payments(store, (1, 2))
        for number in (1, 2):
            await submit_batch(
                store, (BeginSubmission(reference(number)), NOON), (failed(number), NOON)
            )
            late = succeeded(number)
            await submit_batch(store, (late, after_noon(1)))
        entries = {
            number: (await store.admin.suspense_of_payment(reference(number)))[0]
            for number in (1, 2)
        }
        assert await store.admin.close_suspense(
            entries[2].id, by="amina", note="told", now=after_noon(2)
        )
        for number, entry in entries.items():
            id = reversal_id(reference(number), 1)
            asked = evolve(
                _ASKED,
                payment=reference(number),
                amount=None,
                reported=Money(1_000, "KES"),
                suspense_entry=entry.id,
            )
            await submit_batch(
                store,
                (asked, after_noon(3)),
                (ReversalWoke(id, "one"), after_noon(4)),
                (ReversalSucceeded(id, "sandbox", Source.POLL, "R-1"), after_noon(5)),
            )
    async with open_store() as store:
        (first,) = await store.admin.suspense_of_payment(reference(1))
        assert (first.closed_at, first.closed_by) == (after_noon(5), "gateway")
        (second,) = await store.admin.suspense_of_payment(reference(2))
        assert (second.closed_by, second.note) == ("amina", "told")


async def check_pages_of_reversed_payments(open_store: OpenStore) -> None:
    """A brand's payments with reversals come in the order of their last change, page by page, and
    none of another brand."""
    asked = evolve(_ASKED, amount=Money(1_000, "KES"))
    async with open_store() as store:
        await create_payments(store, (1, 2, 3))
        for number in (1, 2, 3):
            await submit_batch(
                store, (BeginSubmission(reference(number)), NOON), (succeeded(number), NOON)
            )
        for number, at in ((2, 1), (1, 2), (3, 3), (2, 4)):
            await submit_batch(store, (evolve(asked, payment=reference(number)), after_noon(at)))
    everything = ListReversals("acme", Instant(0), LAST_INSTANT, page_size=2)
    async with open_store() as store:
        first = await store.list_reversed_payments(everything)
        assert _references(first) == [reference(1), reference(3)]
        assert (first.has_previous, first.has_next) == (False, True)
        last = await store.list_reversed_payments(evolve(everything, after=first.last))
        assert _references(last) == [reference(2)]
        assert (last.has_previous, last.has_next) == (True, False)
        assert len(json.loads(last.objects[0])["reversals"]) == 2
        back = await store.list_reversed_payments(evolve(everything, before=last.first))
        assert back == first
        until = evolve(everything, end=after_noon(3))
        assert _references(await store.list_reversed_payments(until)) == [reference(1)]
        beyond = await store.list_reversed_payments(evolve(everything, after=last.last))
        assert (beyond.objects, beyond.has_previous, beyond.has_next) == ((), True, False)
        zenith = await store.list_reversed_payments(evolve(everything, brand="zenith"))
        assert (zenith.objects, zenith.first, zenith.has_next) == ((), None, False)
        await submit_batch(
            store,
            (ReversalWoke(_FIRST, "one"), after_noon(5)),
            (ReversalSucceeded(_FIRST, "sandbox", Source.POLL, "R-1"), after_noon(6)),
        )
        moved = evolve(everything, begin=after_noon(6), page_size=10)
        assert _references(await store.list_reversed_payments(moved)) == [reference(1)]


def _references(page: Records) -> list[str]:
    return [json.loads(text)["gatewayReference"] for text in page.objects]


async def check_suspense_entry_of_money_that_did_not_go_back(open_store: OpenStore) -> None:
    """The entry that was closed as all of its money had gone back is open again once staff show
    that it had not, also in one batch, and closed once more where they were right at first; one
    that staff have closed stays closed."""
    async with open_store() as store:
        await create_payments(store, (1, 2, 3))
        entries = {}
        for number in (1, 2, 3):
            await submit_batch(
                store, (BeginSubmission(reference(number)), NOON), (failed(number), NOON)
            )
            await submit_batch(store, (succeeded(number), after_noon(1)))
            (entries[number],) = await store.admin.suspense_of_payment(reference(number))
        closed = entries[3]
        assert await store.admin.close_suspense(
            closed.id, by="amina", note="told", now=after_noon(2)
        )

        for number, entry in entries.items():
            id = reversal_id(reference(number), 1)
            asked = evolve(
                _ASKED,
                payment=reference(number),
                amount=None,
                reported=Money(1_000, "KES"),
                suspense_entry=entry.id,
            )
            await submit_batch(
                store,
                (asked, after_noon(3)),
                (ReversalWoke(id, "one"), after_noon(4)),
                (ReversalUnreachable(id, "sandbox", "No answer."), after_noon(5)),
            )
            by_hand = ResolveReversal(id, "amina", succeeded=True, evidence="line 7")
            put_right = evolve(by_hand, succeeded=False)
            if number == 1:
                await submit_batch(store, (by_hand, after_noon(8)), (put_right, after_noon(9)))
            else:
                await submit_batch(store, (by_hand, after_noon(8)))
                await submit_batch(store, (put_right, after_noon(9)))
            if number == 2:
                (entry,) = await store.admin.suspense_of_payment(reference(2))
                assert (entry.closed_at, entry.closed_by, entry.note) == (None, None, None)
                await submit_batch(store, (by_hand, after_noon(10)))

    async with open_store() as store:
        (first,) = await store.admin.suspense_of_payment(reference(1))
        assert (first.closed_at, first.closed_by, first.note) == (None, None, None)
        (second,) = await store.admin.suspense_of_payment(reference(2))
        assert (second.closed_at, second.closed_by) == (after_noon(10), "gateway")
        (third,) = await store.admin.suspense_of_payment(reference(3))
        assert (third.closed_by, third.note) == ("amina", "told")


async def check_integrity_of_reversals(open_store: OpenStore) -> None:
    """The check of every stored row finds nothing wrong with reversals that have ended."""
    await check_reversal_survives_restart(open_store)
    async with open_store() as store:
        assert await store.integrity_errors() == []

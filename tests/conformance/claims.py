"""Checks of the claims of deposits: what is durable, what is due, and that only one process acts
(S4)."""

from __future__ import annotations

from attrs import evolve

from mmo_sansio.messages.inputs import DepositAnswered, DepositClaimWoke
from mmo_sansio.messages.replies import Applied, ClaimDue, Ignored
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Instant, Span, later
from mmo_sansio.values.model import DepositAnswerOutcome
from mmo_sansio.values.money import Money
from tests.conformance.driver import NOON, OpenStore, after_noon, submit_batch
from tests.conformance.inputs import brand, claimed, creation, reference

_RECEIPT = "RKL51ZDR4F"
_WOKE = DepositClaimWoke("sandbox", _RECEIPT)
_PAID = DepositAnswered(
    "sandbox",
    _RECEIPT,
    DepositAnswerOutcome.COMPLETED,
    is_ours=True,
    amount=Money(150_000, "KES"),
    brand=brand(),
    method="mobile_ke",
)
_UNKNOWN = DepositAnswered("sandbox", _RECEIPT, DepositAnswerOutcome.FAILED)


async def check_claim_survives_restart(open_store: OpenStore) -> None:
    """An open claim is kept with all that it says, and its next question is due after a restart."""
    async with open_store() as store:
        await submit_batch(
            store, (claimed(_RECEIPT, 1), NOON), (claimed("OTHER ü", 2), after_noon(1))
        )
        assert (await store.admin.backlog(NOON, overdue_before=NOON)).deposit_claims == 2
        kept = await store.deposit_claim("sandbox", _RECEIPT)
        assert kept is not None
        assert (kept.account, kept.bill_reference, kept.amount) == (
            "600966",
            "SHOP ü",
            Money(150_000, "KES"),
        )
        assert (kept.gateway_reference, kept.wake_at, kept.version) == (reference(1), NOON, 1)
        assert await store.deposit_claim("sandbox", "NONE") is None
        assert await store.deposit_claim("other", _RECEIPT) is None
    async with open_store() as store:
        assert await store.deposit_claim("sandbox", _RECEIPT) == kept
        assert [each.receipt for each in await store.due_claims(after_noon(1), limit=10)] == [
            _RECEIPT,
            "OTHER ü",
        ]
        assert [each.receipt for each in await store.due_claims(after_noon(1), limit=1)] == [
            _RECEIPT
        ]
        assert await store.due_claims(Instant(NOON - 1), limit=10) == []
        (woken,) = await submit_batch(store, (_WOKE, after_noon(2)))
        assert isinstance(woken, ClaimDue)
        assert await store.deposit_claim("sandbox", _RECEIPT) == woken.claim
        assert woken.claim.wake_at is not None
        assert [each.receipt for each in await store.due_claims(woken.claim.wake_at, limit=10)] == [
            "OTHER ü",
            _RECEIPT,
        ]


async def check_open_claims_of_a_payment_are_found_among_many(open_store: OpenStore) -> None:
    """The open claims that name a payment are found however many others wait before them; a settled
    one is none of them."""
    named = reference(9)
    woke = evolve(_WOKE, payment=named)
    async with open_store() as store:
        others = ((claimed(f"OTHER{number}", number), NOON) for number in range(20, 40))
        await submit_batch(store, (creation(9), NOON), *others)
        await submit_batch(
            store,
            (claimed(_RECEIPT, 1, payment=named), after_noon(1)),
            (woke, after_noon(31 * clock.SECOND)),
        )
    async with open_store() as store:
        (found,) = await store.open_claims(named)
        assert (found.receipt, found.payment, found.version) == (_RECEIPT, named, 2)
        assert await store.open_claims(reference(8)) == []
        await submit_batch(store, (woke, later(NOON, Span(2 * clock.DAY))))
        assert await store.open_claims(named) == []


async def check_claim_settles_once(open_store: OpenStore) -> None:
    """A settled claim is never due and settles nothing else; a withdrawn one is gone, and may be
    made again."""
    async with open_store() as store:
        await submit_batch(store, (claimed(_RECEIPT, 1), NOON), (_UNKNOWN, after_noon(1)))
        assert await store.deposit_claim("sandbox", _RECEIPT) is None
        (entry,) = await store.admin.suspense()
        assert entry.reason == "unconfirmed_deposit"
        again = await submit_batch(
            store, (claimed(_RECEIPT, 2), after_noon(2)), (_UNKNOWN, after_noon(3))
        )
        assert all(isinstance(each, Ignored) for each in again)
        await submit_batch(store, (claimed(_RECEIPT, 3), after_noon(4)))
    async with open_store() as store:
        replies = await submit_batch(store, (_PAID, after_noon(5)), (_PAID, after_noon(6)))
        assert [type(each) for each in replies] == [Applied, Ignored]
        assert await store.transaction(reference(3)) is not None
        assert await store.deposit_of("sandbox", _RECEIPT) == reference(3)
        assert await store.deposit_of("other", _RECEIPT) is None
        settled = await store.deposit_claim("sandbox", _RECEIPT)
        assert settled is not None
        assert settled.wake_at is None
        assert await store.due_claims(later(NOON, Span(9 * clock.DAY)), limit=10) == []
        assert (await store.admin.backlog(NOON, overdue_before=NOON)).deposit_claims == 0
        (repeated,) = await submit_batch(store, (claimed(_RECEIPT, 4), after_noon(7)))
        assert isinstance(repeated, Ignored)
        assert await store.transaction(reference(4)) is None


async def check_listing_begins_where_the_last_one_ended(open_store: OpenStore) -> None:
    """A provider's payments are listed once in an interval, from the time until which all are
    known."""
    interval = Span(60)
    async with open_store() as store:
        assert await store.begin_listing("kenya", NOON, interval=interval) == NOON
        assert await store.begin_listing("kenya", after_noon(59), interval=interval) is None
        await store.save_listed("kenya", after_noon(50))
        await store.save_listed("kenya", after_noon(40))
    async with open_store() as store:
        assert await store.begin_listing("kenya", after_noon(60), interval=interval) == after_noon(
            50
        )
        assert await store.begin_listing("other", after_noon(60), interval=interval) == after_noon(
            60
        )


async def check_claim_is_woken_by_one_process(open_store: OpenStore) -> None:
    """Of two processes that find a claim due, one asks the provider."""
    async with open_store() as one, open_store() as two:
        await submit_batch(one, (claimed(_RECEIPT, 1), NOON))
        assert await one.due_claims(NOON, limit=10) == await two.due_claims(NOON, limit=10) != []
        (first,) = await submit_batch(one, (_WOKE, after_noon(1)))
        (second,) = await submit_batch(two, (_WOKE, after_noon(2)))
        assert (type(first), type(second)) == (ClaimDue, Ignored)

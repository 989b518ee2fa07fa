"""Checks of what processes rely on that share a store: one owner of a channel, claims under its
fence, shares."""

from __future__ import annotations

from collections.abc import Sequence

from mmo_sansio.messages.inputs import (
    BeginSubmission,
    CallbackConcluded,
    DepositAnswered,
    DepositClaimWoke,
    Input,
)
from mmo_sansio.messages.intents import DeliverCallback
from mmo_sansio.messages.replies import Applied, Ignored
from mmo_sansio.messages.reversals import RequestReversal, ReversalWoke
from mmo_sansio.payments.decide import decide, reads
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import Ledger
from mmo_sansio.resilience.circuit_breaker import (
    INITIAL_SNAPSHOT,
    BreakerSnapshot,
    BreakerState,
    SubWindow,
)
from mmo_sansio.resilience.ownership import OVERDUE_AFTER, Channel, OwnershipCounts
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Instant, MonotonicInstant, Span, later
from mmo_sansio.values.model import DepositAnswerOutcome
from mmo_sansio.values.money import Money
from mmo_sansio.values.reversals import reversal_id
from mmo_trio.storage.interface.store import ChannelOwnership, WorkItem
from mmo_trio.storage.sql.store import Store
from tests.conformance.driver import NOON, OpenStore, after_noon, create_payments, submit_batch
from tests.conformance.inputs import DELIVERED, claimed, creation, reference, succeeded

OPEN_BREAKER = BreakerSnapshot(
    BreakerState.OPEN,
    MonotonicInstant(NOON + 30 * clock.SECOND),
    None,
    3,
    (SubWindow(MonotonicInstant(NOON), 1, 4), SubWindow(MonotonicInstant(NOON + 7), 0, 1)),
)


async def check_breakers_survive_restart(open_store: OpenStore) -> None:
    """A merchant's breaker is where its last outcome left it, after a restart too (K5)."""
    async with open_store() as store:
        assert not await store.breakers()
        await complete_payment(store, 1, NOON)
        await complete_payment(store, 2, after_noon(10))
        await complete_payment(store, 3, after_noon(20), brand_id="globex")
        await conclude_callback(store, 1, after_noon(30), breaker=INITIAL_SNAPSHOT)
        await conclude_callback(store, 2, after_noon(31), breaker=OPEN_BREAKER)
        await conclude_callback(store, 3, after_noon(32))
    async with open_store() as store:
        breakers = await store.breakers()
        assert breakers["acme"] == OPEN_BREAKER
        assert breakers.get("globex", INITIAL_SNAPSHOT) == INITIAL_SNAPSHOT


async def check_channel_has_one_owner(open_store: OpenStore) -> None:
    """Whichever process commits them, a merchant's callbacks go to the owner of its channel, each
    once (K3)."""
    async with open_store() as one, open_store() as other:
        ours, theirs = ownership_of(one), ownership_of(other)
        assert await ours.renew_lease() != await theirs.renew_lease()
        assert not await ours.claim()
        await complete_payment(one, 1, NOON)
        assert await ours.claim() == [Channel("acme", 1, INITIAL_SNAPSHOT)]
        assert not await theirs.claim()
        await complete_payment(other, 2, after_noon(10))
        await complete_payment(other, 3, after_noon(20), brand_id="globex")
        assert not await theirs.find_callbacks({"acme": 10, "globex": 10})
        assert found_fences(await ours.find_callbacks({"acme": 1, "globex": 10})) == [(1, 1)]
        taken = {"acme": [reference(1)]}
        assert found_fences(await ours.find_callbacks({"acme": 10, "globex": 10}, taken=taken)) == [
            (2, 1)
        ]
        assert found_fences(await ours.find_callbacks({"acme": 10}, known={"acme": 1})) == [
            (1, 1),
            (2, 1),
        ]
        assert not await ours.find_callbacks({"acme": 10}, known={"acme": 2})
        assert not await one.claim_abandoned(limit=10)
        assert [each.brand for each in await theirs.claim()] == ["globex"]
        assert not await ours.claim()
        (work,) = await theirs.find_callbacks({"acme": 10, "globex": 10})
        assert work.intent == DeliverCallback(reference(3), 1)
        assert work.transaction == await one.transaction(reference(3))


async def check_ownership_counts(open_store: OpenStore) -> None:
    """Living processes are counted with their channels, and a channel can be left to others
    (K3)."""
    async with open_store() as one, open_store() as other:
        ours, theirs = ownership_of(one), ownership_of(other)
        assert await ours.counts() == OwnershipCounts(alive=2, held=0)
        await complete_payment(one, 1, NOON)
        await complete_payment(one, 2, after_noon(10), brand_id="globex")
        assert [each.brand for each in await ours.claim(excluding=["globex"])] == ["acme"]
        assert await theirs.counts() == OwnershipCounts(alive=2, held=1)
        assert not await theirs.claim(excluding=["globex", "nobody"])
        assert [each.brand for each in await theirs.claim()] == ["globex"]
        assert await ours.counts() == OwnershipCounts(alive=2, held=2)
        await ours.end_lease()
        assert await theirs.counts() == OwnershipCounts(alive=1, held=1)


async def check_next_owner_goes_on(open_store: OpenStore) -> None:
    """The next owner finds what the one before had not concluded, before what came later; of two
    outcomes the first is recorded, and an earlier owner's breaker changes nothing (K3, K5)."""
    async with open_store() as one, open_store() as other:
        ours, theirs = ownership_of(one), ownership_of(other)
        for number in range(4):
            await complete_payment(one, number, after_noon(10 * number))
        await ours.claim()
        assert len(await ours.find_callbacks({"acme": 10, "globex": 10})) == 4
        assert isinstance(
            await conclude_callback(one, 0, after_noon(50), fence=1, breaker=OPEN_BREAKER), Applied
        )
        await complete_payment(one, 4, after_noon(40))
        await ours.end_lease()
        assert not await ours.claim()
        assert await theirs.claim() == [Channel("acme", 2, OPEN_BREAKER)]
        assert not await ours.find_callbacks({"acme": 10})
        assert found_fences(await theirs.find_callbacks({"acme": 2, "globex": 10})) == [
            (1, 2),
            (2, 2),
        ]
        late = await conclude_callback(one, 1, after_noon(51), fence=1, breaker=INITIAL_SNAPSHOT)
        assert isinstance(late, Applied)
        assert (await one.breakers())["acme"] == OPEN_BREAKER
        assert isinstance(await conclude_callback(other, 1, after_noon(53), fence=2), Ignored)
        assert isinstance(await conclude_callback(other, 3, after_noon(54), fence=2), Applied)
        assert isinstance(await conclude_callback(one, 3, after_noon(55), fence=1), Ignored)
        assert found_fences(await theirs.find_callbacks({"acme": 10, "globex": 10})) == [
            (2, 2),
            (4, 2),
        ]
        recorded = [each.gateway_reference for each in await one.admin.callbacks()]
        assert recorded == [reference(0), reference(1), reference(3)]


async def check_channel_release(open_store: OpenStore) -> None:
    """A released channel is free at once, with the breaker that its owner leaves; an outdated fence
    frees nothing, and excluded callbacks stay (K3, K5)."""
    async with open_store() as one, open_store() as other:
        ours, theirs = ownership_of(one), ownership_of(other)
        await complete_payment(one, 1, NOON)
        await complete_payment(one, 2, after_noon(10))
        await ours.claim()
        await ours.release({"acme": 0, "nobody": 1}, {"acme": OPEN_BREAKER})
        assert not await theirs.claim()
        await ours.release({"acme": 1}, {"acme": OPEN_BREAKER})
        assert await theirs.claim() == [Channel("acme", 2, OPEN_BREAKER)]
        await ours.release({"acme": 1}, {})
        assert not await ours.claim()
        number = await theirs.renew_lease()
        await theirs.end_lease()
        assert await theirs.renew_lease() > number
        assert [each.fence for each in await ours.claim()] == [3]
        taken = {"acme": [reference(1)], "globex": [reference(2)]}
        assert found_fences(
            await ours.find_callbacks({"acme": 10}, taken=taken, afresh=["acme"])
        ) == [(2, 3)]
        assert isinstance(await conclude_callback(one, 1, after_noon(50), fence=1), Applied)


async def check_due_transactions_are_shared(open_store: OpenStore) -> None:
    """Each payment is due in one living process, and in all once it is long overdue (S3)."""
    everything = {reference(number) for number in range(40)}
    expiry = after_noon(3 * clock.DAY)
    async with open_store() as one:
        await create_payments(one, range(40))
        assert set(await one.due(later(expiry, Span(40)), limit=99)) == everything
        async with open_store() as other:
            mine = set(await one.due(later(expiry, Span(40)), limit=99))
            yours = set(await other.due(later(expiry, Span(40)), limit=99))
            assert mine, "a share is empty"
            assert yours, "a share is empty"
            assert mine | yours == everything
            assert not mine & yours
            assert (
                set(await one.due(later(later(expiry, Span(40)), OVERDUE_AFTER), limit=99))
                == everything
            )
        assert set(await one.due(later(expiry, Span(40)), limit=99)) == everything


async def check_abandoned_submissions(open_store: OpenStore) -> None:
    """A submission belongs to the process that committed it, and to one other once that is gone
    (S6)."""
    async with open_store() as one, open_store() as two:
        async with open_store() as other:
            await create_payments(other, range(6))
            assert not await one.claim_abandoned(limit=10)
        first, second = await one.claim_abandoned(limit=3), await two.claim_abandoned(limit=10)
        taken = [work.intent.gateway_reference for work in (*first, *second)]
        assert sorted(taken) == [reference(number) for number in range(6)]
        assert not await one.claim_abandoned(limit=10)


async def check_overtaken_batch_is_decided_again(open_store: OpenStore) -> None:
    """What another process has changed since it was decided is not stored, but decided again: a
    payment is submitted, a claim asked after or ended, and money sent back by one of them (S1, S4,
    S6)."""
    asked = RequestReversal(
        reference(2),
        "acme",
        Money(1_000, "KES"),
        reason="Paid twice.",
        user="amina",
        needs_approval=False,
        daily_max=Money(100_000, "KES"),
    )
    told = reversal_id(reference(2), 1)
    woke = DepositClaimWoke("sandbox", "ASKED")
    unknown = DepositAnswered("sandbox", "ENDED", DepositAnswerOutcome.FAILED)
    async with open_store() as one, open_store() as other:
        await submit_batch(
            one,
            (creation(1), NOON),
            (creation(2), after_noon(1)),
            (claimed("ASKED", 3), after_noon(2)),
            (claimed("ENDED", 4), after_noon(3)),
        )
        await complete_submission(one, 2, after_noon(4))
        await submit_batch(one, (asked, after_noon(10)))

        await be_overtaken(one, other, BeginSubmission(reference(1)))
        await be_overtaken(one, other, ReversalWoke(told, "one"), ReversalWoke(told, "other"))
        await be_overtaken(one, other, woke)
        await be_overtaken(one, other, unknown)
        (entry,) = await one.admin.suspense()
        assert entry.times == 1


async def be_overtaken(one: Store, other: Store, late: Input, first: Input | None = None) -> None:
    """Let `other` commit its input, which is the same unless it is given, between `one`'s decision
    and its commit; the commit is refused, and what is decided then is no longer the same."""
    now = after_noon(20)
    overtaken: list[Decision] = []

    def decide_only(ledger: Ledger) -> Sequence[Decision]:
        overtaken[:] = [decide(ledger, late, now=now)]
        return ()

    await one.transact(reads(late), decide_only)
    await submit_batch(other, (first or late, now))
    rounds: list[Sequence[Decision]] = []

    def decide_late(ledger: Ledger) -> Sequence[Decision]:
        decided = overtaken
        if rounds:
            decided = [decide(ledger, late, now=now)]

        rounds.append(decided)
        return decided

    await one.transact(reads(late), decide_late)
    assert len(rounds) > 1, f"{type(late).__name__} was stored as it was decided before"
    assert rounds[-1] != overtaken


def ownership_of(store: Store) -> ChannelOwnership:
    """Return the ownership of a store that is shared."""
    assert store.ownership is not None, "the store isn't shared"
    return store.ownership


async def complete_payment(
    store: Store, number: int, now: Instant, *, brand_id: str = "acme"
) -> None:
    """Take a payment from its creation to its success."""
    await submit_batch(store, (creation(number, brand_id=brand_id), now))
    await complete_submission(store, number, now)


async def complete_submission(store: Store, number: int, now: Instant) -> None:
    """Take a payment from its submission to its success."""
    await submit_batch(store, (BeginSubmission(reference(number)), later(now, Span(1))))
    await submit_batch(store, (succeeded(number), later(now, Span(2))))


async def conclude_callback(
    store: Store,
    number: int,
    now: Instant,
    *,
    fence: int = 0,
    breaker: BreakerSnapshot | None = None,
) -> object:
    """Conclude this payment's callback and return the reply."""
    (reply,) = await submit_batch(
        store, (CallbackConcluded(reference(number), DELIVERED, fence, breaker), now)
    )
    return reply


def found_fences(work_items: Sequence[WorkItem]) -> Sequence[tuple[int, int]]:
    """Return the payments' numbers, and the fences under which their callbacks were found."""
    return [
        (int(work.intent.gateway_reference[4:]), work.intent.fence)
        for work in work_items
        if isinstance(work.intent, DeliverCallback)
    ]

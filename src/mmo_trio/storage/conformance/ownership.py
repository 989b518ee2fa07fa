"""What processes that share a store rely on: one owner of a merchant's channel, claims under its fence, and shares."""

from __future__ import annotations

from collections.abc import Sequence

from mmo_sansio.messages.inputs import BeginSubmission, CallbackConcluded
from mmo_sansio.messages.intents import DeliverCallback
from mmo_sansio.messages.replies import Ignored, Noted
from mmo_sansio.resilience.circuit_breaker import FRESH, BreakerSnapshot, BreakerState, SubWindow
from mmo_sansio.resilience.ownership import OVERDUE, Channel, Standing
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Instant
from mmo_trio.storage.conformance.driver import NOON, OpenStore, feed
from mmo_trio.storage.conformance.inputs import DELIVERED, creation, reference, succeeded
from mmo_trio.storage.interface.store import Channels, Store, Work

OPEN = BreakerSnapshot(
    BreakerState.OPEN,
    NOON + 30 * clock.SECOND,
    None,
    3,
    (SubWindow(NOON, 1, 4), SubWindow(NOON + 7, 0, 1)),
)


async def check_breakers_are_kept(open_store: OpenStore) -> None:
    """A merchant's breaker is where its last outcome left it, after a restart too (K5)."""
    async with open_store() as store:
        assert not await store.breakers()
        await end(store, 1, NOON)
        await end(store, 2, NOON + 10)
        await end(store, 3, NOON + 20, of="globex")
        await conclude(store, 1, NOON + 30, breaker=FRESH)
        await conclude(store, 2, NOON + 31, breaker=OPEN)
        await conclude(store, 3, NOON + 32)
    async with open_store() as store:
        kept = await store.breakers()
        assert kept["acme"] == OPEN
        assert kept.get("globex", FRESH) == FRESH


async def check_one_process_holds_a_channel(open_store: OpenStore) -> None:
    """Whoever committed them, a merchant's callbacks go to the one process that holds its channel, each once (K3)."""
    async with open_store() as one, open_store() as other:
        ours, theirs = shared(one), shared(other)
        assert await ours.renew() != await theirs.renew()
        assert not await ours.take()
        await end(one, 1, NOON)
        assert await ours.take() == [Channel("acme", 1, FRESH)]
        assert not await theirs.take()
        await end(other, 2, NOON + 10)
        await end(other, 3, NOON + 20, of="globex")
        assert not await theirs.take_callbacks({"acme": 10, "globex": 10})
        assert fences(await ours.take_callbacks({"acme": 1, "globex": 10})) == [(1, 1)]
        assert fences(await ours.take_callbacks({"acme": 10, "globex": 10})) == [(2, 1)]
        assert not await ours.take_callbacks({"acme": 10, "globex": 10})
        assert not await one.orphans(limit=10)
        assert [each.brand for each in await theirs.take()] == ["globex"]
        assert not await ours.take()
        (work,) = await theirs.take_callbacks({"acme": 10, "globex": 10})
        assert work.intent == DeliverCallback(reference(3), 1)
        assert work.transaction == await one.transaction(reference(3))


async def check_processes_know_how_many_share_the_channels(open_store: OpenStore) -> None:
    """Who is alive is counted with what all of them hold, and a channel can be left to others (K3)."""
    async with open_store() as one, open_store() as other:
        ours, theirs = shared(one), shared(other)
        assert await ours.standing() == Standing(alive=2, held=0)
        await end(one, 1, NOON)
        await end(one, 2, NOON + 10, of="globex")
        assert [each.brand for each in await ours.take(but=["globex"])] == ["acme"]
        assert await theirs.standing() == Standing(alive=2, held=1)
        assert not await theirs.take(but=["globex", "nobody"])
        assert [each.brand for each in await theirs.take()] == ["globex"]
        assert await ours.standing() == Standing(alive=2, held=2)
        await ours.leave()
        assert await theirs.standing() == Standing(alive=1, held=1)


async def check_a_successor_claims_anew(open_store: OpenStore) -> None:
    """What the holder before had claimed and not concluded is claimed again, before what came later, and the later
    claim counts (K3, K5)."""
    async with open_store() as one, open_store() as other:
        ours, theirs = shared(one), shared(other)
        for number in range(4):
            await end(one, number, NOON + 10 * number)
        await ours.take()
        assert len(await ours.take_callbacks({"acme": 10, "globex": 10})) == 4
        assert isinstance(await conclude(one, 0, NOON + 50, fence=1, breaker=OPEN), Noted)
        await end(one, 4, NOON + 40)
        await ours.leave()
        assert not await ours.take()
        assert await theirs.take() == [Channel("acme", 2, OPEN)]
        assert fences(await theirs.take_callbacks({"acme": 2, "globex": 10})) == [(1, 2), (2, 2)]
        late = await conclude(one, 1, NOON + 51, fence=1, breaker=FRESH)
        assert isinstance(late, Ignored)
        unclaimed = await conclude(one, 3, NOON + 52, fence=1, breaker=FRESH)
        assert isinstance(unclaimed, Noted)
        assert (await one.breakers())["acme"] == OPEN
        assert isinstance(await conclude(other, 1, NOON + 53, fence=2), Noted)
        assert isinstance(await conclude(one, 1, NOON + 54, fence=1), Ignored)
        assert fences(await theirs.take_callbacks({"acme": 10, "globex": 10})) == [(4, 2)]
        assert not await theirs.take_callbacks({"acme": 10, "globex": 10})
        recorded = [each.gateway_reference for each in await one.callbacks()]
        assert recorded == [reference(0), reference(3), reference(1)]


async def check_a_channel_is_given_up(open_store: OpenStore) -> None:
    """What is given up is free at once; an outdated fence frees nothing, and what is in hand isn't claimed (K3)."""
    async with open_store() as one, open_store() as other:
        ours, theirs = shared(one), shared(other)
        await end(one, 1, NOON)
        await end(one, 2, NOON + 10)
        await ours.take()
        await ours.take_callbacks({"acme": 10, "globex": 10})
        await ours.give_up({"acme": 0, "nobody": 1})
        assert not await theirs.take()
        await ours.give_up({"acme": 1})
        assert [each.fence for each in await theirs.take()] == [2]
        await ours.give_up({"acme": 1})
        assert not await ours.take()
        number = await theirs.renew()
        await theirs.leave()
        assert await theirs.renew() > number
        assert [each.fence for each in await ours.take()] == [3]
        assert fences(await ours.take_callbacks({"acme": 10}, in_hand=[reference(1)])) == [(2, 3)]
        assert isinstance(await conclude(one, 1, NOON + 50, fence=1), Noted)


async def check_what_is_due_is_shared_out(open_store: OpenStore) -> None:
    """Each payment is woken by one process of those alive, and by any once it is long overdue (S3)."""
    everything = {reference(number) for number in range(40)}
    expiry = NOON + 3 * clock.DAY
    async with open_store() as one:
        await feed(one, *((creation(number), NOON + number) for number in range(40)))
        assert set(await one.woken(expiry + 40, limit=99)) == everything
        async with open_store() as other:
            mine = set(await one.woken(expiry + 40, limit=99))
            yours = set(await other.woken(expiry + 40, limit=99))
            assert mine, "a share is empty"
            assert yours, "a share is empty"
            assert mine | yours == everything
            assert not mine & yours
            assert set(await one.woken(expiry + 40 + OVERDUE, limit=99)) == everything
        assert set(await one.woken(expiry + 40, limit=99)) == everything


async def check_submissions_of_the_dead(open_store: OpenStore) -> None:
    """A submission is with the process that committed it, and with one of the others once that is gone (S6)."""
    async with open_store() as one, open_store() as two:
        async with open_store() as other:
            await feed(other, *((creation(number), NOON + number) for number in range(6)))
            assert not await one.orphans(limit=10)
        first, second = await one.orphans(limit=3), await two.orphans(limit=10)
        taken = [work.intent.gateway_reference for work in (*first, *second)]
        assert sorted(taken) == [reference(number) for number in range(6)]
        assert not await one.orphans(limit=10)


def shared(store: Store) -> Channels:
    """How this store is shared."""
    assert store.channels is not None, "the store isn't shared"
    return store.channels


async def end(store: Store, number: int, now: Instant, *, of: str = "acme") -> None:
    """A payment, from its creation to its success."""
    await feed(store, (creation(number, of=of), now))
    await feed(store, (BeginSubmission(reference(number)), now + 1))
    await feed(store, (succeeded(number), now + 2))


async def conclude(
    store: Store,
    number: int,
    now: Instant,
    *,
    fence: int = 0,
    breaker: BreakerSnapshot | None = None,
) -> object:
    """The reply to the outcome of this payment's callback."""
    (reply,) = await feed(
        store, (CallbackConcluded(reference(number), DELIVERED, fence, breaker), now)
    )
    return reply


def fences(works: Sequence[Work]) -> Sequence[tuple[int, int]]:
    """The payments' numbers, and the fences under which their callbacks are claimed."""
    return [
        (int(work.intent.gateway_reference[4:]), work.intent.fence)
        for work in works
        if isinstance(work.intent, DeliverCallback)
    ]

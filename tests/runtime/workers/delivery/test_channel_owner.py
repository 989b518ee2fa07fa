"""When several processes share a store, a merchant's callbacks have one sender and one breaker (K3,
K5)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from mmo_sansio.http.exchange import DeliveryOutcome
from mmo_sansio.messages.inputs import CallbackConcluded
from mmo_sansio.messages.intents import DeliverCallback
from mmo_sansio.resilience.ownership import LEASE_DURATION, RELEASE_AGAIN_AFTER, RELEASE_COOLDOWN
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Span
from mmo_trio.storage.interface.store import (
    ChannelOwnership,
    OutcomeUnknown,
    StoreUnavailable,
    WorkItem,
)
from mmo_trio.storage.postgres import open_postgres
from mmo_trio.storage.sqlite import open_sqlite
from mmo_trio.system.clock import GatewayClock
from mmo_trio.workers.channel_owner import CLAIMED_PER_BRAND_MAX, SCAN_INTERVAL_S
from tests.conformance.inputs import reference
from tests.simulation.stores.simulated_run import at_once, quiet_server
from tests.support.callback_nodes import Node, Receiver, TrioClock, recorded_outcomes, running_nodes
from tests.support.callback_work import monotonic_of_trio
from tests.support.sqlite_store import StoreFile

DELIVERED = DeliveryOutcome.DELIVERED
NON_2XX = DeliveryOutcome.NON_2XX
BREAKER_OPEN = DeliveryOutcome.BREAKER_OPEN
LEASE_S = LEASE_DURATION / clock.SECOND
MERCHANTS = [f"merchant-{number}" for number in range(10)]


def nodes(*names: str, receiver: Receiver) -> list[Node]:
    """Return nodes with these names on one store."""
    server = quiet_server()
    return [Node(name, at_once(server, name), receiver) for name in names]


@pytest.mark.spec("K3")
async def test_whoever_commits_it_a_callback_is_sent_once_and_by_the_channel_s_owner(
    autojump_clock: MockClock,
) -> None:
    receiver = Receiver(answering_s=1)
    one, other = nodes("one", "other", receiver=receiver)
    async with running_nodes(one, other):
        await one.pay(0)
        await recorded_outcomes(one.store, 0)
        for number in range(1, 41):
            await (one if number % 2 else other).pay(number)
        outcomes = await recorded_outcomes(one.store, *range(41))
    assert set(outcomes.values()) == {DELIVERED}
    assert sorted(receiver.references_from("one")) == [reference(number) for number in range(41)]
    assert not receiver.references_from("other")


@pytest.mark.spec("K3")
async def test_an_owner_takes_what_it_commits_itself_without_a_query(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver = Receiver()
    one, other = nodes("one", "other", receiver=receiver)
    found: list[str] = []
    for node in (one, other):
        assert node.store.ownership is not None
        monkeypatch.setattr(
            node.store.ownership, "find_callbacks", recording(node.store.ownership, found)
        )
    async with running_nodes(one, other):
        await one.pay(0)
        await trio.sleep(1)
        for number in range(1, 21):
            await one.pay(number)
            await other.pay(100 + number)
            await trio.sleep(0.2)
        await recorded_outcomes(one.store, *range(21), *range(101, 121))
    assert receiver.references_from("one") == [about for _, about, _ in receiver.sent], (
        "it has the channel"
    )
    assert len(receiver.sent) == 41
    assert set(found) == {reference(0), *map(reference, range(101, 121))}


@pytest.mark.spec("K3")
async def test_what_an_owner_took_while_a_query_was_under_way_is_not_sent_again(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The query's answer may be of before: what it contains may be sent and recorded by then."""
    receiver = Receiver(answering_s=0.05)
    (one,) = nodes("one", receiver=receiver)
    assert one.store.ownership is not None
    monkeypatch.setattr(one.store.ownership, "find_callbacks", answering_late(one.store.ownership))
    async with running_nodes(one):
        await one.pay(0)
        await trio.sleep(1)
        for number in range(1, 200):
            await one.pay(number)
            await trio.sleep(0.01)
        await recorded_outcomes(one.store, *range(200))
        await trio.sleep(10)
    assert sorted(receiver.references_from("one")) == [reference(number) for number in range(200)]


@pytest.mark.spec("K3")
async def test_a_commit_from_before_the_channel_was_claimed_is_not_sent_again(
    autojump_clock: MockClock,
) -> None:
    """Its answer comes late; meanwhile another process had the channel, and has sent and recorded
    it."""
    receiver = Receiver()
    one, other = nodes("one", "other", receiver=receiver)
    held: list[WorkItem] = []
    async with running_nodes(one) as processes:
        await one.pay(0)
        assert one.channel_owner is not None
        one.engine.outbox.put = held.append
        await one.pay(1)
        await recorded_outcomes(one.store, 0, 1)
        processes["one"].cancel()
    async with running_nodes(other):
        await other.pay(2)
        await recorded_outcomes(other.store, 2)
        assert other.channel_owner is not None
        (callback,) = (each for each in held if isinstance(each.intent, DeliverCallback))
        other.channel_owner.try_enqueue(callback)
        await trio.sleep(30)
    assert sorted(about for _, about, _ in receiver.sent) == [
        reference(number) for number in range(3)
    ]


@pytest.mark.spec("K3", "K6")
async def test_an_owner_that_commits_much_leaves_room_for_what_others_commit(
    autojump_clock: MockClock,
) -> None:
    receiver = Receiver(answering_s=1)
    one, other = nodes("one", "other", receiver=receiver)
    async with running_nodes(one, other):
        await one.pay(0)
        await trio.sleep(1)
        async with trio.open_nursery() as nursery:
            for number in range(1, 400):
                nursery.start_soon(one.pay, number)
                await trio.sleep(0.03)
                if number == 100:
                    await other.pay(1000)
                    ended_at = trio.current_time()
            await recorded_outcomes(one.store, 1000)
            (sent_at,) = (at for _, about, at in receiver.sent if about == reference(1000))
            assert sent_at - ended_at < 15


def recording(channels: ChannelOwnership, found: list[str]) -> Callable[..., Awaitable[object]]:
    """Return `find_callbacks` so that it records what it finds."""
    method = channels.find_callbacks

    async def find(*positional: Any, **named: Any) -> Sequence[WorkItem]:
        works = await method(*positional, **named)
        found.extend(each.transaction.reference for each in works)
        return works

    return find


def answering_late(channels: ChannelOwnership) -> Callable[..., Awaitable[object]]:
    """Return `find_callbacks` so that it takes a while to begin and to answer."""
    method = channels.find_callbacks

    async def find(*positional: Any, **named: Any) -> Sequence[WorkItem]:
        await trio.sleep(0.1)
        works = await method(*positional, **named)
        await trio.sleep(0.2)
        return works

    return find


@pytest.mark.spec("K3")
async def test_a_callback_committed_elsewhere_waits_for_one_poll(autojump_clock: MockClock) -> None:
    receiver = Receiver()
    one, other = nodes("one", "other", receiver=receiver)
    async with running_nodes(one, other):
        await one.pay(0)
        await recorded_outcomes(one.store, 0)
        await other.pay(1)
        ended_at = trio.current_time()
        await recorded_outcomes(one.store, 1)
    assert receiver.sent[1][0] == "one"
    assert receiver.sent[1][2] - ended_at <= 2 * SCAN_INTERVAL_S


@pytest.mark.spec("K5")
async def test_two_nodes_let_through_what_one_breaker_lets_through(
    autojump_clock: MockClock,
) -> None:
    async def sent_by(*together: Node) -> list[float]:
        began = trio.current_time()
        async with running_nodes(*together):
            for number in range(200):
                await together[number % len(together)].pay(number)
                await trio.sleep(0.5)
            outcomes = await recorded_outcomes(together[0].store, *range(200))
        receiver = together[0].receiver
        refused = sum(1 for outcome in outcomes.values() if outcome is BREAKER_OPEN)
        assert refused == 200 - len(receiver.sent)
        return [at - began for _, _, at in receiver.sent]

    async with StoreFile().open() as store:
        alone = await sent_by(Node("alone", store, Receiver(NON_2XX)))
    both = await sent_by(*nodes("one", "other", receiver=Receiver(NON_2XX)))
    assert len(alone) == len(both) == 5 + 3, "five open it, then a probe every 30 s"


@pytest.mark.spec("K5")
async def test_a_success_is_stored_with_the_breaker_once_in_six_seconds_and_a_failure_always(
    autojump_clock: MockClock,
) -> None:
    receiver, time = Receiver(), TrioClock()
    one, other = (
        Node(each.name, each.store, receiver, time)
        for each in nodes("one", "other", receiver=receiver)
    )
    saved: list[object] = []
    submit = one.callbacks._record_outcome

    async def record(concluded: CallbackConcluded) -> object:
        saved.append(concluded.breaker)
        return await submit(concluded)

    one.callbacks._record_outcome = record
    async with running_nodes(one, other):
        for number in range(40):
            await one.pay(number)
            await trio.sleep(0.3)
        receiver.answers = NON_2XX
        await one.pay(40)
        await recorded_outcomes(one.store, 40)
        receiver.answers = DELIVERED
        await one.pay(41)
        await recorded_outcomes(one.store, *range(42))
        assert [each is not None for each in saved].count(True) == 3
        assert saved[40] is not None
        one.drain.set()
        await other.pay(42)
        await recorded_outcomes(other.store, 42)
        ((_, breaker),) = (await other.store.breakers()).items()
    counts = [(each.successes, each.failures) for each in breaker.sub_windows]
    assert sum(successes for successes, _ in counts) == 42, (
        "the next owner has those that were not stored, too"
    )


async def drain_while_idle(node: Node, *, after_payments: int) -> None:
    """Let this node deliver the callbacks of so many payments, and drain it between two queries of
    the store."""
    for number in range(after_payments):
        await node.pay(number)
        await recorded_outcomes(node.store, number)
    await trio.sleep(SCAN_INTERVAL_S / 2)
    node.drain.set()


@pytest.mark.spec("K5")
async def test_an_owner_that_drains_passes_on_the_successes_that_are_not_stored(
    autojump_clock: MockClock,
) -> None:
    """Its callbacks have ended as soon as it is to drain, so no round releases its channels while
    it does."""
    one, other = nodes("one", "other", receiver=Receiver())
    async with running_nodes(one, other):
        await drain_while_idle(one, after_payments=3)
        await trio.sleep(2 * SCAN_INTERVAL_S)
        ((_, breaker),) = (await other.store.breakers()).items()
    assert sum(each.successes for each in breaker.sub_windows) == 3


@pytest.mark.spec("K3")
@pytest.mark.parametrize("trouble", [StoreUnavailable, OutcomeUnknown])
async def test_an_owner_that_cannot_pass_on_its_breakers_ends_its_lease_all_the_same(
    trouble: type[Exception], autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        await trio.lowlevel.checkpoint()
        raise trouble("out of order")

    one, other = nodes("one", "other", receiver=Receiver())
    monkeypatch.setattr(one.store.ownership, "release", fail)
    async with running_nodes(one, other):
        await drain_while_idle(one, after_payments=3)
        drained_at = trio.current_time()
        await other.pay(3)
        await recorded_outcomes(other.store, 3)
        assert trio.current_time() - drained_at <= 3 * SCAN_INTERVAL_S


@pytest.mark.spec("K5", "K3")
async def test_on_postgresql_a_dead_receiver_s_breaker_is_one_and_goes_with_the_channel(
    database: str,
) -> None:
    receiver, time = Receiver(NON_2XX), TrioClock()
    async with (
        open_postgres(database, serving=True) as first,
        open_postgres(database, serving=True) as second,
    ):
        one, other = (Node("one", first, receiver, time), Node("other", second, receiver, time))

        async def sent_for(numbers: range, *payers: Node) -> int:
            before = len(receiver.sent)
            for number in numbers:
                await payers[number % len(payers)].pay(number)
            await recorded_outcomes(second, *numbers)
            return len(receiver.sent) - before

        async with running_nodes(one, other):
            assert await sent_for(range(5), one, other) == 5, "five failures open it"
            assert await sent_for(range(5, 15), one, other) == 0
            time.advance(Span(31 * clock.SECOND))
            assert await sent_for(range(15, 25), one, other) == 1, "one probe"
            one.drain.set()
            assert await sent_for(range(25, 35), other) == 0, "the next owner's is open as well"
            time.advance(Span(31 * clock.SECOND))
            receiver.answers = DELIVERED
            assert await sent_for(range(35, 36), other) == 1, "the probe succeeds"
            assert await sent_for(range(36, 46), other) == 10


@pytest.mark.spec("K3")
async def test_on_postgresql_a_callback_is_sent_once_whoever_commits_it(database: str) -> None:
    receiver = Receiver(answering_s=0.05)
    async with (
        open_postgres(database, serving=True) as first,
        open_postgres(database, serving=True) as second,
    ):
        one, other = Node("one", first, receiver), Node("other", second, receiver)
        async with running_nodes(one, other):
            async with trio.open_nursery() as nursery:
                for number in range(60):
                    node = (one, other)[number % 2]
                    of = ("acme", "globex")[number // 2 % 2]
                    nursery.start_soon(partial(node.pay, number, of=of))
            outcomes = await recorded_outcomes(first, *range(60))
    assert set(outcomes.values()) == {DELIVERED}
    sent = [about for _, about, _ in receiver.sent]
    assert sorted(sent) == [reference(number) for number in range(60)]
    assert not set(receiver.references_from("one")) & set(receiver.references_from("other"))


@pytest.mark.spec("K5", "K3")
async def test_after_a_kill_another_goes_on_from_the_breaker_within_the_lease(
    autojump_clock: MockClock,
) -> None:
    receiver = Receiver(NON_2XX)
    one, other = nodes("one", "other", receiver=receiver)
    async with running_nodes(one, other) as processes:
        for number in range(5):
            await one.pay(number)
        await recorded_outcomes(one.store, *range(5))
        opened_at = trio.current_time()
        await trio.sleep(15)
        processes["one"].cancel()
        await other.pay(5)
        killed_at = trio.current_time()
        assert (await recorded_outcomes(other.store, 5))[5] is BREAKER_OPEN
        assert trio.current_time() - killed_at <= LEASE_S + 2 * SCAN_INTERVAL_S
        await trio.sleep(opened_at + 31 - trio.current_time())
        await other.pay(6)
        await other.pay(7)
        outcomes = await recorded_outcomes(other.store, 6, 7)
    assert sorted(outcomes.values()) == sorted([NON_2XX, BREAKER_OPEN]), "one probe"
    assert len(receiver.references_from("other")) == 1


@pytest.mark.spec("K3")
async def test_what_a_killed_owner_had_claimed_and_not_recorded_is_sent_by_the_next(
    autojump_clock: MockClock,
) -> None:
    receiver = Receiver(answering_s=5)
    one, other = nodes("one", "other", receiver=receiver)
    async with running_nodes(one, other) as processes:
        for number in range(40):
            await one.pay(number)
        await trio.sleep(1)
        processes["one"].cancel()
        outcomes = await recorded_outcomes(other.store, *range(40))
    assert set(outcomes.values()) == {DELIVERED}
    twice = set(receiver.references_from("one")) & set(receiver.references_from("other"))
    assert len(receiver.sent) == 40 + len(twice)
    assert len(twice) == 16, "those that were under way when it died"


@pytest.mark.spec("K3")
async def test_an_owner_that_was_stopped_for_longer_than_its_lease_sends_nothing_stale(
    autojump_clock: MockClock,
) -> None:
    slow, quick = Receiver(connecting_s=12), Receiver()
    server = quiet_server()
    one, other = (
        Node("one", at_once(server, "one"), slow),
        Node("other", at_once(server, "other"), quick),
    )
    async with running_nodes(one, other):
        for number in range(20):
            await one.pay(number)
        await trio.sleep(1)
        assert one.callbacks.statistics().active == 16
        one.channel_owner_scope.cancel()  # What stops a process stops the renewal of its lease.
        outcomes = await recorded_outcomes(other.store, *range(20))
        await trio.sleep(60)
        assert not one.callbacks.claimed()
    assert set(outcomes.values()) == {DELIVERED}
    assert not slow.sent
    assert sorted(quick.references_from("other")) == [reference(number) for number in range(20)]


@pytest.mark.spec("K3")
async def test_of_two_who_sent_it_the_first_outcome_is_recorded(autojump_clock: MockClock) -> None:
    slow, quick = Receiver(NON_2XX, answering_s=14), Receiver(answering_s=5)
    server = quiet_server()
    one, other = (
        Node("one", at_once(server, "one"), slow),
        Node("other", at_once(server, "other"), quick),
    )
    async with running_nodes(one, other):
        await one.pay(1)
        await trio.sleep(1)
        one.channel_owner_scope.cancel()
        assert await recorded_outcomes(other.store, 1) == {1: NON_2XX}
        await trio.sleep(20)
        assert await recorded_outcomes(other.store, 1) == {1: NON_2XX}
    assert (len(slow.sent), len(quick.sent)) == (1, 1)


@pytest.mark.spec("K3")
async def test_what_nobody_else_has_claimed_is_recorded_though_the_lease_was_lost(
    autojump_clock: MockClock,
) -> None:
    receiver = Receiver(answering_s=14)
    (one,) = nodes("one", receiver=receiver)
    async with running_nodes(one):
        await one.pay(1)
        await trio.sleep(1)
        one.channel_owner_scope.cancel()
        assert await recorded_outcomes(one.store, 1) == {1: DELIVERED}
        await trio.sleep(20)
    assert len(receiver.sent) == 1


@pytest.mark.spec("K3")
async def test_a_process_whose_lease_was_ended_does_not_go_on_with_its_channels_under_another(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it commits then is for their next owner to send."""
    receiver = Receiver()
    one, other = nodes("one", "other", receiver=receiver)
    async with running_nodes(one, other):
        await one.pay(0)
        await recorded_outcomes(one.store, 0)
        with monkeypatch.context() as unreachable:
            unreachable.setattr(one.store.ownership, "renew_lease", refuse)
            await trio.sleep(LEASE_S)
            await other.pay(1)
            await recorded_outcomes(other.store, 1)

        await trio.sleep(LEASE_S)
        assert one.channel_owner is not None
        assert one.channel_owner.owned.trusted_until > monotonic_of_trio(), "it has another lease"
        for number in range(2, 12):
            await one.pay(number)

        await recorded_outcomes(one.store, *range(12))

    assert receiver.references_from("one") == [reference(0)]
    assert sorted(receiver.references_from("other")) == [
        reference(number) for number in range(1, 12)
    ]


@pytest.mark.spec("K3")
async def test_what_was_released_while_a_lease_was_not_trusted_is_claimed_under_a_new_fence(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody has ended the lease. A search under the old fence begins behind what it has given out
    before."""
    receiver = Receiver(connecting_s=LEASE_S)
    (one,) = nodes("one", receiver=receiver)
    async with running_nodes(one):
        await one.pay(0)
        with monkeypatch.context() as unreachable:
            unreachable.setattr(one.store.ownership, "renew_lease", refuse)
            await trio.sleep(LEASE_S + 1)

        assert not receiver.sent, "the lease was not trusted when it was to be sent"
        receiver.connecting_s = 0.0
        assert await recorded_outcomes(one.store, 0) == {0: DELIVERED}
        assert one.channel_owner is not None
        assert one.channel_owner.owned.fences == {"acme": 2}

    assert receiver.references_from("one") == [reference(0)]


@pytest.mark.spec("K3")
@pytest.mark.parametrize("query", ["claim", "find_callbacks", "counts"])
async def test_a_process_that_has_lost_an_answer_keeps_its_lease_and_claims_its_channels_again(
    query: str, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver = Receiver()
    one, other = nodes("one", "other", receiver=receiver)
    async with running_nodes(one, other):
        await one.pay(0)
        await recorded_outcomes(one.store, 0)
        assert one.store.ownership is not None
        assert one.channel_owner is not None
        number = await one.store.ownership.renew_lease()
        with monkeypatch.context() as network:
            network.setattr(
                one.store.ownership, query, answer_lost(getattr(one.store.ownership, query))
            )
            await one.pay(1)
            await trio.sleep(LEASE_S / 2)

        await other.pay(2)
        assert await recorded_outcomes(one.store, 1, 2) == {1: DELIVERED, 2: DELIVERED}
        assert await one.store.ownership.renew_lease() == number
        assert one.channel_owner.owned.fences["acme"] > 1

    assert receiver.references_from("one") == [reference(number) for number in range(3)]


async def refuse(*_: object, **__: object) -> None:
    """Raise what a store does that nobody reaches."""
    await trio.lowlevel.checkpoint()
    raise StoreUnavailable("out of order")


def answer_lost(method: Callable[..., Awaitable[object]]) -> Callable[..., Awaitable[object]]:
    """Return this method so that it has its effect, and nobody learns of it."""

    async def ask(*positional: object, **named: object) -> object:
        await method(*positional, **named)
        raise OutcomeUnknown("no answer")

    return ask


@pytest.mark.spec("K6")
async def test_no_merchant_s_backlog_keeps_another_s_callbacks_out(
    autojump_clock: MockClock,
) -> None:
    receiver = Receiver(answering_s=1000)
    (one,) = nodes("one", receiver=receiver)
    async with running_nodes(one):
        for number in range(300):
            await one.pay(number)
        await trio.sleep(5)
        assert one.callbacks.statistics().waiting == CLAIMED_PER_BRAND_MAX - 16
        receiver.answering_s = 0
        await one.pay(300, of="globex")
        asked_at = trio.current_time()
        assert await recorded_outcomes(one.store, 300) == {300: DELIVERED}
        assert trio.current_time() - asked_at <= 2 * SCAN_INTERVAL_S


@pytest.mark.spec("K3")
async def test_an_owner_that_drains_hands_its_channels_on_at_once(
    autojump_clock: MockClock,
) -> None:
    receiver = Receiver(answering_s=3)
    one, other = nodes("one", "other", receiver=receiver)
    async with running_nodes(one, other):
        for number in range(40):
            await one.pay(number)
        await trio.sleep(1)
        one.drain.set()
        drained_at = trio.current_time()
        outcomes = await recorded_outcomes(other.store, *range(40))
        assert trio.current_time() - drained_at < LEASE_S + 3 * 3
    assert set(outcomes.values()) == {DELIVERED}
    assert len(receiver.sent) == 40, "nothing is sent twice"
    assert len(receiver.references_from("one")) == 16
    taken_over_at = min(at for sender, _, at in receiver.sent if sender == "other")
    assert taken_over_at - drained_at <= 3 + 4 * SCAN_INTERVAL_S


@pytest.mark.spec("K3")
async def test_who_comes_later_gets_a_share_of_the_merchants(autojump_clock: MockClock) -> None:
    """The share includes merchants that always have active callbacks, and it does not take long."""
    receiver, server = Receiver(answering_s=0.7), quiet_server()
    one = Node("one", at_once(server, "one"), receiver)
    ended_at: dict[str, float] = {}
    numbers = iter(range(10_000))

    async def pay_for(seconds: int) -> None:
        for _ in range(2 * seconds):
            for of in MERCHANTS:
                number = next(numbers)
                await one.pay(number, of=of)
                ended_at[reference(number)] = trio.current_time()
            await trio.sleep(0.5)

    def merchants_of(node: str, since: float) -> set[int]:
        sent = [about for sender, about, at in receiver.sent if sender == node and at >= since]
        return {list(ended_at).index(about) % len(MERCHANTS) for about in sent}

    async with running_nodes(one):
        await pay_for(5)
        async with running_nodes(Node("other", at_once(server, "other"), receiver)):
            await pay_for(30)
            shared_since = trio.current_time()
            await pay_for(10)
            await trio.sleep(3)
            assert len(merchants_of("one", shared_since)) == len(MERCHANTS) / 2
            assert len(merchants_of("other", shared_since)) == len(MERCHANTS) / 2
    assert sorted(about for _, about, _ in receiver.sent) == sorted(ended_at), "each once"
    waited = [at - ended_at[about] for _, about, at in receiver.sent]
    assert max(waited) <= 0.7 + 4 * SCAN_INTERVAL_S


@pytest.mark.spec("K3")
async def test_a_channel_that_nobody_else_wants_is_soon_taken_back_and_kept(
    autojump_clock: MockClock,
) -> None:
    receiver = Receiver()
    server = quiet_server()
    one, idle = Node("one", at_once(server, "one"), receiver), at_once(server, "idle")
    left_alone_s, let_go_again_s = (
        RELEASE_COOLDOWN / clock.SECOND,
        RELEASE_AGAIN_AFTER / clock.SECOND,
    )
    ended_at: list[float] = []

    async def renew() -> None:
        while True:
            assert idle.ownership is not None
            await idle.ownership.renew_lease()
            await trio.sleep(1)

    async with running_nodes(one), trio.open_nursery() as nursery:
        nursery.start_soon(renew)
        for number in range(240):
            await one.pay(number, of=MERCHANTS[number % 2])
            ended_at.append(trio.current_time())
            await trio.sleep(0.5)
        await recorded_outcomes(one.store, *range(240))
        nursery.cancel_scope.cancel()
    waited = [at - ended_at[int(about[-6:])] for _, about, at in receiver.sent]
    assert max(waited) <= left_alone_s + 2 * SCAN_INTERVAL_S
    late = [begun for begun, span in zip(ended_at, waited, strict=True) if span > SCAN_INTERVAL_S]
    assert len(late) <= 3 * (120 / let_go_again_s)


@pytest.mark.spec("K3", "P5")
@pytest.mark.parametrize("trouble", [StoreUnavailable, OutcomeUnknown, RuntimeError])
async def test_a_store_that_fails_for_a_while_costs_no_callback(
    trouble: type[Exception], autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """About a third of the queries about channels fails, before or after its effect."""
    receiver = Receiver(answering_s=1)
    one, other = nodes("one", "other", receiver=receiver)
    random = Random(11)
    for node in (one, other):
        for name in ("claim", "find_callbacks", "renew_lease", "counts", "release"):
            monkeypatch.setattr(
                node.store.ownership, name, failing(node.store.ownership, name, trouble, random)
            )
    async with running_nodes(one, other):
        for number in range(60):
            of = MERCHANTS[number % 5]
            await (one if number % 3 else other).pay(number, of=of)
            await trio.sleep(0.2)
        outcomes = await recorded_outcomes(one.store, *range(60))
    assert set(outcomes.values()) == {DELIVERED}
    if trouble is StoreUnavailable:
        assert len(receiver.sent) == 60


def failing(
    channels: ChannelOwnership | None, name: str, trouble: type[Exception], random: Random
) -> Callable[..., Awaitable[object]]:
    """Return this method so that it fails now and then."""
    method = getattr(channels, name)

    async def ask(*positional: object, **named: object) -> object:
        fails = random.random() < 0.3
        if fails and trouble is StoreUnavailable:
            await trio.lowlevel.checkpoint()
            raise trouble("out of order")
        answer: object = await method(*positional, **named)
        if fails:
            raise trouble("no answer")
        return answer

    return ask


@pytest.mark.spec("K5")
async def test_a_restart_keeps_an_open_breaker_open(tmp_path: Path) -> None:
    receiver = Receiver(NON_2XX)
    for numbers, expected in ((range(5), NON_2XX), (range(5, 8), BREAKER_OPEN)):
        async with open_sqlite(tmp_path / "gateway.db", serving=True) as store:
            node = Node("alone", store, receiver, GatewayClock())
            async with running_nodes(node):
                for number in numbers:
                    await node.pay(number)
                outcomes = await recorded_outcomes(store, *numbers)
        assert set(outcomes.values()) == {expected}
    assert len(receiver.sent) == 5

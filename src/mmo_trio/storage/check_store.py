"""The public suite for stores: every store that passes keeps the promises of `mmo_trio.storage.base.Store`.

    await check_store(fresh)                                     # all of it, or
    @pytest.mark.parametrize("check", CHECKS)                    # one test for each check

`fresh()` makes an empty storage and gives a function that opens it, each time as its one serving process: closing
and opening again is a restart.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from random import Random
from typing import TypeAlias

from attrs import evolve

from mmo_sansio import clock
from mmo_sansio.api.transaction_object import transaction_object
from mmo_sansio.changes import SuspenseNoted
from mmo_sansio.clock import Instant
from mmo_sansio.decide import decide, reads
from mmo_sansio.decisions import Decision
from mmo_sansio.gateway import Gateway
from mmo_sansio.inputs import (
    BeginSubmission,
    CallbackConcluded,
    DepositNotified,
    Input,
    TransactionWoke,
    UnmatchedNotified,
)
from mmo_sansio.intents import DeliverCallback, IntentKind, SubmitToProvider
from mmo_sansio.ledger import Ledger, NotPrefetched, Reads, merge
from mmo_sansio.model import Operation, ReferenceReuse, Status, Type
from mmo_sansio.money import Money
from mmo_sansio.queries import ListRecords, LookUp, LookUpByMerchantReference, Records
from mmo_sansio.replies import Accepted, Refused, Reply
from mmo_trio.storage.base import Store, StoreUnavailable, SuspenseEntry
from mmo_trio.storage.check_inputs import (
    DELIVERED,
    PAYER,
    brand,
    creation,
    random_inputs,
    reference,
    succeeded,
)

OpenStore: TypeAlias = Callable[[], AbstractAsyncContextManager[Store]]
Check: TypeAlias = Callable[[OpenStore], Awaitable[None]]

NOON: Instant = 1_700_000_000 * clock.SECOND


async def check_store(fresh: Callable[[], OpenStore]) -> None:
    """Run every check, each on an empty storage; raises AssertionError at the first broken promise."""
    for check in CHECKS:
        await check(fresh())


async def feed(store: Store, *given: tuple[Input, Instant]) -> Sequence[Reply]:
    """One batch, as an engine would do it."""

    def decide_all(ledger: Ledger) -> Sequence[Decision]:
        decisions = []
        for each, now in given:
            decision = decide(ledger, each, now=now)
            ledger.apply(decision.changes, decision.intents)
            decisions.append(decision)
        return decisions

    decisions = await store.transact(merge(reads(each) for each, _ in given), decide_all)
    return [decision.reply for decision in decisions]


async def check_an_empty_store(open_store: OpenStore) -> None:
    """Nothing there: nothing found, nothing due, nothing to do."""
    async with open_store() as store:
        await store.check()
        assert await store.latest_stamp() == 0
        assert await store.next_wake() is None
        assert not await store.woken(clock.LAST_INSTANT, limit=10)
        assert not await store.orphans(limit=10)
        assert await store.look_up(LookUp("acme", reference(1))) is None
        assert await store.look_up(LookUpByMerchantReference("acme", "order-1")) is None
        assert await store.transaction(reference(1)) is None
        assert await store.transaction_by_page_token("token-1") is None
        assert not await store.find_transactions()
        assert not await store.timeline(reference(1))
        assert not await store.callbacks()
        assert not await store.suspense()
        assert not await store.brands()
        nothing = Records((), None, None, has_previous=False, has_next=False)
        assert await store.list_records(ListRecords("acme", 0, NOON)) == nothing


async def check_a_payment_is_kept(open_store: OpenStore) -> None:
    """What was answered is there after a restart: in every look-up, on its page, in its timeline (C6, L1, L2)."""
    web = creation(2, operation=Operation.WEB_PAYIN)
    async with open_store() as store:
        replies = await feed(store, (creation(1), NOON), (web, NOON + 1))
        assert all(isinstance(reply, Accepted) for reply in replies)
    async with open_store() as store:
        kept = await store.transaction(reference(1))
        assert kept is not None
        assert isinstance(replies[0], Accepted)
        assert kept.order == replies[0].order
        rendered = transaction_object(kept)
        assert await store.look_up(LookUp("acme", reference(1))) == rendered
        assert await store.look_up(LookUp("globex", reference(1))) is None
        assert await store.look_up(LookUpByMerchantReference("acme", "order/1 ü")) == rendered
        assert await store.look_up(LookUpByMerchantReference("globex", "order/1 ü")) is None
        paged = await store.transaction_by_page_token("token-2")
        assert paged is not None
        assert paged.reference == reference(2)
        assert await store.transaction_by_page_token("token-1") is None
        assert [line.what for line in await store.timeline(reference(1))] == ["CreatePayment"]
        assert await store.latest_stamp() == NOON + 1


async def check_a_reference_is_consumed(open_store: OpenStore) -> None:
    """A reuse within the window is refused, across batches and within one; after it the newest use counts (C12)."""

    def use(number: int) -> Input:
        return creation(number, merchant_reference="order-1")

    later = NOON + 15 * clock.MINUTE
    async with open_store() as store:
        one, two = await feed(store, (use(1), NOON), (use(2), NOON + 1))
        (three,) = await feed(store, (use(3), later - 1))
        (four,) = await feed(store, (use(4), later))
        assert [type(each) for each in (one, two, three, four)] == [
            Accepted,
            Refused,
            Refused,
            Accepted,
        ]
        assert await store.transaction(reference(2)) is None
        newest = await store.transaction(reference(4))
        assert newest is not None
        found = await store.look_up(LookUpByMerchantReference("acme", "order-1"))
        assert found == transaction_object(newest)
        both = await store.find_transactions(reference="order-1")
        assert [each.reference for each in both] == [reference(4), reference(1)]
        (five,) = await feed(store, (use(5), later + 1))
        assert isinstance(five, Refused)


async def check_the_batch_law(open_store: OpenStore) -> None:
    """Any partition of a list of inputs into batches ends as the façade does, feeding them one by one (law 5)."""
    random = Random(2026)
    given = random_inputs(random, 700)
    oracle = Gateway()
    expected = [oracle.receive(each, now=now) for each, now in given]
    async with open_store() as store:
        replies: list[Reply] = []
        at = 0
        while at < len(given):
            size = random.choice((1, 2, 5, 40))
            replies += await feed(store, *given[at : at + size])
            at += size
        assert replies == expected
        await _compare(store, oracle)
    async with open_store() as store:
        await _compare(store, oracle)
        left = await store.orphans(limit=10_000)
        assert {(work.intent.gateway_reference, work.intent.kind) for work in left} == set(
            oracle.ledger.intents
        )
        for work in left:
            assert work.transaction == oracle.transaction(work.transaction.reference)


async def _compare(store: Store, oracle: Gateway) -> None:
    everything = list(oracle.ledger.transactions.values())
    for each in everything:
        mine = [line for line in oracle.journal if line.gateway_reference == each.reference]
        told = [call for call in oracle.callbacks if call.gateway_reference == each.reference]
        assert await store.transaction(each.reference) == each
        assert await store.timeline(each.reference) == mine
        assert await store.callbacks(gateway_reference=each.reference) == told
        assert await store.look_up(LookUp(each.order.brand, each.reference)) == transaction_object(
            each
        )
    for (of, merchant_reference), use in oracle.ledger.references.items():
        found = await store.look_up(LookUpByMerchantReference(of, merchant_reference))
        assert found == transaction_object(oracle.transaction(use.gateway_reference))
    for of in ("acme", "globex"):
        listed = await store.list_records(ListRecords(of, 0, clock.LAST_INSTANT, page_size=5_000))
        assert list(listed.objects) == [
            transaction_object(each) for each in everything if each.order.brand == of
        ]
    assert _book(await store.suspense()) == _counted(oracle.suspense)
    assert await store.next_wake() == oracle.next_wake()
    assert await store.latest_stamp() == max(line.at for line in oracle.journal)


def _book(entries: Iterable[SuspenseEntry]) -> list[tuple[object, ...]]:
    return [
        (e.reason, e.provider, e.told, e.gateway_reference, e.brand, e.first_at, e.last_at, e.times)
        for e in entries
    ]


def _counted(told: Iterable[SuspenseNoted]) -> list[tuple[object, ...]]:
    """The same told again for the same reason only counts up."""
    book: dict[object, list[SuspenseNoted]] = {}
    for each in told:
        identity = (each.provider, each.reason, each.gateway_reference, each.told)
        book.setdefault(identity, []).append(each)
    return [
        (a.reason, a.provider, a.told, a.gateway_reference, a.brand, a.at, same[-1].at, len(same))
        for same in book.values()
        for a in same[:1]
    ]


async def check_a_batch_is_all_or_nothing(open_store: OpenStore) -> None:
    """When `decide` raises, nothing of the batch is stored, the exception comes through, and service goes on."""

    class Bug(Exception):
        pass

    async with open_store() as store:

        def decide_and_fail(ledger: Ledger) -> Sequence[Decision]:
            decide(ledger, creation(1), now=NOON)
            raise Bug

        try:
            await store.transact(reads(creation(1)), decide_and_fail)
        except Bug:
            pass
        else:
            raise AssertionError("the exception didn't come through")
        assert await store.transaction(reference(1)) is None
        assert await store.latest_stamp() == 0
        assert isinstance((await feed(store, (creation(1), NOON)))[0], Accepted)


async def check_only_what_is_read_is_seen(open_store: OpenStore) -> None:
    """A key outside the reads is not "absent" but an error; a known deposit brings its transaction (law 1)."""
    deposit = DepositNotified("sandbox", "D1", "Sandbox", reference(9), brand(), "mobile_ke",
                              Money(1_000, "KES"), PAYER)  # fmt: skip

    def look(ledger: Ledger) -> Sequence[Decision]:
        try:
            ledger.transaction(reference(2))
        except NotPrefetched:
            return ()
        raise AssertionError("a key outside the reads was looked at")

    async with open_store() as store:
        await feed(store, (creation(1), NOON), (creation(2), NOON + 1), (deposit, NOON + 2))
        await store.transact(Reads(transactions=frozenset((reference(1),))), look)
        again = await feed(store, (deposit, NOON + 3), (deposit, NOON + 4))
        assert {getattr(reply, "reason", "") for reply in again} == {"The deposit is on record."}
        assert len(await store.find_transactions(brand="acme")) == 3


async def check_orphans_are_handed_out_once(open_store: OpenStore) -> None:
    """Kept intents are with the process that wrote them; what it leaves is handed out, oldest first, once."""
    async with open_store() as store:
        await feed(store, *((creation(number), NOON + number) for number in range(5)))
        await feed(store, (BeginSubmission(reference(0)), NOON + 10))
        await feed(store, (succeeded(0), NOON + 11))
        assert not await store.orphans(limit=10)
    async with open_store() as store:
        first, second = await store.orphans(limit=3), await store.orphans(limit=10)
        assert [work.intent for work in (*first, *second)] == [
            *(SubmitToProvider(reference(number)) for number in range(1, 5)),
            DeliverCallback(reference(0)),
        ]
        assert len(first) == 3
        assert first[0].transaction == await store.transaction(reference(1))
        assert not await store.orphans(limit=10)
    async with open_store() as store:
        await feed(store, (CallbackConcluded(reference(0), DELIVERED), NOON + 12))
        left = await store.orphans(limit=10)
        assert {work.intent.kind for work in left} == {IntentKind.SUBMIT}
        (recorded,) = await store.callbacks(gateway_reference=reference(0))
        assert recorded.attempt == DELIVERED
        (listed,) = await store.callbacks(brand="acme")
        assert listed.attempt.body == b""
        assert not await store.callbacks(brand="globex")


async def check_what_is_due(open_store: OpenStore) -> None:
    """`woken` gives what is due, the earliest first; what has ended never wakes (S3)."""
    async with open_store() as store:
        await feed(store, *((creation(number), NOON + number) for number in range(4)))
        await feed(store, (BeginSubmission(reference(3)), NOON + 10))
        due = await store.next_wake()
        assert due == NOON + 10 + 30 * clock.SECOND
        assert not await store.woken(due - 1, limit=10)
        assert await store.woken(due, limit=10) == [reference(3)]
        await feed(store, (succeeded(3), NOON + 11))
        expiry = NOON + 3 * clock.DAY
        assert await store.next_wake() == expiry
        assert await store.woken(expiry + 2, limit=2) == [reference(0), reference(1)]
        await feed(store, *((TransactionWoke(reference(n)), expiry + 4) for n in range(3)))
        assert await store.next_wake() is None


async def check_records_page_both_ways(open_store: OpenStore) -> None:
    """Every row once in order, forwards and backwards, and exact ends, with filters and at any page size (R1, R6)."""
    async with open_store() as store:
        for number in range(23):
            operation = Operation.DIRECT_PAYOUT if number % 3 == 0 else Operation.DIRECT_PAYIN
            of = "globex" if number % 7 == 3 else "acme"
            await feed(store, (creation(number, operation=operation, of=of), NOON + number // 2))
        for number in (1, 2, 3, 8):
            await feed(store, (BeginSubmission(reference(number)), NOON + 50 + number))
            await feed(store, (succeeded(number), NOON + 60 + number))
        whole = ListRecords("acme", NOON, NOON + 20)
        for query in (
            whole,
            ListRecords("acme", NOON, NOON + 20, type=Type.PAYOUT),
            ListRecords("acme", NOON, NOON + 20, status=Status.SUCCESS),
            ListRecords("acme", NOON, NOON + 20, status=Status.PENDING, method="mobile_ke"),
            ListRecords("acme", NOON + 3, NOON + 7),
            ListRecords("acme", NOON + 3, NOON + 7, method="Mobile_KE"),
        ):
            await _check_walk(store, query)
        every = (await store.list_records(whole)).objects
        assert len(every) == 20
        window = await store.list_records(ListRecords("acme", NOON + 1, NOON + 2))
        assert len(window.objects) == 1  # 2; 3 is another brand's, 4 is at the excluded end
        assert reference(2).encode() in window.objects[0]


async def _check_walk(store: Store, query: ListRecords) -> None:
    whole = (await store.list_records(evolve(query, page_size=5_000))).objects
    for size in (1, 3, 5_000):
        page = await store.list_records(evolve(query, page_size=size))
        forwards = list(page.objects)
        assert not page.has_previous
        while page.has_next:
            page = await store.list_records(evolve(query, page_size=size, after=page.last))
            assert page.has_previous
            assert page.objects
            forwards += page.objects
        assert tuple(forwards) == whole
        backwards = [page.objects]
        while page.has_previous:
            page = await store.list_records(evolve(query, page_size=size, before=page.first))
            assert page.has_next
            backwards.insert(0, page.objects)
        assert tuple(row for rows in backwards for row in rows) == whole


async def check_people_find_transactions(open_store: OpenStore) -> None:
    """By either reference, brand or status, the newest first."""
    async with open_store() as store:
        await feed(store, *((creation(number), NOON + number) for number in range(3)))
        await feed(store, (creation(3, of="globex", merchant_reference="order/1 ü"), NOON + 3))
        await feed(store, (BeginSubmission(reference(2)), NOON + 4), (succeeded(2), NOON + 5))

        async def found(**how: object) -> list[int]:
            return [int(each.reference[4:]) for each in await store.find_transactions(**how)]  # type: ignore[arg-type]

        assert await found() == [3, 2, 1, 0]
        assert await found(limit=2) == [3, 2]
        assert await found(reference="order/1 ü") == [3, 1]
        assert await found(reference="order/1 ü", brand="acme") == [1]
        assert await found(reference=reference(2)) == [2]
        assert await found(brand="acme") == [2, 1, 0]
        assert await found(status=Status.SUCCESS) == [2]
        assert await found(status=Status.PENDING, brand="acme", limit=1) == [1]


async def check_the_suspense_book(open_store: OpenStore) -> None:
    """An entry is counted up when told again, closed once with a reason, and stays closed (S5)."""
    async with open_store() as store:
        for number in range(3):
            await feed(store, (UnmatchedNotified("sandbox", "What?"), NOON + number))
        (entry,) = await store.suspense()
        assert (entry.times, entry.first_at, entry.last_at) == (3, NOON, NOON + 2)
        assert not await store.suspense(brand="acme")
        assert await store.close_suspense(entry.id, by="ada", note="a test call", now=NOON + 9)
        assert not await store.close_suspense(entry.id, by="bob", note="", now=NOON + 10)
        assert not await store.close_suspense(entry.id + 1, by="bob", note="", now=NOON + 10)
        await feed(store, (UnmatchedNotified("sandbox", "What?"), NOON + 11))
        assert not await store.suspense()
        (closed,) = await store.suspense(with_closed=True)
        assert (closed.closed_at, closed.closed_by, closed.note) == (NOON + 9, "ada", "a test call")
        assert closed.times == 4


async def check_brands_and_keys(open_store: OpenStore) -> None:
    """Brands come back as they were saved, keys oldest first; a retired key finds nothing any more (A4)."""
    async with open_store() as store:
        await store.save_brands([brand("globex"), brand("acme")])
        assert await store.add_key("acme", b"digest-1", b"sealed-1", now=NOON)
        assert await store.add_key("acme", b"digest-2", b"sealed-2", now=NOON + 1)
        assert not await store.add_key("globex", b"digest-1", b"sealed-3", now=NOON + 2)
        try:
            await store.add_key("nobody", b"digest-9", b"sealed-9", now=NOON)
        except KeyError:
            pass
        else:
            raise AssertionError("a key of no brand was taken")
    async with open_store() as store:
        acme, globex = await store.brands()
        assert (acme.brand, globex.brand) == (brand("acme"), brand("globex"))
        assert globex.brand.reference_reuse is ReferenceReuse.NEVER
        assert [key.sealed for key in acme.keys] == [b"sealed-1", b"sealed-2"]
        assert not globex.keys
        assert tuple(await store.keys_of("acme")) == acme.keys
        assert not await store.keys_of("globex")
        assert await store.brand_by_key(b"digest-1") == brand("acme")
        assert await store.brand_by_key(b"digest-9") is None
        old = acme.keys[0]
        assert not await store.retire_key("globex", old.id, now=NOON + 3)
        assert await store.retire_key("acme", old.id, now=NOON + 3)
        assert not await store.retire_key("acme", old.id, now=NOON + 4)
        assert await store.brand_by_key(b"digest-1") is None
        assert await store.brand_by_key(b"digest-2") == brand("acme")
        assert (await store.brands())[0].keys[0].retired_at == NOON + 3
        await store.save_brands([brand("initech")], removed=["acme"])
        assert [each.brand.id for each in await store.brands()] == ["globex", "initech"]
        assert await store.brand_by_key(b"digest-2") is None


async def check_a_closed_store_is_unavailable(open_store: OpenStore) -> None:
    """After closing, every call says so."""
    async with open_store() as store:
        await store.aclose()
        for call in (store.check, store.latest_stamp, lambda: feed(store, (creation(1), NOON))):
            try:
                await call()
            except StoreUnavailable:
                continue
            raise AssertionError("a closed store answered")


CHECKS: tuple[Check, ...] = (
    check_an_empty_store,
    check_a_payment_is_kept,
    check_a_reference_is_consumed,
    check_the_batch_law,
    check_a_batch_is_all_or_nothing,
    check_only_what_is_read_is_seen,
    check_orphans_are_handed_out_once,
    check_what_is_due,
    check_records_page_both_ways,
    check_people_find_transactions,
    check_the_suspense_book,
    check_brands_and_keys,
    check_a_closed_store_is_unavailable,
)
"""Every check, by itself."""

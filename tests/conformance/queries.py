"""Checks of what merchants and staff read: look-ups, records, the suspense book, brands and
keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import evolve

from mmo_sansio.api.outgoing import transaction_object
from mmo_sansio.messages.changes import SuspenseReason
from mmo_sansio.messages.inputs import BeginSubmission, UnmatchedNotified
from mmo_sansio.messages.queries import (
    ListRecords,
    LookUp,
    LookUpByMerchantReference,
    Position,
    Records,
)
from mmo_sansio.messages.replies import Accepted
from mmo_sansio.payments.stuck import STUCK_AFTER
from mmo_sansio.providers.common.balances import AccountBalance
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Operation, Status, Type
from mmo_sansio.values.money import Money
from mmo_trio.storage.interface.admin_types import (
    Backlog,
    ClosedProvider,
    KeyOwner,
    NoteTopic,
    PaymentFilter,
    PaymentPage,
    ProviderNote,
)
from mmo_trio.storage.interface.store import StoreUnavailable
from mmo_trio.storage.sql.store import Store
from tests.conformance.driver import NOON, OpenStore, after_noon, create_payments, submit_batch
from tests.conformance.inputs import brand, creation, failed, reference, succeeded


async def check_empty_store(open_store: OpenStore) -> None:
    """An empty store finds nothing, and nothing is due."""
    async with open_store() as store:
        await store.check()
        assert await store.next_wake() is None
        assert not await store.due(clock.LAST_INSTANT, limit=10)
        assert not await store.claim_abandoned(limit=10)
        assert await store.look_up(LookUp("acme", reference(1))) is None
        assert await store.look_up(LookUpByMerchantReference("acme", "order-1")) is None
        assert await store.transaction(reference(1)) is None
        assert not await store.transactions([])
        assert not await store.transactions([reference(1), reference(2)])
        assert await store.transaction_by_page_token("token-1") is None
        assert not await store.admin.find_transactions()
        assert not await store.admin.timeline(reference(1))
        assert not await store.admin.callbacks()
        assert not await store.admin.suspense()
        assert not await store.admin.brands()
        nothing = Records((), None, None, has_previous=False, has_next=False)
        assert await store.list_records(ListRecords("acme", Instant(0), NOON)) == nothing


async def check_payment_survives_restart(open_store: OpenStore) -> None:
    """An accepted payment is there after a restart: in every look-up, on its page, in its timeline
    (C6, L1, L2)."""
    web = creation(2, operation=Operation.WEB_PAYIN)
    async with open_store() as store:
        replies = await submit_batch(store, (creation(1), NOON), (web, after_noon(1)))
        assert all(isinstance(reply, Accepted) for reply in replies)
    async with open_store() as store:
        stored = await store.transaction(reference(1))
        assert stored is not None
        assert isinstance(replies[0], Accepted)
        assert stored.order == replies[0].order
        rendered = transaction_object(stored)
        assert await store.look_up(LookUp("acme", reference(1))) == rendered
        assert await store.look_up(LookUp("globex", reference(1))) is None
        assert await store.look_up(LookUpByMerchantReference("acme", "order/1 ü")) == rendered
        assert await store.look_up(LookUpByMerchantReference("globex", "order/1 ü")) is None
        several = await store.transactions([reference(2), reference(3), reference(1)])
        assert several == {
            each: await store.transaction(each) for each in (reference(1), reference(2))
        }
        paged = await store.transaction_by_page_token("token-2")
        assert paged is not None
        assert paged.reference == reference(2)
        assert await store.transaction_by_page_token("token-1") is None
        assert [line.input_name for line in await store.admin.timeline(reference(1))] == [
            "CreatePayment"
        ]


async def check_records_paging(open_store: OpenStore) -> None:
    """Pages list every row once in order, in both directions, with exact ends, any filter and size
    (R1, R6)."""
    async with open_store() as store:
        for number in range(23):
            operation = Operation.DIRECT_PAYOUT if number % 3 == 0 else Operation.DIRECT_PAYIN
            of = "globex" if number % 7 == 3 else "acme"
            await submit_batch(
                store, (creation(number, operation=operation, brand_id=of), after_noon(number // 2))
            )
        for number in (1, 2, 3, 8):
            await _succeed(store, number)
        whole = ListRecords("acme", NOON, after_noon(20))
        for query in (
            whole,
            ListRecords("acme", NOON, after_noon(20), type=Type.PAYOUT),
            ListRecords("acme", NOON, after_noon(20), status=Status.SUCCESS),
            ListRecords("acme", NOON, after_noon(20), status=Status.PENDING, method="mobile_ke"),
            ListRecords("acme", after_noon(3), after_noon(7)),
            ListRecords("acme", after_noon(3), after_noon(7), method="Mobile_KE"),
        ):
            await _check_paging(store, query)
        every = (await store.list_records(whole)).objects
        assert len(every) == 20
        window = await store.list_records(ListRecords("acme", after_noon(1), after_noon(2)))
        assert len(window.objects) == 1  # 2; 3 is another brand's, 4 is at the excluded end
        assert reference(2).encode() in window.objects[0]


async def _check_paging(store: Store, query: ListRecords) -> None:
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


async def check_records_of_an_emptied_page(open_store: OpenStore) -> None:
    """A page that was emptied meanwhile leads back to where it was reached from, and nowhere where
    nothing is (R6)."""
    async with open_store() as store:
        for number in range(1, 7):
            await submit_batch(store, (creation(number), after_noon(number)))
        query = ListRecords("acme", NOON, after_noon(20), status=Status.PENDING, page_size=2)
        first = await store.list_records(query)
        second = await store.list_records(evolve(query, after=first.last))
        third = await store.list_records(evolve(query, after=second.last))
        for number in (1, 2, 5, 6):
            await _succeed(store, number)
        before = await store.list_records(evolve(query, before=second.first))
        assert (before.objects, before.has_previous, before.has_next) == ((), False, True)
        assert (
            await store.list_records(evolve(query, after=before.last))
        ).objects == second.objects
        after = await store.list_records(evolve(query, after=second.last))
        assert (after.objects, after.has_previous, after.has_next) == ((), True, False)
        assert (
            await store.list_records(evolve(query, before=after.first))
        ).objects == second.objects
        for number in (3, 4):
            await _succeed(store, number)
        for each in (evolve(query, before=third.first), evolve(query, after=first.last)):
            page = await store.list_records(each)
            assert (page.objects, page.has_previous, page.has_next) == ((), False, False)


async def _succeed(store: Store, number: int) -> None:
    await submit_batch(store, (BeginSubmission(reference(number)), after_noon(50 + number)))
    await submit_batch(store, (succeeded(number), after_noon(60 + number)))


async def check_records_bytes(open_store: OpenStore) -> None:
    """A page ends before its objects have too many bytes, and a walk of such pages has no gap in
    either direction (R4, R6, R7)."""
    async with open_store() as store:
        for number in range(150):
            text = "x" * (1_000 * (number % 7))
            await submit_batch(
                store, (creation(number, labels=f'{{"note":"{text}"}}'), after_noon(number // 2))
            )
        whole = ListRecords("acme", NOON, after_noon(100), page_size=5_000)
        objects = (await store.list_records(whole)).objects
        assert len(objects) == 150
        largest = max(map(len, objects))
        for page_size in (100, 5_000):
            for bytes_max in (1, largest, 3 * largest, 30 * largest):
                query = evolve(whole, page_size=page_size, bytes_max=bytes_max)
                await _check_walk(store, query, objects)


async def _check_walk(store: Store, query: ListRecords, objects: Sequence[bytes]) -> None:
    page = await store.list_records(query)
    forwards = [page.objects]
    while page.has_next:
        following = await store.list_records(evolve(query, after=page.last))
        _check_page_ends(query, page.objects, following.objects[0])
        page = following
        forwards.append(page.objects)
    assert [each for each_page in forwards for each in each_page] == list(objects)
    backwards = [page.objects]
    while page.has_previous:
        previous = await store.list_records(evolve(query, before=page.first))
        assert previous.has_next
        if previous.has_previous:
            before = (
                await store.list_records(evolve(query, before=previous.first, page_size=1))
            ).objects
            _check_page_ends(query, previous.objects, before[0])
        page = previous
        backwards.insert(0, page.objects)
    assert [each for each_page in backwards for each in each_page] == list(objects)


def _check_page_ends(query: ListRecords, page: Sequence[bytes], following: bytes) -> None:
    """A page is as large as it may be, and no larger."""
    size = sum(map(len, page))
    assert size <= query.bytes_max or len(page) == 1
    assert len(page) == query.page_size or size + len(following) > query.bytes_max


async def check_find_transactions(open_store: OpenStore) -> None:
    """Transactions are found by either reference, brand or status, the newest first."""
    async with open_store() as store:
        await create_payments(store, range(3))
        await submit_batch(
            store, (creation(3, brand_id="globex", merchant_reference="order/1 ü"), after_noon(3))
        )
        await submit_batch(
            store, (BeginSubmission(reference(2)), after_noon(4)), (succeeded(2), after_noon(5))
        )

        async def found(**filters: Any) -> list[int]:
            transactions = await store.admin.find_transactions(**filters)
            return [int(each.reference[4:]) for each in transactions]

        assert await found() == [3, 2, 1, 0]
        assert await found(limit=2) == [3, 2]
        assert await found(reference="order/1 ü") == [3, 1]
        assert await found(reference="order/1 ü", brand="acme") == [1]
        assert await found(reference=reference(2)) == [2]
        assert await found(brand="acme") == [2, 1, 0]
        assert await found(status=Status.SUCCESS) == [2]
        assert await found(status=Status.PENDING, brand="acme", limit=1) == [1]


async def check_payment_selections(open_store: OpenStore) -> None:
    """Payments are selected by the time of creation, by provider and by the reason for which they
    failed, in pages."""

    def numbers(page: PaymentPage) -> list[int]:
        return [int(each.reference[4:]) for each in page.transactions]

    async with open_store() as store:
        await create_payments(store, range(5))
        await submit_batch(store, (creation(5, brand_id="globex"), after_noon(5)))
        begun = [(BeginSubmission(reference(number)), after_noon(6)) for number in (1, 2, 5)]
        await submit_batch(store, *begun)
        ended = (
            (failed(1), after_noon(7)),
            (succeeded(2), after_noon(7)),
            (failed(5), after_noon(7)),
        )
        await submit_batch(store, *ended)
        admin = store.admin
        between = PaymentFilter(begin=after_noon(2), end=after_noon(4))
        assert numbers(await admin.list_payments(between)) == [3, 2]
        first = await admin.list_payments(evolve(between, limit=1))
        assert numbers(first) == [3]
        assert numbers(
            await admin.list_payments(evolve(between, limit=1, before=first.next_position))
        ) == [2]
        upwards = await admin.list_payments(
            evolve(between, limit=1, after=Position(after_noon(1), reference(1)))
        )
        assert (numbers(upwards), upwards.next_position) == (
            [2],
            Position(after_noon(2), reference(2)),
        )
        assert numbers(await admin.list_payments(PaymentFilter(after=upwards.next_position))) == [
            5,
            4,
            3,
        ]
        [provider] = {
            each.order.provider
            for each in (await admin.list_payments(PaymentFilter())).transactions
        }
        routed = PaymentFilter(provider=provider, limit=4)
        page = await admin.list_payments(routed)
        assert numbers(page) == [5, 4, 3, 2]
        rest = await admin.list_payments(evolve(routed, before=page.next_position))
        assert (numbers(rest), rest.next_position) == ([1, 0], None)
        back = await admin.list_payments(
            evolve(routed, after=Position(after_noon(0), reference(0)))
        )
        assert (numbers(back), back.next_position is not None) == ([4, 3, 2, 1], True)
        assert numbers(await admin.list_payments(evolve(routed, brand="globex"))) == [5]
        assert numbers(await admin.list_payments(evolve(routed, status=Status.SUCCESS))) == [2]
        assert not (await admin.list_payments(PaymentFilter(provider="acme"))).transactions
        cancelled = PaymentFilter(error_code=ErrorCode.USER_CANCELLED)
        assert numbers(await admin.list_payments(cancelled)) == [5, 1]
        assert numbers(await admin.list_payments(evolve(cancelled, begin=after_noon(2)))) == [5]
        assert not (
            await admin.list_payments(evolve(cancelled, error_code=ErrorCode.USER_TIMEOUT))
        ).transactions


async def check_suspense_book(open_store: OpenStore) -> None:
    """An entry is counted up when repeated, closed once with a reason, and stays closed (S5)."""
    async with open_store() as store:
        for number in range(3):
            await submit_batch(store, (UnmatchedNotified("sandbox", "What?"), after_noon(number)))
        (entry,) = await store.admin.suspense()
        assert (entry.times, entry.first_at, entry.last_at) == (3, NOON, NOON + 2)
        assert not await store.admin.suspense(brand="acme")
        assert not await store.admin.suspense_entries(reasons=[SuspenseReason.LATE_RESULT])
        unreadable = [SuspenseReason.LATE_RESULT, SuspenseReason.UNREADABLE]
        assert await store.admin.suspense_entries(reasons=unreadable) == [entry]
        assert not await store.admin.suspense_entries(reasons=unreadable, before=entry.id)
        assert await store.admin.suspense_entries(after=entry.id - 1) == [entry]
        assert not await store.admin.suspense_entries(after=entry.id)
        assert await store.admin.close_suspense(
            entry.id, by="ada", note="a test call", now=after_noon(9)
        )
        assert not await store.admin.close_suspense(entry.id, by="bob", note="", now=after_noon(10))
        assert not await store.admin.close_suspense(
            entry.id + 1, by="bob", note="", now=after_noon(10)
        )
        await submit_batch(store, (UnmatchedNotified("sandbox", "What?"), after_noon(11)))
        assert not await store.admin.suspense()
        (closed,) = await store.admin.suspense(with_closed=True)
        assert (closed.closed_at, closed.closed_by, closed.note) == (NOON + 9, "ada", "a test call")
        assert closed.times == 4


async def check_brands_and_keys(open_store: OpenStore) -> None:
    """Brands are read as they were saved, keys oldest first; a retired key finds nothing any more
    (A4)."""
    async with open_store() as store:
        await store.admin.save_brands([brand("globex"), brand("acme")])
        assert await store.admin.add_key("acme", b"digest-1", b"sealed-1", now=NOON)
        assert await store.admin.add_key("acme", b"digest-2", b"sealed-2", now=after_noon(1))
        assert not await store.admin.add_key("globex", b"digest-1", b"sealed-3", now=after_noon(2))
        try:
            await store.admin.add_key("nobody", b"digest-9", b"sealed-9", now=NOON)
        except KeyError:
            pass
        else:
            raise AssertionError("a key of no brand was taken")
    async with open_store() as store:
        acme, globex = await store.admin.brands()
        assert (acme.brand, globex.brand) == (brand("acme"), brand("globex"))
        assert acme.brand.reference_reuse != globex.brand.reference_reuse
        assert [key.sealed for key in acme.keys] == [b"sealed-1", b"sealed-2"]
        assert not globex.keys
        assert await store.brand_record("acme") == acme
        assert await store.brand_record("globex") == globex
        assert await store.brand_record("nobody") is None
        assert await store.key_owner(b"digest-1") == KeyOwner(brand("acme"), str(acme.keys[0].id))
        assert await store.key_owner(b"digest-9") is None
        old = acme.keys[0]
        assert not await store.admin.retire_key("globex", old.id, now=after_noon(3))
        assert await store.admin.retire_key("acme", old.id, now=after_noon(3))
        assert not await store.admin.retire_key("acme", old.id, now=after_noon(4))
        assert await store.key_owner(b"digest-1") is None
        assert await store.key_owner(b"digest-2") == KeyOwner(brand("acme"), str(acme.keys[1].id))
        assert (await store.admin.brands())[0].keys[0].retired_at == NOON + 3
        initech = evolve(brand("initech"), host="Pay.Initech.example")
        await store.admin.save_brands([initech], removed=["acme"])
        saved = [record.brand for record in await store.admin.brands()]
        by_host = {each.host.lower(): each.id for each in saved if each.host}
        assert by_host["pay.initech.example"] == "initech"
        assert await store.brand_by_host() == by_host
        assert [each.brand.id for each in await store.admin.brands()] == ["globex", "initech"]
        assert await store.key_owner(b"digest-2") is None
        assert await store.brand_record("acme") is None
        await store.admin.save_brands([brand("acme")])
        assert await store.admin.add_key("acme", b"digest-2", b"sealed-4", now=after_noon(5))
        readded = await store.brand_record("acme")
        assert readded is not None
        (again,) = readded.keys
        assert again.id not in [key.id for key in acme.keys], (
            "a payment would seem to be made with another key"
        )


async def check_stuck_transactions(open_store: OpenStore) -> None:
    """Submissions without a result are found by their age, and a payment by the end of its
    reference (S6)."""
    async with open_store() as store:
        begun = [
            (BeginSubmission(reference(number)), after_noon(10 + number)) for number in (1, 2, 3)
        ]
        await submit_batch(store, *((creation(number), NOON) for number in (1, 2, 3, 4)), *begun)
        await submit_batch(store, (succeeded(2), after_noon(20)))
    async with open_store() as store:
        found = await store.admin.stuck_transactions(after_noon(STUCK_AFTER + 12))
        assert [each.reference for each in found] == [reference(1)]
        now = after_noon(STUCK_AFTER + 13)
        found = await store.admin.stuck_transactions(now)
        assert [each.reference for each in found] == [reference(1), reference(3)]
        assert len(await store.admin.stuck_transactions(now, limit=1)) == 1
        named = await store.transaction_by_suffix(reference(3)[-12:])
        assert named is not None
        assert named.reference == reference(3)
        assert await store.transaction_by_suffix("X" * 12) is None


async def check_backlog(open_store: OpenStore) -> None:
    """Pending, stuck and overdue payments, callbacks and suspense are counted."""
    stray = UnmatchedNotified("momo", '{"a":1}')
    async with open_store() as store:
        assert await store.admin.backlog(NOON, overdue_before=NOON) == Backlog(0, 0, 0, 0, 0)
        begun = [
            (BeginSubmission(reference(number)), after_noon(9 + number)) for number in (1, 2, 4)
        ]
        await submit_batch(
            store, *((creation(number), after_noon(number)) for number in (1, 2, 3, 4)), *begun
        )
        await submit_batch(store, (succeeded(2), after_noon(20)), (stray, after_noon(21)))
    async with open_store() as store:
        now = after_noon(STUCK_AFTER + 10)
        found = await store.admin.backlog(now, overdue_before=NOON)
        assert found == Backlog(pending=3, stuck=1, overdue=0, callbacks=1, suspense=1)
        assert [each.reference for each in await store.admin.stuck_transactions(now)] == [
            reference(1)
        ]
        (entry,) = await store.admin.suspense()
        await store.admin.close_suspense(entry.id, by="ada", note="seen", now=after_noon(30))
        after = clock.LAST_INSTANT
        found = await store.admin.backlog(after, overdue_before=after)
        assert found == Backlog(pending=3, stuck=2, overdue=3, callbacks=1, suspense=0)
        listed = await store.admin.stuck_transactions(after)
        assert [each.reference for each in listed] == [reference(1), reference(4)]


async def check_closed_providers(open_store: OpenStore) -> None:
    """A provider stays closed until it is opened."""
    closed = ClosedProvider("momo", NOON, "ada", "out of order")
    async with open_store() as store:
        assert await store.admin.close_provider(closed)
        assert not await store.admin.close_provider(evolve(closed, closed_by="bob"))
    async with open_store() as store:
        assert list(await store.admin.closed_providers()) == [closed]
        assert await store.admin.open_provider("momo")
        assert not await store.admin.open_provider("momo")
        assert not await store.admin.closed_providers()


async def check_provider_notes(open_store: OpenStore) -> None:
    """A note replaces the one of its subject, and only the expected one where it is named."""
    first = ProviderNote("momo", NoteTopic.CHECK, "", NOON, "asked")
    second, other = (
        evolve(first, at=after_noon(1)),
        evolve(first, topic=NoteTopic.FINDING, subject="pin"),
    )
    async with open_store() as store:
        assert await store.admin.note_provider(first, replacing=evolve(first, content=""))
        assert not await store.admin.note_provider(second, replacing=evolve(first, content=""))
        assert await store.admin.note_provider(second, replacing=first)
        assert await store.admin.note_provider(other)
    async with open_store() as store:
        assert list(await store.admin.provider_notes(NoteTopic.CHECK)) == [second]
        assert list(await store.admin.provider_notes(*NoteTopic)) == [second, other]
        await store.admin.remove_provider_notes("momo", NoteTopic.CHECK)
        assert list(await store.admin.provider_notes(*NoteTopic)) == [other]


async def check_provider_balances(open_store: OpenStore) -> None:
    """Balances are kept once, and given from a time on, the oldest first."""
    first = AccountBalance("mtn", "disbursement", Money(-5, "UGX"), NOON, is_float=True)
    second = AccountBalance(
        "ke", "Utility Account", Money(10**17, "KES"), after_noon(1), is_float=False
    )
    async with open_store() as store:
        await store.admin.record_balances([second, first])
        await store.admin.record_balances([evolve(first, amount=Money(7, "UGX"))])
    async with open_store() as store:
        assert list(await store.admin.provider_balances(NOON)) == [first, second]
        assert list(await store.admin.provider_balances(after_noon(1))) == [second]


async def check_closed_store_is_unavailable(open_store: OpenStore) -> None:
    """After closing, every call raises StoreUnavailable."""
    async with open_store() as store:
        await store.aclose()
        for call in (
            store.check,
            store.next_wake,
            lambda: submit_batch(store, (creation(1), NOON)),
        ):
            try:
                await call()
            except StoreUnavailable:
                continue
            raise AssertionError("a closed store answered")

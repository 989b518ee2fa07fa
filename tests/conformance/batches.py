"""Checks of what the engine relies on: batches, durable intents, and due transactions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random

from attrs import evolve

from mmo_sansio.api.outgoing import transaction_object
from mmo_sansio.messages.changes import SuspenseRecorded
from mmo_sansio.messages.inputs import (
    BeginSubmission,
    CallbackConcluded,
    DepositNotified,
    EndedPollConcluded,
    Input,
    ProviderAccepted,
    ProviderHinted,
    TransactionWoke,
)
from mmo_sansio.messages.intents import IntentKind, PollEnded
from mmo_sansio.messages.queries import ListRecords, LookUp, LookUpByMerchantReference
from mmo_sansio.messages.replies import Accepted, Rejected, Reply
from mmo_sansio.payments.decide import decide, reads
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.gateway import Gateway
from mmo_sansio.payments.ledger import Ledger, NotPrefetched, Reads
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Instant, Span, earlier, later
from mmo_sansio.values.model import Operation, ReferenceReuse, ReusePolicy, Source
from mmo_sansio.values.money import Money
from mmo_trio.storage.interface.admin_types import SuspenseEntry
from mmo_trio.storage.sql.store import Store
from tests.conformance.driver import (
    NOON,
    OpenStore,
    after_noon,
    claim_all_abandoned,
    create_payments,
    intent_key,
    submit_batch,
)
from tests.conformance.inputs import (
    DELIVERED,
    PAYER,
    brand,
    creation,
    failed,
    random_inputs,
    reference,
    succeeded,
)


async def check_reference_is_consumed(open_store: OpenStore) -> None:
    """A reuse is rejected within the window and while the payment is pending, across batches and
    within one; after both the newest use counts (C12)."""

    def use(number: int) -> Input:
        return creation(number, merchant_reference="order-1")

    window_end = after_noon(15 * clock.MINUTE)
    async with open_store() as store:
        one, two = await submit_batch(store, (use(1), NOON), (use(2), after_noon(1)))
        (three,) = await submit_batch(store, (use(3), earlier(window_end, Span(1))))
        pending, _, _, four = await submit_batch(
            store,
            (use(9), window_end),
            (BeginSubmission(reference(1)), later(window_end, Span(1))),
            (succeeded(1), later(window_end, Span(2))),
            (use(4), later(window_end, Span(3))),
        )
        replies = [type(each) for each in (one, two, three, pending, four)]
        assert replies == [Accepted, Rejected, Rejected, Rejected, Accepted]
        assert await store.transaction(reference(2)) is None
        newest = await store.transaction(reference(4))
        assert newest is not None
        found = await store.look_up(LookUpByMerchantReference("acme", "order-1"))
        assert found == transaction_object(newest)
        both = await store.admin.find_transactions(reference="order-1")
        assert [each.reference for each in both] == [reference(4), reference(1)]
        (five,) = await submit_batch(store, (use(5), later(window_end, Span(4))))
        assert isinstance(five, Rejected)


async def check_paid_reference_is_never_used_again(open_store: OpenStore) -> None:
    """`unless_paid` looks at every payment under the reference, not only at the newest; each use
    knows how those before it ended, in a batch and from the store (C12)."""
    loose, strict = ReusePolicy.same_for_all(ReferenceReuse.AFTER_WINDOW), ReusePolicy()

    def use(
        number: int, policy: ReusePolicy, operation: Operation = Operation.DIRECT_PAYIN
    ) -> Input:
        given = creation(number, merchant_reference="order-1", operation=operation)
        return evolve(given, brand=evolve(given.brand, reference_reuse=policy))

    def after_hours(hours: int, more: int = 0) -> Instant:
        return after_noon(hours * clock.HOUR + more)

    async def end(store: Store, number: int, result: Input) -> None:
        now = after_hours(number, 1)
        await submit_batch(
            store, (BeginSubmission(reference(number)), now), (result, later(now, Span(1)))
        )

    async with open_store() as store:
        await submit_batch(store, (use(1, strict), after_hours(1)))
        await end(store, 1, failed(1))
    async with open_store() as store:
        (retried,) = await submit_batch(store, (use(2, strict), after_hours(2)))
        assert isinstance(retried, Accepted), "only a failed payment stood in the way"
        await end(store, 2, succeeded(2))
        paid, paid_out, again = await submit_batch(
            store,
            (use(3, strict), after_hours(3)),
            (use(4, strict, Operation.DIRECT_PAYOUT), after_hours(3, 1)),
            (use(5, loose), after_hours(3, 2)),
        )
        assert [type(each) for each in (paid, paid_out, again)] == [Rejected, Rejected, Accepted]
        await end(store, 5, failed(5))
    async with open_store() as store:
        (older,) = await submit_batch(store, (use(6, strict), after_hours(6)))
        assert isinstance(older, Rejected), "the newest payment failed, but an older one was paid"
        (loosely,) = await submit_batch(store, (use(7, loose), after_hours(7)))
        assert isinstance(loosely, Accepted)
        await end(store, 7, failed(7))
        (oldest,) = await submit_batch(store, (use(8, strict), after_hours(8)))
        assert isinstance(oldest, Rejected), "the oldest payment was paid"


async def check_batches_equal_single_inputs(open_store: OpenStore) -> None:
    """Any partition of inputs into batches ends as `Gateway` does, which takes them one by one (law
    5)."""
    random = Random(2026)
    inputs = random_inputs(random, 700)
    oracle = Gateway()
    expected = [oracle.receive(each, now=now) for each, now in inputs]
    async with open_store() as store:
        replies: list[Reply] = []
        at = 0
        while at < len(inputs):
            size = random.choice((1, 2, 5, 40))
            replies += await submit_batch(store, *inputs[at : at + size])
            at += size
        assert replies == expected
        await _compare_with_oracle(store, oracle)
    async with open_store() as store:
        await _compare_with_oracle(store, oracle)
        left = await claim_all_abandoned(store, limit=10_000)
        assert {intent_key(work.intent) for work in left} == set(oracle.ledger.intents)
        for work in left:
            assert work.transaction == oracle.transaction(work.transaction.reference)


async def _compare_with_oracle(store: Store, oracle: Gateway) -> None:
    everything = list(oracle.ledger.transactions.values())
    for each in everything:
        mine = [line for line in oracle.journal if line.gateway_reference == each.reference]
        sent = [call for call in oracle.callbacks if call.gateway_reference == each.reference]
        assert await store.transaction(each.reference) == each
        assert await store.admin.timeline(each.reference) == mine
        assert await store.admin.callbacks(gateway_reference=each.reference) == sent
        assert await store.look_up(LookUp(each.order.brand, each.reference)) == transaction_object(
            each
        )
    for (of, merchant_reference), use in oracle.ledger.references.items():
        found = await store.look_up(LookUpByMerchantReference(of, merchant_reference))
        assert found == transaction_object(oracle.transaction(use.gateway_reference))
    for of in ("acme", "globex"):
        listed = await store.list_records(
            ListRecords(of, Instant(0), clock.LAST_INSTANT, page_size=5_000)
        )
        assert list(listed.objects) == [
            transaction_object(each) for each in everything if each.order.brand == of
        ]
    entries = [evolve(each, id=0) for each in await store.admin.suspense()]
    assert entries == _suspense_entries(oracle.suspense)
    assert await store.next_wake() == oracle.next_wake()


def _suspense_entries(recorded: Iterable[SuspenseRecorded]) -> list[SuspenseEntry]:
    """Return the entries of the book: what is repeated for the same reason is only counted."""
    book: dict[object, SuspenseEntry] = {}
    for each in recorded:
        key = (each.reason, each.provider, each.content, each.gateway_reference)
        new = SuspenseEntry(0, *key, each.brand, first_at=each.at, last_at=each.at, times=0)
        entry = book.get(key, new)
        book[key] = evolve(entry, last_at=each.at, times=entry.times + 1)
    return list(book.values())


async def check_batch_is_atomic(open_store: OpenStore) -> None:
    """When `decide` raises, nothing of the batch is stored, the exception comes through, and
    service goes on."""

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
        assert isinstance((await submit_batch(store, (creation(1), NOON)))[0], Accepted)


async def check_unread_keys_are_not_visible(open_store: OpenStore) -> None:
    """A key outside the reads is not "absent" but an error; a known deposit brings its transaction
    (law 1)."""
    deposit = DepositNotified("sandbox", "D1", "Sandbox", reference(9), brand(), "mobile_ke",
                              Money(1_000, "KES"), PAYER)  # fmt: skip

    def read_unprefetched_key(ledger: Ledger) -> Sequence[Decision]:
        try:
            ledger.transaction(reference(2))
        except NotPrefetched:
            return ()
        raise AssertionError("a key outside the reads was looked at")

    async with open_store() as store:
        await submit_batch(
            store, (creation(1), NOON), (creation(2), after_noon(1)), (deposit, after_noon(2))
        )
        await store.transact(Reads(transactions=frozenset((reference(1),))), read_unprefetched_key)
        again = await submit_batch(store, (deposit, after_noon(3)), (deposit, after_noon(4)))
        assert {getattr(reply, "reason", "") for reply in again} == {"The deposit is on record."}
        assert len(await store.admin.find_transactions(brand="acme")) == 3


async def check_abandoned_work_is_claimed_once(open_store: OpenStore) -> None:
    """Durable intents belong to the process that wrote them; those it leaves are returned once,
    oldest first."""
    async with open_store() as store:
        await create_payments(store, range(5))
        await submit_batch(store, (BeginSubmission(reference(0)), after_noon(10)))
        await submit_batch(store, (succeeded(0), after_noon(11)))
        assert not await store.claim_abandoned(limit=10)
    async with open_store() as store:
        first = await claim_all_abandoned(store, limit=3)
        second = await claim_all_abandoned(store, limit=10)
        assert [intent_key(work.intent) for work in (*first, *second)] == [
            *((reference(number), IntentKind.SUBMIT) for number in range(1, 5)),
            (reference(0), IntentKind.CALLBACK),
        ]
        assert len(first) == 3
        assert first[0].transaction == await store.transaction(reference(1))
        assert not await claim_all_abandoned(store, limit=10, taken=second)
    async with open_store() as store:
        fence = getattr(second[-1].intent, "fence", 0)
        await submit_batch(
            store, (CallbackConcluded(reference(0), DELIVERED, fence), after_noon(12))
        )
        left = await claim_all_abandoned(store, limit=10)
        assert {intent_key(work.intent)[1] for work in left} == {IntentKind.SUBMIT}
        (recorded,) = await store.admin.callbacks(gateway_reference=reference(0))
        assert recorded.attempt == DELIVERED
        (listed,) = await store.admin.callbacks(brand="acme")
        assert listed.attempt.body == b""
        assert not await store.admin.callbacks(brand="globex")


async def check_question_goes_on_after_restart(open_store: OpenStore) -> None:
    """A question about a payment that has ended keeps the time since when it has no answer, the
    text of all hints and the operator's id, whoever asks (S3, S5)."""
    asked_at, about = after_noon(10), reference(1)
    async with open_store() as store:
        await create_payments(store, range(3))
        await submit_batch(store, (BeginSubmission(about), after_noon(5)))
        await submit_batch(store, (failed(1), after_noon(6)))
        await submit_batch(store, (_hint("PROCESSING"), asked_at))
        await submit_batch(
            store, (_hint("COMPLETED"), after_noon(11)), (_hint("PAID"), after_noon(12))
        )
        await submit_batch(store, (_hint("COMPLETED"), after_noon(13)))
    told = "PROCESSING\nCOMPLETED\nPAID"
    async with open_store() as store:
        claimed = await store.claim_abandoned(limit=10)
        polls = [each.intent for each in claimed if isinstance(each.intent, PollEnded)]
        assert polls == [PollEnded(about, asked_at, told)]
        assert await store.open_polls([about, reference(2)]) == {about: polls[0]}
        await submit_batch(store, (_hint("x" * 1_995), after_noon(14)))
    async with open_store() as store:
        assert await store.open_polls([about]) == {about: PollEnded(about, asked_at, "x" * 1_995)}
        concluded = EndedPollConcluded(about, hint="x" * 1_995)
        await submit_batch(store, (concluded, after_noon(15)))
        assert not await store.open_polls([about])
        await submit_batch(store, (_hint("AGAIN"), after_noon(16)))
        again = PollEnded(about, after_noon(16), "AGAIN")
        assert await store.open_polls([about]) == {about: again}


async def check_question_is_concluded_as_it_was_asked(open_store: OpenStore) -> None:
    """What has come since a question was asked, perhaps to another process, is not concluded with
    it: it stays stored, and is asked about (S5)."""
    about, told = reference(1), "PROCESSING\nPAID"
    async with open_store() as store:
        await create_payments(store, range(2))
        await submit_batch(store, (BeginSubmission(about), after_noon(5)))
        await submit_batch(store, (failed(1), after_noon(6)))
        await submit_batch(store, (_hint("PROCESSING"), after_noon(7)))
        await submit_batch(store, (_hint("PAID"), after_noon(8)))
        question = PollEnded(about, after_noon(7), told)
        for hint, is_unanswered in (("PROCESSING", False), (None, False), ("PAID", True)):
            asked = EndedPollConcluded(about, is_unanswered, hint)
            await submit_batch(store, (asked, after_noon(9)))
            assert await store.open_polls([about]) == {about: question}
        whole = EndedPollConcluded(about, hint=told)
        await submit_batch(store, (_hint("AGAIN"), after_noon(10)), (whole, after_noon(11)))
        question = PollEnded(about, after_noon(7), f"{told}\nAGAIN")
        assert await store.open_polls([about]) == {about: question}
        await submit_batch(store, (EndedPollConcluded(about, hint=question.hint), after_noon(12)))
        assert not await store.open_polls([about])


async def check_question_keeps_the_operators_id(open_store: OpenStore) -> None:
    """An id that comes after the end of its payment is part of the question, as is the time of the
    question that was open before (S3, S5)."""
    about, expired_at = reference(1), later(NOON, Span(4 * clock.DAY))
    told = ProviderAccepted(
        about, "sandbox", Source.POLL, provider_reference="ws_CO_1", poll_after=clock.MINUTE
    )
    async with open_store() as store:
        await create_payments(store, range(2))
        await submit_batch(store, (BeginSubmission(about), after_noon(5)))
        await submit_batch(store, (TransactionWoke(about), expired_at))
        await submit_batch(store, (told, later(expired_at, clock.MINUTE)))
    asked = PollEnded(about, expired_at, provider_reference="ws_CO_1")
    async with open_store() as store:
        assert await store.open_polls([about]) == {about: asked}
        claimed = await store.claim_abandoned(limit=10)
        assert asked in [each.intent for each in claimed]


def _hint(content: str) -> ProviderHinted:
    return ProviderHinted(reference(1), "sandbox", content)


async def check_due_transactions(open_store: OpenStore) -> None:
    """`due` returns due transactions, the earliest first; those that have ended never wake (S3)."""
    async with open_store() as store:
        await create_payments(store, range(4))
        await submit_batch(store, (BeginSubmission(reference(3)), after_noon(10)))
        due = await store.next_wake()
        assert due == NOON + 10 + 30 * clock.SECOND
        assert await store.next_wake(after=earlier(due, Span(1))) == due
        assert await store.next_wake(after=due) == after_noon(3 * clock.DAY)
        assert await store.next_wake(after=after_noon(4 * clock.DAY)) is None
        assert not await store.due(earlier(due, Span(1)), limit=10)
        assert await store.due(due, limit=10) == [reference(3)]
        await submit_batch(store, (succeeded(3), after_noon(11)))
        expiry = after_noon(3 * clock.DAY)
        assert await store.next_wake() == expiry
        assert await store.due(later(expiry, Span(2)), limit=2) == [reference(0), reference(1)]
        await submit_batch(
            store, *((TransactionWoke(reference(n)), later(expiry, Span(4))) for n in range(3))
        )
        assert await store.next_wake() is None

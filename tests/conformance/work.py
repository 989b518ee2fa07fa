"""Checks of the admin API: what the gateway's staff read and change."""

from __future__ import annotations

from decimal import Decimal
from functools import partial
from itertools import product

from attrs import evolve

from mmo_sansio.api.outgoing import transaction_object
from mmo_sansio.http.exchange import DeliveryAttempt, DeliveryOutcome
from mmo_sansio.messages.inputs import (
    BeginSubmission,
    CallbackConcluded,
    CorrectTimes,
    Input,
    StopPayment,
    TransactionWoke,
    UnmatchedNotified,
)
from mmo_sansio.messages.queries import ListRecords
from mmo_sansio.messages.replies import Applied, Ignored, Rejected, Reply
from mmo_sansio.payments.settlement import RECEIPT_AWAITED_FOR
from mmo_sansio.payments.stuck import STUCK_AFTER
from mmo_sansio.resilience.circuit_breaker import BreakerSnapshot, BreakerState
from mmo_sansio.resilience.clock_guard import ClockRecord
from mmo_sansio.values.clock import (
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    Instant,
    MonotonicInstant,
    Span,
    earlier,
    later,
)
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import BrandLimits, Limits, Operation, Stage, Status, Type
from mmo_sansio.values.money import AMOUNT_MAX, Money, to_money
from mmo_trio.console.counted_past import CountedPast
from mmo_trio.storage.interface.admin_types import (
    COUNTED_MINOR_MAX,
    QUARTER_HOUR,
    AttentionTimes,
    AuditEvent,
    AuditKey,
    BrandHold,
    BrandUsage,
    ConsoleSession,
    ConsoleUser,
    CountDimension,
    CountQuery,
    PaymentCount,
    PaymentFilter,
    PaymentPage,
    PaymentSum,
    PaymentTotals,
    ProviderCount,
    Role,
    SecondFactor,
    SignInAttempt,
)
from mmo_trio.storage.interface.audit_chain import AuditChainVerifier
from mmo_trio.storage.sql.payment_search import position_of
from tests.conformance.driver import NOON, OpenStore, after_noon, create_payments, submit_batch
from tests.conformance.inputs import DELIVERED, creation, failed, reference, succeeded

AUDIT_KEY = AuditKey("k1", bytes(32))
ADA = ConsoleUser("ada", Role.ADMIN, "$hash", NOON)
FAILED_ATTEMPT = DeliveryAttempt(
    DeliveryOutcome.NON_2XX, "https://merchant.example/results", 500, 12
)


async def check_clock_records(open_store: OpenStore) -> None:
    """Each start of a machine has one record of the clocks; a new machine continues from the latest
    (S3)."""
    first = ClockRecord("boot-1", MonotonicInstant(5), NOON, NOON)
    second = ClockRecord("", MonotonicInstant(1), NOON, NOON)
    async with open_store() as store:
        assert await store.clock_record("boot-1") is None
        await store.save_clock_record(first)
        await store.save_clock_record(
            evolve(first, monotonic=MonotonicInstant(9), served_until=after_noon(3))
        )
        await store.save_clock_record(evolve(second, time=after_noon(1)))
    async with open_store() as store:
        found = await store.clock_record("boot-1")
        assert found is not None
        assert found.record == evolve(
            first, monotonic=MonotonicInstant(9), served_until=after_noon(3)
        )
        assert found.age is None or 0 <= found.age < HOUR
        latest = await store.clock_record("boot-2")
        assert latest is not None
        assert latest.record == evolve(second, time=after_noon(1))
        await store.save_clock_record(evolve(second, time=after_noon(31 * DAY)))
        gone = await store.clock_record("boot-1")
        assert gone is not None
        assert gone.record.boot_id == ""


async def check_corrected_times(open_store: OpenStore) -> None:
    """A payment of a wrong clock, and its wake, are found at their corrected times after a restart
    (S3)."""
    ahead = Span(4 * DAY)
    async with open_store() as store:
        await submit_batch(store, (creation(1), after_noon(ahead)), (creation(2), NOON))
        replies = await submit_batch(store, (CorrectTimes(reference(1), "ada"), after_noon(5)))
    async with open_store() as store:
        stored = await store.transaction(reference(1))
        assert stored is not None
        assert replies == [Applied(stored)]
        assert stored.order.created_at == after_noon(5)
        listed = await store.list_records(ListRecords("acme", NOON, after_noon(9)))
        assert len(listed.objects) == 2
        assert listed.objects[1] == transaction_object(stored)
        assert await store.due(stored.order.expires_at, limit=9) == [reference(2), reference(1)]
        assert [line.input_name for line in await store.admin.timeline(reference(1))] == [
            "CreatePayment",
            "CorrectTimes",
        ]


async def check_what_is_held_is_released(open_store: OpenStore) -> None:
    """A window of records that a wrong clock let be served holds nothing back once it is released
    (R7)."""
    async with open_store() as store:
        assert await store.held_until() == 0
        await store.save_clock_record(
            ClockRecord("boot", MonotonicInstant(1), NOON, NOON, after_noon(DAY))
        )
        assert await store.held_until() == after_noon(DAY)
        await store.release_held(after_noon(2))
    async with open_store() as store:
        assert await store.held_until() == after_noon(2)
        await store.release_held(after_noon(3))
        assert await store.held_until() == after_noon(2)


async def check_audit_log(open_store: OpenStore) -> None:
    """Rows are numbered without gaps, each follows the one before, and the head says where they
    end."""
    async with open_store() as store:
        assert (await store.admin.audit_head()).number == 0
        for number in range(1, 6):
            about = f"payment:{number % 2}"
            event = AuditEvent(after_noon(number), "user:ada", "looked", about)
            row = await store.admin.append_audit(event, AUDIT_KEY)
            assert row.number == number
    async with open_store() as store:
        rows = await store.admin.audit_after(0, limit=10)
        chain = AuditChainVerifier([AUDIT_KEY])
        assert chain.verify(rows) is None
        assert chain.verify_end(await store.admin.audit_head()) is None
        newest = await store.admin.audit(limit=2)
        assert [row.number for row in newest] == [5, 4]
        assert [row.number for row in await store.admin.audit(before=4, limit=2)] == [3, 2]
        assert [row.number for row in await store.admin.audit(after=1, limit=2)] == [3, 2], (
            "those next above it"
        )
        assert [row.number for row in await store.admin.audit(about="payment:0")] == [4, 2]
        assert [row.number for row in await store.admin.audit(actor="user:ada", limit=2)] == [5, 4]
        assert not await store.admin.audit(actor="user:bob")
        assert [row.number for row in await store.admin.audit_after(3, limit=1)] == [4]


async def check_sealed_audit_keys(open_store: OpenStore) -> None:
    """Sealed audit keys are kept by their ids, and replaced."""
    async with open_store() as store:
        assert await store.admin.sealed_audit_keys() == {}
        for id, sealed in (("one", b"1"), ("two", b"2"), ("one", b"\x00")):
            await store.admin.save_audit_key(id, sealed)
    async with open_store() as store:
        assert await store.admin.sealed_audit_keys() == {"one": b"\x00", "two": b"2"}


async def check_users_and_sessions(open_store: OpenStore) -> None:
    """A name is unique; a session shows its user as it is now, and ends when the user is
    replaced."""
    async with open_store() as store:
        admin = store.admin
        assert await admin.add_user(ADA)
        assert not await admin.add_user(evolve(ADA, role=Role.VIEWER))
        assert await admin.add_user(evolve(ADA, name="bob"))
        old = ConsoleSession(b"1", "ada", NOON, NOON)
        new = ConsoleSession(b"2", "ada", after_noon(9), after_noon(9))
        await admin.begin_session(old, expire_before=NOON)
        assert await admin.session(b"1") == (old, ADA)
        await admin.begin_session(new, expire_before=after_noon(1))
        assert await admin.session(b"1") is None
        await admin.touch_session(b"2", after_noon(20))
    async with open_store() as store:
        admin = store.admin
        assert [each.name for each in await admin.users()] == ["ada", "bob"]
        assert await admin.session(b"2") == (evolve(new, seen_at=after_noon(20)), ADA)
        disabled = evolve(ADA, disabled_at=after_noon(30))
        assert await admin.replace_user(disabled)
        assert not await admin.replace_user(evolve(ADA, name="eve"))
        assert await admin.user("ada") == disabled
        assert await admin.user("eve") is None
        assert await admin.session(b"2") is None
        await admin.end_session(b"2")


async def check_kept_inputs(open_store: OpenStore) -> None:
    """What a user has typed is found by that user alone, until it is too old."""
    async with open_store() as store:
        for at, (name, id) in enumerate([("ada", "1"), ("bob", "1"), ("ada", "ü")]):
            await store.admin.keep_input(name, id, f"{name} {at}\0".encode(), after_noon(at))
    async with open_store() as store:
        admin = store.admin
        assert await admin.kept_input("ada", "1") == b"ada 0\0"
        assert await admin.kept_input("bob", "1") == b"bob 1\0"
        assert await admin.kept_input("bob", "ü") is None
        await admin.begin_session(
            ConsoleSession(b"1", "ada", NOON, NOON), expire_before=after_noon(1)
        )
        assert await admin.kept_input("ada", "1") is None
        assert await admin.kept_input("bob", "1") == b"bob 1\0"


async def check_sign_in_attempts(open_store: OpenStore) -> None:
    """Attempts are found by name or network, whatever the name, until they are forgotten or too
    old."""
    first, elsewhere, later, other = (
        SignInAttempt(name, network, after_noon(at))
        for at, (name, network) in enumerate(
            [("ada", "N"), ("ada", "M"), ("ada", "N"), ("'ü%", "N")]
        )
    )
    async with open_store() as store:
        for attempt in (elsewhere, other, first, later):
            await store.admin.record_sign_in_attempt(attempt, expire_before=NOON)
    async with open_store() as store:
        admin = store.admin
        assert list(await admin.sign_in_attempts("ada", "N", since=NOON)) == [
            first,
            elsewhere,
            later,
            other,
        ]
        assert list(await admin.sign_in_attempts("ada", "X", since=later.at)) == [later]
        assert list(await admin.sign_in_attempts("'ü%", "X", since=NOON)) == [other]
        await admin.forget_sign_in_attempts("ada", "N")
        assert list(await admin.sign_in_attempts("ada", "N", since=NOON)) == [elsewhere, other]
        await admin.record_sign_in_attempt(first, expire_before=after_noon(2))
        assert list(await admin.sign_in_attempts("ada", "N", since=NOON)) == [first, other]


async def check_second_factors(open_store: OpenStore) -> None:
    """A secret counts once it is confirmed; a step of time and a recovery code are accepted once,
    and a removal or a confirmation ends the user's other sessions."""
    async with open_store() as store:
        admin = store.admin
        await admin.add_user(ADA)
        for digest in (b"1", b"2"):
            await admin.begin_session(ConsoleSession(digest, "ada", NOON, NOON), expire_before=NOON)
        assert await admin.second_factor("ada") is None
        await admin.begin_enrolment("ada", b"first")
        await admin.begin_enrolment("ada", b"second")
        assert await admin.second_factor("ada") == SecondFactor("ada", pending=b"second")
        assert not await admin.use_time_step("ada", 99)
        confirm = partial(
            admin.confirm_second_factor, "ada", step=7, at=NOON, codes=[b"b", b"a"], session=b"2"
        )
        assert not await confirm(b"first")
        assert await confirm(b"second")
        assert not await confirm(b"second")
        assert (await admin.session(b"1"), await admin.session(b"2") is None) == (None, False)
    async with open_store() as store:
        admin = store.admin
        await admin.begin_enrolment("ada", b"third")
        active = SecondFactor(
            "ada", b"second", NOON, last_step=7, pending=b"third", recovery_codes=2
        )
        assert await admin.second_factor("ada") == active
        assert [await admin.use_time_step("ada", step) for step in (active.last_step, 6, 8, 8)] == [
            False,
            False,
            True,
            False,
        ]
        assert [await admin.use_recovery_code("ada", each) for each in (b"a", b"a", b"c")] == [
            True,
            False,
            False,
        ]
        assert not await admin.use_recovery_code("bob", b"b")
        assert [
            await admin.count_wrong_code("ada", at=after_noon(at), since=after_noon(at - 5), most=3)
            for at in (0, 1, 6, 7, 8, 9)
        ] == [False, False, False, False, True, False]
        assert await admin.second_factor("ada") == evolve(
            active, last_step=8, recovery_codes=1, locked_at=after_noon(8)
        )
        await admin.unlock_second_factor("ada")
        assert not await admin.count_wrong_code("ada", at=NOON, since=after_noon(-5), most=2)
        assert await admin.count_wrong_code("ada", at=NOON, since=after_noon(-5), most=2)
        assert await admin.replace_user(ADA)
        assert not await admin.count_wrong_code("ada", at=NOON, since=after_noon(-5), most=2)
        await admin.begin_session(ConsoleSession(b"2", "ada", NOON, NOON), expire_before=NOON)
        await admin.reseal_second_factor("ada", b"second", b"fourth")
        await admin.reseal_second_factor("ada", b"third", b"fifth")
        expected = evolve(active, sealed=b"fourth", pending=b"fifth", last_step=8, recovery_codes=1)
        assert list(await admin.second_factors()) == [expected]
        await admin.replace_recovery_codes("ada", [b"d", b"e", b"f"])
        assert await admin.second_factor("ada") == evolve(expected, recovery_codes=3)
        assert await admin.remove_second_factor("ada", session=b"2")
        assert await admin.session(b"2") is not None
        assert not await admin.remove_second_factor("ada")
        assert await admin.session(b"2") is None
        assert not await admin.use_recovery_code("ada", b"d")
        assert await admin.second_factor("ada") is None


async def check_payment_search(open_store: OpenStore) -> None:
    """Payments are found by any reference or number, brand, method and status, by pages, the newest
    first."""
    async with open_store() as store:
        await create_payments(store, range(5))
        await submit_batch(
            store,
            (creation(5, brand_id="globex", operation=Operation.DIRECT_TAXPAYOUT), after_noon(5)),
        )
        await submit_batch(
            store, (BeginSubmission(reference(2)), after_noon(6)), (succeeded(2), after_noon(7))
        )
        admin = store.admin
        assert _numbers(await admin.search_payments(reference(3).lower())) == [3]
        assert _numbers(await admin.search_payments("order/1 ü")) == [1]
        assert _numbers(await admin.search_payments("P2")) == [2]
        assert _numbers(await admin.search_payments("nobody\x00")) == []
        assert _numbers(await admin.search_payments("254700000000")) == []
        every = await admin.search_payments("254700000000", msisdns=["254700000000"])
        assert _numbers(every) == [4, 3, 2, 1, 0]
        assert every.next_position is None
        page = await admin.search_payments("254700000000", msisdns=["254700000000"], limit=3)
        assert _numbers(page) == [4, 3, 2]
        rest = await admin.search_payments(
            "254700000000", msisdns=["254700000000"], before=page.next_position, limit=3
        )
        assert _numbers(rest) == [1, 0]
        assert _numbers(await admin.list_payments(PaymentFilter())) == [5, 4, 3, 2, 1, 0]
        first = await admin.list_payments(PaymentFilter(brand="acme", limit=2))
        assert _numbers(first) == [4, 3]
        then = await admin.list_payments(
            PaymentFilter(brand="acme", before=first.next_position, limit=9)
        )
        assert _numbers(then) == [2, 1, 0]
        assert _numbers(await admin.list_payments(PaymentFilter(status=Status.SUCCESS))) == [2]
        assert _numbers(await admin.list_payments(PaymentFilter(method="Mobile_KE"))) == []
        pending = PaymentFilter(brand="acme", status=Status.PENDING, limit=1)
        assert _numbers(await admin.list_payments(pending)) == [4]
        assert _numbers(await admin.list_payments(PaymentFilter(type=Type.TAX))) == [5]
        amount = (await admin.list_payments(PaymentFilter(limit=1))).transactions[0].order.requested
        value = Decimal(amount.text)
        exact = PaymentFilter(brand="acme", amount_min=value, amount_max=value)
        assert _numbers(await admin.list_payments(exact)) == [4, 3, 2, 1, 0]
        assert _numbers(await admin.list_payments(PaymentFilter(amount_min=value + 1))) == []
        of_acme = Money(5 * amount.minor, amount.currency)
        assert await admin.total_payments(evolve(exact, limit=1)) == PaymentTotals(
            5, [(Type.PAYIN, of_acme)], is_complete=True
        )
        assert (await admin.total_payments(PaymentFilter(status=Status.SUCCESS))).count == 1


async def check_work_lists(open_store: OpenStore) -> None:
    """Unknown outcomes, suspense and failed callbacks are listed by pages."""
    async with open_store() as store:
        admin = store.admin
        begun = [(BeginSubmission(reference(n)), after_noon(10 + n)) for n in (0, 1, 3)]
        await submit_batch(store, *((creation(n), after_noon(n)) for n in range(4)), *begun)
        stuck = await admin.stuck_transactions(after_noon(STUCK_AFTER + 11), limit=1)
        assert [each.reference for each in stuck] == [reference(0)]
        place = await admin.list_payments(PaymentFilter(limit=4))
        oldest = place.transactions[-1]
        assert oldest.reference == reference(0)
        then = await admin.stuck_transactions(
            after_noon(STUCK_AFTER + 98), after=position_of(oldest), limit=9
        )
        assert [each.reference for each in then] == [reference(1), reference(3)]
        await submit_batch(store, (succeeded(0), after_noon(20)), (succeeded(1), after_noon(21)))
        open_breaker = BreakerSnapshot(
            state=BreakerState.OPEN, open_until=MonotonicInstant(NOON + 99)
        )
        first = CallbackConcluded(reference(0), FAILED_ATTEMPT, breaker=open_breaker)
        second = CallbackConcluded(reference(1), DELIVERED)
        await submit_batch(store, (first, after_noon(22)))
        await submit_batch(store, (second, after_noon(23)))
        [(id, failed)] = await admin.failed_callbacks()
        assert failed.attempt == FAILED_ATTEMPT
        assert not await admin.failed_callbacks(before=id)
        assert not await admin.failed_callbacks(brand="globex")
        [change] = await admin.breaker_changes(brand="acme")
        assert (change.at, change.state) == (NOON + 22, BreakerState.OPEN.value)
        await submit_batch(store, (succeeded(1), after_noon(30)))
        await submit_batch(store, (UnmatchedNotified("sandbox", "?"), after_noon(31)))
        unmatched, repeated = await admin.suspense_entries()
        assert unmatched.gateway_reference is None
        assert list(await admin.suspense_of_payment(reference(1))) == [repeated]
        every = [reference(number) for number in range(4)]
        assert list(await admin.open_suspense_of(every)) == [repeated]
        assert await admin.undelivered_of(every) == {reference(0)}
        times = AttentionTimes(after_noon(STUCK_AFTER + 98), callbacks_since=after_noon(22))
        looked_at = PaymentFilter(attention=times)
        assert _numbers(await admin.list_payments(looked_at)) == [3, 1, 0]
        newest = await admin.list_payments(evolve(looked_at, limit=2))
        assert _numbers(newest) == [3, 1]
        older = evolve(looked_at, before=newest.next_position)
        assert _numbers(await admin.list_payments(older)) == [0]
        newer = evolve(looked_at, after=position_of(oldest), limit=1)
        assert _numbers(await admin.list_payments(newer)) == [1]
        assert (await admin.total_payments(looked_at)).count == 3
        later_on = evolve(looked_at, attention=evolve(times, callbacks_since=after_noon(23)))
        assert _numbers(await admin.list_payments(later_on)) == [3, 1]
        pending = evolve(looked_at, status=Status.PENDING, brand="acme")
        assert _numbers(await admin.list_payments(pending)) == [3]
        assert list(await admin.suspense_entries(before=unmatched.id)) == [repeated]
        assert await store.admin.close_suspense(
            repeated.id, by="ada", note="seen", now=after_noon(40)
        )
        assert list(await admin.suspense_entries()) == [unmatched]
        assert not await admin.open_suspense_of(every)
        assert len(await admin.suspense_entries(with_closed=True)) == 2


async def check_payment_counts(open_store: OpenStore) -> None:
    """Payments are counted when they are created and when they end, with their latency."""
    hour = earlier(NOON, Span(NOON % HOUR))
    async with open_store() as store:
        await submit_batch(
            store,
            (creation(0), hour),
            (creation(1), later(hour, Span(1))),
            (creation(2, brand_id="globex"), later(hour, Span(2))),
        )
        await submit_batch(store, (BeginSubmission(reference(0)), later(hour, Span(SECOND))))
        await submit_batch(store, (BeginSubmission(reference(1)), later(hour, Span(SECOND))))
        await submit_batch(store, (succeeded(0), later(hour, Span(4 * SECOND))))
        await submit_batch(
            store,
            (creation(3), later(hour, Span(HOUR))),
            (succeeded(1), later(hour, Span(HOUR + 1))),
        )
        admin, both = store.admin, CountQuery(HOUR, hour, later(hour, Span(2 * HOUR)))
        assert set(await admin.count_payments(both, by=CountDimension.BRAND)) == {
            PaymentCount("acme", Status.PENDING, 0, 3),
            PaymentCount("acme", Status.SUCCESS, 5, 1),
            PaymentCount("acme", Status.SUCCESS, 3600, 1),
            PaymentCount("globex", Status.PENDING, 0, 1),
        }
        first = CountQuery(HOUR, hour, later(hour, HOUR), only=(CountDimension.BRAND, "acme"))
        assert set(await admin.count_payments(first, by=None)) == {
            PaymentCount(str(hour), Status.PENDING, 0, 2),
            PaymentCount(str(hour), Status.SUCCESS, 5, 1),
        }
        [methods, *_] = await admin.count_payments(both, by=CountDimension.METHOD)
        assert methods.key == "mobile_ke"


async def check_payment_sums(open_store: OpenStore) -> None:
    """The money of payments is added up by currency and by what became of it, however large, and
    the payments of each provider by quarters of an hour."""
    hour = earlier(NOON, Span(NOON % HOUR))
    [method] = creation(0).brand.methods
    bounds = {"KES": evolve(method.limits["KES"], maximum=to_money(AMOUNT_MAX, "KES"))}
    boundless = evolve(creation(0).brand, methods=(evolve(method, limits=bounds),))
    large = [
        evolve(creation(n), brand=boundless, draft=evolve(creation(n).draft, amount=AMOUNT_MAX))
        for n in range(95)
    ]
    async with open_store() as store:
        await submit_batch(store, *((each, hour) for each in large))
        begun = [BeginSubmission(reference(n)) for n in range(95)]
        await submit_batch(store, *((each, later(hour, SECOND)) for each in begun))
        for numbers in (range(4), range(4, 94)):
            at = later(hour, Span(20 * MINUTE))
            await submit_batch(store, *((succeeded(n), at) for n in numbers))
        await submit_batch(store, (failed(94), later(hour, Span(40 * MINUTE))))

        query = CountQuery(HOUR, hour, later(hour, HOUR))
        for by, key in ((CountDimension.BRAND, "acme"), (None, str(hour))):
            sums = {each.error_code: each for each in await store.admin.sum_payments(query, by=by)}
            assert sums.keys() == {None, ErrorCode.USER_CANCELLED}
            paid = sums[None]
            assert (paid.key, paid.type, paid.currency) == (key, Type.PAYIN, "KES")
            assert paid.count == 94
            assert min(paid.minor, COUNTED_MINOR_MAX) == COUNTED_MINOR_MAX
            assert sums[ErrorCode.USER_CANCELLED] == PaymentSum(
                key, Type.PAYIN, "KES", ErrorCode.USER_CANCELLED, 1, 10**17
            )
        provider = creation(0).brand.methods[0].provider
        quarters = await store.admin.provider_quarters(hour, later(hour, HOUR))
        assert list(quarters) == [
            ProviderCount(provider, later(hour, QUARTER_HOUR), 94, 0),
            ProviderCount(provider, later(hour, Span(2 * QUARTER_HOUR)), 0, 1),
        ]
        assert not await store.admin.provider_quarters(hour, later(hour, HOUR), is_simulated=True)


async def check_counts_of_a_selection(open_store: OpenStore) -> None:
    """What is kept of all brands together adds up to what the store counts for one method or
    provider."""
    hour = earlier(NOON, Span(NOON % HOUR))
    method = creation(0).brand.methods[0]
    simulated = frozenset({method.provider})
    async with open_store() as store:
        await submit_batch(
            store,
            (creation(0), hour),
            (creation(1, brand_id="globex"), later(hour, Span(1))),
            (evolve(creation(2), simulated_providers=simulated), later(hour, Span(2))),
        )
        for number in range(2):
            await submit_batch(store, (BeginSubmission(reference(number)), later(hour, SECOND)))
        await submit_batch(store, (succeeded(0), later(hour, Span(4 * SECOND))))
        await submit_batch(store, (failed(1), later(hour, HOUR)))

        counted = CountedPast(store.admin, lambda: later(hour, DAY))
        both = CountQuery(HOUR, hour, later(hour, Span(2 * HOUR)))
        selections = (
            (CountDimension.METHOD, method.key),
            (CountDimension.PROVIDER, method.provider),
            (CountDimension.PROVIDER, "another"),
        )
        for only, by, which in product(
            selections, (None, CountDimension.METHOD, CountDimension.PROVIDER), (None, False, True)
        ):
            query = evolve(both, only=only, is_simulated=which)
            counts = await counted.count_payments(query, by=by)
            sums = await counted.sum_payments(query, by=by)
            assert set(counts) == set(await store.admin.count_payments(query, by=by))
            assert set(sums) == set(await store.admin.sum_payments(query, by=by))
        assert len(sums) == 0, "the last selection has no payments"


async def check_changed_counts(open_store: OpenStore) -> None:
    """A payment whose receipt comes after its success, or whose times are corrected, is counted
    once, with its money, when it was created and when it ended by what is known now."""
    hour, ahead = earlier(NOON, Span(NOON % HOUR)), Span(4 * DAY)
    provider = creation(0).brand.methods[0].provider
    async with open_store() as store:
        await submit_batch(store, (creation(1), hour), (creation(2), later(hour, ahead)))
        for number, at in ((1, later(hour, SECOND)), (2, later(hour, Span(ahead + SECOND)))):
            await submit_batch(store, (BeginSubmission(reference(number)), at))

        unnamed = evolve(succeeded(1), provider_reference=None, lacks_receipt=True)
        await submit_batch(store, (unnamed, later(hour, Span(2 * SECOND))))
        given_up_at = later(hour, Span(RECEIPT_AWAITED_FOR + 2 * SECOND))
        await submit_batch(store, (TransactionWoke(reference(1)), given_up_at))
        await submit_batch(store, (failed(2), later(hour, Span(ahead + 2 * SECOND))))
        unproved = await store.transaction(reference(1))
        assert unproved is not None
        assert (unproved.status, unproved.progress.provider_reference) == (Status.SUCCESS, None)

        named = evolve(succeeded(1), final=unproved.order.requested, settles_receipt=True, fee=None)
        await submit_batch(store, (named, later(given_up_at, SECOND)))
        proved = await store.transaction(reference(1))
        assert proved is not None
        assert proved.progress.provider_reference == "P1"
        await submit_batch(store, (CorrectTimes(reference(2), "ada"), later(hour, Span(MINUTE))))

        every = CountQuery(HOUR, hour, later(hour, Span(5 * DAY)))
        admin, amount = store.admin, proved.order.requested.minor
        counted = await admin.count_payments(every, by=None)
        assert {(row.key, row.status, row.count) for row in counted} == {
            (str(hour), Status.PENDING, 2),
            (str(hour), Status.SUCCESS, 1),
            (str(hour), Status.FAILED, 1),
        }
        sums = await admin.sum_payments(every, by=None)
        assert {(row.key, row.error_code, row.count, row.minor) for row in sums} == {
            (str(hour), None, 1, amount),
            (str(hour), ErrorCode.USER_CANCELLED, 1, amount),
        }
        quarters = await admin.provider_quarters(every.begin, every.end)
        assert list(quarters) == [ProviderCount(provider, hour, 1, 1)]


async def check_simulated_counts(open_store: OpenStore) -> None:
    """Simulated payments, and their records, are told from those for money."""
    hour = earlier(NOON, Span(NOON % HOUR))
    simulated = frozenset({creation(1).brand.methods[0].provider})
    async with open_store() as store:
        await submit_batch(
            store,
            (creation(0), hour),
            (evolve(creation(1), simulated_providers=simulated), later(hour, Span(1))),
            (creation(2), later(hour, Span(2))),
        )
        admin, every = store.admin, CountQuery(HOUR, hour, later(hour, HOUR))
        for is_simulated, expected in ((None, 3), (False, 2), (True, 1)):
            query = evolve(every, is_simulated=is_simulated)
            [counted] = await admin.count_payments(query, by=CountDimension.PROVIDER)
            assert (counted.status, counted.count) == (Status.PENDING, expected)
        records = await store.list_records(ListRecords("acme", hour, later(hour, HOUR)))
        assert records.simulated == (False, True, False)
        totals = await admin.total_payments(PaymentFilter())
        amount = to_money(creation(0).draft.amount, creation(0).draft.currency)
        assert totals.sums == [(Type.PAYIN, Money(2 * amount.minor, amount.currency))]
        assert totals.simulated_sums == [(Type.PAYIN, amount)]


def _numbers(found: PaymentPage) -> list[int]:
    return [int(each.reference[4:]) for each in found.transactions]


async def check_brand_holds(open_store: OpenStore) -> None:
    """A brand stays on hold until it is released; meanwhile its payments fail when their submission
    would begin, and other brands' are submitted."""
    hold = BrandHold("acme", NOON, "ada")

    def begin(number: int) -> tuple[Input, Instant]:
        return BeginSubmission(reference(number)), after_noon(number)

    async with open_store() as store:
        await submit_batch(store, *((creation(number), after_noon(number)) for number in (1, 2, 3)))
        await submit_batch(store, (creation(4, brand_id="globex"), after_noon(4)), begin(1))
        assert await store.admin.hold_brand(hold)
        assert not await store.admin.hold_brand(evolve(hold, held_by="bob"))
        held, other, stopped, submitted = await submit_batch(
            store,
            begin(2),
            begin(4),
            (StopPayment(reference(3), "ada"), after_noon(30)),
            (StopPayment(reference(1), "ada"), after_noon(31)),
        )
        stages = [
            each.transaction.progress.stage
            for each in (held, other, stopped)
            if isinstance(each, Applied)
        ]
        assert stages == [Stage.FAILED, Stage.SUBMITTING, Stage.FAILED]
        assert isinstance(submitted, Ignored)
    async with open_store() as store:
        assert list(await store.admin.brand_holds()) == [hold]
        assert await store.admin.release_brand("acme")
        assert not await store.admin.release_brand("acme")
        assert not await store.admin.brand_holds()
        await submit_batch(store, (creation(5), after_noon(40)))
        (released,) = await submit_batch(store, begin(5))
        assert isinstance(released, Applied)
        assert released.transaction.progress.stage is Stage.SUBMITTING


async def check_brand_limits(open_store: OpenStore) -> None:
    """Counters of a brand with limits survive a restart, in one batch and over several; a failure
    gives back what the payment added, and a new day begins at 0."""

    def create(
        number: int, at: Instant, operation: Operation = Operation.DIRECT_PAYOUT
    ) -> tuple[Input, Instant]:
        given = creation(number, operation=operation)
        limits = {
            "KES": Limits(
                Money(1_000, "KES"), Money(15_000_000, "KES"), {Type.PAYOUT: Money(300_000, "KES")}
            )
        }
        method = evolve(given.brand.methods[0], limits=limits)
        return evolve(
            given, brand=evolve(given.brand, methods=(method,), limits=BrandLimits(None, None, 3))
        ), at

    def problem(reply: Reply) -> str | None:
        return reply.problem.segment if isinstance(reply, Rejected) else None

    async with open_store() as store:
        first = await submit_batch(
            store, create(1, NOON), create(2, after_noon(1)), create(3, after_noon(2))
        )
        assert [problem(each) for each in first] == [None, None, "brand_daily_limit"]
        assert await store.transaction(reference(3)) is None
        (payin,) = await submit_batch(store, create(4, after_noon(3), Operation.DIRECT_PAYIN))
        assert problem(payin) is None
    async with open_store() as store:
        (full,) = await submit_batch(store, create(5, after_noon(4), Operation.DIRECT_PAYIN))
        assert problem(full) == "brand_pending_limit"
        _, _, _, again = await submit_batch(
            store,
            (BeginSubmission(reference(1)), after_noon(5)),
            (failed(1), after_noon(6)),
            (StopPayment(reference(4), "ada"), after_noon(7)),
            create(6, after_noon(8)),
        )
        assert problem(again) is None
    async with open_store() as store:
        (sum_reached,) = await submit_batch(store, create(7, after_noon(9)))
        assert problem(sum_reached) == "brand_daily_limit"
        (tomorrow,) = await submit_batch(store, create(8, after_noon(DAY)))
        assert problem(tomorrow) is None
        assert sorted(await store.admin.brand_usage()) == [
            BrandUsage("acme", "payout mobile_ke KE KES", after_noon(DAY) // DAY, 150_000),
            BrandUsage("acme", "pending", 0, 3),
        ]

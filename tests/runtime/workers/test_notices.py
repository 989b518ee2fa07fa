"""One of all processes tells staff by a webhook what waits for a person, and no payment waits for
that."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import Factory, define, evolve
from structlog.testing import capture_logs
from trio.testing import MockClock

from mmo_sansio.http.exchange import DeliveryAttempt, DeliveryOutcome
from mmo_sansio.http.messages import HttpRequest
from mmo_sansio.messages.inputs import BeginSubmission, CallbackConcluded, UnmatchedNotified
from mmo_sansio.messages.reversals import RequestReversal
from mmo_sansio.providers.common.balances import AccountBalance
from mmo_sansio.providers.common.interface import AccountFinding, AccountState
from mmo_sansio.resilience.circuit_breaker import BreakerSnapshot, BreakerState
from mmo_sansio.resilience.notices import NoticeKind, NoticeRecord, Told
from mmo_sansio.values.clock import (
    DAY,
    HOUR,
    SECOND,
    Instant,
    Moment,
    Span,
    format_with_microseconds,
    later,
)
from mmo_sansio.values.money import Money
from mmo_trio.admin.auditing import AuditLog
from mmo_trio.settings.sections import NoticesSection
from mmo_trio.storage.interface.admin_types import (
    RESTORATION,
    AuditKey,
    BrandHold,
    NoteTopic,
    Proposal,
    ProviderNote,
)
from mmo_trio.storage.sql.store import Store
from mmo_trio.workers.housekeeping import AuditHeadLogger
from mmo_trio.workers.notices import (
    NoticeReceiver,
    NoticeWorker,
    WaitingMatters,
    format_record,
    parse_record,
)
from mmo_trio.workers.providers.float_monitor import LOW
from tests.conformance.driver import NOON, after_noon, submit_batch
from tests.conformance.inputs import PAYER, brand, creation, reference, succeeded
from tests.simulation.stores.simulated_run import at_once, quiet_server
from tests.support.sqlite_store import StoreFile

SECTION = NoticesSection(
    webhook_url="https://chat.example/hooks/a-secret-path",
    console_url="https://console.example.com",
    failed_callbacks=2,
)


def now() -> Instant:
    return later(NOON, Span(round((trio.current_time() + 2 * 3600) * SECOND)))


def moment() -> Moment:
    return Moment.at(now())


@define(eq=False)
class Staff:
    """Receives the messages; each attempt ends as `outcome` says, and takes so many seconds."""

    section: NoticesSection = SECTION
    outcome: DeliveryOutcome = DeliveryOutcome.DELIVERED
    takes_s: float = 0.0
    requests: list[HttpRequest] = Factory(list)
    at: list[float] = Factory(list)

    async def deliver(self, request: HttpRequest) -> DeliveryAttempt:
        self.requests.append(request)
        self.at.append(trio.current_time())
        await trio.sleep(self.takes_s)
        return DeliveryAttempt(self.outcome, "https://chat.example", 204, detail="It hangs.")

    @property
    def messages(self) -> list[Mapping[str, Any]]:
        return [json.loads(each.body) for each in self.requests]

    @property
    def kinds(self) -> list[list[str]]:
        return [[each["kind"] for each in message["matters"]] for message in self.messages]

    def process(self, store: Store, **matters: Any) -> NoticeWorker:
        """One process of a gateway on this store."""
        receiver = NoticeReceiver(self.section, "https://pay.example.com", self.deliver)
        return NoticeWorker(waiting(store, **matters), receiver, moment)


def waiting(
    store: Store,
    findings: Callable[[], Sequence[AccountFinding]] = tuple,
    breakers: Mapping[str, BreakerState] | None = None,
    expires_at: Callable[[], Instant | None] = lambda: None,
) -> WaitingMatters:
    return WaitingMatters(store, {"momo"}, findings, lambda: breakers or {}, expires_at, 2)


async def leave_entry(store: Store) -> None:
    """Leave an entry in the suspense book."""
    await submit_batch(store, (UnmatchedNotified("momo", '{"a":1}'), NOON))


async def run_for(seconds: float, *workers: NoticeWorker) -> None:
    with trio.move_on_after(seconds):
        async with trio.open_nursery() as nursery:
            for each in workers:
                nursery.start_soon(each.run)


class FarFromStore(NoticeWorker):
    """A process that knows what others have noted a second after it has asked."""

    async def _known(self) -> ProviderNote:
        known = await super()._known()
        await trio.sleep(1)
        return known


async def test_one_of_several_processes_tells_it_once(autojump_clock: MockClock) -> None:
    server, staff = quiet_server(), Staff()
    stores = [at_once(server, str(number)) for number in range(3)]
    await leave_entry(stores[0])
    made = [staff.process(each) for each in stores]
    await run_for(6 * 3600, *(FarFromStore(each.matters, each.receiver, moment) for each in made))
    assert staff.kinds == [["suspense"]]


async def test_a_message_says_what_waits_and_nothing_of_merchants_and_payers(
    autojump_clock: MockClock,
) -> None:
    store, staff = at_once(quiet_server()), Staff()
    await submit_batch(
        store, (creation(1), NOON), (creation(2), NOON), (BeginSubmission(reference(1)), NOON)
    )
    await leave_entry(store)
    await run_for(100, staff.process(store))
    (message,) = staff.messages
    assert message["gateway"] == "https://pay.example.com"
    assert message["text"].startswith("pay.example.com: The outcome of 1 payment has been unknown")
    stuck, suspense = message["matters"]
    amount = (await store.admin.stuck_transactions(now()))[0].order.requested
    assert stuck["sums"] == {amount.currency: amount.text}
    assert (stuck["kind"], stuck["count"], stuck["isNew"]) == ("payments_stuck", 1, True)
    assert suspense["link"] == "https://console.example.com/suspense"
    assert f". {stuck['link']} 1 entry" in message["text"], "a chat shows the text alone"
    assert message["text"].endswith(f". {suspense['link']}")
    sent = staff.requests[0].body.decode()
    assert PAYER.msisdn is not None
    for private in (reference(1), "acme", PAYER.msisdn, "order/1", "mobile_ke"):
        assert private not in sent, private


async def test_everything_that_waits_is_found(autojump_clock: MockClock) -> None:
    store = at_once(quiet_server())
    admin, later_on = store.admin, now()
    await submit_batch(
        store,
        *((creation(number), NOON) for number in (1, 2)),
        *((BeginSubmission(reference(number)), NOON) for number in (1, 2)),
        (succeeded(1), NOON),
    )
    asked = RequestReversal(
        reference(1),
        "acme",
        Money(1_000, "KES"),
        reason="twice",
        user="amina",
        needs_approval=True,
        daily_max=None,
    )
    await submit_batch(store, (asked, later_on))
    await admin.add_proposal(
        Proposal(0, reference(2), "acme", None, None, "asked", "page 3", "ada", later_on)
    )
    await leave_entry(store)
    balance = AccountBalance("momo", "disbursement", Money(100, "UGX"), later_on, is_float=True)
    await admin.record_balances([balance])
    await admin.note_provider(ProviderNote("momo", NoteTopic.FLOAT, "disbursement", later_on, LOW))
    await admin.note_provider(ProviderNote("", NoteTopic.AUDIT_LOG_CHANGED, "", later_on))
    await admin.save_brands([brand()])
    await admin.begin_restoration("new", [BrandHold("acme", later_on, RESTORATION)])
    matters = waiting(
        store,
        findings=lambda: [
            AccountFinding("momo", "initiator", AccountState.REFUSED, "1", "Wrong."),
            AccountFinding("mtn", "sign-in", AccountState.UNKNOWN, "HTTP 500", "Down."),
            AccountFinding("mtn", "balance", AccountState.UNKNOWN, "", "No answer."),
        ],
        breakers={"momo": BreakerState.CLOSED, "mtn": BreakerState.OPEN},
        expires_at=lambda: later(later_on, Span(3 * DAY + HOUR)),
    )
    found = {each.kind: each for each in await matters.find(Moment.at(later_on))}
    assert {kind: each.count for kind, each in found.items()} == {
        NoticeKind.PAYMENTS_STUCK: 1,
        NoticeKind.REVERSALS_TO_APPROVE: 1,
        NoticeKind.RESOLUTIONS_TO_APPROVE: 1,
        NoticeKind.SUSPENSE: 1,
        NoticeKind.ACCOUNT_REFUSED: 1,
        NoticeKind.SIGN_IN_FAILS: 1,
        NoticeKind.PROVIDER_UNREACHABLE: 1,
        NoticeKind.FLOAT_LOW: 1,
        NoticeKind.AUDIT_LOG_CHANGED: 1,
        NoticeKind.STORE_RESTORED: 1,
        NoticeKind.CERTIFICATE_EXPIRES: 3,
    }
    assert found[NoticeKind.REVERSALS_TO_APPROVE].sums == (Money(1_000, "KES"),)
    assert found[NoticeKind.SIGN_IN_FAILS].providers == ("mtn",)


async def test_no_sum_has_money_of_simulated_payments(autojump_clock: MockClock) -> None:
    store = at_once(quiet_server())
    simulated = frozenset({creation(1).brand.methods[0].provider})
    for number in (1, 2):
        made = evolve(creation(number), simulated_providers=simulated)
        begun = BeginSubmission(reference(number))
        await submit_batch(store, (made, NOON), (begun, NOON))

    await submit_batch(store, (succeeded(1), NOON))
    asked = RequestReversal(
        reference(1),
        "acme",
        Money(1_000, "KES"),
        reason="twice",
        user="amina",
        needs_approval=True,
        daily_max=None,
    )
    await submit_batch(store, (asked, now()))
    found = {each.kind: each for each in await waiting(store).find(moment())}
    for kind in (NoticeKind.PAYMENTS_STUCK, NoticeKind.REVERSALS_TO_APPROVE):
        assert (found[kind].count, found[kind].sums) == (1, ())


async def test_callbacks_are_told_where_many_fail_or_all_of_a_merchant_are_stopped(
    autojump_clock: MockClock,
) -> None:
    attempt = DeliveryAttempt(DeliveryOutcome.TIMEOUT, "https://merchant.example/results")
    open_breaker = BreakerSnapshot(BreakerState.OPEN)
    at = now()
    async with StoreFile().open() as store:
        for number in (1, 2):
            await submit_batch(
                store,
                (creation(number), at),
                (BeginSubmission(reference(number)), at),
                (succeeded(number), at),
                (CallbackConcluded(reference(number), attempt, breaker=open_breaker), at),
            )
            found = {each.kind: each.count for each in await waiting(store).find(Moment.at(at))}
            assert found[NoticeKind.CALLBACKS_STOPPED] == 1
            assert found.get(NoticeKind.CALLBACKS_NOT_DELIVERED) == {1: None, 2: 2}[number]
        an_hour_later = later(at, HOUR)
        found = {
            each.kind: each.count for each in await waiting(store).find(Moment.at(an_hour_later))
        }
    assert NoticeKind.CALLBACKS_NOT_DELIVERED not in found


async def test_a_changed_audit_log_is_told_whichever_process_has_seen_it(
    autojump_clock: MockClock,
) -> None:
    server, staff = quiet_server(), Staff()
    one, other = at_once(server, "one"), at_once(server, "other")
    audit_log = AuditLog(one.admin, AuditKey("k1", bytes(32)), now)
    await audit_log.record("user:ada", "looked")
    head_logger = AuditHeadLogger(audit_log)
    await head_logger.log_head()
    head_logger._logged = evolve(head_logger._logged, hash="0" * 64)
    await head_logger.log_head()
    await run_for(25 * 3600, staff.process(other))
    assert staff.kinds[0] == ["audit_log_changed"]


@pytest.mark.parametrize("ahead", [Span(-6 * HOUR), Span(6 * HOUR)])
async def test_wall_times_are_compared_with_wall_time(
    autojump_clock: MockClock, ahead: Span
) -> None:
    """The gateway's own time began with a wrong clock, and passes rightly ever since."""
    attempt = DeliveryAttempt(DeliveryOutcome.TIMEOUT, "https://merchant.example/results")
    staff, at = Staff(), now()
    expires_at = later(at, Span(14 * DAY - HOUR))
    async with StoreFile().open() as store:
        for number in (1, 2):
            await submit_batch(
                store,
                (creation(number), at),
                (BeginSubmission(reference(number)), at),
                (succeeded(number), at),
                (CallbackConcluded(reference(number), attempt), at),
            )

        worker = staff.process(store, expires_at=lambda: expires_at)
        worker = evolve(worker, moment=lambda: Moment(later(now(), ahead), now()))
        await run_for(100, worker)

    [message] = staff.messages
    assert {each["kind"] for each in message["matters"]} == {
        "callbacks_not_delivered",
        "certificate_expires",
    }
    for time in (message["at"], *(each["since"] for each in message["matters"])):
        assert time[:13] == format_with_microseconds(at)[:13]


async def test_an_operator_that_is_tried_again_and_fails_is_told(autojump_clock: MockClock) -> None:
    """A breaker is half-open while a probe waits for an answer that doesn't come."""
    server, staff, began_at = quiet_server(), Staff(), trio.current_time()

    class Unreachable(dict[str, BreakerState]):
        def items(self) -> Any:
            is_tried = trio.current_time() - began_at >= 90
            return {"momo": BreakerState.HALF_OPEN if is_tried else BreakerState.OPEN}.items()

    await run_for(600, staff.process(at_once(server), breakers=Unreachable(momo=BreakerState.OPEN)))
    assert staff.kinds == [["provider_unreachable"]]


async def test_what_one_of_several_processes_knows_is_told(autojump_clock: MockClock) -> None:
    server, staff = quiet_server(), Staff()
    knowing = staff.process(at_once(server, "one"), breakers={"momo": BreakerState.OPEN})
    other = staff.process(at_once(server, "other"))
    with trio.move_on_after(900):
        while True:
            for process in (knowing, other):
                await trio.sleep(61)
                await process._run_round()

    assert staff.kinds == [["provider_unreachable"]]


async def test_a_receiver_that_is_down_is_told_once_it_is_back(autojump_clock: MockClock) -> None:
    store, staff = at_once(quiet_server()), Staff(outcome=DeliveryOutcome.TIMEOUT, takes_s=10)
    await leave_entry(store)
    with capture_logs() as lines:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run_for, 4 * 3600, staff.process(store))
            await trio.sleep(3 * 3600)
            tried = len(staff.requests)
            staff.outcome = DeliveryOutcome.DELIVERED
    assert 6 <= tried <= 18, "six an hour at most"
    assert len(staff.requests) == tried + 1
    events = [each["event"] for each in lines if each["event"].startswith("notice")]
    assert events == ["notice_failed"] * tried + ["notice_sent"]
    assert "a-secret-path" not in str(lines)


async def test_a_process_that_dies_while_it_sends_loses_no_message(
    autojump_clock: MockClock,
) -> None:
    server, staff = quiet_server(), Staff(takes_s=10)
    await leave_entry(at_once(server, "first"))
    await run_for(65, staff.process(at_once(server, "dies")))
    assert len(staff.requests) == 1
    await run_for(3600, staff.process(at_once(server, "next")))
    assert len(staff.requests) == 2


async def test_the_key_is_shown_to_the_receiver(autojump_clock: MockClock, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("abc-123\n")
    store, staff = at_once(quiet_server()), Staff(evolve(SECTION, webhook_key_file=key))
    await leave_entry(store)
    await run_for(100, staff.process(store))
    assert (b"authorization", b"Bearer abc-123") in staff.requests[0].headers
    assert b"abc-123" not in staff.requests[0].body


async def test_a_key_that_is_lost_while_serving_stops_nothing_else(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    section = evolve(SECTION, webhook_key_file=tmp_path / "none")
    store, staff = at_once(quiet_server()), Staff(section)
    await leave_entry(store)
    with capture_logs() as lines:
        await run_for(100, staff.process(store))
    assert staff.requests == []
    assert "webhook_key_file" in str(lines)


async def test_a_round_that_fails_is_followed_by_the_next(autojump_clock: MockClock) -> None:
    server, staff = quiet_server(), Staff()
    store = at_once(server)
    await leave_entry(store)
    failed = False

    def fail_once() -> Sequence[AccountFinding]:
        nonlocal failed
        if not failed:
            failed = True
            raise RuntimeError("a fault of ours")
        return ()

    with capture_logs() as lines:
        await run_for(300, staff.process(store, findings=fail_once))
    assert "notice_round_failed" in {each["event"] for each in lines}
    assert len(staff.requests) == 1


@pytest.mark.parametrize(
    "record",
    [
        NoticeRecord(),
        NoticeRecord(
            {NoticeKind.SUSPENSE: NOON},
            {NoticeKind.SUSPENSE: after_noon(1)},
            {NoticeKind.SUSPENSE: Told(NOON, 3)},
            (NOON,),
            2,
        ),
    ],
)
def test_a_record_is_read_as_it_was_written(record: NoticeRecord) -> None:
    assert parse_record(format_record(record)) == record

"""The sandbox: every row of its table, played through the gateway, the provider and the operator in
virtual time."""

from __future__ import annotations

import json
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.messages.changes import SuspenseReason
from mmo_sansio.messages.inputs import (
    BeginSubmission,
    ProviderAccepted,
    ProviderFailed,
    ProviderNeverReceived,
    ProviderSucceeded,
)
from mmo_sansio.messages.intents import (
    DeliverCallback,
    Intent,
    PollEnded,
    PollProvider,
    SubmitToProvider,
)
from mmo_sansio.messages.replies import Applied
from mmo_sansio.messages.reversals import (
    ReversalAccepted,
    ReversalFailed,
    ReversalNeverReceived,
    ReversalReport,
    ReversalSucceeded,
)
from mmo_sansio.payments.gateway import Gateway
from mmo_sansio.providers.common.interface import drive
from mmo_sansio.providers.sandbox import simulated_operator
from mmo_sansio.providers.sandbox.adapter import SandboxProvider
from mmo_sansio.providers.sandbox.journal import (
    SandboxAcknowledgement,
    SandboxJournalEntry,
    SandboxResult,
    SandboxReversal,
    SandboxSubmission,
    format_entry,
    parse_entry,
)
from mmo_sansio.providers.sandbox.scenarios import (
    NOT_PLAYED,
    SCENARIOS,
    SCENARIOS_BY_DIGITS,
    SCENARIOS_BY_NAME,
    Scenario,
    find_scenario,
)
from mmo_sansio.providers.sandbox.simulated_operator import SimulatedOperator
from mmo_sansio.testing import (
    KES,
    REFERENCE,
    START,
    a_create_payment,
    a_party,
    a_transaction,
    numbered_reference,
)
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Instant, Moment, Span, earlier, later
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Operation, Source, Stage, Status, Transaction
from mmo_sansio.values.money import Money
from mmo_sansio.values.reversals import Reversal
from tests.support.answer_rows import Played, Row, read_rows
from tests.support.reversals import a_reversal

EXPIRY = later(START, Span(3 * clock.DAY))
PAGE = Path(__file__).parents[4] / "docs" / "make_sandbox.py"
STEPS_MAX = 500


def a_provider() -> SandboxProvider:
    return SandboxProvider("test", "Test Money")


class Sandbox:
    """A gateway, the sandbox provider and its operator, and a clock that stops at everything that
    is due."""

    def __init__(self) -> None:
        self.gateway = Gateway()
        self.provider: SandboxProvider = a_provider()
        self.operator = SimulatedOperator()
        self.book: list[SandboxJournalEntry] = []
        self.now: Instant = START
        self.questions: list[Span] = []
        """How long after the start each question was asked."""

    def create(self, **members: Any) -> None:
        self.gateway.receive(a_create_payment(**members), now=self.now)
        self.settle()

    def exchange(self, request: HttpRequest) -> HttpResponse:
        answer = self.operator.receive(request, now=self.now)
        self.book.extend(self.operator.take_entries())
        return answer

    def settle(self) -> None:
        while intents := self.gateway.take_intents():
            for each in intents:
                self._act(each)

    def _act(self, intent: Intent) -> None:
        match intent:
            case SubmitToProvider(reference):
                reply = self.gateway.receive(BeginSubmission(reference), now=self.now)
                assert isinstance(reply, Applied)
                conversation = self.provider.submit(reply.transaction, now=Moment.at(self.now))
                self.gateway.receive(drive(conversation, self.exchange), now=self.now)
            case PollProvider(reference) | PollEnded(reference):
                self.questions.append(Span(self.now - START))
                conversation = self.provider.poll(self.transaction(), now=Moment.at(self.now))
                self.gateway.receive(drive(conversation, self.exchange), now=self.now)
            case DeliverCallback():
                pass

    def advance_to(self, until: Instant) -> None:
        for _ in range(STEPS_MAX):
            dues = [self.gateway.next_wake(), self.operator.next_due()]
            due = min((at for at in dues if at is not None and at <= until), default=None)
            if due is None:
                self.now = until
                return
            self.now = max(self.now, due)
            self.tell()
            self.gateway.wake(now=self.now)
            self.settle()
        raise AssertionError("The sandbox does not come to rest.")

    def tell(self) -> None:
        for each in self.operator.due_notifications(now=self.now):
            self.book.extend(self.operator.take_entries())
            self.gateway.receive(self.provider.read_notification(each.request), now=self.now)
            self.operator.acknowledge(each.id, now=self.now)
        self.book.extend(self.operator.take_entries())

    def transaction(self) -> Transaction:
        return self.gateway.transaction(REFERENCE)

    def suspense(self) -> list[SuspenseReason]:
        return [each.reason for each in self.gateway.suspense]


def failed_with(code: ErrorCode) -> Callable[[Sandbox], None]:
    def check(sandbox: Sandbox) -> None:
        progress = sandbox.transaction().progress
        assert (progress.stage, progress.error_code) == (Stage.FAILED, code)
        assert progress.completed_at == START + 200 * clock.MILLISECOND
        assert progress.completion_source is Source.WEBHOOK
        assert progress.final is None
        assert progress.provider_data is not None
        assert (progress.provider_data.error_code or "").startswith("SBX-")
        assert progress.provider_data.error_message
        assert not sandbox.suspense()

    return check


def succeeded_after(
    span: Span,
    *suspense: SuspenseReason,
    source: Source = Source.WEBHOOK,
    final: Money | None = None,
) -> Callable[[Sandbox], None]:
    def check(sandbox: Sandbox) -> None:
        progress = sandbox.transaction().progress
        assert progress.stage is Stage.SUCCEEDED
        assert progress.completed_at == START + span
        assert progress.completion_source is source
        assert progress.final == (final or KES(150))
        assert progress.provider_reference
        assert progress.provider_data is not None
        assert progress.provider_data.fee == KES("1.50")
        assert tuple(sandbox.suspense()) == suspense

    return check


def expired(*suspense: SuspenseReason) -> Callable[[Sandbox], None]:
    def check(sandbox: Sandbox) -> None:
        progress = sandbox.transaction().progress
        assert progress.error_code is ErrorCode.TRANSACTION_EXPIRED
        assert progress.completed_at == EXPIRY
        assert tuple(sandbox.suspense()) == suspense

    return check


AT_ONCE = Span(200 * clock.MILLISECOND)
ENDS: dict[str, Callable[[Sandbox], None]] = {
    # What fails is named as its reason, but for four.
    **{code.value: failed_with(code) for code in ErrorCode},
    "insufficient_funds": failed_with(ErrorCode.USER_INSUFFICIENT_FUNDS),
    "timeout": failed_with(ErrorCode.USER_TIMEOUT),
    "cancelled": failed_with(ErrorCode.USER_CANCELLED),
    "unavailable": failed_with(ErrorCode.PROVIDER_UNAVAILABLE),
    "by_poll": succeeded_after(Span(2 * clock.SECOND), source=Source.POLL),
    "other_amount": succeeded_after(AT_ONCE, SuspenseReason.SETTLED_LESS, final=KES("149.99")),
    "never": expired(),
    "after_expiry": expired(SuspenseReason.LATE_RESULT),
    "twice": succeeded_after(AT_ONCE, SuspenseReason.REPEATED_RESULT),
    "conflicting": succeeded_after(AT_ONCE, SuspenseReason.CONFLICTING_RESULT),
    "slow": succeeded_after(Span(10 * clock.SECOND)),
    "phone": expired(),
    "success": succeeded_after(AT_ONCE),
}


@pytest.mark.spec("S2", "S3", "S5", "E1")
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.digits or "else")
@pytest.mark.parametrize("chosen_by", ["digits", "header"])
def test_every_row_of_the_table_ends_as_it_says(scenario: Scenario, chosen_by: str) -> None:
    sandbox = Sandbox()
    if chosen_by == "digits":
        sandbox.create(party=a_party(msisdn=f"+254700000{scenario.digits or 200}"))
    else:
        sandbox.create(scenario=scenario.name)
    assert sandbox.transaction().status is Status.PENDING
    sandbox.advance_to(later(EXPIRY, clock.MINUTE))
    ENDS[scenario.name](sandbox)
    assert [each.reference for each in sandbox.book if isinstance(each, SandboxSubmission)] == [
        REFERENCE
    ]


@pytest.mark.spec("S6")
def test_by_poll_is_asked_first_after_two_seconds() -> None:
    sandbox = Sandbox()
    sandbox.create(scenario="by_poll")
    sandbox.advance_to(EXPIRY)
    assert sandbox.questions == [2 * clock.SECOND]


@pytest.mark.spec("S5")
def test_after_expiry_is_told_one_second_after_it() -> None:
    sandbox = Sandbox()
    sandbox.create(scenario="after_expiry")
    sandbox.advance_to(earlier(later(EXPIRY, clock.SECOND), Span(1)))
    assert sandbox.suspense() == []
    sandbox.advance_to(later(EXPIRY, clock.SECOND))
    assert sandbox.suspense() == [SuspenseReason.LATE_RESULT]


@pytest.mark.spec("S5")
@pytest.mark.parametrize("scenario", ["twice", "conflicting"])
def test_a_second_result_is_told_one_second_after_the_first(scenario: str) -> None:
    sandbox = Sandbox()
    sandbox.create(scenario=scenario)
    sandbox.advance_to(earlier(later(START, Span(1_200 * clock.MILLISECOND)), Span(1)))
    assert sandbox.suspense() == []
    sandbox.advance_to(later(START, Span(1_200 * clock.MILLISECOND)))
    assert len(sandbox.suspense()) == 1


@pytest.mark.spec("S2")
@pytest.mark.parametrize(
    ("amount", "final", "fee"),
    [
        pytest.param(KES("10.00"), KES("9.99"), KES("0.10"), id="one less"),
        pytest.param(KES("0.01"), KES("0.01"), KES("0.01"), id="never below one"),
        pytest.param(Money(150, "UGX"), Money(149, "UGX"), Money(1, "UGX"), id="no decimals"),
        pytest.param(Money(151, "UGX"), Money(150, "UGX"), Money(2, "UGX"), id="half up"),
    ],
)
def test_another_amount_and_its_fee(amount: Money, final: Money, fee: Money) -> None:
    transaction = a_transaction(Stage.SUBMITTING, requested=amount, scenario="other_amount")
    operator = SimulatedOperator()
    drive(
        a_provider().submit(transaction, now=Moment.at(START)),
        lambda request: operator.receive(request, now=START),
    )
    (told,) = operator.due_notifications(now=later(START, clock.SECOND))
    report = a_provider().read_notification(told.request)
    assert isinstance(report, ProviderSucceeded)
    assert (report.final, report.fee) == (final, fee)


@pytest.mark.spec("S1")
def test_the_header_beats_the_digits_and_a_tax_payout_has_none() -> None:
    party = a_party(msisdn="+254700000101")
    assert find_scenario(a_transaction(party=party).order).name == "insufficient_funds"
    assert find_scenario(a_transaction(party=party, scenario="slow").order).name == "slow"
    tax = a_transaction(party=a_party(msisdn="101"), type=Operation.DIRECT_TAXPAYOUT.type)
    assert find_scenario(tax.order) is SCENARIOS_BY_NAME["success"]


@pytest.mark.spec("E1")
@pytest.mark.parametrize("code", ErrorCode)
def test_every_code_of_the_catalogue_can_be_played_or_says_why_not(code: ErrorCode) -> None:
    """A merchant is asked to handle each code, and has to see each once before going live."""
    playing_scenarios = runpy.run_path(str(PAGE))["playing_scenarios"]
    if code in NOT_PLAYED:
        assert playing_scenarios(code) == ()
        return
    scenario = playing_scenarios(code)[0]
    assert scenario.digits is not None
    sandbox = Sandbox()
    sandbox.create(party=a_party(msisdn=f"+254700000{scenario.digits}"))
    sandbox.advance_to(later(EXPIRY, clock.MINUTE))
    assert sandbox.transaction().progress.error_code is code


def test_no_two_scenarios_share_a_number_or_a_name() -> None:
    assert len(SCENARIOS_BY_NAME) == len(SCENARIOS)
    assert len(SCENARIOS_BY_DIGITS) == len([each for each in SCENARIOS if each.digits is not None])


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ({"requested": KES("150.55")}, ErrorCode.AMOUNT_OUT_OF_RANGE),
        (
            {"requested": KES("150.55"), "type": Operation.DIRECT_TAXPAYOUT.type},
            ErrorCode.AMOUNT_OUT_OF_RANGE,
        ),
        ({"requested": Money(150_55, "EUR")}, None),
        ({"requested": Money(5_001, "UGX")}, None),
        ({"requested": KES("150.55"), "scenario": "slow"}, None),
    ],
)
def test_it_rejects_what_real_operators_reject_unless_it_is_lenient(
    members: dict[str, Any], code: ErrorCode | None
) -> None:
    transaction = a_transaction(Stage.SUBMITTING, **members)

    def outcome(provider: SandboxProvider) -> ErrorCode | None:
        operator = SimulatedOperator()
        drive(
            provider.submit(transaction, now=Moment.at(START)),
            lambda request: operator.receive(request, now=START),
        )
        (told,) = operator.due_notifications(now=later(START, Span(11 * clock.SECOND)))
        report = provider.read_notification(told.request)
        return report.error_code if isinstance(report, ProviderFailed) else None

    assert outcome(a_provider()) is code
    assert outcome(SandboxProvider("test", "Test Money", is_lenient=True)) is None


@pytest.mark.spec("S2")
@pytest.mark.parametrize("approves", [True, False])
def test_at_the_phone_a_person_decides(approves: bool) -> None:
    sandbox = Sandbox()
    sandbox.create(scenario="phone")
    sandbox.advance_to(later(START, clock.HOUR))
    (prompt,) = sandbox.operator.prompts()
    assert (prompt.reference, prompt.amount) == (REFERENCE, KES("150.00"))
    decide = sandbox.operator.approve if approves else sandbox.operator.decline
    assert decide(REFERENCE, now=sandbox.now)
    assert not sandbox.operator.approve(REFERENCE, now=sandbox.now)
    assert sandbox.operator.prompts() == ()
    sandbox.advance_to(sandbox.now)
    progress = sandbox.transaction().progress
    assert progress.completed_at == START + clock.HOUR
    assert progress.error_code is (None if approves else ErrorCode.USER_CANCELLED)


@pytest.mark.spec("T3")
def test_the_payer_s_name_is_in_the_party_data() -> None:
    sandbox = Sandbox()
    sandbox.create(party=a_party(first_name="Wanjikũ", last_name="Otieno"))
    sandbox.advance_to(later(START, clock.SECOND))
    data = sandbox.transaction().progress.provider_data
    assert data is not None
    assert json.loads(data.party_data or "")["registeredName"] == "Wanjikũ Otieno"


# --- what the provider makes of answers, and of none


PLAYED = Played(
    "sandbox",
    a_provider,
    lambda operation, **members: a_transaction(Stage.SUBMITTING, provider="test", **members),
    is_always_versioned=False,
)


@pytest.mark.parametrize("row", read_rows(Path(__file__).with_name("answers.txt")))
def test_answers(row: Row) -> None:
    PLAYED.check(row)


@pytest.mark.spec("S6")
def test_never_received_names_the_version_that_was_asked_about() -> None:
    transaction = a_transaction(Stage.SUBMITTING, version=7)
    conversation = a_provider().poll(transaction, now=Moment.at(START))
    report = drive(conversation, lambda request: HttpResponse(404))
    assert report == ProviderNeverReceived(REFERENCE, "test", 7)


@pytest.mark.spec("S6")
def test_a_repeated_submission_stands_in_the_book_twice() -> None:
    sandbox = Sandbox()
    transaction = a_transaction(Stage.SUBMITTING)
    for _ in range(2):
        report = drive(sandbox.provider.submit(transaction, now=Moment.at(START)), sandbox.exchange)
        assert isinstance(report, ProviderAccepted)
    assert [type(each) for each in sandbox.book] == [SandboxSubmission, SandboxSubmission]


# --- money back


def reversal_of(number: int = 1, minor: int = 15_000) -> Reversal:
    payment = a_transaction(Stage.SUCCEEDED, provider="test")
    return a_reversal(payment, number=number, amount=Money(minor, "KES"))


def reversed_by(sandbox: Sandbox, reversal: Reversal) -> ReversalReport:
    """Send a reversal and ask after it; return the answer."""
    adapter, payment = sandbox.provider, sandbox.transaction()
    answer = drive(adapter.reverse(reversal, payment, now=Moment.at(sandbox.now)), sandbox.exchange)
    assert isinstance(answer, ReversalAccepted)
    return drive(
        adapter.poll_reversal(reversal, payment, now=Moment.at(sandbox.now)), sandbox.exchange
    )


@pytest.mark.spec("S6")
def test_money_of_a_payment_is_moved_back_in_parts_and_never_more_than_was_paid() -> None:
    sandbox = Sandbox()
    sandbox.create()
    sandbox.advance_to(later(START, clock.SECOND))
    first = reversed_by(sandbox, reversal_of(1, 10_000))
    assert first == ReversalSucceeded(
        f"{REFERENCE}-1", "test", Source.POLL, "SBXRTESTTEST00-1", KES(100)
    )
    assert isinstance(reversed_by(sandbox, reversal_of(2, 5_100)), ReversalFailed)
    assert isinstance(reversed_by(sandbox, reversal_of(3, 5_000)), ReversalSucceeded)
    entries = [each for each in sandbox.book if isinstance(each, SandboxReversal)]
    assert [each.failure is None for each in entries] == [True, False, True]
    again = restored(sandbox.book)
    asked = HttpRequest("GET", f"https://sandbox.invalid/reversals/{REFERENCE}-1".encode())
    assert again.receive(asked, now=START).status == 200


@pytest.mark.spec("S6")
def test_the_operator_is_certain_of_reversals_that_it_never_received() -> None:
    sandbox = Sandbox()
    sandbox.create()
    asked = sandbox.provider.poll_reversal(
        reversal_of(), sandbox.transaction(), now=Moment.at(START)
    )
    assert isinstance(drive(asked, sandbox.exchange), ReversalNeverReceived)


# --- the operator's memory


def restored(book: list[SandboxJournalEntry]) -> SimulatedOperator:
    """An operator that knows only what it can read in the lines of its book."""
    operator = SimulatedOperator()
    operator.restore([parse_entry(format_entry(each)) for each in book])
    return operator


@pytest.mark.spec("S6")
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.digits or "else")
def test_a_restart_between_any_two_steps_changes_no_end(scenario: Scenario) -> None:
    sandbox = Sandbox()
    sandbox.create(scenario=scenario.name)
    for at in (START + 200 * clock.MILLISECOND, START + clock.SECOND, EXPIRY, EXPIRY + clock.HOUR):
        sandbox.operator = restored(sandbox.book)
        sandbox.advance_to(Instant(at))
    ENDS[scenario.name](sandbox)


@pytest.mark.spec("S6")
def test_what_was_told_and_not_acknowledged_is_told_again_after_a_restart() -> None:
    sandbox = Sandbox()
    sandbox.create()
    (first,) = sandbox.operator.due_notifications(now=later(START, clock.SECOND))
    book = [*sandbox.book, *sandbox.operator.take_entries()]
    assert sandbox.operator.due_notifications(now=later(START, clock.HOUR)) == []
    again = restored(book)
    assert again.due_notifications(now=later(START, clock.SECOND)) == [first]
    again.acknowledge(first.id, now=later(START, clock.SECOND))
    again.acknowledge(first.id, now=later(START, clock.SECOND))
    book += again.take_entries()
    assert [type(each) for each in book] == [
        SandboxSubmission,
        SandboxResult,
        SandboxAcknowledgement,
    ]
    assert restored(book).due_notifications(now=later(START, clock.HOUR)) == []


@pytest.mark.spec("S5")
def test_results_of_one_payment_are_told_one_at_a_time() -> None:
    sandbox = Sandbox()
    sandbox.create(scenario="conflicting")
    (first,) = sandbox.operator.due_notifications(now=later(START, clock.HOUR))
    sandbox.operator.acknowledge(first.id, now=later(START, clock.HOUR))
    (second,) = sandbox.operator.due_notifications(now=later(START, clock.HOUR))
    assert (first.id, second.id) == ((REFERENCE, 1), (REFERENCE, 2))


def test_the_operator_remembers_what_is_not_over_and_the_last_of_what_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(simulated_operator, "FINISHED_PAYMENTS_MAX", 2)
    sandbox = Sandbox()
    names = ["phone", "by_poll", *["success"] * 4]
    for number, scenario in enumerate(names):
        subject = numbered_reference(number)
        sandbox.create(gateway_reference=subject, merchant_reference=subject, scenario=scenario)
    sandbox.advance_to(later(START, clock.SECOND))

    def known(operator: SimulatedOperator) -> list[int]:
        asked = [
            HttpRequest(
                "GET", f"https://sandbox.invalid/payments/{numbered_reference(each)}".encode()
            )
            for each in range(len(names))
        ]
        return [operator.receive(each, now=sandbox.now).status for each in asked]

    assert known(sandbox.operator) == [200, 200, 404, 404, 200, 200]
    assert known(restored(sandbox.book)) == [200, 200, 404, 404, 200, 200]


@pytest.mark.parametrize(
    ("method", "target", "body", "status"),
    [
        ("POST", b"https://sandbox.invalid/payments", b"{}", 400),
        ("POST", b"https://sandbox.invalid/payments", b'{"scenario":"no such"}', 400),
        ("GET", b"https://sandbox.invalid/payments/\xff", b"", 404),
        ("POST", b"https://sandbox.invalid/reversals", b"{}", 400),
        ("GET", b"https://sandbox.invalid/reversals/A-1", b"", 404),
        ("DELETE", b"https://sandbox.invalid/payments", b"", 404),
        ("GET", b"https://sandbox.invalid/", b"", 404),
    ],
)
def test_the_operator_refuses_what_it_does_not_understand(
    method: str, target: bytes, body: bytes, status: int
) -> None:
    operator = SimulatedOperator()
    answer = operator.receive(HttpRequest(method, target, (), body), now=START)
    assert answer.status == status
    assert operator.take_entries() == ()

"""Results: the first valid one ends the payment, any other is kept for a person (clauses S1, S2,
S5)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import evolve

from mmo_sansio.messages.changes import SuspenseReason, SuspenseRecorded, TransactionAdvanced
from mmo_sansio.messages.inputs import Input, ProviderFailed, ProviderSucceeded
from mmo_sansio.messages.intents import DeliverCallback, IntentKind
from mmo_sansio.messages.replies import Applied, Ignored
from mmo_sansio.payments.decide import decide
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.evidence import SUBMISSION_TIMEOUT
from mmo_sansio.testing import (
    KES,
    PROVIDER_TITLE,
    REFERENCE,
    START,
    UNUSED_REFERENCE,
    a_resolution,
    a_transaction,
    failed,
    ledger_with,
    succeeded,
)
from mmo_sansio.values.clock import DAY, SECOND, Span, earlier, later
from mmo_sansio.values.error_codes import EXPLANATIONS, ErrorCode
from mmo_sansio.values.model import (
    Evidence,
    Progress,
    ProviderData,
    Source,
    Stage,
    Status,
    Transaction,
)
from mmo_sansio.values.money import Money

NOW = later(START, Span(5 * SECOND))
WAITING = a_transaction(Stage.AWAITING_RESULT, provider_reference="PROV-1")


def decided(before: Transaction | None, given: Input) -> Decision:
    ledger = ledger_with() if before is None else ledger_with(before)
    return decide(ledger, given, now=NOW)


def ended(before: Transaction, given: Input) -> Progress:
    """The progress after this, which must have ended the payment and scheduled its one callback."""
    decision = decided(before, given)
    assert isinstance(decision.reply, Applied), decision.reply
    (step,) = [each for each in decision.changes if isinstance(each, TransactionAdvanced)]
    assert decision.reply.transaction == step.after
    assert step.after.order == before.order
    assert decision.intents == (DeliverCallback(before.reference),)
    assert step.after.progress.stage.is_terminal
    assert step.after.progress.wake_at is None
    assert step.after.progress.completed_at == NOW
    return step.after.progress


def suspended(before: Transaction | None, given: Input) -> SuspenseRecorded:
    """The suspense book's new entry; nothing else may have changed."""
    decision = decided(before, given)
    noted, _ = decision.changes
    assert isinstance(noted, SuspenseRecorded)
    assert decision.reply == Ignored(f"Kept in the suspense book: {noted.reason}.", before)
    assert decision.intents == ()
    assert noted.at == NOW
    assert noted.provider == getattr(given, "provider", None)
    return noted


@pytest.mark.parametrize("paid", [Money(1, "KES"), Money(149_99, "KES")])
def test_a_success_with_less_than_was_requested_stands_before_a_person(paid: Money) -> None:
    decision = decided(WAITING, succeeded(final=paid, provider_reference="PROV-1"))
    assert isinstance(decision.reply, Applied)
    assert (decision.reply.transaction.status, decision.reply.transaction.progress.final) == (
        Status.SUCCESS,
        paid,
    )
    (noted,) = [each for each in decision.changes if isinstance(each, SuspenseRecorded)]
    assert (noted.reason, noted.gateway_reference, noted.brand) == (
        SuspenseReason.SETTLED_LESS,
        REFERENCE,
        "acme",
    )
    content = json.loads(noted.content)
    assert (content["result"], content["amount"], content["providerReference"]) == (
        "success",
        str(paid),
        "PROV-1",
    )


@pytest.mark.spec("S2")
def test_a_success_with_more_than_was_requested_stands_before_a_person() -> None:
    decision = decided(WAITING, succeeded(final=KES(15_000), provider_reference="PROV-1"))
    assert isinstance(decision.reply, Applied)
    assert decision.reply.transaction.progress.final == KES(15_000)
    (noted,) = [each for each in decision.changes if isinstance(each, SuspenseRecorded)]
    assert (noted.reason, noted.gateway_reference) == (SuspenseReason.SETTLED_MORE, REFERENCE)
    assert json.loads(noted.content)["amount"] == "15000.00 KES"


@pytest.mark.parametrize("paid", [None, KES(150)])
def test_a_success_with_what_was_requested_leaves_no_entry(paid: Money | None) -> None:
    changes = decided(WAITING, succeeded(final=paid)).changes
    assert not [each for each in changes if isinstance(each, SuspenseRecorded)]


@pytest.mark.spec("S2", "K1")
@pytest.mark.parametrize("source", [Source.WEBHOOK, Source.POLL], ids=str)
@pytest.mark.parametrize("stage", [Stage.SUBMITTING, Stage.AWAITING_RESULT], ids=str)
def test_a_success_sets_final_amount_and_fee(stage: Stage, source: Source) -> None:
    before = a_transaction(stage)
    given = succeeded(
        source=source,
        provider_reference="PROV-9",
        final=KES("149.99"),
        fee=KES("1.50"),
        party_data='{"name":"W. M."}',
    )
    assert ended(before, given) == Progress(
        stage=Stage.SUCCEEDED,
        version=before.progress.version + 1,
        wake_at=None,
        provider_reference="PROV-9",
        provider_data=ProviderData("test", PROVIDER_TITLE, KES("1.50"), '{"name":"W. M."}'),
        final=KES("149.99"),
        completed_at=NOW,
        completion_source=source,
        submitted_at=START,
        sent_version=2,
    )


@pytest.mark.spec("S2")
def test_a_success_without_an_amount_settles_what_was_requested() -> None:
    progress = ended(WAITING, succeeded())
    assert progress.final == KES(150)
    assert progress.provider_reference == "PROV-1"
    assert progress.provider_data == ProviderData("test", PROVIDER_TITLE)


@pytest.mark.spec("S2", "E1")
@pytest.mark.parametrize("code", ErrorCode, ids=str)
@pytest.mark.parametrize("source", [Source.WEBHOOK, Source.POLL], ids=str)
def test_a_failure_sets_code_and_message(code: ErrorCode, source: Source) -> None:
    given = failed(source=source, error_code=code, provider_reference="PROV-9")
    assert ended(WAITING, given) == Progress(
        stage=Stage.FAILED,
        version=WAITING.progress.version + 1,
        wake_at=None,
        provider_reference="PROV-9",
        provider_data=ProviderData(
            "test", PROVIDER_TITLE, error_code="1032", error_message="Request cancelled by user"
        ),
        final=None,
        completed_at=NOW,
        completion_source=source,
        error_code=code,
        error_message=EXPLANATIONS[code].meaning,
        submitted_at=START,
        sent_version=2,
    )


@pytest.mark.spec("S2")
def test_a_failure_keeps_the_known_provider_reference() -> None:
    assert ended(WAITING, failed()).provider_reference == "PROV-1"


@pytest.mark.spec("S5")
@pytest.mark.parametrize(
    "given", [succeeded(UNUSED_REFERENCE), failed(UNUSED_REFERENCE)], ids=["ok", "failed"]
)
def test_a_result_for_an_unknown_payment_is_kept(given: Input) -> None:
    noted = suspended(None, given)
    assert noted.reason is SuspenseReason.UNKNOWN_TRANSACTION
    assert (noted.gateway_reference, noted.brand) == (UNUSED_REFERENCE, None)


@pytest.mark.spec("S5")
@pytest.mark.parametrize("stage", [Stage.CREATED, Stage.AWAITING_CUSTOMER], ids=str)
@pytest.mark.parametrize("given", [succeeded(), failed()], ids=["ok", "failed"])
def test_a_result_for_what_was_never_submitted_is_kept(stage: Stage, given: Input) -> None:
    noted = suspended(a_transaction(stage), given)
    assert noted.reason is SuspenseReason.UNKNOWN_TRANSACTION
    assert (noted.gateway_reference, noted.brand) == (REFERENCE, "acme")


@pytest.mark.spec("S5")
@pytest.mark.parametrize("stage", Stage, ids=str)
@pytest.mark.parametrize(
    "given", [succeeded(provider="other"), failed(provider="other")], ids=["ok", "failed"]
)
def test_a_result_of_another_provider_is_kept(stage: Stage, given: Input) -> None:
    assert suspended(a_transaction(stage), given).reason is SuspenseReason.WRONG_PROVIDER


@pytest.mark.spec("S5", "M2")
def test_a_success_in_another_currency_is_kept() -> None:
    noted = suspended(WAITING, succeeded(final=Money(15_000, "TZS")))
    assert noted.reason is SuspenseReason.WRONG_CURRENCY
    assert json.loads(noted.content)["amount"] == "150.00 TZS"


SUCCESS = a_transaction(Stage.SUCCEEDED, provider_reference="PROV-1")
FAILURE = a_transaction(Stage.FAILED, provider_reference="PROV-1")
EXPIRED = a_transaction(
    Stage.FAILED, completion_source=Source.EXPIRY, error_code=ErrorCode.TRANSACTION_EXPIRED
)
R, K, L = (
    SuspenseReason.REPEATED_RESULT,
    SuspenseReason.CONFLICTING_RESULT,
    SuspenseReason.LATE_RESULT,
)

SECOND_RESULTS: list[tuple[str, Transaction, Any, SuspenseReason]] = [
    ("the same success", SUCCESS, succeeded(provider_reference="PROV-1"), R),
    ("the same success, amount named", SUCCESS, succeeded(final=KES(150)), R),
    ("another amount", SUCCESS, succeeded(final=KES(149)), K),
    ("another reference", SUCCESS, succeeded(provider_reference="PROV-2"), K),
    ("a failure after a success", SUCCESS, failed(), K),
    ("the same failure", FAILURE, failed(), R),
    ("another failure", FAILURE, failed(error_code=ErrorCode.USER_TIMEOUT), K),
    ("a success after a failure", FAILURE, succeeded(), K),
    ("a success after expiry", EXPIRED, succeeded(), L),
    ("a failure after expiry", EXPIRED, failed(), L),
]


@pytest.mark.spec("S1", "S5")
@pytest.mark.parametrize("source", [Source.WEBHOOK, Source.POLL], ids=str)
@pytest.mark.parametrize(
    ("before", "given", "reason"),
    [row[1:] for row in SECOND_RESULTS],
    ids=[row[0] for row in SECOND_RESULTS],
)
def test_a_second_result_changes_nothing_and_is_kept(
    before: Transaction,
    given: ProviderSucceeded | ProviderFailed,
    reason: SuspenseReason,
    source: Source,
) -> None:
    told = evolve(given, source=source)
    if reason is R and source is Source.POLL:
        decision = decided(before, told)
        agreed = Ignored("An answer that we asked for agrees with what is on record.", before)
        assert decision == Decision(agreed)
    else:
        assert suspended(before, told).reason is reason


@pytest.mark.spec("S5")
def test_a_manual_success_agrees_with_the_later_notification() -> None:
    by_hand = a_transaction(Stage.SUCCEEDED, completion_source=Source.MANUAL)
    assert suspended(by_hand, succeeded(provider_reference="PROV-1")).reason is R


@pytest.mark.spec("S5")
def test_the_suspense_book_keeps_what_was_told() -> None:
    noted = suspended(EXPIRED, succeeded(provider_reference="P", final=KES(9), fee=KES(1)))
    assert (noted.gateway_reference, noted.brand) == (REFERENCE, "acme")
    assert json.loads(noted.content) == {
        "result": "success",
        "source": "webhook",
        "providerReference": "P",
        "amount": "9.00 KES",
        "fee": "1.00 KES",
    }
    bare = json.loads(suspended(EXPIRED, succeeded()).content)
    assert (bare["amount"], bare["fee"]) == (None, None)
    assert json.loads(suspended(EXPIRED, failed(native_message="Refusé")).content) == {
        "result": "failed",
        "source": "webhook",
        "providerReference": None,
        "errorCode": "user_cancelled",
        "nativeCode": "1032",
        "nativeMessage": "Refusé",
    }
    assert "Refusé" in suspended(EXPIRED, failed(native_message="Refusé")).content


@pytest.mark.spec("S2")
@pytest.mark.parametrize("stage", [Stage.SUBMITTING, Stage.AWAITING_RESULT], ids=str)
def test_an_operator_makes_it_a_success(stage: Stage) -> None:
    before = a_transaction(stage, provider_reference="PROV-1")
    progress = ended(before, a_resolution(final=KES(140), provider_reference="PROV-2"))
    assert progress == Progress(
        stage=Stage.SUCCEEDED,
        version=before.progress.version + 1,
        wake_at=None,
        provider_reference="PROV-2",
        provider_data=ProviderData("test", PROVIDER_TITLE),
        final=KES(140),
        completed_at=NOW,
        completion_source=Source.MANUAL,
        submitted_at=START,
        sent_version=2,
    )
    plain = ended(before, a_resolution())
    assert (plain.final, plain.provider_reference) == (KES(150), "PROV-1")


@pytest.mark.spec("S2", "E1")
@pytest.mark.parametrize("stage", [each for each in Stage if not each.is_terminal], ids=str)
def test_an_operator_makes_it_a_failure(stage: Stage) -> None:
    code = ErrorCode.PROVIDER_UNAVAILABLE
    before = a_transaction(stage, submitted_at=earlier(START, SUBMISSION_TIMEOUT))
    progress = ended(before, a_resolution(error_code=code, final=KES(140)))
    assert progress.stage is Stage.FAILED
    assert progress.final is None
    assert progress.completion_source is Source.MANUAL
    assert progress.error_code is code
    assert progress.error_message == EXPLANATIONS[code].meaning


@pytest.mark.spec("S6")
def test_a_payment_whose_submission_may_be_in_flight_is_not_failed_by_hand() -> None:
    failure = a_resolution(error_code=ErrorCode.PROVIDER_TIMEOUT)
    before = a_transaction(
        Stage.SUBMITTING, submitted_at=earlier(NOW, Span(SUBMISSION_TIMEOUT - 1))
    )
    reason = "Test Money may be receiving it just now: try again in 30 seconds."
    assert decided(before, failure) == Decision(Ignored(reason, before))
    over = a_transaction(Stage.SUBMITTING, submitted_at=earlier(NOW, SUBMISSION_TIMEOUT))
    assert ended(over, failure).stage is Stage.FAILED
    assert ended(before, a_resolution()).stage is Stage.SUCCEEDED


@pytest.mark.spec("S5")
def test_a_reported_receipt_is_not_contradicted_by_hand() -> None:
    before = a_transaction(
        Stage.AWAITING_RESULT, evidence=Evidence("RECEIPT1", "0", reported_at=START)
    )
    reason = "Test Money has reported the receipt RECEIPT1."
    assert decided(before, a_resolution(error_code=ErrorCode.PROVIDER_TIMEOUT)) == Decision(
        Ignored(reason, before)
    )


def test_a_resolution_before_submission_withdraws_the_wish_to_submit() -> None:
    ledger = ledger_with(a_transaction())
    given = a_resolution(error_code=ErrorCode.USER_CANCELLED)
    decision = decide(ledger, given, now=NOW)
    ledger.apply(decision.changes, decision.intents)
    assert set(ledger.intents) == {(REFERENCE, IntentKind.CALLBACK)}


@pytest.mark.spec("S1")
@pytest.mark.parametrize(
    ("before", "given", "reason"),
    [
        (None, a_resolution(), "There is no such transaction."),
        (
            a_transaction(Stage.CREATED),
            a_resolution(),
            "A transaction that is created can't be made succeeded.",
        ),
        (
            a_transaction(Stage.AWAITING_CUSTOMER),
            a_resolution(),
            "A transaction that is awaiting_customer can't be made succeeded.",
        ),
        (
            SUCCESS,
            a_resolution(error_code=ErrorCode.USER_CANCELLED),
            "The transaction has succeeded, and a result does not change.",
        ),
        (FAILURE, a_resolution(), "The transaction has failed, and a result does not change."),
        (SUCCESS, a_resolution(), "The transaction has already succeeded."),
        (WAITING, a_resolution(final=Money(1, "UGX")), "The amount must be in KES."),
        (WAITING, a_resolution(provider="other"), "There is no such transaction."),
    ],
    ids=[
        "unknown",
        "created",
        "awaiting",
        "succeeded",
        "failed",
        "already",
        "currency",
        "provider",
    ],
)
def test_a_resolution_that_does_nothing_says_why(
    before: Transaction | None, given: Input, reason: str
) -> None:
    assert decided(before, given) == Decision(Ignored(reason, before))


@pytest.mark.spec("S3", "S5")
def test_a_result_after_three_days_still_pending_is_taken() -> None:
    """The clock has not woken it yet: the money moved, and that is the first valid result."""
    decision = decide(
        ledger_with(WAITING), succeeded(), now=later(later(START, Span(3 * DAY)), SECOND)
    )
    assert isinstance(decision.reply, Applied)
    assert decision.reply.transaction.progress.stage is Stage.SUCCEEDED

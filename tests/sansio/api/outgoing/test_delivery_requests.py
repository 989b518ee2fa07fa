"""The requests that deliver a result or a QR code, and how the delivery of a code is recorded
(clauses K1, Q1)."""

from __future__ import annotations

import json

import pytest
from attrs import evolve

from mmo_sansio.api.outgoing import callback_request, qr_code_request, transaction_object
from mmo_sansio.http.exchange import DeliveryOutcome
from mmo_sansio.http.messages import HttpRequest
from mmo_sansio.messages.changes import IntentConcluded, JournalEntry, QrRecorded
from mmo_sansio.messages.inputs import QrConcluded
from mmo_sansio.messages.intents import DeliverQr, IntentKind
from mmo_sansio.payments.decide import decide, reads
from mmo_sansio.payments.ledger import Ledger
from mmo_sansio.providers.common.emv_qr import QrOptions, make_qr_code, qr_merchant
from mmo_sansio.providers.sandbox.adapter import DEFAULT_QR_MERCHANT
from mmo_sansio.testing import REFERENCE, START, a_transaction, accepted, an_attempt, ledger_with
from mmo_sansio.values.clock import DAY, SECOND, Span, later
from mmo_sansio.values.fields import SettingsError, read_table
from mmo_sansio.values.model import Flow, QrCode, Stage, Transaction
from tests.support.emv_qr_reader import parse_objects, parse_payload

NOW = later(START, Span(5 * SECOND))
URL = "https://acme.example/qr"
CODE = QrCode(payload="0002…")


def a_qr_payin(stage: Stage, **members: object) -> Transaction:
    return a_transaction(stage, flow=Flow.QR, display_qr_url=URL, **members)


@pytest.mark.spec("Q1")
def test_the_code_is_wanted_once_when_the_provider_first_has_the_payment() -> None:
    ledger = ledger_with(a_qr_payin(Stage.SUBMITTING))
    first = decide(ledger, evolve(accepted(), qr=CODE), now=NOW)
    assert first.intents == (DeliverQr(REFERENCE),)
    ledger.apply(first.changes, first.intents)
    assert ledger.transactions[REFERENCE].progress.qr == CODE
    again = decide(ledger, evolve(accepted(), qr=CODE, poll_after=SECOND), now=NOW)
    assert again.intents == ()


@pytest.mark.spec("Q1")
def test_a_code_that_was_not_given_is_wanted_too_so_that_it_is_on_record() -> None:
    decision = decide(ledger_with(a_qr_payin(Stage.SUBMITTING)), accepted(), now=NOW)
    assert decision.intents == (DeliverQr(REFERENCE),)


@pytest.mark.spec("Q1")
def test_no_other_payment_has_a_code() -> None:
    decision = decide(ledger_with(a_transaction(Stage.SUBMITTING)), accepted(), now=NOW)
    assert decision.intents == ()


def waiting(stage: Stage) -> Ledger:
    ledger = ledger_with(a_qr_payin(stage, qr=CODE))
    ledger.apply((), (DeliverQr(REFERENCE),))
    return ledger


@pytest.mark.spec("Q1")
@pytest.mark.parametrize("stage", [Stage.AWAITING_RESULT, Stage.SUCCEEDED, Stage.FAILED])
@pytest.mark.parametrize("outcome", [DeliveryOutcome.DELIVERED, DeliveryOutcome.TIMEOUT])
def test_its_outcome_is_recorded_once_and_changes_nothing(
    stage: Stage, outcome: DeliveryOutcome
) -> None:
    ledger, given = waiting(stage), QrConcluded(REFERENCE, an_attempt(outcome))
    assert (REFERENCE, IntentKind.QR) in reads(given).intents
    decision = decide(ledger, given, now=NOW)
    recorded, concluded, line = decision.changes
    assert isinstance(recorded, QrRecorded)
    assert concluded == IntentConcluded((REFERENCE, IntentKind.QR))
    assert isinstance(line, JournalEntry)
    assert (line.input_name, line.actor, line.gateway_reference) == (
        "QrConcluded",
        "gateway",
        REFERENCE,
    )
    assert json.loads(line.detail)["outcome"] == outcome
    before = ledger.transactions[REFERENCE]
    ledger.apply(decision.changes, decision.intents)
    assert ledger.transactions[REFERENCE] == before
    assert decide(ledger, given, now=later(NOW, DAY)).changes == ()


@pytest.mark.spec("Q1")
def test_the_callback_waits_for_itself_only() -> None:
    ledger = waiting(Stage.SUCCEEDED)
    decision = decide(ledger, QrConcluded(REFERENCE, an_attempt()), now=NOW)
    ledger.apply(decision.changes)
    assert [key for key in ledger.intents if key[0] == REFERENCE] == [
        (REFERENCE, IntentKind.CALLBACK)
    ]


@pytest.mark.spec("Q1", "G6")
def test_the_body_has_the_members_in_their_order() -> None:
    request = qr_code_request(a_qr_payin(Stage.AWAITING_RESULT, qr=CODE), b"key", image="iVBO")
    assert request.target == URL.encode()
    assert list(json.loads(request.body)) == [
        "gatewayReference", "merchantReference", "reconciliationReference", "amount",
        "qrPayload", "qrImage", "expiresAt",
    ]  # fmt: skip
    assert request.headers == ((b"content-type", b"application/json"), (b"x-api-key", b"key"))


@pytest.mark.spec("Q1")
def test_our_own_code_names_the_merchant_of_the_account_and_the_country_of_the_order() -> None:
    merchant = qr_merchant(
        QrOptions(qr_name="Duka", qr_scheme="com.example", qr_template="28"),
        DEFAULT_QR_MERCHANT,
    )
    order = evolve(a_qr_payin(Stage.SUBMITTING).order, country="UG")
    code = make_qr_code(merchant, order)
    assert code is not None
    assert code.payload is not None
    objects = parse_payload(code.payload)
    assert (objects["58"], objects["59"]) == ("UG", "Duka")
    assert parse_objects(objects["28"]) == {"00": "com.example", "01": "DEMO"}


@pytest.mark.spec("Q1")
@pytest.mark.parametrize(
    "options",
    [{"qr_template": "99"}, {"qr_category": "12"}, {"qr_scheme": "x" * 100}, {"qr_name": "  "}],
    ids=lambda each: next(iter(each)),
)
def test_options_that_give_no_code_are_refused(options: dict[str, str]) -> None:
    with pytest.raises(SettingsError, match="qr_"):
        qr_merchant(read_table(QrOptions, options), DEFAULT_QR_MERCHANT)


@pytest.mark.spec("K1", "T4")
def test_a_callback_posts_the_transaction_to_the_result_url_with_the_merchant_s_key() -> None:
    url = "https://merchant.example/callbacks?of=acme"
    transaction = a_transaction(Stage.SUCCEEDED, result_url=url)
    assert callback_request(transaction, b"key-of-acme") == HttpRequest(
        "POST",
        url.encode(),
        ((b"content-type", b"application/json"), (b"x-api-key", b"key-of-acme")),
        transaction_object(transaction),
    )


@pytest.mark.spec("K1")
def test_a_pending_transaction_is_never_called_back() -> None:
    pending = a_transaction(Stage.AWAITING_RESULT)
    with pytest.raises(AssertionError, match="pending"):
        callback_request(pending, b"key-of-acme")

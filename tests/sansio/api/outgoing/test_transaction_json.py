"""The transaction as merchants see it: the specification's table, member by member (T1 to T5, G5,
G6)."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmo_sansio.api.outgoing import (
    MONEY_MEMBERS,
    PARTY_MEMBERS,
    PROVIDER_DATA_MEMBERS,
    TRANSACTION_MEMBERS,
    transaction_object,
)
from mmo_sansio.messages.inputs import ProviderFailed, ProviderSucceeded
from mmo_sansio.payments.gateway import Gateway
from mmo_sansio.testing.builders import (
    REFERENCE,
    a_begin_submission,
    a_brand,
    a_create_payment,
    a_deposit,
    a_method,
    a_transaction,
)
from mmo_sansio.values.clock import FIRST_INSTANT, LAST_INSTANT, Instant, Span, later
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import (
    Flow,
    Operation,
    Party,
    ProviderData,
    Source,
    Stage,
    Transaction,
    Type,
)
from mmo_sansio.values.money import Money

MOMENT = Instant(1_795_250_096_000_120)
"""2026-11-21T08:34:56.000120Z."""


def seen(transaction: Transaction) -> Any:
    """The object, with every number as the text that it is."""
    return json.loads(transaction_object(transaction), parse_int=str, parse_float=str)


@pytest.mark.spec("T2", "T3", "G5", "G6")
def test_a_payment_that_succeeded() -> None:
    transaction = a_transaction(
        Stage.SUCCEEDED,
        labels='{"n":1.50,"é":null}',
        requested=Money(150_00, "KES"),
        created_at=MOMENT,
        final=Money(149_99, "KES"),
        completed_at=MOMENT + 1_000_000,
        completion_source=Source.WEBHOOK,
        provider_reference="SKL4X9",
        party=Party("user-1", "+254700000000", "Ada", None, "ada@shop.example"),
        provider_data=ProviderData(
            "mpesa", 'M-"Pesa"', Money(5, "KES"), '{"tier":2}', None, "a\\b\u2028"
        ),
    )
    assert transaction_object(transaction).decode() == (
        '{"status":"success","type":"payin","flow":"direct"'
        f',"gatewayReference":"{REFERENCE}"'
        ',"merchantReference":"order-1","reconciliationReference":"order-1"'
        ',"providerReference":"SKL4X9"'
        ',"party":{"id":"user-1","msisdn":"+254700000000","firstName":"Ada","lastName":null'
        ',"email":"ada@shop.example"}'
        ',"method":"test_ke","country":"KE"'
        ',"requestedAmount":{"value":150.00,"currency":"KES"}'
        ',"finalAmount":{"value":149.99,"currency":"KES"}'
        ',"labels":{"n":1.50,"é":null}'
        ',"createdAt":"2026-11-21T08:34:56.000120Z"'
        ',"completedAt":"2026-11-21T08:34:57.000120Z"'
        ',"completionSource":"webhook","errorCode":null,"errorMessage":null'
        ',"providerData":{"name":"mpesa","title":"M-\\"Pesa\\""'
        ',"fee":{"value":0.05,"currency":"KES"},"partyData":{"tier":2}'
        ',"errorCode":null,"errorMessage":"a\\\\b\u2028"}}'
    )


@pytest.mark.spec("T2", "T3", "S1")
@pytest.mark.parametrize("stage", Stage)
def test_every_member_is_written_in_every_stage(stage: Stage) -> None:
    shown = seen(a_transaction(stage))
    assert tuple(shown) == TRANSACTION_MEMBERS
    assert tuple(shown["party"]) == PARTY_MEMBERS
    assert tuple(shown["requestedAmount"]) == MONEY_MEMBERS
    assert shown["status"] == stage.status
    assert (shown["finalAmount"] is not None) == (stage is Stage.SUCCEEDED)
    assert (shown["completedAt"] is not None) == stage.is_terminal
    assert (shown["completionSource"] is not None) == stage.is_terminal
    assert (shown["errorCode"] is not None) == (stage is Stage.FAILED)
    assert (shown["errorMessage"] is not None) == (stage is Stage.FAILED)
    if stage in (Stage.CREATED, Stage.AWAITING_CUSTOMER):
        assert shown["providerData"] is None
    else:
        assert tuple(shown["providerData"]) == PROVIDER_DATA_MEMBERS


@pytest.mark.spec("T1")
@pytest.mark.parametrize(
    ("operation", "type_", "flow"),
    [
        (Operation.DIRECT_PAYIN, Type.PAYIN, Flow.DIRECT),
        (Operation.DIRECT_PAYOUT, Type.PAYOUT, Flow.DIRECT),
        (Operation.QR_PAYIN, Type.PAYIN, Flow.QR),
        (Operation.WEB_PAYIN, Type.PAYIN, Flow.WEB),
        (Operation.DIRECT_TAXPAYOUT, Type.TAX, Flow.DIRECT),
    ],
)
def test_type_and_flow_are_those_of_the_operation(
    operation: Operation, type_: Type, flow: Flow
) -> None:
    gateway = Gateway()
    gateway.receive(a_create_payment(operation=operation), now=MOMENT)
    shown = seen(gateway.transaction(REFERENCE))
    assert (shown["type"], shown["flow"], shown["status"]) == (type_, flow, "pending")


@pytest.mark.spec("T1", "M5", "S4")
def test_a_push_has_no_references_and_no_labels() -> None:
    gateway = Gateway()
    deposit = a_deposit(party=Party("account-7", "2547 ***** 126"))
    gateway.receive(deposit, now=MOMENT)
    shown = seen(gateway.transaction(deposit.gateway_reference))
    assert (shown["type"], shown["flow"], shown["status"]) == ("payin", "push", "success")
    assert shown["merchantReference"] is None
    assert shown["reconciliationReference"] is None
    assert shown["labels"] is None
    assert (shown["party"]["id"], shown["party"]["msisdn"]) == ("account-7", "2547 ***** 126")


@pytest.mark.spec("M5")
@pytest.mark.parametrize(
    ("authority", "party"),
    [
        ({}, {"id": "test_ke", "msisdn": "000"}),
        (
            {"tax_authority_id": "kra", "tax_authority_account": "572572"},
            {"id": "kra", "msisdn": "572572"},
        ),
    ],
)  # fmt: skip
def test_the_party_of_a_tax_payout_is_the_authority(
    authority: dict[str, str], party: dict[str, str]
) -> None:
    gateway = Gateway()
    brand = a_brand(methods=(a_method(**authority),))
    given = a_create_payment(brand=brand, operation=Operation.DIRECT_TAXPAYOUT, party=None)
    gateway.receive(given, now=MOMENT)
    shown = seen(gateway.transaction(REFERENCE))["party"]
    assert shown == party | {"firstName": None, "lastName": None, "email": None}


@pytest.mark.spec("T2")
@pytest.mark.parametrize("succeeds", [True, False])
def test_the_requested_amount_never_changes(succeeds: bool) -> None:
    gateway = Gateway()
    gateway.receive(a_create_payment(), now=MOMENT)
    gateway.receive(a_begin_submission(), now=MOMENT)
    before = seen(gateway.transaction(REFERENCE))["requestedAmount"]
    if succeeds:
        final = Money(1, "KES")
        gateway.receive(
            ProviderSucceeded(REFERENCE, "test", Source.POLL, final=final),
            now=later(MOMENT, Span(1)),
        )
    else:
        code = ErrorCode.USER_CANCELLED
        gateway.receive(
            ProviderFailed(REFERENCE, "test", Source.POLL, code), now=later(MOMENT, Span(1))
        )
    after = seen(gateway.transaction(REFERENCE))
    assert after["status"] == ("success" if succeeds else "failed")
    assert after["requestedAmount"] == before == {"value": "150.00", "currency": "KES"}


@pytest.mark.spec("G6")
@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (Money(1, "KES"), "0.01"),
        (Money(10**17, "KES"), "1000000000000000.00"),
        (Money(100, "UGX"), "100"),
        (Money(10**15, "XOF"), "1000000000000000"),
        (Money(1, "KWD"), "0.001"),
        (Money(123_450, "KWD"), "123.450"),
    ],
)
def test_an_amount_is_a_plain_number_with_the_currencys_decimals(amount: Money, text: str) -> None:
    assert seen(a_transaction(requested=amount))["requestedAmount"]["value"] == text


@pytest.mark.spec("G6")
@given(st.integers(1, 10**17), st.sampled_from(["KES", "UGX", "KWD"]))
def test_an_amount_keeps_its_value(minor: int, currency: str) -> None:
    shown = seen(a_transaction(requested=Money(minor, currency)))["requestedAmount"]["value"]
    assert Decimal(shown).scaleb({"KES": 2, "UGX": 0, "KWD": 3}[currency]) == minor
    assert "e" not in shown.lower()


@pytest.mark.spec("G5")
@given(st.integers(FIRST_INSTANT, LAST_INSTANT))
def test_a_timestamp_has_microseconds_and_ends_in_z(created_at: int) -> None:
    written = seen(a_transaction(created_at=created_at))["createdAt"]
    assert len(written) == len("YYYY-MM-DDThh:mm:ss.ffffffZ")
    assert written.endswith("Z")


_TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


@pytest.mark.spec("T4")
@given(_TEXTS, _TEXTS, _TEXTS)
def test_any_text_comes_back_as_it_was(reference: str, name: str, message: str) -> None:
    transaction = a_transaction(
        Stage.FAILED,
        merchant_reference=reference,
        party=Party("1", "+254700000000", name),
        error_message=message,
    )
    shown = seen(transaction)
    assert shown["merchantReference"] == reference
    assert shown["party"]["firstName"] == name
    assert shown["errorMessage"] == message
    assert transaction_object(transaction) == transaction_object(transaction)

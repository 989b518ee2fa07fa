"""Which data of an ended payment are personal, and what stays when they are removed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import asdict, evolve, fields

from mmo_sansio.messages.changes import JournalEntry, SuspenseReason, SuspenseRecorded
from mmo_sansio.messages.inputs import ProviderFailed
from mmo_sansio.messages.replies import Ignored
from mmo_sansio.payments.decide import decide
from mmo_sansio.payments.ledger import Ledger
from mmo_sansio.payments.personal_data import (
    MASKED_PARTY,
    MASKED_TEXT,
    NOT_KEPT,
    mask_claim,
    mask_members,
    mask_transaction,
    mask_url,
)
from mmo_sansio.payments.suspense import suspense_entry
from mmo_sansio.testing import KES, START, a_deposit, a_party, a_transaction, ledger_with
from mmo_sansio.values.clock import Instant, Moment
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import (
    DepositClaim,
    Order,
    Page,
    Progress,
    ProviderData,
    QrCode,
    Refusal,
    Source,
    Stage,
    Transaction,
    Type,
)
from mmo_sansio.values.payer_actions import OpenUrl

NUMBER = "254700123456"
PERSON = a_party(
    id=f"customer-{NUMBER}",
    msisdn=NUMBER,
    first_name="Zoë",
    last_name="Wanjiru",
    email="zoe@example.com",
)


MASKED_OF_ORDERS = ("party", "labels", "result_url", "display_qr_url", "page")
KEPT_OF_ORDERS = (
    *(
        "gateway_reference",
        "brand",
        "type",
        "flow",
        "method",
        "country",
        "provider",
        "provider_title",
        "requested",
        "is_simulated",
    ),
    *(
        "merchant_reference",
        "reconciliation_reference",
        "created_at",
        "expires_at",
        "scenario",
        "api_key_id",
    ),
    *("utc_offset", "usage"),
)
MASKED_OF_PROGRESS = ("provider_data", "hint", "qr", "refusal", "payer_action")
KEPT_OF_PROGRESS = (
    *(
        "stage",
        "is_said_paid",
        "is_told_when_asked",
        "version",
        "wake_at",
        "polls",
        "provider_reference",
        "final",
        "completed_at",
        "completion_source",
    ),
    *(
        "error_code",
        "error_message",
        "submitted_at",
        "submissions",
        "unsent",
        "sent_version",
        "answered",
        "evidence",
    ),
    *("denied_since", "is_restored", "attempt", "receipt_awaited_since", "named_by_receipt"),
)
"""A field of a payment belongs to one of these: a new one may name a person."""


def a_paid_transaction() -> Transaction:
    """A payment that repeats its payer's number wherever it can."""
    made = a_transaction(
        Stage.SUCCEEDED,
        provider_reference="QK12",
        provider_data=ProviderData(
            "mpesa", "M-Pesa", KES(5), f'{{"phone":"{NUMBER}"}}', "17", f"paid by {NUMBER}"
        ),
        hint=f"hint {NUMBER}",
        qr=QrCode(f"qr {NUMBER}"),
        payer_action=OpenUrl(f"https://pay.example/{NUMBER}"),
        refusal=Refusal(ErrorCode.TRANSACTION_DECLINED, "17", f"refused for {NUMBER}", 3),
    )
    order = evolve(
        made.order,
        party=PERSON,
        labels=f'{{"phone":"{NUMBER}"}}',
        result_url=f"https://merchant.example/results?payer={NUMBER}",
        display_qr_url=f"https://merchant.example/qr#{NUMBER}",
        page=Page(
            "token", START, f"https://merchant.example/ok?payer={NUMBER}", f"app://failed/{NUMBER}"
        ),
    )
    return Transaction(order, made.progress)


def a_settled_claim(**members: Any) -> DepositClaim:
    """A claim whose bill reference is the payer's number."""
    claim = DepositClaim(
        "mpesa",
        "QK12",
        "M-Pesa",
        "01J",
        "600966",
        NUMBER,
        KES(5),
        PERSON,
        None,
        None,
        START,
        START,
        None,
    )
    return evolve(claim, **members)


@pytest.mark.spec("M3", "T2")
def test_no_part_of_a_masked_payment_names_the_person() -> None:
    masked = mask_transaction(a_paid_transaction())
    text = json.dumps(asdict(masked), ensure_ascii=False, default=str)
    assert not [each for each in (NUMBER, "Zoë", "Wanjiru", "zoe@") if each in text]


@pytest.mark.spec("M3")
def test_of_every_field_of_a_payment_it_is_known_whether_it_may_name_a_person() -> None:
    assert {each.name for each in fields(Order)} == {*MASKED_OF_ORDERS, *KEPT_OF_ORDERS}
    assert {each.name for each in fields(Progress)} == {*MASKED_OF_PROGRESS, *KEPT_OF_PROGRESS}
    before = a_paid_transaction()
    masked = mask_transaction(before)
    assert {
        each
        for each in MASKED_OF_ORDERS
        if getattr(masked.order, each) == getattr(before.order, each)
    } == set()
    assert {
        each
        for each in MASKED_OF_PROGRESS
        if getattr(masked.progress, each) == getattr(before.progress, each)
    } == set()


@pytest.mark.spec("S1")
def test_amounts_references_times_and_receipts_stay() -> None:
    before = a_paid_transaction()
    masked = mask_transaction(before)
    assert masked.progress.version == before.progress.version + 1
    unmasked = evolve(
        masked.progress,
        version=before.progress.version,
        provider_data=before.progress.provider_data,
        hint=before.progress.hint,
        qr=before.progress.qr,
        refusal=before.progress.refusal,
        payer_action=before.progress.payer_action,
    )
    assert unmasked == before.progress
    data = masked.progress.provider_data
    assert data == ProviderData("mpesa", "M-Pesa", KES(5), None, "17", None)
    order, old = masked.order, before.order
    assert order.party == MASKED_PARTY
    kept = evolve(
        order,
        party=old.party,
        labels=old.labels,
        result_url=old.result_url,
        display_qr_url=old.display_qr_url,
        page=old.page,
    )
    assert kept == old
    assert order.result_url == "https://merchant.example/results"


def test_a_masked_payment_stays_as_it_is() -> None:
    masked = mask_transaction(a_paid_transaction())
    assert mask_transaction(masked) is masked


@pytest.mark.spec("M5")
def test_a_tax_authority_is_no_person() -> None:
    made = a_transaction(Stage.SUCCEEDED)
    tax = Transaction(evolve(made.order, type=Type.TAX), made.progress)
    assert mask_transaction(tax).order.party == made.order.party


def test_a_pending_payment_keeps_the_number_that_its_provider_needs() -> None:
    with pytest.raises(AssertionError):
        mask_transaction(a_transaction(Stage.AWAITING_RESULT))


def test_texts_of_people_and_providers_are_masked_and_codes_stay() -> None:
    before = {
        "source": "poll",
        "errorCode": None,
        "nativeCode": "17",
        "nativeMessage": f"{NUMBER} is barred",
        "detail": "",
    }
    masked = mask_members(json.dumps(before))
    assert json.loads(masked) == {**before, "nativeMessage": MASKED_TEXT}
    assert mask_members(masked) == masked
    status = json.dumps({"detail": "The receiver answered 200."})
    assert mask_members(status) == status
    assert NUMBER not in mask_members(
        json.dumps({"detail": f"The receiver answered 200. {NUMBER}"})
    )
    assert NUMBER not in mask_members(json.dumps({"numbers": [NUMBER]}))
    assert NUMBER not in mask_members(json.dumps({"something new": NUMBER}))
    assert NUMBER not in mask_members(NUMBER)
    assert NUMBER not in mask_members(f"not JSON: {NUMBER}")


def test_a_url_loses_what_follows_its_path() -> None:
    assert (
        mask_url("https://a.example/b?c=1#d")
        == mask_url("https://a.example/b#d?c")
        == "https://a.example/b"
    )


@pytest.mark.spec("S4")
def test_a_settled_claim_loses_the_person_and_keeps_its_receipt() -> None:
    masked = mask_claim(a_settled_claim())
    assert NUMBER not in json.dumps(asdict(masked), default=str)
    assert (masked.receipt, masked.amount, masked.account, masked.version) == (
        "QK12",
        KES(5),
        "600966",
        2,
    )
    assert mask_claim(masked) is masked
    with pytest.raises(AssertionError):
        mask_claim(a_settled_claim(wake_at=Instant(5)))


@pytest.mark.spec("S4")
def test_a_deposit_that_is_reported_again_after_it_was_masked_is_the_same() -> None:
    deposit = a_deposit()
    booked = decide(Ledger(), deposit, now=START)
    ledger = Ledger()
    ledger.apply(booked.changes)
    (reference,) = ledger.transactions
    ledger.transactions[reference] = mask_transaction(ledger.transactions[reference])
    again = decide(ledger, deposit, now=START)
    assert again.reply == Ignored("The deposit is on record.", ledger.transactions[reference])
    other = decide(ledger, evolve(deposit, amount=KES(7)), now=START)
    assert other.changes, "another amount is for a person to see"


@pytest.mark.spec("S4")
def test_a_claim_that_is_reported_again_after_it_was_masked_is_the_same() -> None:
    deposit = evolve(a_deposit(), account="600966", bill_reference=NUMBER)
    claim = a_settled_claim(
        provider=deposit.provider, receipt=deposit.provider_reference, amount=deposit.amount
    )
    ledger = Ledger(claims={(claim.provider, claim.receipt): mask_claim(claim)})
    assert decide(ledger, deposit, now=START).reply == Ignored("The deposit is on record.", None)


@pytest.mark.spec("S4", "T2")
def test_a_masked_claim_comes_to_staff_with_what_is_told_now_or_with_an_honest_word() -> None:
    """Its payment has another receipt. The claim itself stays masked."""
    paid = mask_transaction(a_paid_transaction())
    deposit = evolve(
        a_deposit(),
        account="600966",
        bill_reference=f"account {NUMBER}",
        party=PERSON,
        payment=paid.reference,
        amount=KES(5),
    )
    claim = mask_claim(
        a_settled_claim(
            provider=deposit.provider,
            receipt=deposit.provider_reference,
            payment=paid.reference,
            is_confirmed=False,
        )
    )
    ledger = ledger_with(paid)
    ledger.claims[claim.provider, claim.receipt] = claim
    decision = decide(ledger, deposit, now=START)
    (entry,) = (each for each in decision.changes if isinstance(each, SuspenseRecorded))
    told = json.loads(entry.content)
    assert (told["msisdn"], told["billReference"]) == (NUMBER, f"account {NUMBER}")
    ledger.apply(decision.changes)
    assert ledger.claims[claim.provider, claim.receipt].party == MASKED_PARTY

    unknown = suspense_entry(claim, SuspenseReason.CONFLICTING_DEPOSIT, paid, now=Moment.at(START))
    told = json.loads(unknown.content)
    assert (told["msisdn"], told["billReference"]) == (NOT_KEPT, NOT_KEPT)


@pytest.mark.spec("T2")
def test_what_is_told_of_a_masked_payment_later_is_masked_in_its_journal() -> None:
    """No walk over old payments comes back to it. The suspense book has the text until it is
    closed."""
    paid = a_paid_transaction()
    told = ProviderFailed(
        paid.reference,
        "mpesa",
        Source.WEBHOOK,
        ErrorCode.USER_CANCELLED,
        native_message=f"cancelled by {NUMBER}",
    )
    for known, shown in ((paid, NUMBER), (mask_transaction(paid), MASKED_TEXT)):
        ledger = Ledger()
        ledger.transactions[paid.reference] = known
        noted, line = decide(ledger, told, now=Instant(START + 1)).changes
        assert isinstance(noted, SuspenseRecorded)
        assert NUMBER in noted.content
        assert isinstance(line, JournalEntry)
        assert shown in json.loads(line.detail)["nativeMessage"]
        assert json.loads(line.detail)["errorCode"] == ErrorCode.USER_CANCELLED

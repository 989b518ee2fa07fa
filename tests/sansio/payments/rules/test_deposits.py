"""Offline deposits: money that has arrived becomes one transaction (clause S4)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mmo_sansio.messages.changes import (
    DepositClaimChanged,
    DepositRecorded,
    JournalEntry,
    SuspenseReason,
    SuspenseRecorded,
    TransactionCreated,
)
from mmo_sansio.messages.inputs import DepositNotified, UnmatchedNotified
from mmo_sansio.messages.intents import DeliverCallback
from mmo_sansio.messages.replies import Applied, Ignored
from mmo_sansio.payments.decide import decide
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import Ledger
from mmo_sansio.payments.rules.deposits import RECEIPT_LENGTH_MAX
from mmo_sansio.testing import (
    KES,
    PROVIDER_TITLE,
    REFERENCE,
    START,
    a_brand,
    a_deposit,
    a_method,
    a_party,
    a_wake,
    numbered_reference,
)
from mmo_sansio.values.clock import DAY, Span, later
from mmo_sansio.values.model import (
    DepositTrust,
    Flow,
    Order,
    Party,
    Progress,
    ProviderData,
    Source,
    Stage,
    Transaction,
    Type,
)
from mmo_sansio.values.money import Money


def received(**members: Any) -> Transaction:
    decision = decide(Ledger(), a_deposit(**members), now=START)
    assert isinstance(decision.reply, Applied), decision.reply
    return decision.reply.transaction


def kept(given: DepositNotified, ledger: Ledger | None = None) -> SuspenseRecorded:
    decision = decide(ledger or Ledger(), given, now=later(START, DAY))
    noted, line = decision.changes
    assert isinstance(noted, SuspenseRecorded)
    assert isinstance(line, JournalEntry)
    assert isinstance(decision.reply, Ignored)
    assert decision.intents == ()
    assert noted.at == line.at == START + DAY
    return noted


def after_one(**members: Any) -> Ledger:
    ledger = Ledger()
    decision = decide(ledger, a_deposit(**members), now=START)
    ledger.apply(decision.changes, decision.intents)
    return ledger


@pytest.mark.spec("S4", "T1", "T2")
def test_a_deposit_is_a_success_at_birth() -> None:
    transaction = received()
    assert transaction.order == Order(
        gateway_reference=REFERENCE,
        brand="acme",
        type=Type.PAYIN,
        flow=Flow.PUSH,
        method="test_ke",
        country="KE",
        provider="test",
        provider_title=PROVIDER_TITLE,
        requested=KES(75),
        party=a_party(id="account-7"),
        merchant_reference=None,
        reconciliation_reference=None,
        labels=None,
        result_url="https://acme.example/push",
        created_at=START,
        expires_at=START,
    )
    assert transaction.progress == Progress(
        stage=Stage.SUCCEEDED,
        version=1,
        wake_at=None,
        provider_reference="DEP-1",
        provider_data=ProviderData("test", PROVIDER_TITLE),
        final=KES(75),
        completed_at=START,
        completion_source=Source.WEBHOOK,
    )


@pytest.mark.spec("S4", "K1")
def test_a_deposit_is_recorded_with_its_identity_and_called_back() -> None:
    decision = decide(Ledger(), a_deposit(), now=START)
    recorded, made, claimed, _ = decision.changes
    assert recorded == DepositRecorded("test", "DEP-1", REFERENCE)
    assert isinstance(made, TransactionCreated)
    assert isinstance(claimed, DepositClaimChanged)
    assert (claimed.before, claimed.key) == (None, ("test", "DEP-1"))
    assert decision.intents == (DeliverCallback(REFERENCE),)


@pytest.mark.spec("S4")
def test_without_a_push_result_url_nobody_is_called() -> None:
    given = a_deposit(brand=a_brand(push_result_url=None))
    decision = decide(Ledger(), given, now=START)
    assert isinstance(decision.reply, Applied)
    assert decision.intents == ()
    assert decision.reply.transaction.order.result_url is None


@pytest.mark.spec("S4")
@pytest.mark.parametrize("amount", [KES("0.01"), KES(10**9)], ids=["tiny", "huge"])
def test_limits_do_not_apply_to_money_already_received(amount: Money) -> None:
    assert received(amount=amount).progress.final == amount


@pytest.mark.spec("S4")
def test_a_disabled_brand_still_receives_its_money() -> None:
    assert received(brand=a_brand(enabled=False)).order.brand == "acme"


@pytest.mark.spec("S4", "M5")
@pytest.mark.parametrize(
    ("told", "booked"),
    [
        (Party("UM001", "ab" * 32), Party("UM001", "ab" * 32)),
        (Party("UM001", ""), Party("UM001", "000")),
        (Party("", ""), Party("000", "000")),
        (Party("", "2547 ***** 126"), Party("2547 ***** 126", "2547 ***** 126")),
        (Party("a\nb\x7f", "07\r\n1", "\t", "\x85"), Party("a b", "07  1")),
        (
            Party("é" * 300, "1", "a" * 254 + " b", "b" * 302),
            Party("é" * 255, "1", "a" * 254, "b" * 255),
        ),
    ],
    ids=["hash", "no number", "nothing", "masked", "control characters", "long"],
)
def test_the_party_of_a_deposit_is_kept_within_bounds_and_known_again(
    told: Party, booked: Party
) -> None:
    assert received(party=told).order.party == booked
    again = decide(after_one(party=told), a_deposit(party=told), now=later(START, DAY))
    assert isinstance(again.reply, Ignored)
    assert not again.changes


@pytest.mark.spec("S4")
def test_told_again_it_is_the_same_transaction() -> None:
    ledger = after_one()
    decision = decide(
        ledger, a_deposit(gateway_reference=numbered_reference(2)), now=later(START, DAY)
    )
    known = ledger.transactions[REFERENCE]
    assert decision == Decision(Ignored("The deposit is on record.", known))


@pytest.mark.spec("S4", "S5")
@pytest.mark.parametrize(
    "otherwise",
    [{"amount": KES(76)}, {"party": a_party(id="account-8")}, {"amount": Money(7500, "UGX")}],
    ids=["amount", "party", "currency"],
)
def test_told_otherwise_it_goes_to_the_suspense_book(otherwise: dict[str, Any]) -> None:
    noted = kept(a_deposit(gateway_reference=numbered_reference(2), **otherwise), after_one())
    assert noted.reason is SuspenseReason.CONFLICTING_DEPOSIT
    assert (noted.gateway_reference, noted.brand) == (REFERENCE, "acme")


@pytest.mark.spec("S4")
@pytest.mark.parametrize(
    "other", [{"provider_reference": "DEP-2"}, {"provider": "second"}], ids=["id", "account"]
)
def test_identity_is_provider_account_and_its_transaction_id(other: dict[str, Any]) -> None:
    brand = a_brand(methods=(a_method(), a_method(provider="second", country="UG")))
    ledger = after_one(brand=brand)
    given = a_deposit(gateway_reference=numbered_reference(2), brand=brand, **other)
    decision = decide(ledger, given, now=START)
    assert isinstance(decision.reply, Applied)
    assert decision.reply.transaction.reference == numbered_reference(2)


@pytest.mark.spec("S4", "S5")
@pytest.mark.parametrize(
    ("members", "reason", "brand"),
    [
        ({"brand": None}, SuspenseReason.UNMATCHED_DEPOSIT, None),
        ({"method": "nope"}, SuspenseReason.UNMATCHED_DEPOSIT, "acme"),
        ({"provider": "other"}, SuspenseReason.UNMATCHED_DEPOSIT, "acme"),
        ({"amount": Money(75, "UGX")}, SuspenseReason.UNSUPPORTED_CURRENCY, "acme"),
    ],
    ids=["no brand", "no method", "another provider's method", "currency"],
)
def test_what_matches_nothing_of_ours_is_kept(
    members: dict[str, Any], reason: SuspenseReason, brand: str | None
) -> None:
    noted = kept(a_deposit(**members))
    assert (noted.reason, noted.gateway_reference, noted.brand) == (reason, None, brand)


@pytest.mark.spec("S4")
def test_what_was_kept_is_taken_once_the_account_is_known() -> None:
    ledger = Ledger()
    ledger.apply(decide(ledger, a_deposit(brand=None), now=START).changes)
    assert isinstance(decide(ledger, a_deposit(), now=later(START, Span(1))).reply, Applied)


@pytest.mark.spec("S4")
def test_a_failed_deposit_creates_none() -> None:
    decision = decide(Ledger(), a_deposit(succeeded=False), now=START)
    assert decision == Decision(Ignored("A failed deposit makes no transaction."))


@pytest.mark.spec("S4")
def test_the_method_that_takes_the_currency_is_found_among_countries() -> None:
    uganda = a_method(country="UG", limits={"UGX": a_method().limits["KES"]})
    brand = a_brand(methods=(a_method(key="bank"), uganda, a_method()))
    assert received(brand=brand).order.country == "KE"
    assert received(brand=brand, amount=Money(9, "UGX")).order.country == "UG"
    assert received(brand=brand, method="bank").order.method == "bank"


@pytest.mark.spec("S1", "S4")
def test_a_push_is_never_pending() -> None:
    ledger = after_one()
    woken = decide(ledger, a_wake(), now=later(START, Span(9 * DAY)))
    assert isinstance(woken.reply, Ignored)
    assert woken.changes == ()


@pytest.mark.spec("S5")
def test_the_suspense_book_keeps_what_was_told() -> None:
    noted = kept(a_deposit(brand=None))
    assert noted.provider == "test"
    assert json.loads(noted.content) == {
        "result": "deposit",
        "providerReference": "DEP-1",
        "amount": "75.00 KES",
        "method": "test_ke",
        "partyId": "account-7",
        "msisdn": "+254700000200",
    }


@pytest.mark.spec("S5")
def test_what_cannot_be_read_is_kept() -> None:
    given = UnmatchedNotified("test", "<xml/>")
    decision = decide(Ledger(), given, now=START)
    noted, line = decision.changes
    assert noted == SuspenseRecorded(
        START, SuspenseReason.UNREADABLE, "test", '{"result": "unmatched", "told": "<xml/>"}'
    )
    assert isinstance(line, JournalEntry)
    assert isinstance(decision.reply, Ignored)


@pytest.mark.spec("S4", "S5")
@pytest.mark.parametrize("trust", [DepositTrust.CONFIRMED, DepositTrust.UNCONFIRMED])
def test_a_receipt_that_is_too_long_for_a_key_goes_to_the_suspense_book(
    trust: DepositTrust,
) -> None:
    longest = "R" * RECEIPT_LENGTH_MAX
    taken = decide(Ledger(), a_deposit(provider_reference=longest, trust=trust), now=START)
    assert not [each for each in taken.changes if isinstance(each, SuspenseRecorded)]
    noted = kept(a_deposit(provider_reference=longest + "R", trust=trust))
    assert noted.reason is SuspenseReason.UNREADABLE
    assert longest + "R" in noted.content

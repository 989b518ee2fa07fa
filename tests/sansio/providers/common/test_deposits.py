"""Whose an offline deposit is (S4)."""

from __future__ import annotations

from typing import Any

import pytest

from mmo_sansio.messages.inputs import ProviderHinted, ProviderSucceeded, UnmatchedNotified
from mmo_sansio.providers.common.deposits import deposit_input, find_owner, may_be_reference_suffix, payment_input
from mmo_sansio.providers.common.interface import DepositReport
from mmo_sansio.providers.common.operations import DIRECT_PAYIN, ProviderOperation
from mmo_sansio.testing import KES, REFERENCE, a_brand, a_method, a_party, a_transaction
from mmo_sansio.values.clock import SECOND
from mmo_sansio.values.model import Brand, Stage
from mmo_sansio.values.money import Money


def told(**members: Any) -> DepositReport:
    standard: dict[str, Any] = {
        "provider": "test",
        "provider_reference": "RKL51ZDR4F",
        "account": "600966",
        "bill_reference": "acme-77",
        "amount": KES(5),
        "party": a_party(),
    }
    return DepositReport(**{**standard, **members})


def brand(id: str, *push_accounts: str, **method: Any) -> Brand:
    return a_brand(id=id, methods=(a_method(push_accounts=push_accounts, **method),))


@pytest.mark.spec("S4")
@pytest.mark.parametrize(
    ("brands", "expected"),
    [
        ([brand("acme")], "acme"),
        ([brand("acme"), brand("duka")], None),
        ([brand("acme", "600966"), brand("duka", "700000")], "acme"),
        ([brand("acme", "600966"), brand("duka")], "acme"),
        ([brand("acme", "600966/ACME"), brand("duka", "600966")], "acme"),
        ([brand("acme", "600966/soko"), brand("duka", "600966")], "duka"),
        ([brand("acme", "600966"), brand("duka", "600966")], None),
        ([brand("acme", "1")], None),
        ([brand("acme", provider="other")], None),
        ([brand("acme", limits={})], None),
        ([], None),
    ],
    ids=[
        "the only brand", "two and nothing said", "by account", "one says", "the longest prefix",
        "another's prefix", "two as good", "another account", "another provider", "no currency",
        "no brand",
    ],
)  # fmt: skip
def test_the_account_says_whose_it_is(brands: list[Brand], expected: str | None) -> None:
    owner = find_owner(told(), brands)
    assert (owner and owner[0].id) == expected


@pytest.mark.spec("S4")
def test_a_deposit_without_an_owner_names_no_brand() -> None:
    given = deposit_input(told(), None, provider_title="T", gateway_reference=REFERENCE)
    assert (given.brand, given.method, given.provider_reference) == (None, "", "RKL51ZDR4F")
    owner = find_owner(told(), [brand("acme")])
    assert deposit_input(told(), owner, provider_title="T", gateway_reference="R").method == "test_ke"


def asked(can_be_asked: bool) -> dict[tuple[Any, Any], ProviderOperation]:
    return {DIRECT_PAYIN: ProviderOperation(False, can_be_asked, None, (SECOND,))}


@pytest.mark.spec("S4", "S5")
@pytest.mark.parametrize(
    ("stage", "can_be_asked", "amount", "kind"),
    [
        (Stage.AWAITING_RESULT, True, KES(150), ProviderHinted),
        (Stage.AWAITING_RESULT, False, KES(150), ProviderSucceeded),
        (Stage.AWAITING_RESULT, False, KES(149), UnmatchedNotified),
        (Stage.AWAITING_RESULT, False, Money(15_000, "UGX"), UnmatchedNotified),
        (Stage.SUCCEEDED, True, KES(150), ProviderSucceeded),
    ],
)
def test_a_deposit_that_names_a_payment_is_no_deposit(
    stage: Stage, can_be_asked: bool, amount: Money, kind: type[object]
) -> None:
    before = a_transaction(stage)
    assert type(payment_input(told(amount=amount), before, asked(can_be_asked))) is kind


@pytest.mark.parametrize(
    ("given", "could_be"), [(REFERENCE[-12:], True), (REFERENCE, False), ("acme-7777777", False), ("", False)]
)
def test_what_could_be_the_end_of_a_reference(given: str, could_be: bool) -> None:
    assert may_be_reference_suffix(told(bill_reference=given)) is could_be

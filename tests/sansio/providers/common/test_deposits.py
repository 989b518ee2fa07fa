"""Whose an offline deposit is (S4)."""

from __future__ import annotations

from typing import Any

import pytest

from mmo_sansio.providers.common.deposits import deposit_input, find_owner, typed_reference_suffix
from mmo_sansio.providers.common.interface import DepositReport
from mmo_sansio.testing import KES, REFERENCE, a_brand, a_method, a_party
from mmo_sansio.values.model import Brand, DepositTrust


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
    assert (
        deposit_input(told(), owner, provider_title="T", gateway_reference="R").method == "test_ke"
    )


@pytest.mark.spec("S4")
def test_a_deposit_keeps_what_it_says_of_account_payment_and_trust() -> None:
    report = told(trust=DepositTrust.UNCONFIRMED)
    given = deposit_input(
        report, None, provider_title="T", gateway_reference="R", payment=REFERENCE
    )
    assert (given.account, given.bill_reference) == (report.account, report.bill_reference)
    assert (given.trust, given.payment) == (DepositTrust.UNCONFIRMED, REFERENCE)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("NT5CT3DFJS80", "NT5CT3DFJS80"),
        ("nt5ct3dfjs80", "NT5CT3DFJS80"),
        ("NT5C T3DF JS80", "NT5CT3DFJS80"),
        ("nt5c-t3df-js80", "NT5CT3DFJS80"),
        ("NT5CT3DFJS8O", "NT5CT3DFJS80"),
        ("iT5CT3DFJS8l", "1T5CT3DFJS81"),
        (REFERENCE, None),
        ("acme-7777777", None),
        ("NT5CT3DFJS8\N{LATIN SMALL LETTER SHARP S}", None),
        ("", None),
    ],
)
def test_what_could_be_the_end_of_a_reference(typed: str, meant: str | None) -> None:
    assert typed_reference_suffix(told(bill_reference=typed)) == meant

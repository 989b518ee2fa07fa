"""Payments as a merchant's program requests them, for the brand of `SimulatedApi`."""

from __future__ import annotations

from typing import Any

from attrs import evolve

from mmo_merchant import DirectPayIn, Money, NewPayment, Party, PayOut, QrPayIn, TaxPayOut, WebPayIn

RESULT_URL = "https://acme.example/result"


def a_pay_in(merchant_reference: str = "order-1", **changes: Any) -> DirectPayIn:
    """A direct pay-in of KES 150."""
    payment = DirectPayIn(
        method="test_ke",
        amount=Money(15_000, "KES"),
        country="KE",
        result_url=RESULT_URL,
        merchant_reference=merchant_reference,
        payer=Party("customer-1", "+254700000200"),
    )
    return evolve(payment, **changes)


def one_of_each() -> list[NewPayment]:
    """A payment for each endpoint, with every member set."""
    shared: dict[str, Any] = {
        "method": "test_ke",
        "amount": Money(15_050, "KES"),
        "country": "KE",
        "result_url": RESULT_URL,
        "labels": {"table": 7, "note": "Łucja 🙂", "isNew": True, "nothing": None},
    }
    party = Party("customer-1", "+254700000200", "Zuhura", 'O"Neil\\', "zuhura@acme.example")
    return [
        DirectPayIn(
            **shared,
            payer=party,
            merchant_reference="a/b?c=d&e 100%",
            reconciliation_reference="r-1",
        ),
        WebPayIn(
            **shared,
            payer=party,
            merchant_reference="order-ü-2",
            reconciliation_reference="r-2",
            success_redirect_url="https://acme.example/thanks",
            error_redirect_url="https://acme.example/sorry",
        ),
        QrPayIn(
            **shared,
            payer=party,
            merchant_reference="order-3",
            reconciliation_reference="r-3",
            display_qr_url="https://acme.example/qr",
        ),
        PayOut(**shared, payee=party, merchant_reference="order-4", reconciliation_reference="r-4"),
        TaxPayOut(**shared, merchant_reference="order-5", reconciliation_reference="r-5"),
    ]

"""Two programs that know the same payments of a day have the same digest."""

from __future__ import annotations

from hashlib import sha256

from attrs import evolve

from mmo_merchant.reconciliation.daily_digest import canonical_line, digest_day
from mmo_merchant.reconciliation.held_records import RecordedPayment
from mmo_sansio.values.model import Status, Type
from mmo_sansio.values.money import Money

PAID = RecordedPayment("01B", "order-2", "R2", Type.PAYIN, Status.SUCCESS, Money(149_00, "KES"))
FAILED = RecordedPayment("01A", None, None, Type.PAYOUT, Status.FAILED, Money(500, "UGX"))
WAITING = RecordedPayment("01C", "order-3", None, Type.PAYIN, Status.PENDING, Money(1_00, "KES"))


def test_a_line_has_five_members() -> None:
    assert canonical_line(PAID) == "01B\tpayin\t149.00\tKES\tsuccess\n"
    assert canonical_line(FAILED) == "01A\tpayout\t500\tUGX\tfailed\n"


def test_the_digest_does_not_depend_on_the_order_and_leaves_out_what_has_not_ended() -> None:
    text = "01A\tpayout\t500\tUGX\tfailed\n01B\tpayin\t149.00\tKES\tsuccess\n"
    found = digest_day([PAID, WAITING, FAILED])
    assert found == digest_day([FAILED, PAID])
    assert found.sha256 == sha256(text.encode()).hexdigest()
    assert (found.count, found.sums) == (2, {"payin KES": 149_00})


def test_the_fees_of_a_day_are_summed_by_provider_and_currency_in_minor_units() -> None:
    fee = evolve(PAID, provider="mpesa", fee=Money(22_40, "KES"))
    others = [
        evolve(fee, provider="mpesa_2"),
        evolve(fee, fee=Money(140, "UGX")),
        evolve(fee, fee=None),
    ]
    found = digest_day([fee, fee, *others, FAILED])
    assert found.fees == {"mpesa KES": 44_80, "mpesa UGX": 140, "mpesa_2 KES": 22_40}
    assert found.sha256 == digest_day([PAID, PAID, PAID, PAID, PAID, FAILED]).sha256


def test_a_day_without_payments_has_a_digest() -> None:
    assert digest_day([]).sha256 == sha256(b"").hexdigest()

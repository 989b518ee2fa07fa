"""Figures of money by currency, and why payments failed."""

from __future__ import annotations

from mmo_sansio.values.error_codes import EXPLANATIONS, ErrorCode
from mmo_sansio.values.model import Type
from mmo_sansio.values.money import Money
from mmo_trio.console.money_figures import (
    ACTORS,
    actor_of,
    currency_totals,
    draw_money,
    failure_counts,
    failure_reasons,
    failures_by_actor,
    format_compact,
    format_sums,
)
from mmo_trio.storage.interface.admin_types import PaymentSum

SUMS = (
    PaymentSum("1", Type.PAYIN, "KES", None, 3, 9_145_000),
    PaymentSum("2", Type.PAYIN, "KES", None, 1, 5_000),
    PaymentSum("2", Type.PAYOUT, "KES", None, 1, 200_000),
    PaymentSum("2", Type.PAYIN, "UGX", None, 2, 180_000),
    PaymentSum("1", Type.PAYIN, "KES", ErrorCode.USER_TIMEOUT, 7, 700),
    PaymentSum("2", Type.PAYIN, "UGX", ErrorCode.USER_TIMEOUT, 2, 2),
    PaymentSum("2", Type.PAYIN, "KES", ErrorCode.PROVIDER_UNAVAILABLE, 4, 400),
)


def test_currencies_are_never_added_up() -> None:
    kenya, uganda = currency_totals(SUMS)
    assert (kenya.currency, kenya.taken, kenya.taken_count) == ("KES", Money(9_150_000, "KES"), 4)
    assert (kenya.paid_out, kenya.paid_out_count) == (Money(200_000, "KES"), 1)
    assert (uganda.taken, uganda.paid_out_count) == (Money(180_000, "UGX"), 0)
    amounts = [Money(180_000, "UGX"), Money(9_000_000, "KES"), Money(145_000, "KES")]
    assert format_sums(amounts) == "KES 91,450.00 and UGX 180,000"
    assert format_sums([]) == ""


def test_the_longest_bar_comes_first_with_who_can_change_it() -> None:
    counts = failure_counts(SUMS)
    assert [
        (each.code, each.actor, each.count, each.share) for each in failure_reasons(counts)
    ] == [
        (ErrorCode.USER_TIMEOUT, "payer", 9, 100.0),
        (ErrorCode.PROVIDER_UNAVAILABLE, "operator", 4, 44.4),
    ]
    assert failures_by_actor(counts) == [("payer", 9), ("operator", 4)]
    assert len(failure_reasons(dict.fromkeys(ErrorCode, 1))) == 5


def test_every_code_has_a_side() -> None:
    assert {actor_of(code) for code in EXPLANATIONS} == set(ACTORS)


def test_what_is_paid_out_hangs_below_zero() -> None:
    drawn = draw_money("KES", SUMS, ["1", "2"], ["09:00", "10:00"], "hour")
    assert [each.text for each in drawn.levels] == ["2 k", "0", "100 k"]
    [taken, paid_out] = drawn.steps[1].marks
    zero = drawn.levels[1].y
    assert taken.y + taken.height <= zero + 0.2
    assert paid_out.y == zero
    assert drawn.rows[1] == ("10:00", ["50", "2 k"])


def test_numbers_of_an_axis_are_short() -> None:
    numbers = (0, 450, 1_200, 35_000_000, 2.5e9, -4e12)
    assert [format_compact(each) for each in numbers] == [
        "0",
        "450",
        "1.2 k",
        "35 M",
        "2.5 G",
        "4 T",
    ]

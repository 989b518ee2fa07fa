"""A statement that was changed on purpose shows exactly these changes, whatever else it has."""

from __future__ import annotations

import itertools
from collections import Counter
from itertools import count
from random import Random
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from mmo_merchant.reconciliation.comparison import (
    MONEY_IN,
    Difference,
    DifferenceKind,
    Reconciliation,
    StatementLine,
)
from mmo_merchant.reconciliation.held_records import RecordedPayment
from mmo_sansio.values.model import Status, Type
from mmo_sansio.values.money import Money


def a_record(number: int, **changes: Any) -> RecordedPayment:
    record = RecordedPayment(
        f"01GATEWAY{number:017}",
        f"order-{number}",
        f"RCPT{number}",
        Type.PAYIN,
        Status.SUCCESS,
        Money(100_00, "KES"),
    )
    return evolve(record, **changes)


def the_line_of(record: RecordedPayment, number: int = 1, **changes: Any) -> StatementLine:
    line = StatementLine(
        number,
        record.receipt,
        record.merchant_reference,
        record.amount,
        record.type in MONEY_IN,
        record.status,
        msisdn=record.msisdn,
    )
    return evolve(line, **changes)


def compared(records: list[RecordedPayment], lines: list[StatementLine]) -> list[Difference]:
    reconciliation = Reconciliation()
    for record in records:
        reconciliation.add_record(record)
    found = [each for line in lines for each in reconciliation.check_line(line)]
    return [*found, *reconciliation.missing_lines()]


def kinds(records: list[RecordedPayment], lines: list[StatementLine]) -> list[str]:
    return [each.kind.value for each in compared(records, lines)]


PLANTED: list[DifferenceKind | None] = [None, None, None, *DifferenceKind]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(PLANTED),
            st.sampled_from(Type),
            st.sampled_from(Status),
            st.integers(1, 10**15),
            st.booleans(),
        ),
        max_size=40,
    ),
    st.randoms(use_true_random=False),
)
def test_exactly_the_planted_differences_are_found(
    plan: list[tuple[Any, ...]], order: Random
) -> None:
    numbers, planted = count(1), Counter[tuple[DifferenceKind, str]]()
    records: list[RecordedPayment] = []
    lines: list[StatementLine] = []
    for at, (kind, type_, status, minor, by_reference) in enumerate(plan):
        money_moved = kind is not None and kind is not DifferenceKind.STATUS_DIFFERS
        record = a_record(
            at,
            type=type_,
            amount=Money(minor, "KES"),
            status=Status.SUCCESS if money_moved else status,
            fee=Money(5, "KES"),
            msisdn=f"{254_700_000_000 + at}",
        )
        line = the_line_of(record, next(numbers))
        line = evolve(line, receipt=None) if by_reference else evolve(line, reference=None)
        if kind is not DifferenceKind.MISSING_IN_RECORDS:
            records.append(record)
        match kind:
            case DifferenceKind.MISSING_IN_STATEMENT:
                lines += []
            case DifferenceKind.RECEIPT_DIFFERS:
                lines.append(evolve(line, receipt=f"OTHER{at}", reference=None))
            case DifferenceKind.AMOUNT_DIFFERS:
                lines.append(evolve(line, amount=Money(minor + 1, "KES")))
            case DifferenceKind.CURRENCY_DIFFERS:
                lines.append(evolve(line, amount=Money(minor, "UGX")))
            case DifferenceKind.DIRECTION_DIFFERS:
                lines.append(evolve(line, is_incoming=not line.is_incoming))
            case DifferenceKind.STATUS_DIFFERS:
                lines.append(
                    evolve(line, status=next(each for each in Status if each is not status))
                )
            case DifferenceKind.DUPLICATE_LINE:
                lines += [line, evolve(line, number=next(numbers))]
            case DifferenceKind.FEE_DIFFERS:
                lines += [
                    line,
                    evolve(line, number=next(numbers), is_fee=True, amount=Money(6, "KES")),
                ]
            case _:
                lines += [
                    line,
                    evolve(line, number=next(numbers), is_fee=True, amount=Money(5, "KES")),
                ]
        if kind is not None:
            planted[kind, record.gateway_reference] += 1
    order.shuffle(lines)
    found = Counter[tuple[DifferenceKind, str]]()
    for each in compared(records, lines):
        if each.record is not None:
            found[each.kind, each.record.gateway_reference] += 1
        else:
            assert each.line is not None
            number = (
                (each.line.receipt or each.line.reference or "")
                .removeprefix("RCPT")
                .removeprefix("order-")
            )
            found[each.kind, f"01GATEWAY{int(number):017}"] += 1
    assert found == planted


@pytest.mark.parametrize(
    "change",
    [
        {"msisdn": "254700000009"},
        {"msisdn": ""},
        {"amount": Money(100_01, "KES")},
        {"is_incoming": False},
    ],
    ids=["another number", "no number", "another amount", "another direction"],
)
def test_what_differs_in_more_than_the_receipt_is_missing_on_both_sides(
    change: dict[str, Any],
) -> None:
    record = a_record(1, msisdn="254700000001")
    line = the_line_of(record, receipt="OTHER1", reference=None)
    assert kinds([record], [line]) == ["receipt_differs"]
    assert sorted(kinds([record], [evolve(line, **change)])) == [
        "missing_in_records",
        "missing_in_statement",
    ]


def test_each_payment_is_paired_with_one_line_only() -> None:
    record = a_record(1, msisdn="254700000001")
    line = the_line_of(record, receipt="OTHER1", reference=None)
    lines = [line, evolve(line, number=2, receipt="OTHER2")]
    assert kinds([record], lines) == ["receipt_differs", "missing_in_records"]


def test_a_payment_without_a_receipt_is_found_by_the_account_number_that_m_pesa_was_given() -> None:
    """A restored store has payments that were sent, and not what became of them."""
    pending = a_record(1, receipt=None, status=Status.PENDING)
    line = the_line_of(
        evolve(pending, status=Status.SUCCESS),
        receipt="UKQ1A2B3C4",
        reference=pending.gateway_reference[-12:].lower(),
    )
    assert kinds([pending], [line]) == ["status_differs"]
    agreed = evolve(pending, status=Status.SUCCESS)
    assert kinds([agreed], [line]) == []
    twin = evolve(agreed, gateway_reference=f"02{agreed.gateway_reference[2:]}")
    assert kinds([agreed, twin], [line])[0] == "missing_in_records", "two payments end so"


def test_amounts_within_the_tolerance_agree_and_their_sum_is_told() -> None:
    records = [a_record(number) for number in range(3)]
    amounts = [Money(100_05, "KES"), Money(99_97, "KES"), Money(100_06, "KES")]
    reconciliation = Reconciliation({"KES": 5})
    for record in records:
        reconciliation.add_record(record)
    found = [
        difference.kind
        for record, amount in zip(records, amounts, strict=True)
        for difference in reconciliation.check_line(the_line_of(record, amount=amount))
    ]
    assert found == [DifferenceKind.AMOUNT_DIFFERS]
    assert reconciliation.tolerated == {"KES": 2}


def test_a_payment_that_is_recorded_twice_is_compared_as_it_is_at_last() -> None:
    """Two files of records overlap: in the first it was pending, and had no fee."""
    last = a_record(1, fee=Money(5, "KES"))
    records = [evolve(last, status=Status.PENDING, fee=None), last]
    of_fee = the_line_of(last, 2, amount=Money(7, "KES"), is_fee=True)
    assert [each.kind for each in compared(records, [the_line_of(last), of_fee])] == [
        DifferenceKind.FEE_DIFFERS
    ]
    (difference,) = compared(records, [the_line_of(last, status=Status.PENDING)])
    assert (difference.kind, difference.record) == (DifferenceKind.STATUS_DIFFERS, last)


def test_what_went_back_counts_once_however_often_it_is_recorded() -> None:
    paid = a_record(1)
    back = a_record(2, type=Type.PAYOUT, reverses=paid.names)
    assert compared([paid, back, back], [the_line_of(paid, status=Status.FAILED)]) == []


def test_a_reference_used_again_belongs_to_the_payment_that_is_most_like_the_line() -> None:
    failed = a_record(1, status=Status.FAILED, receipt=None, merchant_reference="order")
    paid = a_record(2, receipt=None, merchant_reference="order")
    lines = [the_line_of(paid), the_line_of(failed, 2)]
    assert kinds([failed, paid], lines) == []
    assert kinds([failed, paid], lines[::-1]) == []
    assert kinds([failed, paid], [*lines, the_line_of(paid, 3)]) == ["status_differs"]


@pytest.mark.parametrize("name", ["receipt", "merchant_reference"])
def test_an_order_s_number_that_is_another_payment_s_receipt_names_one_of_them(name: str) -> None:
    """Orders are numbered, and so are MTN's receipts; each column has its own names."""
    one = a_record(1, merchant_reference="10500", receipt="10501")
    other = a_record(2, merchant_reference="order-2", receipt="10500")
    other_column = "reference" if name == "receipt" else "receipt"
    changes: dict[str, Any] = {other_column: None}
    for records, paid in itertools.product(itertools.permutations([one, other]), repeat=2):
        lines = [the_line_of(record, **changes) for record in paid]
        assert kinds([*records], lines) == []


def test_a_line_is_paired_with_the_payment_of_its_direction() -> None:
    """A payer got the same amount back by a pay-out, and the statement has the newest line first,
    each with another receipt than the records."""
    paid_in = a_record(1, msisdn="254712345678")
    paid_out = a_record(2, msisdn="254712345678", type=Type.PAYOUT)
    lines = [
        the_line_of(record, receipt=f"OTHER{number}", reference=None)
        for number, record in enumerate((paid_out, paid_in))
    ]
    assert kinds([paid_in, paid_out], lines) == ["receipt_differs", "receipt_differs"]


@pytest.mark.parametrize("status", [Status.PENDING, Status.FAILED])
def test_what_moved_no_money_may_be_missing_on_either_side(status: Status) -> None:
    record = a_record(1, status=status)
    assert kinds([record], []) == []
    assert kinds([], [the_line_of(record)]) == []


def test_a_payment_beside_the_period_may_be_in_the_statement_and_need_not() -> None:
    record = a_record(1, is_expected=False)
    assert kinds([record], []) == []
    assert kinds([record], [the_line_of(record)]) == []


def test_a_line_that_denies_a_payment_is_one_difference_and_not_two() -> None:
    record = a_record(1)
    assert kinds([record], [the_line_of(record, status=Status.FAILED)]) == ["status_differs"]


def test_fees_are_summed_by_currency() -> None:
    reconciliation = Reconciliation()
    reconciliation.add_record(a_record(1))
    line = the_line_of(a_record(1), fee=Money(3, "KES"))
    assert reconciliation.check_line(line) == []
    fee_line = evolve(line, is_fee=True, is_incoming=False, amount=Money(4, "KES"), fee=None)
    assert reconciliation.check_line(fee_line) == []
    assert reconciliation.fees == {"KES": 7}
    assert reconciliation.matched == 1
    reconciliation.check_line(line)
    reconciliation.check_line(the_line_of(a_record(2), fee=Money(5, "KES")))
    assert reconciliation.fees == {"KES": 15}, (
        "of the line that is there twice, and of the one without a record"
    )
    reconciliation.check_line(evolve(fee_line, is_incoming=True))
    assert reconciliation.fees == {"KES": 11}, "a fee came back"


def a_reversal(payment: RecordedPayment, number: int = 1, **changes: Any) -> RecordedPayment:
    """All money of a payment back, done."""
    return evolve(
        payment,
        gateway_reference=f"{payment.gateway_reference}-{number}",
        receipt=f"BACK{number}",
        type=Type.PAYOUT if payment.type is Type.PAYIN else Type.PAYIN,
        reverses=(payment.gateway_reference, payment.receipt),
        **changes,
    )


KES_30 = Money(30_00, "KES")


@pytest.mark.parametrize(
    "known_by", ["receipt", "own reference", "receipt of the payment", "reference of the payment"]
)
@pytest.mark.parametrize("has_direction", [True, False])
@pytest.mark.parametrize("amount", [Money(100_00, "KES"), KES_30])
def test_a_line_of_money_that_went_back_is_the_reversal_s(
    known_by: str, has_direction: bool, amount: Money
) -> None:
    paid = a_record(1)
    back = a_reversal(paid, amount=amount)
    names: dict[str, dict[str, Any]] = {
        "receipt": {"receipt": back.receipt, "reference": None},
        "own reference": {"receipt": "OTHER", "reference": back.gateway_reference},
        "receipt of the payment": {"receipt": "OTHER", "reference": paid.receipt},
        "reference of the payment": {"receipt": None, "reference": paid.merchant_reference},
    }
    direction: dict[str, Any] = {} if has_direction else {"is_incoming": None}
    lines = [the_line_of(paid, **direction), the_line_of(back, 2, **names[known_by], **direction)]
    for order in (lines, lines[::-1]):
        assert kinds([paid, back], order) == []


def test_each_part_that_went_back_has_a_line() -> None:
    paid = a_record(1)
    parts = [a_reversal(paid, number, amount=KES_30) for number in (1, 2)]
    lines = [
        the_line_of(each, number, receipt=None)
        for number, each in enumerate([paid, *parts], start=1)
    ]
    assert kinds([paid, *parts], lines) == []
    assert kinds([paid, *parts], lines[:2]) == ["missing_in_statement"]
    assert kinds([paid, *parts], [*lines, the_line_of(parts[0], 4, receipt=None)]) == [
        "duplicate_line"
    ]


def test_money_back_on_one_side_only_is_named() -> None:
    paid = a_record(1)
    back = a_reversal(paid)
    [missing] = compared([paid, back], [the_line_of(paid)])
    assert (missing.kind, missing.record, missing.line) == (
        DifferenceKind.MISSING_IN_STATEMENT,
        back,
        None,
    )
    assert missing.members()["records"] == "reversal 100.00 KES success"
    for status in (Status.PENDING, Status.FAILED):
        held = a_reversal(paid, status=status)
        assert kinds([paid, held], [the_line_of(paid)]) == []
        [differs] = compared([paid, held], [the_line_of(paid), the_line_of(back, 2)])
        assert (differs.kind, differs.record) == (DifferenceKind.STATUS_DIFFERS, held)
    for lines in itertools.permutations([the_line_of(paid), the_line_of(back, 2)]):
        assert kinds([paid], [*lines]) == ["direction_differs"]
    assert kinds([paid], [the_line_of(paid), the_line_of(back, 2, reference=None)]) == [
        "missing_in_records"
    ]


def test_a_second_line_of_the_payment_is_not_taken_for_its_reversal() -> None:
    paid = a_record(1)
    lines = [the_line_of(paid), the_line_of(paid, 2), the_line_of(a_reversal(paid), 3)]
    assert kinds([paid, a_reversal(paid)], lines) == ["duplicate_line"]


def test_a_payment_whose_line_says_that_it_was_reversed_needs_no_other_line() -> None:
    paid = a_record(1)
    reversed_line = the_line_of(paid, status=Status.FAILED)
    assert kinds([paid, a_reversal(paid)], [reversed_line]) == []
    assert kinds([paid, a_reversal(paid, amount=KES_30)], [reversed_line]) == [
        "status_differs",
        "missing_in_statement",
    ]


def test_money_that_went_back_of_a_payment_that_failed_at_first_is_its_reversal_s() -> None:
    failed = a_record(1, status=Status.FAILED)
    back = a_reversal(failed, status=Status.SUCCESS)
    lines = [the_line_of(failed, status=Status.SUCCESS), the_line_of(back, 2, receipt="OTHER")]
    assert kinds([failed, back], lines) == ["status_differs"]

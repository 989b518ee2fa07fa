"""A payment is simulated as its account is when it is accepted, and stays so; its money is added to
no other."""

from __future__ import annotations

import json
from datetime import UTC

import pytest
from attrs import evolve

from mmo_merchant.reconciliation.comparison import DifferenceKind, Reconciliation, StatementLine
from mmo_merchant.reconciliation.daily_digest import digest_day
from mmo_merchant.reconciliation.recorded_payments import recorded_payment
from mmo_sansio.accounting.book_entries import parse_members, payment_entries
from mmo_sansio.accounting.book_rows import BOOK_COLUMNS, book_rows
from mmo_sansio.accounting.calendar_months import calendar_month
from mmo_sansio.accounting.month_books import MonthBook
from mmo_sansio.api.outgoing import transaction_object
from mmo_sansio.messages.changes import JournalEntry, SuspenseReason
from mmo_sansio.messages.inputs import DepositAnswered, DepositClaimWoke
from mmo_sansio.payments.decide import decide
from mmo_sansio.payments.gateway import Gateway
from mmo_sansio.payments.ledger import Ledger
from mmo_sansio.testing import builders as a
from mmo_sansio.values.clock import HOUR, Span, later
from mmo_sansio.values.model import DepositAnswerOutcome, DepositTrust, Flow, Stage, Transaction

SIMULATED = frozenset({"test"})


@pytest.mark.parametrize("is_simulated", [True, False])
def test_the_account_of_the_acceptance_decides_and_the_journal_says_so(is_simulated: bool) -> None:
    gateway = Gateway()
    asked = a.a_create_payment()
    if is_simulated:
        asked = evolve(asked, simulated_providers=SIMULATED)
    decided = decide(Ledger(), asked, now=a.START)
    (line,) = [each for each in decided.changes if isinstance(each, JournalEntry)]
    assert json.loads(line.detail).get("simulated") is (True if is_simulated else None)

    gateway.receive(asked, now=a.START)
    gateway.receive(a.a_begin_submission(), now=later(a.START, Span(HOUR)))
    gateway.receive(a.succeeded(), now=later(a.START, Span(2 * HOUR)))
    paid = gateway.ledger.transactions[a.REFERENCE]
    assert (paid.progress.stage, paid.order.is_simulated) == (Stage.SUCCEEDED, is_simulated)


def test_other_accounts_make_no_payment_simulated() -> None:
    gateway = Gateway()
    others = frozenset({"test2", "sandbox"})
    gateway.receive(evolve(a.a_create_payment(), simulated_providers=others), now=a.START)
    assert not gateway.ledger.transactions[a.REFERENCE].order.is_simulated


@pytest.mark.spec("S4")
def test_a_simulated_deposit_is_a_simulated_payment_also_once_it_is_confirmed() -> None:
    gateway = Gateway()
    gateway.receive(a.a_deposit(is_simulated=True), now=a.START)
    assert gateway.ledger.transactions[a.REFERENCE].order.is_simulated

    gateway = Gateway()
    told = a.a_deposit(is_simulated=True, trust=DepositTrust.UNCONFIRMED)
    gateway.receive(told, now=a.START)
    gateway.receive(DepositClaimWoke("test", "DEP-1"), now=later(a.START, Span(HOUR)))
    answer = DepositAnswered(
        "test",
        "DEP-1",
        DepositAnswerOutcome.COMPLETED,
        is_ours=True,
        amount=told.amount,
        brand=told.brand,
        method=told.method,
    )
    gateway.receive(answer, now=later(a.START, Span(HOUR)))
    assert gateway.ledger.transactions[a.REFERENCE].order.is_simulated


@pytest.mark.spec("S4")
@pytest.mark.parametrize("is_simulated", [True, False])
def test_no_deposit_by_the_other_sort_of_account_settles_a_payment(is_simulated: bool) -> None:
    gateway = Gateway()
    waiting = a.a_transaction(Stage.AWAITING_RESULT, flow=Flow.QR, is_simulated=is_simulated)
    gateway.ledger = a.ledger_with(waiting)
    for told_by, expected in ((not is_simulated, Stage.AWAITING_RESULT), (is_simulated, "success")):
        told = a.a_deposit(
            gateway_reference=a.numbered_reference(9),
            provider_reference=f"DEP-{told_by}",
            amount=a.KES(150),
            payment=a.REFERENCE,
            is_simulated=told_by,
        )
        gateway.receive(told, now=a.START)
        found = gateway.ledger.transactions[a.REFERENCE]
        assert expected in (found.progress.stage, found.status)
    (entry,) = gateway.suspense
    assert entry.reason is SuspenseReason.UNMATCHED_DEPOSIT


def _paid(number: int, *, is_simulated: bool) -> Transaction:
    return a.a_transaction(
        Stage.SUCCEEDED,
        gateway_reference=a.numbered_reference(number),
        merchant_reference=f"order-{number}",
        is_simulated=is_simulated,
    )


def _exported(number: int, *, is_simulated: bool) -> bytes:
    """The transaction object with the remark of an export."""
    text = transaction_object(_paid(number, is_simulated=is_simulated))
    return text[:-1] + (b',"simulated":true}' if is_simulated else b',"simulated":false}')


def test_a_merchant_sees_no_mark() -> None:
    real, simulated = (transaction_object(_paid(1, is_simulated=mark)) for mark in (False, True))
    assert real == simulated


def test_a_digest_adds_simulated_money_to_no_other() -> None:
    records = [
        recorded_payment(_exported(number, is_simulated=number == 2)) for number in (1, 2, 3)
    ]
    digest = digest_day(records)
    assert digest.sums == {"payin KES": 30_000, "simulated payin KES": 15_000}
    assert digest.count == 3


def test_the_month_books_have_simulated_payments_in_accounts_of_their_own() -> None:
    month = calendar_month("2026-09", UTC)
    book = MonthBook(month)
    for number in (1, 2, 3):
        members = parse_members(transaction_object(_paid(number, is_simulated=False)))
        for entry in payment_entries("acme", members, is_simulated=number == 2):
            book.add(entry)
    rows = [dict(zip(BOOK_COLUMNS, row, strict=True)) for row in book_rows(book)]
    told = [(row["row"], str(row["amount"]), row["simulated"]) for row in rows]
    assert [each for each in told if each[0] in ("closing", "total")] == [
        ("closing", "300.00 KES", None),
        ("closing", "150.00 KES", "true"),
        ("total", "300.00 KES", None),
        ("total", "150.00 KES", "true"),
    ]


def test_a_statement_names_what_it_has_of_simulated_payments() -> None:
    reconciliation = Reconciliation()
    for number in (1, 2, 3):
        record = recorded_payment(_exported(number, is_simulated=number > 1))
        reconciliation.add_record(record)
    for number in (1, 2):
        line = StatementLine(number, None, f"order-{number}", a.KES(150))
        assert reconciliation.check_line(line) == []
    assert (reconciliation.matched, reconciliation.matched_simulated) == (2, 1)
    (missing,) = reconciliation.missing_lines()
    assert missing.kind is DifferenceKind.MISSING_IN_STATEMENT
    assert missing.members()["records"] == "simulated payin 150.00 KES success"

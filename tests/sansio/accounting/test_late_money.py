"""A payment that had failed, and whose money came all the same and went back, leaves nothing in the
book but what stays."""

from __future__ import annotations

from datetime import UTC

from attrs import evolve

from mmo_sansio.accounting.book_entries import parse_members, reversal_entries
from mmo_sansio.accounting.calendar_months import calendar_month
from mmo_sansio.accounting.month_books import Account, EntryKind, MonthBook, TotalKey
from mmo_sansio.api.extensions import ReversedPayment, reversed_payment_object
from mmo_sansio.testing import builders as a
from mmo_sansio.values.clock import HOUR, Span, later
from mmo_sansio.values.model import Source, Stage
from mmo_sansio.values.reversals import Reversal, ReversalState

LATE = a.KES("150.00")


def _reversal(number: int, state: ReversalState, amount: str) -> Reversal:
    at = later(a.START, Span(number * HOUR))
    return Reversal(
        a.REFERENCE,
        number,
        brand="acme",
        provider="test",
        amount=a.KES(amount),
        reason="Paid after all.",
        asked_by="amina",
        asked_at=at,
        state=state,
        wake_at=None,
        reported=LATE,
        ended_at=at if state.has_ended else None,
        source=Source.POLL,
    )


def _told(*reversals: Reversal) -> bytes:
    payment = a.a_transaction(Stage.FAILED)
    payment = evolve(payment, progress=evolve(payment.progress, provider_reference="R1"))
    return reversed_payment_object(ReversedPayment(payment, reversals))


def test_late_money_is_booked_once_before_the_first_that_went_back() -> None:
    book = MonthBook(calendar_month("2026-09", UTC))
    told = _told(
        _reversal(1, ReversalState.FAILED, "90.00"),
        _reversal(2, ReversalState.SUCCEEDED, "100.00"),
        _reversal(3, ReversalState.MOVED_AFTER_ALL, "50.00"),
    )
    for entry in reversal_entries("acme", parse_members(told)):
        book.add(entry)
    assert [(entry.kind, entry.minor, entry.reversal) for entry in book.entries()] == [
        (EntryKind.LATE, 15_000, None),
        (EntryKind.REVERSAL, -10_000, f"{a.REFERENCE}-2"),
        (EntryKind.REVERSAL, -5_000, f"{a.REFERENCE}-3"),
    ]
    assert book.sums[Account("acme", "test_ke", "KES")].closing == 0
    assert book.totals()[TotalKey("acme", EntryKind.LATE, "payin", "KES")].minor == 15_000


def test_nothing_is_booked_of_money_that_did_not_go_back() -> None:
    told = _told(
        _reversal(1, ReversalState.FAILED, "90.00"), _reversal(2, ReversalState.SENT, "1.00")
    )
    assert list(reversal_entries("acme", parse_members(told))) == []

"""Statements in the layouts of operators' portals agree with the month's books, to the unit.

The layouts are those that public programs and pages were seen to read or describe on 2026-11-29;
only names of columns and words of states are theirs. Where a source has no address, none was kept,
and it was not found again. All files are about the same made-up book.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from attrs import frozen

from mmo_merchant.reconciliation.comparison import MONEY_IN, Reconciliation
from mmo_merchant.reconciliation.held_records import RecordedPayment
from mmo_merchant.reconciliation.recorded_payments import Period
from mmo_merchant.reconciliation.statement_file import (
    OPTIONAL_COLUMNS,
    PREAMBLE_LINES_MAX,
    PRESETS,
    StatementForm,
    StatementReader,
)
from mmo_merchant.tables.table_file import Columns, Table, TableForm, open_table
from mmo_sansio.accounting.calendar_months import calendar_month
from mmo_sansio.accounting.month_books import Account, BookEntry, EntryKind, MonthBook
from mmo_sansio.values.clock import from_datetime
from mmo_sansio.values.model import Status, Type
from mmo_sansio.values.money import decimals_of, to_money

FOLDER = Path(__file__).parent / "statements"


@frozen
class Booked:
    """Is a line of the operator's book: what moved, in whole units of the currency."""

    receipt: str
    at: str
    amount: int
    fee: int
    reverses: str | None = None
    has_failed: bool = False


BOOK = (
    Booked("R01", "2026-10-31T20:30:00Z", 1000, 10),
    Booked("R02", "2026-10-31T21:30:00Z", 2500, 25),
    Booked("R03", "2026-10-31T23:30:00Z", 400, 4),
    Booked("R04", "2026-11-01T00:30:00Z", 1500, 15),
    Booked("R05", "2026-11-15T09:00:00Z", -3000, 30),
    Booked("R06", "2026-11-20T12:00:00Z", 5000, 50),
    Booked("R07", "2026-11-20T12:05:00Z", 700, 0, has_failed=True),
    Booked("R08", "2026-11-30T20:30:00Z", -2000, 0, reverses="R06"),
    Booked("R09", "2026-11-30T21:30:00Z", 800, 8),
    Booked("R10", "2026-11-30T23:30:00Z", -1200, 12),
    Booked("R11", "2026-12-01T00:30:00Z", 90, 1),
    Booked("R12", "2026-12-02T08:00:00Z", -1500, 0, reverses="R04"),
)
ZONES = {"Africa/Nairobi": (4400, 124), "Africa/Lagos": (2700, 107), "Africa/Abidjan": (1100, 115)}
"""What moved in November by the clocks of a zone, and the fees, added up by hand."""


@frozen
class Layout:
    """Is one portal's table."""

    source: str
    """Who was seen to read or describe it."""
    currency: str
    columns: dict[str, str]
    preset: str = ""
    has_fees: bool = False


SIGNED = {"receipt": "Transaction ID", "amount": "Transaction Amount", "status": "Status"}
LAYOUTS = {
    "mpesa_paybill": Layout(
        "described by a test of a bookkeeping program for paybills",
        "KES",
        {},
        "mpesa",
        has_fees=True,
    ),
    "mpesa_statement": Layout(
        "github.com/horacenjoroge/AfricGraph, docs/mpesa_csv_guide.md: its required columns",
        "KES",
        {
            "receipt": "Receipt No",
            "paid_in": "Paid In",
            "paid_out": "Withdrawn",
            "status": "Transaction Status",
        },
    ),
    "mpesa_credit_debit": Layout(
        "github.com/horacenjoroge/AfricGraph, docs/mpesa_csv_guide.md: other names of columns",
        "KES",
        {"receipt": "Transaction ID", "paid_in": "Credit", "paid_out": "Debit", "status": "Status"},
    ),
    "mtn_activity": Layout(
        "described by programs that read MTN's activity report", "UGX", {}, "mtn", True
    ),
    "mtn_rwanda": Layout(
        "described by a lender's reader of statements in Rwanda",
        "RWF",
        {"receipt": "Id", "amount": "Amount", "status": "Status", "fee": "Fee"},
        has_fees=True,
    ),
    "mtn_uganda": Layout(
        "described by a lender's reader of statements in Uganda (UMTN)",
        "UGX",
        {"receipt": "Transaction ID", "amount": "Amount", "fee": "Fee"},
        has_fees=True,
    ),
    "airtel_report": Layout("described by programs that read Airtel's report", "KES", {}, "airtel"),
    "airtel_credit_debit": Layout(
        "described by a lender's reader of Airtel's statements in Uganda (UATL), its first format",
        "UGX",
        {**SIGNED, "direction": "Credit/Debit", "fee": "Fee"},
        has_fees=True,
    ),
    "airtel_signed": Layout(
        "described by the same reader, its second format",
        "UGX",
        {**SIGNED, "fee": "Fee"},
        has_fees=True,
    ),
    "airtel_bookkeeping": Layout(
        "described by a bookkeeping program's parser of Airtel's statements",
        "KES",
        {"receipt": "Reference", "paid_in": "Credit", "paid_out": "Debit"},
    ),
    "orange_senegal": Layout(
        "github.com/fagne2024/RECONCILIATION, FONCTIONNALITE-ORANGE-MONEY-COLONNES.md",
        "XOF",
        {"receipt": "Référence", "paid_in": "Crédit", "paid_out": "Débit", "status": "Statut"},
    ),
    "wave_business": Layout(
        "described by the comment of a parser of Wave Business exports",
        "XOF",
        {"receipt": "Transaction ID", "amount": "Amount", "msisdn": "Counterparty Mobile"},
    ),
    "pawapay": Layout(
        "https://docs.pawapay.io/dashboard/finances/statements",
        "RWF",
        {
            "receipt": "Transaction ID",
            "amount": "Amount",
            "currency": "Currency",
            "direction": "Type",
            "msisdn": "MSISDN",
        },
    ),
}


def record_of(booked: Booked, currency: str, period: Period) -> RecordedPayment:
    """What the gateway's records say of it."""
    at = from_datetime(datetime.fromisoformat(booked.at))
    number = int(booked.receipt[1:])
    return RecordedPayment(
        f"01GATEWAY{number:017}" if booked.reverses is None else f"reversal-{number}",
        f"order-{number}",
        booked.receipt,
        Type.PAYOUT if booked.amount < 0 else Type.PAYIN,
        Status.FAILED if booked.has_failed else Status.SUCCESS,
        to_money(Decimal(abs(booked.amount)), currency),
        is_expected=period.has(at),
        reverses=() if booked.reverses is None else (booked.reverses,),
    )


def read(name: str) -> StatementReader:
    layout = LAYOUTS[name]
    columns = layout.columns or PRESETS[layout.preset]
    optional = OPTIONAL_COLUMNS.get(layout.preset, {})
    table = open_table(
        FOLDER / f"{name}.csv", TableForm(), Columns(columns, optional, PREAMBLE_LINES_MAX)
    )
    assert isinstance(table, Table), table
    return StatementReader(table, StatementForm(layout.currency))


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("name", LAYOUTS)
def test_a_statement_agrees_with_the_books_of_a_month(name: str, zone: str) -> None:
    layout = LAYOUTS[name]
    month = calendar_month("2026-11", ZoneInfo(zone))
    period = Period(month.begin, month.end)
    of_month = {
        each.receipt
        for each in BOOK
        if period.has(from_datetime(datetime.fromisoformat(each.at))) and not each.has_failed
    }

    reconciliation, book = Reconciliation(), MonthBook(month)
    types = dict[str, Type]()
    for booked in BOOK:
        record = record_of(booked, layout.currency, period)
        types[booked.receipt] = record.type
        reconciliation.add_record(record)
        if not booked.has_failed:
            book.add(entry_of(booked, layout.currency))

    reader = read(name)
    moved = fees = 0
    for line in reader.lines():
        assert reconciliation.check_line(line) == []
        if line.receipt not in of_month:
            continue
        is_incoming = line.is_incoming
        if is_incoming is None:
            is_incoming = types[line.receipt] in MONEY_IN
        if line.is_fee:
            fees += line.amount.minor
        else:
            moved += line.amount.minor if is_incoming else -line.amount.minor
        fees += line.fee.minor if line.fee else 0
    assert not reader.faults
    assert list(reconciliation.missing_lines()) == []

    unit = 10 ** decimals_of(layout.currency)
    (sums,) = book.sums.values()
    assert moved == sums.moved == ZONES[zone][0] * unit
    assert -sums.fees == ZONES[zone][1] * unit
    if layout.has_fees:
        assert fees == -sums.fees


def entry_of(booked: Booked, currency: str) -> BookEntry:
    """What the month's books have of it."""
    is_reversal = booked.reverses is not None
    return BookEntry(
        booked_at=from_datetime(datetime.fromisoformat(booked.at)),
        kind=EntryKind.REVERSAL if is_reversal else EntryKind.PAYMENT,
        account=Account("acme", "mobile", currency),
        type="payin" if is_reversal or booked.amount > 0 else "payout",
        country="KE",
        minor=to_money(Decimal(booked.amount), currency).minor,
        fee_minor=-to_money(Decimal(booked.fee), currency).minor,
        gateway_reference=booked.reverses or booked.receipt,
        merchant_reference=None,
        reconciliation_reference=None,
        reversal=booked.receipt if is_reversal else None,
        receipt=booked.receipt,
    )


@pytest.mark.parametrize(
    ("name", "at"), [("airtel_credit_debit", b",Credit,"), ("pawapay", b",DEPOSIT")]
)
def test_a_charge_back_by_a_word_for_its_direction_is_told(
    name: str, at: bytes, tmp_path: Path
) -> None:
    """The amount has no sign there: without the word it would agree with the pay-in."""
    damaged = tmp_path / "damaged.csv"
    words = {b",Credit,": b",Debit,", b",DEPOSIT": b",REFUND"}
    damaged.write_bytes((FOLDER / f"{name}.csv").read_bytes().replace(at, words[at], 1))
    layout = LAYOUTS[name]
    table = open_table(damaged, TableForm(), Columns(layout.columns, {}, PREAMBLE_LINES_MAX))
    assert isinstance(table, Table)
    reconciliation = Reconciliation()
    for booked in BOOK:
        reconciliation.add_record(record_of(booked, layout.currency, Period()))
    found = [
        difference.kind.value
        for line in StatementReader(table, StatementForm(layout.currency)).lines()
        for difference in reconciliation.check_line(line)
    ]
    assert found == ["direction_differs"]

"""A pay-roll is read exactly, each fault is named by its line with a remedy, and references stay
what they were."""

from __future__ import annotations

import pytest
from attrs import evolve

from mmo_merchant.payroll.pay_roll import (
    REMEDIES,
    Layout,
    PayLine,
    earlier_try,
    next_try,
    read_lines,
    read_pay_roll,
    totals,
)
from mmo_merchant.tables.faults import Fault
from mmo_merchant.tables.numbers import declared_format
from mmo_merchant.tables.table_file import TableForm, read_text
from mmo_sansio.values.money import Money

HEADINGS = (
    "msisdn,amount,currency,merchantReference,id,firstName,lastName,email,reconciliationReference"
)
LAYOUT = Layout({}, {"country": "KE", "method": "mpesa_ke"}, "https://acme.example/r")
GOOD = "254712345001,1500.00,KES,salary-1,,Zuhura,,,"

WRONG_LINES = [
    (",1500,KES,a,,,,,", "msisdn", "is blank"),
    ("0712345678,1500,KES,a,,,,,", "msisdn", "must be digits"),
    ("2.54712E+11,1500,KES,a,,,,,", "msisdn", "shortened by a spreadsheet program"),
    ("712345678,1500,KES,a,,,,,", "msisdn", "is no mobile number of KE"),
    ("25471234567,1500,KES,a,,,,,", "msisdn", "is no mobile number of KE"),
    ("256712345678,1500,KES,a,,,,,", "msisdn", "is no mobile number of KE"),
    ("254 712 345 678,1500,KES,a,,,,,", "msisdn", "must be digits"),
    ("25,1500,KES,a,,,,,", "msisdn", "at least 3 characters"),
    ("254712345678254712345678,1500,KES,a,,,,,", "msisdn", "at most 20 characters"),
    ("254712345678,,KES,a,,,,,", "amount", "is blank"),
    ('254712345678,"1,500.00",KES,a,,,,,', "amount", "is no plain number"),
    ('254712345678,"1500,00",KES,a,,,,,', "amount", "is no plain number"),
    ("254712345678,KES 1500,KES,a,,,,,", "amount", "is no plain number"),
    ("254712345678,-1500,KES,a,,,,,", "amount", "is no plain number"),
    ("254712345678,1.5E+3,KES,a,,,,,", "amount", "is no plain number"),
    ("254712345678,NaN,KES,a,,,,,", "amount", "is no plain number"),
    ("254712345678,0,KES,a,,,,,", "amount", "must be greater than 0"),
    ("254712345678,0.001,KES,a,,,,,", "amount", "at most 2 decimals in KES"),
    ("254712345678,1500.50,UGX,a,,,,,", "amount", "must be a whole number in UGX"),
    ("254712345678,15.000,XOF,a,,,,,", "amount", "has 3 decimals, and XOF has 0"),
    ("254712345678,1.0,UGX,a,,,,,", "amount", "has 1 decimals, and UGX has 0"),
    ("254712345678,15.000,KES,a,,,,,", "amount", "has 3 decimals, and KES has 2"),
    ("254712345678,1.5000,KWD,a,,,,,", "amount", "has 4 decimals, and KWD has 3"),
    ("254712345678,2000000000000000,KES,a,,,,,", "amount", "at most 1000000000000000"),
    ("254712345678,1500,,a,,,,,", "currency", "is blank"),
    ("254712345678,1500,KSH,a,,,,,", "currency", "is not known"),
    ("254712345678,1500,kes,a,,,,,", "currency", "is not known"),
    ("254712345678,1500,KES,,,,,,", "merchantReference", "is blank"),
    ("254712345678,1500,KES,salary-1,,,,,", "merchantReference", "is that of line 2"),
    (f"254712345678,1500,KES,{'a' * 256},,,,,", "merchantReference", "at most 255 characters"),
    ("254712345678,1500,KES,..,,,,,", "merchantReference", "may not be '.' or '..'"),
    ('254712345678,1500,KES,"a\tb",,,,,', "merchantReference", "control characters"),
    (f"254712345678,1500,KES,a,{'a' * 256},,,,", "id", "at most 255 characters"),
    (f"254712345678,1500,KES,a,,{'a' * 256},,,", "firstName", "at most 255 characters"),
    ("254712345678,1500,KES,a,,,,nobody,", "email", "must be an e-mail address"),
    (
        f"254712345678,1500,KES,a,,,,,{'a' * 256}",
        "reconciliationReference",
        "at most 255 characters",
    ),
    ("254712345678,1,500,KES,a,,,,,", "", "has 10 cells, and 9 headings"),
    ("254712345678,1500,KES", "", "has 3 cells, and 9 headings"),
    ("254712345001,1500.00,KES,b,,,,,", "", "pays the same number the same amount as line 2"),
    (f"{HEADINGS}", "", "repeats the headings"),
]


def read(
    *lines: str, headings: str = HEADINGS, layout: Layout = LAYOUT
) -> tuple[list[PayLine], list[Fault]]:
    return read_pay_roll((f"{each}\n" for each in (headings, *lines)), layout)


def faults_of(*lines: str, headings: str = HEADINGS, layout: Layout = LAYOUT) -> list[Fault]:
    return read(*lines, headings=headings, layout=layout)[1]


def references(read: tuple[list[PayLine], list[Fault]]) -> list[str]:
    lines, faults = read
    assert faults == []
    return [each.payment.merchant_reference for each in lines]


@pytest.mark.spec("C2", "C9", "M1", "M3")
def test_each_wrong_line_is_named_with_its_field_and_a_remedy() -> None:
    faults = faults_of(GOOD, *(line for line, _, _ in WRONG_LINES))
    assert len(WRONG_LINES) >= 30
    assert [(each.line, each.field) for each in faults] == [
        (number, field) for number, (_, field, _) in enumerate(WRONG_LINES, 3)
    ]
    for fault, (_, field, problem) in zip(faults, WRONG_LINES, strict=True):
        assert problem in fault.problem
        assert str(fault).startswith(f"line {fault.line}")
        assert fault.remedy == REMEDIES[field] if field else fault.remedy.endswith(".")


@pytest.mark.parametrize(
    ("amount", "currency", "minor"),
    [("15000", "XOF", 15_000), ("1500.5", "KES", 150_050), ("15.000", "KWD", 15_000)],
)
def test_the_decimals_of_a_currency_are_read(amount: str, currency: str, minor: int) -> None:
    lines, faults = read(f"254712345678,{amount},{currency},a,,,,,")
    assert faults == []
    assert [line.payment.amount for line in lines] == [Money(minor, currency)]


def test_no_fault_repeats_what_is_in_a_line() -> None:
    assert not any("0712345678" in str(each) for each in faults_of("0712345678,1500,KES,a,,,,,"))


def test_all_faults_of_a_line_are_named() -> None:
    assert {each.field for each in faults_of(",x,kes,a,,,,b,")} == {
        "msisdn",
        "amount",
        "currency",
        "email",
    }


@pytest.mark.parametrize(
    ("headings", "layout", "field", "remedy"),
    [
        ("phone,amount,currency", LAYOUT, "msisdn", "--map msisdn=HEADING."),
        ("msisdn,amount", LAYOUT, "currency", "--map currency=HEADING, or give --currency."),
        ("msisdn,amount,Amount,currency", LAYOUT, "amount", "Rename"),
        ("msisdn,amount,currency,country", LAYOUT, "country", "Leave the option out"),
        (
            "msisdn,amount,currency",
            evolve(LAYOUT, headings={"id": "staff"}),
            "id",
            "--map id=HEADING.",
        ),
    ],
)
def test_what_is_wrong_with_the_headings_is_said(
    headings: str, layout: Layout, field: str, remedy: str
) -> None:
    (fault,) = faults_of("254712345001,1500,KES", headings=headings, layout=layout)
    assert (fault.line, fault.field) == (1, field)
    assert remedy in fault.remedy


def test_a_quotation_mark_that_is_not_closed_is_named_by_the_line_where_it_begins() -> None:
    (fault,) = faults_of(GOOD, "", '254712345678,"1500,KES,b,,,,,', "254712345678,1500,KES,c,,,,,")
    assert (fault.line, fault.problem[:9]) == (4, "is no CSV")


def test_a_file_without_pay_outs_is_a_fault() -> None:
    assert [each.line for each in faults_of("", ",,,,,,,,")] == [1]
    assert read_pay_roll([], LAYOUT)[1]


@pytest.mark.spec("M1")
def test_lines_keep_their_numbers_and_totals_are_exact() -> None:
    lines = (
        "254712345001,0.10,KES,a,,,,,",
        "",
        "+254712345002,0.20,KES,b,7,Zuhura,,,r-1",
        "254712345003,3,UGX,c,,,,,",
    )
    read_lines, _ = read(*lines)
    assert [each.number for each in read_lines] == [2, 4, 5]
    assert totals(each.payment.amount for each in read_lines) == [Money(30, "KES"), Money(3, "UGX")]
    first, second, _ = (each.payment for each in read_lines)
    assert (first.payee.id, first.payee.first_name, first.reconciliation_reference) == (
        "254712345001",
        None,
        None,
    )
    assert (second.payee.id, second.payee.first_name, second.reconciliation_reference) == (
        "7",
        "Zuhura",
        "r-1",
    )
    assert (second.method, second.country, second.result_url) == (
        "mpesa_ke",
        "KE",
        LAYOUT.result_url,
    )


NAMED = evolve(LAYOUT, constants={**LAYOUT.constants, "currency": "KES"}, name="2026-11")
FIRST, SECOND = "7,254712345001,1500.00", "8,254712345002,20.00"


@pytest.mark.spec("C12")
def test_a_reference_is_made_of_the_name_and_of_the_key_and_of_nothing_else() -> None:
    headings = "Staff,msisdn,amount"
    keyed = evolve(NAMED, headings={"key": "Staff"})
    by_staff = references(read(FIRST, SECOND, headings=headings, layout=keyed))
    corrected = ("8,254712345003,21", '"7","254712345009",1.50')
    assert references(read(*corrected, headings=headings, layout=keyed)) == by_staff[::-1]
    assert references(read(FIRST, headings=headings, layout=keyed)) == by_staff[:1]
    by_phone = references(read(FIRST, SECOND, headings=headings, layout=NAMED))
    other_staff = "9,+254712345001,2"
    assert references(read(other_staff, headings=headings, layout=NAMED)) == by_phone[:1]
    december = evolve(keyed, name="2026-12")
    others = references(read(FIRST, SECOND, headings=headings, layout=december))
    assert len({*by_staff, *by_phone, *others}) == 6


@pytest.mark.spec("C12")
def test_without_a_name_or_references_a_pay_roll_can_only_be_checked() -> None:
    headings = "msisdn,amount"
    for layout, lines, needs_name in (
        (evolve(NAMED, name=""), ["254712345001,1"], True),
        (NAMED, ["254712345001,1"], False),
    ):
        text = (f"{each}\n" for each in (headings, *lines))
        table = read_text(text, TableForm(), layout.columns)
        assert read_lines(table, layout).needs_name is needs_name
    table = read_text(
        ["msisdn,amount,merchantReference\n", "254712345001,1,a\n"], TableForm(), NAMED.columns
    )
    assert not read_lines(table, evolve(NAMED, name="")).needs_name


def test_two_lines_have_two_keys() -> None:
    (fault,) = faults_of(FIRST, "7,254712345002,1", headings="key,msisdn,amount", layout=NAMED)
    assert (fault.line, fault.field, fault.problem) == (3, "key", "is that of line 2")
    two_shifts = ("254712345001,1500", "254712345001,1600")
    (fault,) = faults_of(*two_shifts, headings="msisdn,amount", layout=NAMED)
    assert (fault.field, fault.problem) == ("msisdn", "is that of line 2")
    assert "--map key=HEADING" in fault.remedy


def test_equal_lines_are_paid_where_both_are_meant() -> None:
    lines, headings = (FIRST, "8,254712345001,1500"), "key,msisdn,amount"
    (fault,) = faults_of(*lines, headings=headings, layout=NAMED)
    assert "--allow-repeats" in fault.remedy
    allowed = evolve(NAMED, allows_repeats=True)
    assert len(references(read(*lines, headings=headings, layout=allowed))) == 2


def test_a_total_is_left_out_if_it_is_the_sum_of_the_lines() -> None:
    lines, headings = (FIRST, SECOND), "key,msisdn,amount"
    assert len(references(read(*lines, "Total,,1520.00", headings=headings, layout=NAMED))) == 2
    assert len(references(read(*lines, ",Jumla,", headings=headings, layout=NAMED))) == 2
    (fault,) = faults_of(*lines, "Total,,1521.00", headings=headings, layout=NAMED)
    assert (fault.line, fault.problem) == (4, "is not the sum of the lines above")


@pytest.mark.parametrize("mark", [".", ","])
@pytest.mark.parametrize("amount", ["25000", "25{}000", "25 000"])
def test_a_declared_notation_adds_no_decimals_to_a_currency_without_any(
    amount: str, mark: str
) -> None:
    layout = evolve(
        NAMED,
        constants={**NAMED.constants, "currency": "XOF"},
        numbers=declared_format(mark),
    )
    separator = "," if mark == "." else "."
    rows = ["msisdn;amount\n", f"254712345001;{amount.format(separator)}\n"]
    (line,), _ = read_pay_roll(rows, layout)
    assert line.payment.amount == Money(25_000, "XOF")


def test_a_declared_notation_is_read_with_its_separators() -> None:
    layout = evolve(NAMED, numbers=declared_format(","))
    lines = ('254712345001,"1.500,50"', '254712345002,"20,5"')
    found, faults = read(*lines, headings="msisdn,amount", layout=layout)
    assert faults == []
    assert [line.payment.amount.minor for line in found] == [150_050, 20_50]
    for wrong in ("1500.50", "-20", "1.50"):
        assert faults_of(f"254712345001,{wrong}", headings="msisdn,amount", layout=layout)


def test_the_next_try_of_a_reference_knows_the_one_before() -> None:
    assert [next_try("a"), next_try("a-try2"), next_try("a-try9")] == [
        "a-try2",
        "a-try3",
        "a-try10",
    ]
    assert [
        earlier_try("a-try3"),
        earlier_try("a-try2"),
        earlier_try("a"),
        earlier_try("a-try1"),
    ] == ["a-try2", "a", None, None]

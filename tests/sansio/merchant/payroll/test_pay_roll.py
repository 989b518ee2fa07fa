"""A pay-roll is read exactly, each fault is named by its line with a remedy, and references stay
what they were."""

from __future__ import annotations

import pytest
from attrs import evolve

from mmo_merchant.payroll.pay_roll import REMEDIES, Fault, Layout, PayLine, read_pay_roll, totals
from mmo_sansio.values.money import Money

HEADINGS = (
    "msisdn,amount,currency,merchantReference,id,firstName,lastName,email,reconciliationReference"
)
LAYOUT = Layout({}, {"country": "KE", "method": "mpesa_ke"}, "https://acme.example/r")
GOOD = "254712345001,1500.00,KES,salary-1,,Zuhura,,,"

WRONG_LINES = [
    (",1500,KES,a,,,,,", "msisdn", "is blank"),
    ("0712345678,1500,KES,a,,,,,", "msisdn", "must be digits"),
    ("2.54712E+11,1500,KES,a,,,,,", "msisdn", "must be digits"),
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
    ("254712345678,1500,KES,a,,Z\udce9,,,", "", "is not UTF-8"),
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
        "256712345003,3,UGX,c,,,,,",
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


@pytest.mark.spec("C12")
def test_a_copy_has_the_same_references_and_another_pay_roll_has_others() -> None:
    headings, lines = (
        "msisdn,amount,currency",
        ("254712345001,1500.00,KES", "254712345001,1500.00,KES"),
    )
    derived = references(read(*lines, headings=headings))
    assert len(set(derived)) == 2
    saved_again = read(
        "", '"254712345001", 1500 ,"KES"', "+254712345001,1500.0,KES", headings=f"{headings}"
    )
    assert references(saved_again) == derived
    named = read(*lines, headings=headings, layout=evolve(LAYOUT, name="2026-12"))
    changed = read(lines[0], "254712345001,1500.01,KES", headings=headings)
    assert not set(derived) & {*references(named), *references(changed)}

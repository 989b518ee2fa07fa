"""Reads a pay-roll, a CSV file with a pay-out in each line, and names every fault by its line with
a remedy.

The merchantReference of a line is taken from a column, or derived from who is paid what in the
whole file and from the position of the line. So a copy of the file, or one that was saved with
other quotation marks, has the same references; and a file with the same payments for the next month
needs another name of its pay-roll."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Final

from attrs import evolve, frozen

from mmo_merchant.api.new_payments import PayOut, creation_body
from mmo_sansio.api.incoming.creation_body import FieldErrors, Members, parse_draft
from mmo_sansio.http.egress_rules import EgressRules
from mmo_sansio.values.model import Brand, Operation
from mmo_sansio.values.money import CURRENCIES, AmountError, Money, decimals_of, to_money
from mmo_sansio.values.strict_json import JsonNumber, JsonValue

REMEDIES: Final[Mapping[str, str]] = {
    "msisdn": "Write all digits, from the country's code on; format the column as text, not as "
    "a number.",
    "amount": "Write digits, with a point before decimals, such as 1234.50: no comma, "
    "space, sign or "
    "currency, and no point between thousands.",
    "currency": "Write the code of ISO 4217 in capitals, such as KES.",
    "country": "Write the code of ISO 3166-1 in capitals, such as KE.",
    "method": "Write the method's key, such as mpesa_ke.",
    "merchantReference": "Give every line a short reference of its own, without line breaks "
    "and tabs.",
    "id": "Write your own short name of the payee, or leave the cell empty.",
    "email": "Correct it, or leave the cell empty.",
    **dict.fromkeys(
        ("firstName", "lastName", "reconciliationReference"),
        "Shorten it, without line breaks and tabs.",
    ),
}
"""What to do about a fault, by field: all members of the API that a column can hold. `id` is by
default the msisdn."""
CONSTANTS: Final = ("currency", "country", "method")
REQUIRED: Final = ("msisdn", "amount", *CONSTANTS)
DIGEST_DIGITS: Final = 24
_AMOUNT: Final = re.compile(r"[0-9]+(?:\.[0-9]+)?", re.ASCII)
_COUNTRY: Final = re.compile(r"[A-Z]{2}", re.ASCII)
_BRAND: Final = Brand("", "", ())
_EGRESS_RULES: Final = EgressRules()


@frozen
class Layout:
    """Says where a file has the fields of a pay-out."""

    headings: Mapping[str, str]
    """The headings of columns by field; a field that is not named has the column of its own name,
    if there is one."""
    constants: Mapping[str, str]
    """The values, by field, that are the same for all lines."""
    result_url: str
    name: str = ""
    """Tells this pay-roll from another one that pays the same."""
    delimiter: str = ","


@frozen
class Fault:
    """Says what is wrong in a line, or in a field of it, and how to mend it; it repeats no personal
    data."""

    line: int
    field: str
    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"line {self.line}{self.field and f', {self.field}'}: {self.problem}. {self.remedy}"


@frozen
class PayLine:
    """Is a line that can be paid; its number counts from 1."""

    number: int
    payment: PayOut
    fingerprint: str
    """Digests what is paid, and the reference where a column has it."""


def totals(amounts: Iterable[Money]) -> list[Money]:
    """Return the exact total of each currency."""
    sums = Counter[str]()
    for amount in amounts:
        sums[amount.currency] += amount.minor
    return [Money(minor, currency) for currency, minor in sorted(sums.items())]


def read_pay_roll(text: Iterable[str], layout: Layout) -> tuple[list[PayLine], list[Fault]]:
    """Read the lines of a CSV file with headings; what is not UTF-8 in it is expected as
    surrogates. If there is a fault, no line is to be paid."""
    payments, faults, first = list[tuple[int, PayOut]](), list[Fault](), dict[str, int]()
    for number, each in _read_rows(text, layout):
        if isinstance(each, Fault):
            faults.append(each)
        elif (
            used := first.setdefault(each.merchant_reference or f"line {number}", number)
        ) != number:
            faults.append(
                Fault(
                    number,
                    "merchantReference",
                    f"is that of line {used}",
                    REMEDIES["merchantReference"],
                )
            )
        else:
            payments.append((number, each))
    if not payments and not faults:
        faults.append(
            Fault(1, "", "has no pay-out below it", "Write one a line, below the headings.")
        )
    digest = _digest(
        "\n".join([layout.name, *(_who_and_what(each) for _, each in payments)]).encode()
    )
    lines = [
        PayLine(
            number,
            evolve(
                each, merchant_reference=each.merchant_reference or f"payroll-{digest}-{position}"
            ),
            _digest(each.method.encode() + creation_body(evolve(each, result_url=""))),
        )
        for position, (number, each) in enumerate(payments, 1)
    ]
    return lines, faults


def _who_and_what(payment: PayOut) -> str:
    return f"{payment.payee.msisdn.removeprefix('+')} {payment.amount}"


def _digest(text: bytes) -> str:
    return sha256(text).hexdigest()[:DIGEST_DIGITS]


def _read_rows(text: Iterable[str], layout: Layout) -> Iterator[tuple[int, PayOut | Fault]]:
    rows, number = csv.reader(text, delimiter=layout.delimiter, strict=True), 1
    try:
        headings = [each.strip().casefold() for each in next(rows, [])]
        columns = {name: layout.headings.get(name, name) for name in REMEDIES}
        faults = list(_heading_faults(headings, columns, layout))
        yield from ((1, each) for each in faults)
        number = rows.line_num + 1
        for row in rows if not faults else ():
            cells = [each.strip() for each in row]
            if len(row) != len(headings) and any(cells):
                remedy = (
                    "Put cells that have the delimiter into quotation marks, and leave no cell out."
                )
                yield (
                    number,
                    Fault(
                        number, "", f"has {len(row)} cells, and {len(headings)} headings", remedy
                    ),
                )
            elif any(cells):
                named = dict(zip(headings, cells, strict=True))
                values = {
                    name: named[each.casefold()]
                    for name, each in columns.items()
                    if each.casefold() in named
                }
                yield from (
                    (number, each)
                    for each in _read_row(number, {**values, **layout.constants}, layout)
                )
            number = rows.line_num + 1
    except csv.Error as error:
        yield (
            number,
            Fault(
                number,
                "",
                f"is no CSV ({error})",
                "Close quotation marks, and double those in a cell.",
            ),
        )


def _heading_faults(
    headings: Sequence[str], columns: Mapping[str, str], layout: Layout
) -> Iterator[Fault]:
    for name, heading in columns.items():
        count, is_constant = headings.count(heading.casefold()), name in layout.constants
        if count and is_constant:
            yield Fault(
                1,
                name,
                f"has the column {heading!r} beside --{name}",
                "Leave the option out, or rename it.",
            )
        elif count > 1:
            yield Fault(
                1, name, f"has {count} columns {heading!r}", "Rename those that are not meant."
            )
        elif not count and not is_constant and (name in layout.headings or name in REQUIRED):
            remedy = (
                f"Name its column by --map "
                f"{name}=HEADING{f', or give --{name}' if name in CONSTANTS else ''}."
            )
            yield Fault(1, name, f"has no column {heading!r}", remedy)


def _read_row(number: int, given: Mapping[str, str], layout: Layout) -> Iterator[PayOut | Fault]:
    """Yield the pay-out of a line, or its faults: those that the gateway would find, and what may
    not be meant."""
    try:
        "".join(given.values()).encode()
    except UnicodeEncodeError:
        yield Fault(number, "", "is not UTF-8", "Save the file as CSV in UTF-8.")
        return
    cells, errors = {**dict.fromkeys(REMEDIES, ""), **given}, FieldErrors()
    members: dict[str, JsonValue] = {
        **cells,
        "amount": {"value": JsonNumber(cells["amount"]), "currency": cells["currency"]},
        "payee": {**cells, "id": cells["id"] or cells["msisdn"] or "derived"},
        "resultUrl": "https://results.example/",
        "merchantReference": cells["merchantReference"] or "derived",
    }
    draft = parse_draft(
        Operation.DIRECT_PAYOUT,
        cells["method"],
        Members(members, errors),
        brand=_BRAND,
        egress_rules=_EGRESS_RULES,
    )
    problems = {
        "amount"
        if each.field == "amount.value"
        else each.field.rpartition(".")[2]: each.detail.partition("' ")[2][:-1]
        for each in errors.errors
    }
    if not _AMOUNT.fullmatch(cells["amount"]):
        problems["amount"] = "is no plain number"
    if cells["currency"] not in CURRENCIES:
        problems["currency"] = "is not known"
    elif "amount" not in problems:
        written, decimals = len(cells["amount"].partition(".")[2]), decimals_of(draft.currency)
        try:
            amount = to_money(draft.amount, draft.currency)
        except AmountError as error:
            problems["amount"] = str(error)
        else:
            # In many countries a point parts thousands: 15.000 would be paid as 15.
            if written > decimals:
                problems["amount"] = f"has {written} decimals, and {draft.currency} has {decimals}"
    if not _COUNTRY.fullmatch(cells["country"]):
        problems["country"] = "is not known"
    problems |= {
        name: "is blank" for name in (*REQUIRED, "merchantReference") if given.get(name) == ""
    }
    for name, problem in problems.items():
        yield Fault(number, name, problem, REMEDIES[name])
    if not problems and draft.party is not None:
        yield PayOut(
            method=draft.method,
            amount=amount,
            country=draft.country,
            result_url=layout.result_url,
            merchant_reference=cells["merchantReference"],
            payee=draft.party,
            reconciliation_reference=draft.reconciliation_reference,
        )

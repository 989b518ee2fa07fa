"""Reads a pay-roll, a table with a pay-out in each line, and names every fault by its line with a
remedy.

The merchantReference of a line is taken from a column, or made of the name of the pay-roll and of a
key of the line, such as the staff number: never of the rest of the file. So a file that was
corrected, sorted, shortened or saved under another name has the same references, and pays nobody
again."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from hashlib import sha256
from typing import Final

from attrs import define, evolve, field, frozen

from mmo_merchant.api.new_payments import PayOut, creation_body
from mmo_merchant.tables.cells import shown_text
from mmo_merchant.tables.faults import CellFault, Fault
from mmo_merchant.tables.numbers import NumberFormat
from mmo_merchant.tables.table_file import Columns, Row, Table, TableForm, read_text
from mmo_sansio.api.incoming.creation_body import FieldErrors, Members, parse_draft
from mmo_sansio.http.egress_rules import EgressRules
from mmo_sansio.values.dialling_codes import is_msisdn_of
from mmo_sansio.values.model import Brand, Operation
from mmo_sansio.values.money import CURRENCIES, AmountError, Money, decimals_of, to_money
from mmo_sansio.values.strict_json import JsonNumber, JsonValue

# The field that tells a line from all others of the pay-roll, whatever else is corrected.
KEY: Final = "key"

# What to do about a fault, by field: all members of the API that a column can hold, and the key.
# `id` is by default the msisdn, and so is the key.
REMEDIES: Final[Mapping[str, str]] = {
    "msisdn": "Write all digits, from the country's code on; format the column as text, not as "
    "a number.",
    "amount": "Write digits, with a point before decimals, such as 1234.50: no comma, space, sign"
    " or currency, and no point between thousands. --decimal allows another notation.",
    "currency": "Write the code of ISO 4217 in capitals, such as KES.",
    "country": "Write the code of ISO 3166-1 in capitals, such as KE.",
    "method": "Write the method's key, such as mpesa_ke.",
    "merchantReference": "Give every line a short reference of its own, without line breaks "
    "and tabs.",
    KEY: "Give every line a key of its own, such as the staff number.",
    "id": "Write your own short name of the payee, or leave the cell empty.",
    "email": "Correct it, or leave the cell empty.",
    **dict.fromkeys(
        ("firstName", "lastName", "reconciliationReference"),
        "Shorten it, without line breaks and tabs.",
    ),
}

# Fields that all lines may share, each by an option of its name.
CONSTANTS: Final = ("currency", "country", "method")
REQUIRED: Final = ("msisdn", "amount", *CONSTANTS)

# Hexadecimal digits of digests: 96 bits, so that no two lines of a brand share a reference.
DIGEST_DIGITS: Final = 24

# 32 bits of a pay-roll's name, by which people's few pay-rolls are told apart.
NAME_DIGITS: Final = 8

# The fields by which a line or a person is known.
_KEYS: Final = frozenset(("msisdn", "merchantReference", KEY))

_AMOUNT: Final = re.compile(r"[0-9]+(?:\.[0-9]+)?", re.ASCII)
_COUNTRY: Final = re.compile(r"[A-Z]{2}", re.ASCII)
# `-try2` is the second try, under a reference of its own: the first one has failed for good.
_TRY: Final = re.compile(r"(?P<before>.*)-try(?P<number>[0-9]{1,3})", re.ASCII | re.DOTALL)

# The gateway's checks of fields need a brand, and none of what it has configured.
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
    """Names this pay-roll, such as 2026-11."""
    numbers: NumberFormat | None = None
    """How amounts are written; None: plain digits, with a point before decimals."""
    allows_repeats: bool = False
    """Whether two lines may pay the same number the same amount."""

    @property
    def columns(self) -> Columns:
        """The columns that the file must have, and those that it may have."""
        required = {
            name: self.headings.get(name, name)
            for name in REMEDIES
            if name in self.headings or (name in REQUIRED and name not in self.constants)
        }
        return Columns(required, {name: name for name in REMEDIES if name not in required})


@frozen
class PayLine:
    """Is a line that can be paid; its number counts from 1."""

    number: int
    payment: PayOut
    fingerprint: str
    """Digests what is paid, and the reference where a column has it."""
    cells: tuple[str, ...] = ()
    """What the file has in all of its columns."""

    @property
    def payee(self) -> str:
        """Digests who is paid how much."""
        return payee_digest(self.payment.payee.msisdn, self.payment.amount)


@define
class PayRoll:
    """Is what was read of a file. If there is a fault, no line is to be paid."""

    lines: list[PayLine] = field(factory=list)
    faults: list[Fault] = field(factory=list)
    totals: list[int] = field(factory=list)
    """The lines that have a total, which are left out."""
    needs_name: bool = False
    """Whether references are made of the name, and there is none."""


def totals(amounts: Iterable[Money]) -> list[Money]:
    """Return the exact total of each currency."""
    sums = Counter[str]()
    for amount in amounts:
        sums[amount.currency] += amount.minor
    return [Money(minor, currency) for currency, minor in sorted(sums.items())]


def next_try(reference: str) -> str:
    """Return the reference under which a line that has failed is paid again."""
    match = _TRY.fullmatch(reference)
    if match is None:
        return f"{reference}-try2"
    return f"{match['before']}-try{int(match['number']) + 1}"


def earlier_try(reference: str) -> str | None:
    """Return the reference under which a line must have failed before; None for a first one."""
    match = _TRY.fullmatch(reference)
    if match is None or int(match["number"]) < 2:
        return None

    before = match["before"]
    number = int(match["number"])
    if number == 2:
        return before
    return f"{before}-try{number - 1}"


def first_try(reference: str) -> str:
    """Return the reference under which a line was to be paid at first."""
    before = earlier_try(reference)
    if before is None:
        return reference
    return first_try(before)


def read_pay_roll(text: Iterable[str], layout: Layout) -> tuple[list[PayLine], list[Fault]]:
    """Read the lines and the faults of a CSV file."""
    roll = read_lines(read_text(text, TableForm(), layout.columns), layout)
    return roll.lines, roll.faults


def read_lines(table: Table | list[Fault], layout: Layout) -> PayRoll:
    """Read a table with the columns of the layout, or tell why it is none. Raises OSError."""
    if not isinstance(table, Table):
        return PayRoll(faults=[_with_option(fault) for fault in table])

    roll = PayRoll(faults=list(_heading_faults(table, layout)))
    if roll.faults:
        return roll

    # The first line with a reference, and the first that pays a number an amount.
    first: dict[tuple[str, str], int] = {}
    above = list[Money]()
    for row in table.rows():
        if isinstance(row, Fault):
            roll.faults.append(row)
            continue

        # A sum below the lines is no pay-out: it is compared with them, and left out.
        if table.is_total(row, _KEYS):
            roll.totals.append(row.line)
            roll.faults += _total_faults(table, row, layout, above)
            continue

        for line_or_fault in _read_row(table, row, layout):
            if isinstance(line_or_fault, Fault):
                roll.faults.append(line_or_fault)
                continue

            # Whatever is wrong with the line: the file's own total has it too.
            above.append(line_or_fault.payment.amount)
            repeats = list(_repeats(line_or_fault, table, row, layout, first))
            roll.faults += repeats
            if not repeats:
                roll.lines.append(line_or_fault)

    roll.needs_name = not layout.name and "merchantReference" not in table.positions
    if not roll.lines and not roll.faults:
        remedy = "Write one a line, below the headings."
        roll.faults.append(Fault(1, "", "has no pay-out below it", remedy))

    return roll


def _with_option(fault: Fault) -> Fault:
    """Return a fault of the headings, with the option that may stand for a column."""
    if fault.field not in CONSTANTS or not fault.problem.startswith("no heading"):
        return fault
    return evolve(fault, remedy=f"{fault.remedy[:-1]}, or give --{fault.field}.")


def _heading_faults(table: Table, layout: Layout) -> Iterator[Fault]:
    for name in layout.constants:
        if name in table.positions:
            problem = f"has the column {table.names[table.positions[name]]!r} beside --{name}"
            remedy = "Leave the option out, or rename it."
            yield Fault(table.headings_line, name, problem, remedy)


def _total_faults(
    table: Table, row: Row, layout: Layout, above: Sequence[Money]
) -> Iterator[Fault]:
    """Yield a fault where a total is not that of the lines above."""
    # A total of two currencies is none.
    currencies = {line.currency for line in above}
    if len(currencies) != 1:
        return

    currency = currencies.pop()
    try:
        cell = table.number(row, "amount")
        total = None
        if cell != "":
            total = (layout.numbers or NumberFormat()).read(cell, currency)
    except CellFault:
        # What is no number is no total that could be compared: it is left out like the others.
        return

    if total is not None and total != _major(totals(above)[0]):
        remedy = "Correct the total or the lines, or remove the total."
        yield Fault(row.line, "amount", "is not the sum of the lines above", remedy)


def _major(amount: Money) -> Decimal:
    return Decimal(amount.text)


def _repeats(
    line: PayLine, table: Table, row: Row, layout: Layout, first: dict[tuple[str, str], int]
) -> Iterator[Fault]:
    """Yield what a line has that an earlier one has, and only one may."""
    key = next(name for name in ("merchantReference", KEY, "msisdn") if name in table.positions)
    used = first.setdefault(("reference", line.payment.merchant_reference), line.number)
    if used != line.number:
        remedy = REMEDIES[key]
        if key == "msisdn":
            # The number is the key only where there is no other.
            remedy = REMEDIES[KEY] + " Name its column by --map key=HEADING."

        yield Fault(line.number, key, f"is that of line {used}", remedy)
        return

    used = first.setdefault(("payee", line.payee), line.number)
    if used != line.number and not layout.allows_repeats:
        problem = f"pays the same number the same amount as line {used}"
        remedy = "Remove it. If both are meant, give each a key of its own, and --allow-repeats."
        yield Fault(line.number, "", problem, remedy)


def payee_digest(msisdn: str, amount: Money) -> str:
    """Return the digest of who is paid how much."""
    return _digest(f"{msisdn.removeprefix('+')} {amount}")


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:DIGEST_DIGITS]


def reference_prefix(name: str) -> str:
    """Return how the references of a pay-roll begin, by which records tell it from others."""
    return f"payroll-{_digest(name)[:NAME_DIGITS]}-"


def _derive_reference(name: str, key: str) -> str:
    """Return the reference of a line without one of its own."""
    # A line feed stands in no name and no key, so that no two pairs have one digest.
    return f"{reference_prefix(name)}{_digest(chr(10).join((name, key)))}"


def _read_row(table: Table, row: Row, layout: Layout) -> Iterator[PayLine | Fault]:
    """Yield the pay-out of a line, or its faults: those that the gateway would find, and what may
    not be meant."""
    cells, unread = _read_cells(table, row, layout)

    # The gateway's own checks, and then what it would take and the merchant may not mean.
    errors = FieldErrors()
    draft = parse_draft(
        Operation.DIRECT_PAYOUT,
        cells["method"],
        Members(_request_members(cells), errors),
        brand=_BRAND,
        egress_rules=_EGRESS_RULES,
    )
    found = _problems_of(errors)
    needed = {*REQUIRED, *({"merchantReference", KEY} & table.positions.keys())}
    blank = {name: "is blank" for name in needed if not cells[name]}

    # What explains a fault best stands last: a blank cell is no wrong number, too.
    problems = {**found, **_plain_problems(cells, found), **blank, **unread}
    for name in REMEDIES:
        if name in problems:
            yield Fault(row.line, name, problems[name], REMEDIES[name])

    if problems or draft.party is None:
        return

    payment = PayOut(
        method=draft.method,
        amount=to_money(draft.amount, draft.currency),
        country=draft.country,
        result_url=layout.result_url,
        merchant_reference=cells["merchantReference"],
        payee=draft.party,
        reconciliation_reference=draft.reconciliation_reference,
    )
    mark = "."
    if layout.numbers is not None:
        mark = layout.numbers.notation.value

    key = cells[KEY] or cells["msisdn"].removeprefix("+")
    reference = cells["merchantReference"] or _derive_reference(layout.name, key)

    # Neither the address for results nor a derived reference is what is paid: the address may
    # change, and the reference follows from the key.
    body = creation_body(evolve(payment, result_url="")).decode()
    yield PayLine(
        row.line,
        evolve(payment, merchant_reference=reference),
        _digest(payment.method + body),
        tuple(shown_text(cell, mark) for cell in row.cells),
    )


def _read_cells(table: Table, row: Row, layout: Layout) -> tuple[dict[str, str], dict[str, str]]:
    """Return the text of each field, and what is wrong with those that can't be read."""
    cells = {**dict.fromkeys(REMEDIES, ""), **layout.constants}
    unread: dict[str, str] = {}
    for name in table.positions:
        try:
            # A spreadsheet makes a number of a key, and a phone number loses its digits by that.
            if name in _KEYS:
                cells[name] = table.key(row, name)
            else:
                cells[name] = table.text(row, name)
        except CellFault as fault:
            unread[name] = fault.problem

    # A number of a spreadsheet has no notation; text has the one that was declared.
    if layout.numbers is not None and isinstance(table.cell(row, "amount"), str):
        try:
            cells["amount"] = _rewrite_amount(cells, layout.numbers)
        except CellFault as fault:
            unread["amount"] = fault.problem

    return cells, unread


def _request_members(cells: Mapping[str, str]) -> dict[str, JsonValue]:
    """Return the members of a request with these cells; what is not in the file has a value that is
    no fault."""
    return {
        **cells,
        "amount": {"value": JsonNumber(cells["amount"]), "currency": cells["currency"]},
        "payee": {**cells, "id": cells["id"] or cells["msisdn"] or "derived"},
        "resultUrl": "https://results.example/",
        "merchantReference": cells["merchantReference"] or "derived",
    }


def _rewrite_amount(cells: Mapping[str, str], numbers: NumberFormat) -> str:
    """Return an amount of a declared notation in the notation of JSON. Raises CellFault."""
    text = cells["amount"]
    currency = cells["currency"]

    # Left as it is, so that the fault that follows names the cell's own text.
    if not text or currency not in CURRENCIES or text[0] in "+-":
        return text
    return f"{numbers.read(text, currency):f}"


def _problems_of(errors: FieldErrors) -> dict[str, str]:
    """Return what the gateway would find, by field."""
    problems: dict[str, str] = {}
    for error in errors.errors:
        # The field's last name is the column's, but for the amount, which has two columns; the
        # detail begins with the field in quotes, which a fault names by itself.
        name = error.field.rpartition(".")[2]
        if error.field == "amount.value":
            name = "amount"
        problems[name] = error.detail.partition("' ")[2][:-1]

    return problems


def _plain_problems(cells: Mapping[str, str], found: Mapping[str, str]) -> dict[str, str]:
    """Return what may not be meant, by field, beside what was found."""
    problems: dict[str, str] = {}
    amount = cells["amount"]
    currency = cells["currency"]
    country = cells["country"]
    if not _AMOUNT.fullmatch(amount):
        problems["amount"] = "is no plain number"
    elif currency in CURRENCIES:
        # In many countries a point parts thousands: 15.000 would be paid as 15.
        written = len(amount.partition(".")[2])
        decimals = decimals_of(currency)
        if written > decimals:
            problems["amount"] = f"has {written} decimals, and {currency} has {decimals}"
        try:
            to_money(Decimal(amount), currency)
        except AmountError as error:
            problems["amount"] = str(error)

    if currency not in CURRENCIES:
        problems["currency"] = "is not known"

    if not _COUNTRY.fullmatch(country):
        problems["country"] = "is not known"
    elif "msisdn" not in found and not is_msisdn_of(country, cells["msisdn"]):
        problems["msisdn"] = f"is no mobile number of {country}"

    return problems

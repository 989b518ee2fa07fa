"""Any table is read as what was written or refused with its line, whichever program has written it,
and also when a byte or a cell of it is damaged."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import TypeAlias

import pytest
from attrs import frozen
from hypothesis import example, given, seed, settings
from hypothesis import strategies as st

from mmo_sansio.values.money import Money, decimals_of, to_money
from tests.support.effort import by_effort
from tests.support.written_tables import (
    DELIMITERS,
    ENCODINGS,
    HEADINGS,
    NOTATIONS,
    quote,
    read_statement,
    write_amount,
    write_csv,
    write_xlsx,
)

CASES = by_effort(200, 10_000)
MINOR = st.integers(1, 10**9) | st.integers(1, 10**4)
NOTES = st.text(st.sampled_from('abé,;\t"\n .0'), max_size=8)
CURRENCIES = st.sampled_from(["KES", "XOF", "UGX"])
ROWS = st.lists(st.tuples(MINOR, NOTES, st.booleans()), min_size=1, max_size=8)
Rows: TypeAlias = list[tuple[int, str, bool]]
"""Each amount in minor units, a note, and whether it goes out."""
DAMAGE = b",;\t\n\r\"'=- .+0\x00\xff\xe9"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tables")


@frozen
class Meant:
    """What a writer of a table means."""

    rows: Rows
    currency: str
    notation: str

    @property
    def amounts(self) -> list[Money]:
        return [Money(-minor if is_out else minor, self.currency) for minor, _, is_out in self.rows]

    @property
    def minors(self) -> list[int]:
        return [amount.minor for amount in self.amounts]

    @property
    def cells(self) -> list[list[str]]:
        return [
            [f"R{number}", note, write_amount(amount, self.notation)]
            for number, (amount, (_, note, _)) in enumerate(
                zip(self.amounts, self.rows, strict=True)
            )
        ]


MEANT = st.builds(Meant, ROWS, CURRENCIES, st.sampled_from(NOTATIONS))


@seed(20261129)
@settings(max_examples=CASES)
@given(MEANT, st.sampled_from(DELIMITERS), st.sampled_from(ENCODINGS))
@example(Meant([(150_000, "", False)], "KES", ","), ",", "utf-8")
@example(Meant([(25_000, "", False)], "XOF", ".,"), ";", "cp1252")
def test_a_csv_file_is_read_as_it_was_meant_or_refused(
    folder: Path, meant: Meant, delimiter: str, encoding: str
) -> None:
    path, cells = folder / "table.csv", meant.cells
    path.write_bytes(write_csv([[*HEADINGS], *cells], delimiter, encoding))
    found = read_statement(path, meant.currency)
    if found.faults:
        # What no rule can tell apart: a point before three digits, which nothing else explains.
        assert (meant.notation, decimals_of(meant.currency)) == (".,", 0)
        assert all(re.fullmatch(r"-?\d{1,3}(\.\d{3})?", cell) for _, _, cell in cells)
        assert {fault.field for fault in found.faults} == {"amount"}
    else:
        assert found.signed == meant.minors
        assert [line.receipt for line in found.lines] == [cell for cell, _, _ in cells]


@seed(20261129)
@settings(max_examples=by_effort(30, 1_000))
@given(MEANT, st.booleans())
def test_a_sheet_is_read_as_it_was_meant_or_refused(
    folder: Path, meant: Meant, has_numbers: bool
) -> None:
    path = folder / "table.xlsx"
    written: list[list[object]] = [
        [receipt, note, float(amount.text) if has_numbers else text]
        for (receipt, note, text), amount in zip(meant.cells, meant.amounts, strict=True)
    ]
    write_xlsx(path, [[*HEADINGS], *written])
    found = read_statement(path, meant.currency)
    if found.faults:
        assert not has_numbers
        assert (meant.notation, decimals_of(meant.currency)) == (".,", 0)
    else:
        assert found.signed == meant.minors


def read_damaged(text: str, currency: str, notation: str) -> int | None:
    """The minor units that a text has with the decimals of its writer; None for no number. Damage
    can make one well-written number of another: `10000.00` and `1 000.00`, francs `10000` and
    `1,000`."""
    mark = re.escape(notation[-1])
    separator = rf"(?!{mark})[ ',.]" if decimals_of(currency) else "[ ',.]"
    whole = rf"[1-9]\d{{0,2}}(?P<group>{separator})\d{{3}}(?:(?P=group)\d{{3}})*|\d+"
    found = re.fullmatch(
        rf"(?P<sign>[+-]?)(?P<whole>{whole})(?:{mark}(?P<decimals>\d+))?", text, re.ASCII
    )
    if found is None or len(found["decimals"] or "") > decimals_of(currency):
        return None
    digits = re.sub(r"\D", "", found["whole"])
    return to_money(Decimal(f"{found['sign']}{digits}.{found['decimals'] or 0}"), currency).minor


@seed(20261129)
@settings(max_examples=CASES)
@given(
    MEANT,
    st.sampled_from(DELIMITERS),
    st.sampled_from(["utf-8", "utf-16-le", "cp1252"]),
    st.sampled_from(["insert", "replace", "delete"]),
    st.integers(0, 10**6),
    st.sampled_from(DAMAGE),
)
@example(Meant([(100, "", False)], "XOF", "."), ",", "utf-8", "replace", 20, 39)
@example(Meant([(1000, "", False)], "XOF", "'."), ",", "utf-8", "delete", 20, 48)
@example(Meant([(100, "", True)], "XOF", ".,"), ",", "utf-8", "replace", 24, 48)
@example(Meant([(100, "", True)], "XOF", ".,"), ",", "utf-8", "insert", 24, 48)
@example(Meant([(1_000_000, "", True)], "KES", "."), ",", "utf-8", "replace", 22, 32)
@example(Meant([(10_000, "", True)], "XOF", ","), ";", "utf-8", "replace", 22, 44)
def test_with_any_byte_damaged_the_sum_is_right_or_the_file_is_refused(
    folder: Path, meant: Meant, delimiter: str, encoding: str, kind: str, place: int, byte: int
) -> None:
    pieces: list[tuple[bytes, int | None]] = [
        (f"{delimiter.join(HEADINGS)}\r\n".encode(encoding), None)
    ]
    for number, row in enumerate(meant.cells):
        first = delimiter.join([*(quote(cell, delimiter) for cell in row[:2]), ""])
        is_quoted = delimiter in row[2]
        pieces += [
            ((first + '"' * is_quoted).encode(encoding), None),
            # What stands at the end of the line may become a digit of the amount.
            ((row[2] + '"' * is_quoted + "\r\n").encode(encoding), number),
        ]
    at = place % sum(len(piece) for piece, _ in pieces)
    wanted = meant.minors
    damaged = list[bytes]()
    for piece, position in pieces:
        changed = piece
        if 0 <= at < len(piece):
            skipped = 0 if kind == "insert" else 1
            new = b"" if kind == "delete" else bytes([byte])
            changed = piece[:at] + new + piece[at + skipped :]
            if position is not None:
                text = changed.decode(encoding, "replace").strip().removesuffix('"')
                value = read_damaged(text, meant.currency, meant.notation)
                if value is not None:
                    wanted[position] = value
        at -= len(piece)
        damaged.append(changed)
    path = folder / "damaged.csv"
    path.write_bytes(b"".join(damaged))
    found = read_statement(path, meant.currency)
    assert found.faults or sum(found.signed) == sum(wanted)


@seed(20261129)
@settings(max_examples=CASES)
@given(
    MEANT,
    st.sampled_from(["drop", "double", "blank", "swap"]),
    st.integers(0, 100),
    st.integers(0, 2),
)
def test_with_any_cell_damaged_the_sum_is_right_or_the_file_is_refused(
    folder: Path, meant: Meant, kind: str, place: int, column: int
) -> None:
    cells = meant.cells
    row = cells[place % len(cells)]
    match kind:
        case "drop":
            del row[column]
        case "double":
            row.insert(column, row[column])
        case "blank":
            row[column] = ""
        case _:
            row[column], row[column - 1] = row[column - 1], row[column]
    path = folder / "damaged.csv"
    path.write_bytes(write_csv([[*HEADINGS], *cells], ";", "utf-8"))
    found = read_statement(path, meant.currency)
    is_number = kind == "swap" and 2 in (column, (column - 1) % 3)
    assert found.faults or is_number or sum(found.signed) == sum(meant.minors)

"""A table is read strictly: what is no table, or not to be read in one way, is a fault with its
line."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from openpyxl import Workbook

from mmo_merchant.tables.faults import describe_faults
from mmo_merchant.tables.table_file import TableForm
from tests.support.written_tables import read_statement, write_xlsx

GOOD = "Id,Note,Amount\nA1,x,1500.00\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "table.csv"


def faults_of(file: Path, content: str | bytes, form: TableForm | None = None) -> list[str]:
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return describe_faults(read_statement(file, "KES", form).faults)


def receipts_of(file: Path, content: str | bytes, form: TableForm | None = None) -> list[str]:
    assert faults_of(file, content, form) == []
    return [line.receipt or "" for line in read_statement(file, "KES", form).lines]


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ('A2,"o2 pays half,0.00\nA9,unknown,9000.00\n', "line 3: is no CSV"),
        ('A2,x"y,150.00\n', "line 3: has a stray quotation mark"),
        ('A2,"x"y,150.00\n', "line 3: is no CSV"),
        ("A2,Doe, Juma,150.00\n", "line 3: has 4 cells, and 3 headings"),
        ("A2,150.00\n", "line 3: has 2 cells, and 3 headings"),
        ("\nid,NOTE,Amount\nA2,x,1.00\n", "line 4: repeats the headings"),
        ("A2,x\0,150.00\n", "line 3: has a control character"),
        ("A2,x,\n", "line 3, amount: is blank"),
        (",x,150.00\n", "line 3: has neither receipt nor reference"),
        ("9.91235E+12,x,150.00\n", "line 3, receipt: was made a number and shortened"),
        ("#N/A,x,150.00\n", "line 3, receipt: is an error"),
        ("A\ufffd,x,150.00\n", "line 3, receipt: has letters that were lost"),
    ],
)
def test_what_is_no_row_is_a_fault_with_its_line(file: Path, lines: str, told: str) -> None:
    [fault] = faults_of(file, GOOD + lines)
    assert fault.startswith(told)


def test_a_heading_that_is_there_twice_is_a_fault_unless_it_is_not_meant(file: Path) -> None:
    [fault] = faults_of(file, "Id,Amount,amount\nA1,1,2\n")
    assert fault.startswith("line 1, amount: has 2 columns 'Amount'")
    assert receipts_of(file, "Id,Note,note,Amount\nA1,x,y,2\n") == ["A1"]


def test_equal_faults_are_one_line_with_their_number_and_the_first_lines(file: Path) -> None:
    [fault] = faults_of(file, GOOD + "A2,x,1x\n" * 30)
    assert fault.startswith("lines 3, 4, 5, 6, 7 and 25 more, amount (30 times): is no number")


def test_a_quoted_cell_may_have_line_breaks_delimiters_and_marks(file: Path) -> None:
    assert receipts_of(file, 'Id,Note,Amount\nA1,"a\nb, ""c""",1.00\nA2,x,1\n') == ["A1", "A2"]
    assert [line.number for line in read_statement(file, "KES").lines] == [2, 4]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_found(file: Path, delimiter: str) -> None:
    text = f"A statement\n\n{GOOD.replace(',', delimiter)}"
    assert receipts_of(file, text) == ["A1"]
    assert receipts_of(file, f"sep={delimiter}\n{text}") == ["A1"]
    assert receipts_of(file, text, TableForm(delimiter=delimiter)) == ["A1"]


@pytest.mark.parametrize(
    ("kept", "text"),
    [
        ('"=""paid-2"""', "paid-2"),
        ('="paid-2"', "paid-2"),
        ("'0712", "0712"),
        ("'-1", "-1"),
        ("'=1+1", "=1+1"),
        ("'q", "'q"),
    ],
)
def test_what_keeps_a_text_in_a_spreadsheet_is_taken_away(file: Path, kept: str, text: str) -> None:
    assert receipts_of(file, f"Id,Amount\n{kept},1.00\n") == [text]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_unicode_is_read_with_and_without_a_mark(file: Path, encoding: str) -> None:
    assert receipts_of(file, GOOD.replace("A1", "É1").encode(encoding)) == ["É1"]


def test_a_code_page_is_read_but_not_trusted_with_a_receipt(file: Path) -> None:
    assert receipts_of(file, GOOD.replace("x", "é").encode("cp1252")) == ["A1"]
    content = GOOD.replace("A1", "É1").encode("cp1252")
    [fault] = faults_of(file, content)
    assert fault.startswith("line 2, receipt: has letters in an encoding that can only be guessed")
    assert receipts_of(file, content, TableForm(encoding="cp1252")) == ["É1"]
    assert receipts_of(file, content, TableForm(encoding="cp1250")) == ["É1"]
    [fault] = faults_of(file, content, TableForm(encoding="klingon"))
    assert "no encoding 'klingon'" in fault


def test_a_file_of_two_encodings_is_a_fault_with_its_line(file: Path) -> None:
    [fault] = faults_of(file, GOOD.encode() + "A2,é,1.00\n".encode() + b"A3,\xe9,1.00\n")
    assert fault.startswith("line 4: is not UTF-8.")
    [fault] = faults_of(file, GOOD.encode("utf-16") + b"\x00")
    assert "is not UTF-16" in fault


def test_a_total_is_left_out_and_told(file: Path) -> None:
    file.write_text(GOOD + "Total,,1500.00\n,Closing balance,1500.00\nTOTAL12345,x,1.00\n")
    found = read_statement(file, "KES")
    assert (found.totals, [line.receipt for line in found.lines]) == ([3, 4], ["A1", "TOTAL12345"])


def test_a_sheet_is_read_as_it_has_its_cells(tmp_path: Path) -> None:
    file = tmp_path / "statement.xlsx"
    heads: list[object] = ["Id", "Note", "Amount"]
    day = datetime.date(2026, 11, 20)
    noise = 100.1 + 200.2
    write_xlsx(
        file, [["Statement"], [], heads, [12, day, 1500.5], ["A2", None, noise], [], ["A3", 1, "7"]]
    )
    found = read_statement(file, "KES")
    assert found.faults == []
    assert [(line.number, line.receipt, line.amount.minor) for line in found.lines] == [
        (4, "12", 150_050),
        (5, "A2", 300_30),
        (7, "A3", 700),
    ]


@pytest.mark.parametrize(
    ("receipt", "amount", "told"),
    [
        (datetime.date(2026, 1, 2), 1, "line 2, receipt: is a date or a time"),
        ("A1", datetime.date(2026, 1, 2), "line 2, amount: is a date or a time"),
        (1e15, 1, "line 2, receipt: is a number of more digits"),
        (True, 1, "line 2, receipt: is a truth value"),
        ("A1", "=1+1", "line 2, amount: is a formula without a value"),
        ("A1", 1.005, "line 2, amount: has more decimals than KES"),
        ("#REF!", 1, "line 2, receipt: is an error"),
    ],
)
def test_a_cell_of_a_sheet_without_one_meaning_is_a_fault(
    tmp_path: Path, receipt: object, amount: object, told: str
) -> None:
    file = tmp_path / "statement.xlsx"
    write_xlsx(file, [["Id", "Amount"], [receipt, amount]])
    [fault] = describe_faults(read_statement(file, "KES").faults)
    assert fault.startswith(told)


def test_a_number_that_is_shown_with_zeros_before_it_is_no_receipt(tmp_path: Path) -> None:
    file, book = tmp_path / "statement.xlsx", Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.append(["Id", "Amount"])
    sheet.append([12, 1])
    sheet["A2"].number_format = "0000"
    book.save(file)
    [fault] = describe_faults(read_statement(file, "KES").faults)
    assert fault.startswith("line 2, receipt: is a number that the sheet shows otherwise (0000)")


def test_of_several_sheets_one_is_named(tmp_path: Path) -> None:
    file, book = tmp_path / "statement.xlsx", Workbook()
    for name, receipt in (("November", "N1"), ("December", "D1")):
        sheet = book.create_sheet(name)
        sheet.append(["Id", "Amount"])
        sheet.append([receipt, 1])
    book.save(file)
    [fault] = describe_faults(read_statement(file, "KES").faults)
    assert fault == "line 1: has 2 sheets. Choose by --sheet: November, December."
    [line] = read_statement(file, "KES", TableForm(sheet="December")).lines
    assert line.receipt == "D1"
    [fault] = describe_faults(read_statement(file, "KES", TableForm(sheet="May")).faults)
    assert "has no sheet 'May'" in fault


def test_what_only_seems_to_be_a_sheet_is_a_fault(file: Path) -> None:
    [fault] = faults_of(file, b"PK\x03\x04" + b"\0" * 40)
    assert "is no .xlsx file" in fault
    [fault] = faults_of(file, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")
    assert "Excel 2003" in fault
    [fault] = faults_of(file, b"")
    assert "has no headings" in fault

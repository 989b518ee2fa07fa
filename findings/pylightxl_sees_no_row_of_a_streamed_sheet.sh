#!/usr/bin/env bash
# Package: PyPI pylightxl 1.61, beside openpyxl 3.1.5, with XlsxWriter 3.2.9
# Expected: A sheet whose cells hold their texts themselves (`t="inlineStr"`, ECMA-376 part 1, section
#   18.18.11) reads as one whose texts are shared.
# Seen: `readxl` gives no line at all where all cells are such texts, and an empty text for each of
#   them beside a number; no exception is raised. Programs that stream a sheet write it so.
# Matters: An operator's statement that its portal streams looks like a month without payments. Count
#   the lines by another reader, or save the file anew in a spreadsheet first.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet pylightxl==1.61 openpyxl==3.1.5 XlsxWriter==3.2.9

cat >ask.py <<'END'
import openpyxl
import pylightxl
import xlsxwriter

ROWS = (("Receipt", "Number"), ("SIM1", "0708374149"))
WITH_AMOUNT = (*ROWS[:1], ("SIM1", 1500))


def write(name, rows, **options):
    book = xlsxwriter.Workbook(name, options)
    sheet = book.add_worksheet("Statement")
    for number, row in enumerate(rows):
        sheet.write_row(number, 0, row)
    book.close()


write("shared.xlsx", ROWS)
write("inline.xlsx", ROWS, constant_memory=True)
write("amount.xlsx", WITH_AMOUNT, constant_memory=True)
for name in ("shared.xlsx", "inline.xlsx", "amount.xlsx"):
    found = [[cell.value for cell in row] for row in openpyxl.load_workbook(name).active.rows]
    print(name, "openpyxl", found)
    print(name, "pylightxl", list(pylightxl.readxl(name).ws("Statement").rows))
END

env/bin/python ask.py | tee seen
diff - seen <<'END'
shared.xlsx openpyxl [['Receipt', 'Number'], ['SIM1', '0708374149']]
shared.xlsx pylightxl [['Receipt', 'Number'], ['SIM1', '0708374149']]
inline.xlsx openpyxl [['Receipt', 'Number'], ['SIM1', '0708374149']]
inline.xlsx pylightxl []
amount.xlsx openpyxl [['Receipt', 'Number'], ['SIM1', 1500]]
amount.xlsx pylightxl [['', ''], ['', 1500]]
END

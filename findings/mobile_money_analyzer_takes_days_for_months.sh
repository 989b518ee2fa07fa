#!/usr/bin/env bash
# Package: PyPI mobile-money-analyzer 0.2.0, with pandas 2.3.3
# Expected: A reader of Kenyan and Ugandan statements reads a date such as 02/11/2026 as the second
#   of November, in a CSV file as in a PDF, for which it has formats that begin with the day.
# Seen: `parse_statement` hands a CSV file's times to `pandas.to_datetime` in one piece, which takes
#   the month from in front wherever the first line allows that: 02/11/2026 is the eleventh of
#   February. Lines that do not fit then, as 20/11/2026, are dropped, and a warning has their number.
#   A file whose first day is behind the twelfth is read right.
# Matters: A month's payments are spread over a year, and most are gone from its sums. Write times
#   into such a file with the year in front.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet mobile-money-analyzer==0.2.0 pandas==2.3.3

cat >"$folder/ask.py" <<'END'
import sys
from pathlib import Path

from mobile_money import parse_statement

HEAD = "Transaction ID,Date,Description,Paid In,Withdrawn,Balance\n"


def read(*days):
    lines = [f"TKB000000{n},{day} 10:00,Payment,50000,,90000" for n, day in enumerate(days)]
    path = Path(sys.argv[1]) / "statement.csv"
    path.write_text(HEAD + "\n".join(lines) + "\n")
    statement = parse_statement(path)
    return [f"{time:%d %B}" for time in statement.transactions["completion_time"]]


print("02/11, 03/11, 20/11:", read("02/11/2026", "03/11/2026", "20/11/2026"))
print("20/11, 21/11:", read("20/11/2026", "21/11/2026"))
print("2026-11-02, 2026-11-20:", read("2026-11-02", "2026-11-20"))
END

"$folder/env/bin/python" "$folder/ask.py" "$folder" 2>/dev/null | tee "$folder/seen"
diff - "$folder/seen" <<'END'
02/11, 03/11, 20/11: ['11 February', '11 March']
20/11, 21/11: ['20 November', '21 November']
2026-11-02, 2026-11-20: ['02 November', '20 November']
END

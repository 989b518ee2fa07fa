#!/usr/bin/env bash
# Package: PyPI Babel 2.19.0, iso4217 1.16.20260101
# Expected: `format_currency` shows as many decimals as ISO 4217 gives a currency.
# Seen: it rounds MGA and SOS to whole units, as CLDR says how money is shown, not how it is counted.
# Matters: a receipt or statement made so shows another amount than was paid; name the pattern, or
#   set `currency_digits=False` and a pattern with two decimals.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet babel==2.19.0 iso4217==1.16.20260101

seen=$("$folder/env/bin/python" - <<'END'
from babel.numbers import format_currency
from iso4217 import Currency

for code in ("KES", "MGA", "SOS"):
    print(code, Currency(code).exponent, format_currency("1500.50", code, locale="en"))
END
)
printf '%s\n' "$seen"
[ "$seen" = "KES 2 KES1,500.50
MGA 2 MGA1,500
SOS 2 SOS1,500" ]

#!/usr/bin/env bash
# Package: PyPI Babel 2.19.0, beside iso4217 1.16.20260101
# Expected: `format_currency` shows as many decimals as ISO 4217 gives the currency.
# Seen: `format_currency` rounds amounts in ariary (MGA) and Somali shillings (SOS) to whole ones,
#   though both have two decimals in ISO 4217: it follows CLDR, which says how money is shown.
# Matters: A receipt or statement that is made with it shows another amount than was paid;
#   `currency_digits=False` shows both decimals.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet babel==2.19.0 iso4217==1.16.20260101

cat >"$folder/ask.py" <<'END'
from babel.numbers import format_currency
from iso4217 import Currency

print("currency, decimals in ISO 4217, by default, with currency_digits=False")
for code in ("KES", "MGA", "SOS"):
    by_default = format_currency("1500.50", code, locale="en")
    with_decimals = format_currency("1500.50", code, locale="en", currency_digits=False)
    print(code, Currency(code).exponent, by_default, with_decimals)
END

"$folder/env/bin/python" "$folder/ask.py" | tee "$folder/seen"
diff - "$folder/seen" <<'END'
currency, decimals in ISO 4217, by default, with currency_digits=False
KES 2 KES1,500.50 KES1,500.50
MGA 2 MGA1,500 MGA1,500.50
SOS 2 SOS1,500 SOS1,500.50
END

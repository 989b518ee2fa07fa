#!/usr/bin/env bash
# Package: PyPI price-parser 0.5.1 and money-parser 0.0.1, beside Babel 2.19.0
# Expected: A parser of amounts that also finds the currency reads 0.500 TND as half a dinar, which
#   has three decimals in ISO 4217, and keeps a minus sign.
# Seen: `Price.fromstring` and `price_dec` take three digits behind a point for thousands: 0.500 TND
#   is 500, and 12.500 is 12500. `decimal_separator="."` of price-parser reads them right. Minus
#   signs are dropped by price-parser with either: -1,500.00 is 1500.00.
# Matters: A statement in dinars counts a thousand times its amounts, and one with money that went
#   out adds it up as money that came in. Name the separator, and read the sign by yourself.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet price-parser==0.5.1 money-parser==0.0.1 babel==2.19.0

cat >"$folder/ask.py" <<'END'
from babel.numbers import parse_decimal
from money_parser import price_dec
from price_parser import Price

print("text: price-parser, with the separator, money-parser, Babel")
for text in ("0.500", "12.500", "12.50", "1,500.00", "-1,500.00"):
    shown = f"TND {text}"
    alone = Price.fromstring(shown)
    named = Price.fromstring(shown, decimal_separator=".")
    by_locale = parse_decimal(text, locale="en")
    print(f"{shown}: {alone.amount}", named.amount, price_dec(text), by_locale)
END

"$folder/env/bin/python" "$folder/ask.py" | tee "$folder/seen"
diff - "$folder/seen" <<'END'
text: price-parser, with the separator, money-parser, Babel
TND 0.500: 500 0.500 500 0.500
TND 12.500: 12500 12.500 12500 12.500
TND 12.50: 12.50 12.50 12.50 12.50
TND 1,500.00: 1500.00 1500.00 1500.00 1500.00
TND -1,500.00: 1500.00 1500.00 -1500.00 -1500.00
END

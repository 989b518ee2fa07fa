#!/usr/bin/env bash
# Package: PyPI stockholm 0.5.7
# Expected: Money in "UGX" and in `stockholm.currency.UGX` is the same money.
# Seen: A currency that is named by its code has two decimals, whatever it is; the class of the same
#   code has those of ISO 4217. `Money.from_sub_units(1500, "UGX")` is 15.00 UGX, with the class it
#   is 1500 UGX; of TND, 15.00 and 1.500.
# Matters: A program that reads the currency from JSON, as text, takes an amount in the smallest unit
#   for a hundredth, or for ten times as much. Look the class up with `get_currency` first.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet stockholm==0.5.7

cat >ask.py <<'END'
import stockholm.currency
from stockholm import Money

for code in ("KES", "UGX", "XOF", "TND"):
    known = getattr(stockholm.currency, code)
    named, classed = Money.from_sub_units(1500, code), Money.from_sub_units(1500, known)
    print(code, known.decimal_digits, "|", named, "|", classed, "|", named == classed)
print(stockholm.currency.get_currency("UGX").decimal_digits)
END

env/bin/python ask.py | tee seen
diff - seen <<'END'
KES 2 | 15.00 KES | 15.00 KES | True
UGX 0 | 15.00 UGX | 1500 UGX | False
XOF 0 | 15.00 XOF | 1500 XOF | False
TND 3 | 15.00 TND | 1.500 TND | False
0
END

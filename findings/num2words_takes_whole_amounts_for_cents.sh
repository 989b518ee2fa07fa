#!/usr/bin/env bash
# Package: PyPI num2words 0.5.14
# Expected: An amount in words, as receipts and cheques have it, is the same for 1500, 1500.0,
#   Decimal(1500) and "1500".
# Seen: `num2words(1500, to="currency")` of an int are fifteen dollars in English, and fifteen euros in
#   French: an int is taken for cents there. In Arabic it is fifteen hundred. Of a Decimal, a float and
#   a text all languages write fifteen hundred.
# Matters: A receipt says a hundredth of what was paid, and only for amounts that a program happens to
#   hold as int. Hand over a Decimal.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet num2words==0.5.14

cat >"$folder/ask.py" <<'END'
from decimal import Decimal

from num2words import num2words


def words(amount, currency, language):
    return num2words(amount, to="currency", currency=currency, lang=language)


for amount in (1500, 1500.0, Decimal(1500), "1500"):
    print(f"{amount!r}: {words(amount, 'USD', 'en')}; {words(amount, 'EUR', 'fr')}")
arabic = [words(amount, "TND", "ar") for amount in (1500, Decimal(1500))]
print("Arabic, 1500 as Decimal(1500):", arabic[0] == arabic[1])
END

"$folder/env/bin/python" "$folder/ask.py" | tee "$folder/seen"
diff - "$folder/seen" <<'END'
1500: fifteen dollars, zero cents; quinze euros et zéro centimes
1500.0: one thousand, five hundred dollars, zero cents; mille cinq cents euros et zéro centimes
Decimal('1500'): one thousand, five hundred dollars, zero cents; mille cinq cents euros et zéro centimes
'1500': one thousand, five hundred dollars, zero cents; mille cinq cents euros et zéro centimes
Arabic, 1500 as Decimal(1500): True
END

#!/usr/bin/env bash
# Package: PyPI num2words 0.5.14
# Expected: A currency that a language has no words for is refused, as English and French refuse KES
#   and XOF with NotImplementedError.
# Seen: In Arabic, `num2words(..., to="currency")` writes riyals, with halalas, for each code that it
#   does not know: Mauritania's ouguiya (MRU), the Sudanese pound (SDG), the CFA franc (XOF), and a code
#   that does not exist. TND and EGP are known.
# Matters: A receipt in Arabic names the money of another country. Write the amount alone, and the name
#   of the currency by yourself.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet num2words==0.5.14

cat >"$folder/ask.py" <<'END'
from decimal import Decimal

from num2words import num2words

RIYALS = num2words(Decimal("1500.50"), to="currency", currency="SAR", lang="ar")


def written(currency, language):
    try:
        words = num2words(Decimal("1500.50"), to="currency", currency=currency, lang=language)
    except NotImplementedError:
        return "refused"
    return "as riyals" if words == RIYALS else "by its name"


for currency in ("TND", "EGP", "MRU", "SDG", "XOF", "KES", "XYZ"):
    others = ", ".join(f"{language} {written(currency, language)}" for language in ("en", "fr"))
    print(f"{currency}: ar {written(currency, 'ar')}, {others}")
END

"$folder/env/bin/python" "$folder/ask.py" | tee "$folder/seen"
diff - "$folder/seen" <<'END'
TND: ar by its name, en refused, fr refused
EGP: ar by its name, en refused, fr refused
MRU: ar as riyals, en refused, fr refused
SDG: ar as riyals, en refused, fr refused
XOF: ar as riyals, en refused, fr refused
KES: ar as riyals, en refused, fr refused
XYZ: ar as riyals, en refused, fr refused
END

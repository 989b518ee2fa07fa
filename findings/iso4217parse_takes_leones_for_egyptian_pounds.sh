#!/usr/bin/env bash
# Package: PyPI iso4217parse 0.6.2
# Expected: `parse` gives every currency that a sign can mean: Le is Sierra Leone's leone, K is Zambia's
#   kwacha among others, and FCFA is the franc of West Africa (XOF) or that of Central Africa (XAF).
# Seen: Le is the Egyptian pound alone. K is Myanmar's kyat, the Kenyan shilling and the kina, and never
#   the kwacha, which is known as ZK. FCFA is XAF alone, "F CFA" is the guilder of the Antilles, and CFA
#   nothing. Db and UM are the dobra and the ouguiya of before 2018 (STD, MRO).
# Matters: A line of a statement, or a price that a shop typed, gets another country's money without a
#   sign of doubt. Take the currency from the account or the country, never from such a sign.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet iso4217parse==0.6.2

cat >"$folder/ask.py" <<'END'
import iso4217parse

SIGNS = ("KSh", "USh", "Le", "K", "ZK", "FCFA", "F CFA", "CFA", "Db", "UM")
for sign in SIGNS:
    found = iso4217parse.parse(f"{sign} 500") or []
    print(f"{sign} 500:", " ".join(sorted(currency.alpha3 for currency in found)) or "nothing")
END

"$folder/env/bin/python" "$folder/ask.py" | tee "$folder/seen"
diff - "$folder/seen" <<'END'
KSh 500: KES
USh 500: UGX
Le 500: EGP
K 500: KES MMK PGK
ZK 500: ZMW
FCFA 500: XAF
F CFA 500: ANG
CFA 500: nothing
Db 500: STD
UM 500: MRO
END

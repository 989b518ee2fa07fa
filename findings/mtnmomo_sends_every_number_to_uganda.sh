#!/usr/bin/env bash
# Package: PyPI mtnmomo 3.0.1, with phonenumbers 9.0.43
# Expected: A number in the international notation keeps its country; MTN is in a dozen of them.
# Seen: `validate_phone_number`, through which each payer and payee goes, puts 256, Uganda's code,
#   before the national number of a subscriber of MTN anywhere.
# Matters: Who asks a Ghanaian for money asks a Ugandan number, which may be somebody's; pay-outs go
#   there. Use the package in Uganda only.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet 'setuptools<81' mtnmomo==3.0.1 phonenumbers==9.0.43

cat >"$folder/ask.py" <<'END'
from mtnmomo.utils import validate_phone_number

print("country, number, what is sent")
for country, number in (("UG", "+256772123456"), ("GH", "+233241234567"), ("RW", "+250781234567")):
    print(country, number, validate_phone_number(number))
END

"$folder/env/bin/python" -W ignore "$folder/ask.py" | tee "$folder/seen"
diff - "$folder/seen" <<'END'
country, number, what is sent
UG +256772123456 256772123456
GH +233241234567 256241234567
RW +250781234567 256781234567
END

#!/usr/bin/env bash
# Package: PyPI phonenumbers 9.0.43
# Expected: the zero in front of a national number is dialled at home only, and falls away behind the
#   country's code, as in Kenya.
# Seen: in Côte d'Ivoire, Benin and Congo it belongs to the number; without it no mobile number there
#   is valid.
# Matters: a search or a form that drops the first zero finds nobody and pays nobody in these
#   countries.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet phonenumbers==9.0.43

seen=$("$folder/env/bin/python" - <<'END'
import phonenumbers

for country, national in (("KE", "0712345678"), ("CI", "0708123456"), ("BJ", "0197123456"), ("CG", "061234567")):
    kept = phonenumbers.parse(national, country)
    code = phonenumbers.country_code_for_region(country)
    cut = phonenumbers.parse(f"+{code}{national[1:]}")
    written = phonenumbers.format_number(kept, phonenumbers.PhoneNumberFormat.E164)
    print(country, written, phonenumbers.is_valid_number(kept), phonenumbers.is_valid_number(cut))
END
)
printf '%s\n' "$seen"
[ "$seen" = "KE +254712345678 True True
CI +2250708123456 True False
BJ +2290197123456 True False
CG +242061234567 True False" ]

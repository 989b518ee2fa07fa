#!/usr/bin/env bash
# Package: PyPI phonenumbers 9.0.43
# Expected: The zero in front of a national number is dialled at home only, and falls away behind the
#   country's code, as in Kenya.
# Seen: In Côte d'Ivoire, Benin and Congo the zero in front belongs to the number; without it no
#   example of a mobile number is valid.
# Matters: A search or a form that drops the first zero finds nobody and pays nobody in these
#   countries.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet phonenumbers==9.0.43

cat >"$folder/ask.py" <<'END'
import phonenumbers
from phonenumbers import PhoneNumberFormat, PhoneNumberType

print("country, as dialled at home, is valid behind the code: with the zero, without it")
for country in ("KE", "UG", "CI", "BJ", "CG"):
    number = phonenumbers.example_number_for_type(country, PhoneNumberType.MOBILE)
    national = phonenumbers.format_number(number, PhoneNumberFormat.NATIONAL).replace(" ", "")
    kept, cut = (
        phonenumbers.PhoneNumber(
            country_code=number.country_code,
            national_number=int(digits),
            italian_leading_zero=digits.startswith("0"),
        )
        for digits in (national, national.removeprefix("0"))
    )
    print(country, national, *map(phonenumbers.is_valid_number, (kept, cut)))
END

"$folder/env/bin/python" "$folder/ask.py" | tee "$folder/seen"
diff - "$folder/seen" <<'END'
country, as dialled at home, is valid behind the code: with the zero, without it
KE 0712123456 False True
UG 0712345678 False True
CI 0123456789 True False
BJ 0195123456 True False
CG 061234567 True False
END

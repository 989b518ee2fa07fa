#!/usr/bin/env bash
# Package: PyPI phonenumbers 9.0.43, npm libphonenumber-js 1.13.16
# Expected: Digits that begin with the code of the default region, as a wallet's operator writes them,
#   are read as that region's number: 254712123456 with KE is +254712123456.
# Seen: Indonesia's shortest mobile numbers, nine digits behind 62, are also good national numbers with
#   the 62: `parse("62812345678", "ID")` is +6262812345678, and `is_valid_number` agrees.
# Matters: A form that knows the country, and gets a number without its plus sign, pays somebody else
#   or nobody. Put the plus sign before what is international already.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet phonenumbers==9.0.43
npm install --silent --no-audit --no-fund libphonenumber-js@1.13.16

cat >ask.py <<'END'
from phonenumbers import PhoneNumberFormat, format_number, is_valid_number, parse

for country, digits in (("KE", "254712123456"), ("ID", "62812345678"), ("ID", "628123456789")):
    without, with_plus = parse(digits, country), parse(f"+{digits}")
    texts = [format_number(each, PhoneNumberFormat.E164) for each in (without, with_plus)]
    print("phonenumbers", country, digits, *texts, is_valid_number(without))
END
cat >ask.mjs <<'END'
import { parsePhoneNumber } from "libphonenumber-js/max";

for (const [country, digits] of [["KE", "254712123456"], ["ID", "62812345678"], ["ID", "628123456789"]]) {
  const without = parsePhoneNumber(digits, country);
  const withPlus = parsePhoneNumber(`+${digits}`);
  console.log("libphonenumber-js", country, digits, without.number, withPlus.number, without.isValid());
}
END

env/bin/python ask.py | tee seen
node ask.mjs | tee -a seen
diff - seen <<'END'
phonenumbers KE 254712123456 +254712123456 +254712123456 True
phonenumbers ID 62812345678 +6262812345678 +62812345678 True
phonenumbers ID 628123456789 +628123456789 +628123456789 True
libphonenumber-js KE 254712123456 +254712123456 +254712123456 true
libphonenumber-js ID 62812345678 +6262812345678 +62812345678 true
libphonenumber-js ID 628123456789 +628123456789 +628123456789 true
END

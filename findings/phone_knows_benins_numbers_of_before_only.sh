#!/usr/bin/env bash
# Package: npm phone 3.1.72, beside PyPI phonenumbers 9.0.43
# Expected: Numbers of Benin have ten digits that begin with 01, as since the end of November 2024.
# Seen: `phone` takes those of eight digits only: +2290197123456 is not valid, and +22997123456, which
#   nobody has any more, is. phonenumbers says the opposite. Côte d'Ivoire's ten digits are known.
# Matters: A form that checks numbers with it takes no customer of Benin. Check the length alone, by
#   a table of your own, or leave a number to the operator.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund phone@3.1.72
python3 -m venv env
env/bin/pip install --quiet phonenumbers==9.0.43

cat >ask.js <<'END'
const { phone } = require("phone");
for (const number of process.argv.slice(2)) console.log("phone", number, phone(number).isValid);
END
cat >ask.py <<'END'
import sys

import phonenumbers

for number in sys.argv[1:]:
    is_valid = phonenumbers.is_valid_number(phonenumbers.parse(number))
    print("phonenumbers", number, str(is_valid).lower())
END

numbers=(+2290197123456 +22997123456 +2250708123456)
{ node ask.js "${numbers[@]}"; env/bin/python ask.py "${numbers[@]}"; } | tee seen
diff - seen <<'END'
phone +2290197123456 false
phone +22997123456 true
phone +2250708123456 true
phonenumbers +2290197123456 true
phonenumbers +22997123456 false
phonenumbers +2250708123456 true
END

#!/usr/bin/env bash
# Package: PyPI mt-940 5.1.1, beside npm mt940js 1.3.5
# Expected: In a line with the mark RC, the reversal of a credit, money leaves the account, as SWIFT's
#   description of field 61 says; both packages give a debit a minus sign.
# Seen: The `amount` of a transaction is negative for the status D only: RC has a plus sign, as has RD.
#   mt940js gives RC a minus sign.
# Matters: Who adds up amounts counts money that was taken back twice as received; look at `status`,
#   and turn the sign for RC.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet mt-940==5.1.1
npm install --silent --no-audit --no-fund mt940js@1.3.5

cat >statement.sta <<'END'
:20:STATEMENT
:25:123456789
:28C:1/1
:60F:C261101XOF10000,
:61:2611031103C1500,NMSCORDER1//R1
:86:paid
:61:2611041104RC1500,NMSCORDER1//R2
:86:taken back
:61:2611051105D500,NMSCORDER2//R3
:86:paid out
:61:2611061106RD500,NMSCORDER2//R4
:86:come back
:62F:C261106XOF10000,
END
cat >ask.py <<'END'
import mt940

for line in mt940.parse("statement.sta"):
    print("mt-940", line.data["status"], line.data["amount"].amount)
END
cat >ask.cjs <<'END'
const { readFileSync } = require("fs");
const { Parser } = require("mt940js");

const [statement] = new Parser().parse(readFileSync("statement.sta", "utf8"));
for (const line of statement.transactions) {
  console.log("mt940js", line.details, line.amount);
}
END

env/bin/python ask.py | tee seen
node ask.cjs | tee -a seen
diff - seen <<'END'
mt-940 C 1500
mt-940 RC 1500
mt-940 D -500
mt-940 RD 500
mt940js paid 1500
mt940js taken back -1500
mt940js paid out -500
mt940js come back 500
END

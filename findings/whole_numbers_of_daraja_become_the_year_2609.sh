#!/usr/bin/env bash
# Package: PyPI arrow 1.4.0, npm dayjs 1.11.13, beside luxon 3.5.0
# Expected: A library that takes a number for a time refuses the TransactionDate of M-Pesa's callback,
#   in JSON the number 20191219102115, which has year, month, day, hour, minute and second.
# Seen: `arrow.get` and `dayjs` take the number for milliseconds and give a day of the year 2609,
#   without an error. As a text with its format, all three give the time that M-Pesa meant.
# Matters: Payments get a date six centuries ahead, sort behind everything, and match no line of a
#   statement. Turn the number into a text first, and name format and zone, Africa/Nairobi.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet arrow==1.4.0 tzdata
npm install --silent --no-audit --no-fund dayjs@1.11.13 luxon@3.5.0

cat >callback.json <<'END'
{"Name": "TransactionDate", "Value": 20191219102115}
END
cat >ask.py <<'END'
import json

import arrow

value = json.load(open("callback.json"))["Value"]
print("arrow, as a number:", arrow.get(value).isoformat())
text = arrow.get(str(value), "YYYYMMDDHHmmss", tzinfo="Africa/Nairobi")
print("arrow, as a text:", text.isoformat())
END
cat >ask.cjs <<'END'
const dayjs = require("dayjs");
dayjs.extend(require("dayjs/plugin/customParseFormat"));
const { DateTime } = require("luxon");

const value = require("./callback.json").Value;
console.log("dayjs, as a number:", dayjs(value).toISOString());
console.log("dayjs, as a text:", dayjs(String(value), "YYYYMMDDHHmmss").format());
const zone = { zone: "Africa/Nairobi" };
console.log("luxon, as a text:", DateTime.fromFormat(String(value), "yyyyMMddHHmmss", zone).toISO());
END

TZ=Africa/Nairobi env/bin/python ask.py | tee seen
TZ=Africa/Nairobi node ask.cjs | tee -a seen
diff - seen <<'END'
arrow, as a number: 2609-11-01T15:58:22.115002+00:00
arrow, as a text: 2019-12-19T10:21:15+03:00
dayjs, as a number: 2609-11-01T15:58:22.115Z
dayjs, as a text: 2019-12-19T10:21:15+03:00
luxon, as a text: 2019-12-19T10:21:15.000+03:00
END

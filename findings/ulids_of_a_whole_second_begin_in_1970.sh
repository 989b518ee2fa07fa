#!/usr/bin/env bash
# Package: PyPI python-ulid 4.1.0, beside npm ulid 3.0.2
# Expected: The same moment gives the same ULID whether it is written 1700000000 or 1700000000.0, as
#   everywhere else in Python, where times are seconds.
# Seen: `ULID.from_timestamp` takes an int for milliseconds and a float for seconds: of a whole
#   second, as `int(time.time())`, it makes a ULID of 20 January 1970. npm's `ulid` takes
#   milliseconds only.
# Matters: Who asks for the payments since a time, by a ULID made of it as the lower bound, gets all
#   that ever were; as the upper bound, none. Hand over a datetime, by `ULID.from_datetime`.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet python-ulid==4.1.0
npm install --silent --no-audit --no-fund ulid@3.0.2

cat >ask.py <<'END'
from datetime import datetime, timezone

from ulid import ULID

moment = datetime(2023, 11, 14, 22, 13, 20, tzinfo=timezone.utc)
for name, made in (
    ("float", ULID.from_timestamp(moment.timestamp())),
    ("int", ULID.from_timestamp(int(moment.timestamp()))),
    ("datetime", ULID.from_datetime(moment)),
):
    print(f"python-ulid, {name}: {str(made)[:10]} {made.datetime:%Y-%m-%d}")
END
cat >ask.cjs <<'END'
const { ulid } = require("ulid");

console.log("npm, milliseconds:", ulid(1700000000 * 1000).slice(0, 10));
END

env/bin/python ask.py | tee seen
node ask.cjs | tee -a seen
diff - seen <<'END'
python-ulid, float: 01HF7YAT00 2023-11-14
python-ulid, int: 0001JN7W80 1970-01-20
python-ulid, datetime: 01HF7YAT00 2023-11-14
npm, milliseconds: 01HF7YAT00
END

#!/usr/bin/env bash
# Package: PyPI python-dateutil 2.9.0.post0, beside dateparser 1.5.0
# Expected: 10:15 UTC+3, as a statement of an operator in East Africa writes its time, is 07:15 UTC; so
#   is 10:15 EAT, or that is refused.
# Seen: `dateutil.parser.parse` turns the sign of UTC+3 and of GMT+3 round: it is 13:15 UTC. EAT, CAT and
#   WAT are dropped with a warning, and the time has no zone. dateparser reads all of them as meant;
#   +0300 is read right by both.
# Matters: Lines of a statement move by six hours, and many into another day, so that they match no
#   payment. Give dateutil the distance as +0300, or the zones by name in `tzinfos`.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet python-dateutil==2.9.0.post0 dateparser==1.5.0

cat >"$folder/ask.py" <<'END'
from datetime import timezone

import dateparser
from dateutil import parser


def in_utc(time):
    if time.tzinfo is None:
        return f"{time:%H:%M} of no zone"
    return f"{time.astimezone(timezone.utc):%H:%M} UTC"


for zone in ("+0300", "UTC+3", "GMT+3", "EAT", "CAT", "WAT"):
    text = f"29 Nov 2026 10:15 {zone}"
    print(f"10:15 {zone}: dateutil {in_utc(parser.parse(text))}, ", end="")
    print(f"dateparser {in_utc(dateparser.parse(text))}")
END

"$folder/env/bin/python" -W ignore "$folder/ask.py" | tee "$folder/seen"
diff - "$folder/seen" <<'END'
10:15 +0300: dateutil 07:15 UTC, dateparser 07:15 UTC
10:15 UTC+3: dateutil 13:15 UTC, dateparser 07:15 UTC
10:15 GMT+3: dateutil 13:15 UTC, dateparser 07:15 UTC
10:15 EAT: dateutil 10:15 of no zone, dateparser 07:15 UTC
10:15 CAT: dateutil 10:15 of no zone, dateparser 08:15 UTC
10:15 WAT: dateutil 10:15 of no zone, dateparser 09:15 UTC
END

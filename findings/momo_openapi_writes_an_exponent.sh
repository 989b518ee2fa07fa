#!/usr/bin/env bash
# Package: PyPI momo-openapi 0.1.2
# Expected: A Decimal of a thousand is written 1000 in a request, however it was computed.
# Seen: The amount of `request_to_pay` is `str` of what it is given: "1E+3" for a Decimal that was
#   normalised, to rid it of zeros after the point, and "1.0E+3" for one that was scaled.
# Matters: What an operator makes of an exponent is in none of its documents. Write amounts by
#   `format(amount, "f")` before they are handed to a client.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet momo-openapi==0.1.2

cat >"$folder/ask.py" <<'END'
import json
from decimal import Decimal

import requests
from momo_openapi import Collection, MomoConfig

sent = []


def send(self, request, **_):
    answer = requests.Response()
    answer.status_code = 202 if request.url.endswith("requesttopay") else 200
    answer._content = json.dumps({"access_token": "t", "expires_in": 3600}).encode()
    if answer.status_code == 202:
        sent.append(json.loads(request.body)["amount"])
    return answer


requests.Session.send = send
collection = Collection(MomoConfig("key", "user", "token", "mtnuganda", currency="UGX"))
for name, amount in (
    ("as typed", Decimal("1000")),
    ("normalised", Decimal("1000.00").normalize()),
    ("ten to the third", Decimal(10).scaleb(2)),
):
    collection.request_to_pay(amount, "256772000001", "order-1")
    print(name, sent[-1], format(amount, "f"))
END

"$folder/env/bin/python" "$folder/ask.py" | tee "$folder/seen"
diff - "$folder/seen" <<'END'
as typed 1000 1000
normalised 1E+3 1000
ten to the third 1.0E+3 1000
END

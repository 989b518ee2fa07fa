#!/usr/bin/env bash
# Package: PyPI pyairtel 0.1.1, mtn-momo-client 2.0.1 and daraja-v3 0.2.1
# Expected: An amount that an operator may not take, as 1500.75 shillings, is sent as it is or refused.
# Seen: The collection of pyairtel, the pay-out to Airtel of mtn-momo-client and the validator of
#   daraja-v3 put an amount through `int`, which cuts its decimals off. For a collection, mtn-momo-client
#   sends all of it.
# Matters: The shop has sold for 1500.75 and gets 1500, and no exception says so; a pay-out is short.
#   Round before, where an operator takes whole amounts only, and compare the amount of the result.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet \
  pyairtel==0.1.1 mtn-momo-client==2.0.1 daraja-v3==0.2.1 requests==2.34.2 httpx==0.28.1

cat >"$folder/ask.py" <<'END'
import json
from unittest.mock import patch

import httpx
import requests
from momo_api import AirtelApi, AirtelConfig
from mpesa.validators import amount
from pyairtel import AirtelMoney

NUMBER, SOLD = "752000000", "1500.75"
TOKEN = {"access_token": "t", "expires_in": "180", "token_type": "bearer"}
ANSWER = {"data": {"transaction": {"id": "1"}}, "status": {"code": "200", "success": True}}


def show(name, body):
    print(name, json.loads(body)["transaction"]["amount"])


def post(url, json=None, data=None, **_):
    answer = requests.Response()
    answer.status_code = 200
    answer._content = as_json(TOKEN if "oauth2" in url else ANSWER)
    if "payments" in url:
        show("pyairtel, collection:", as_json(json))
    return answer


def as_json(document):
    return json.dumps(document).encode()


def handle(request):
    if "oauth2" in request.url.path:
        return httpx.Response(200, json=TOKEN)
    part = "collection" if "payments" in request.url.path else "pay-out"
    show(f"mtn-momo-client, {part}:", request.content)
    return httpx.Response(200, json=ANSWER)


with patch("requests.post", post):
    client = AirtelMoney("id", "secret", sandbox=True, country="TZ", currency="TZS")
    client.collect(phone="+255752000000", amount=float(SOLD), reference="order-1")

http_client = httpx.Client(transport=httpx.MockTransport(handle))
api = AirtelApi("https://operator.example", http_client=http_client)
market = {"country": "TZ", "currency": "TZS"}
api.get_collection(AirtelConfig.collection("id", "secret", **market)).request_to_pay(
    SOLD, NUMBER, "order-1"
)
api.get_disbursement(AirtelConfig.disbursement("id", "secret", "pin", **market)).transfer(
    SOLD, NUMBER, "order-1"
)
print("daraja-v3:", amount(float(SOLD)))
END

"$folder/env/bin/python" "$folder/ask.py" | tee "$folder/seen"
diff - "$folder/seen" <<'END'
pyairtel, collection: 1500
mtn-momo-client, collection: 1500.75
mtn-momo-client, pay-out: 1500
daraja-v3: 1500
END

#!/usr/bin/env bash
# Package: PyPI daraja-sdk-py 2.0.0, with httpx 0.28.1
# Expected: A pay-out that may have arrived, as its answer did not come in time, is not sent again by
#   itself: the operator may have paid.
# Seen: `b2c_service.send` sends a pay-out whose answer does not come four times with the settings that
#   the package has by itself: `RetryConfig` repeats every request after a timeout, 500, 503 and 504.
#   Without an OriginatorConversationID, which is optional, nothing says that it is the same pay-out.
# Matters: One salary may be paid four times. Give each pay-out an OriginatorConversationID of its own,
#   and set `max_retries` to 0.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet daraja-sdk-py==2.0.0 httpx==0.28.1

cat >"$folder/ask.py" <<'END'
import json

import httpx
from daraja import Mpesa

sent = []


def handle(self, request):
    if "oauth" in request.url.path:
        return httpx.Response(200, json={"access_token": "t", "expires_in": 3599})
    sent.append(json.loads(request.content))
    raise httpx.ReadTimeout("no answer", request=request)


httpx.HTTPTransport.handle_request = handle
for settings in ({}, {"max_retries": 0}):
    sent.clear()
    client = Mpesa(
        {
            "consumer_key": "k",
            "consumer_secret": "s",
            "passkey": "p",
            "initiator_name": "shop",
            "security_credential": "c",
            # The pauses alone are shorter than by itself.
            "retry_config": {"base_delay_ms": 1, "max_delay_ms": 1, **settings},
        }
    )
    try:
        client.b2c_service.send(
            {
                "InitiatorName": "shop",
                "SecurityCredential": "c",
                "CommandID": "SalaryPayment",
                "Amount": 100,
                "PartyA": 600997,
                "PartyB": 254700000001,
                "Remarks": "November",
                "QueueTimeOutURL": "https://shop.example/timeout",
                "ResultURL": "https://shop.example/result",
            }
        )
    except Exception as error:
        told = type(error).__name__
    same = all(each == sent[0] for each in sent)
    print(settings or "by itself", f"sent {len(sent)} times", f"the same: {same}", told)
END

"$folder/env/bin/python" "$folder/ask.py" | tee "$folder/seen"
diff - "$folder/seen" <<'END'
by itself sent 4 times the same: True TimeoutError
{'max_retries': 0} sent 1 times the same: True TimeoutError
END

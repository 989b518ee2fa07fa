#!/usr/bin/env bash
# Package: PyPI mtn-momo-client 2.0.1, with httpx 0.28.1
# Expected: An enquiry about a payment of Airtel's that has failed, TF, returns a transaction whose
#   `is_failed()` is true.
# Seen: Where Airtel's answer about a failed payment has `"success": false` beside TF,
#   `get_payment_status` raises MomoException, as it does for an enquiry that could not be made; where
#   it has `true`, it returns the transaction.
# Matters: A shop that waits for `is_failed()` asks for ever, or takes a refusal for trouble of the
#   network. Look for TF in the exception's answer as well.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet mtn-momo-client==2.0.1 httpx==0.28.1

cat >"$folder/ask.py" <<'END'
import httpx
from momo_api import AirtelApi, AirtelConfig
from momo_api.exceptions import MomoException

TOKEN = {"access_token": "t", "expires_in": "180", "token_type": "bearer"}
ID = "5b1d4f0c-9f0e-4a57-8d6a-3a6c2d1e0f11"


def enquire(success):
    answer = {
        "data": {"transaction": {"id": ID, "status": "TF", "message": "Insufficient balance"}},
        "status": {"code": "200", "success": success, "response_code": "DP00800001005"},
    }

    def handle(request):
        return httpx.Response(200, json=TOKEN if "oauth2" in request.url.path else answer)

    http_client = httpx.Client(transport=httpx.MockTransport(handle))
    api = AirtelApi("https://operator.example", http_client=http_client)
    config = AirtelConfig.collection("id", "secret", country="UG", currency="UGX")
    try:
        return f"is_failed() is {api.get_collection(config).get_payment_status(ID).is_failed()}"
    except MomoException:
        return "MomoException is raised"


for success in (True, False):
    print(f"TF, success {success}: {enquire(success)}")
END

"$folder/env/bin/python" "$folder/ask.py" | tee "$folder/seen"
diff - "$folder/seen" <<'END'
TF, success True: is_failed() is True
TF, success False: MomoException is raised
END

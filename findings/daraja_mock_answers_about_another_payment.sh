#!/usr/bin/env bash
# Package: PyPI daraja-mock 1.0.5
# Expected: A double of Daraja that answers a question about an STK push names the CheckoutRequestID
#   that was asked about, as Daraja does, and the MerchantRequestID of its request.
# Seen: `/mpesa/stkpushquery/v1/query` makes both at random for each answer, and reports success for
#   a payment that was never requested. No callback is ever sent.
# Matters: A client that compares the id of the answer with its own, and should, fails against it,
#   and one that settles the wrong payment passes. Test that rule against recorded answers instead.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet daraja-mock==1.0.5

cat >"$folder/ask.py" <<'END'
from daraja_mock import DarajaMock

client = DarajaMock().app.test_client()
made = client.post("/mpesa/stkpush/v1/processrequest", json={"Amount": 1}).get_json()
for title, asked in (
    ("requested", made["CheckoutRequestID"]),
    ("never requested", "ws_CO_EXAMPLE"),
):
    answer = client.post("/mpesa/stkpushquery/v1/query", json={"CheckoutRequestID": asked}).get_json()
    is_same = answer["CheckoutRequestID"] == asked
    print(f"{title}: same id {is_same}, result {answer['ResultCode']} ({answer['ResultDesc']})")
    print("  same MerchantRequestID:", answer["MerchantRequestID"] == made["MerchantRequestID"])
END

"$folder/env/bin/python" "$folder/ask.py" | tee "$folder/seen"
diff - "$folder/seen" <<'END'
requested: same id False, result 0 (The service request is processed successfully.)
  same MerchantRequestID: False
never requested: same id False, result 0 (The service request is processed successfully.)
  same MerchantRequestID: False
END

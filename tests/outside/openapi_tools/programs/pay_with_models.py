"""Pays with the models that datamodel-code-generator writes, whose amounts are decimals, and prints
how it ended."""

from __future__ import annotations

import json
import sys
import urllib.request

from generated import DirectPayinRequest, InitiatedPayment, Transaction

api, key = sys.argv[1:]


def ask(path: str, body: bytes | None = None) -> bytes:
    headers = {"X-Api-Key": key, "Content-Type": "application/json"}
    with urllib.request.urlopen(
        urllib.request.Request(f"{api}/gateway/mmo/v2/{path}", body, headers)
    ) as answer:
        return answer.read()


text = b"""{
    "amount": {"value": 1499.00, "currency": "KES"},
    "payer": {"id": "customer-7", "msisdn": "254700000007"},
    "country": "KE",
    "resultUrl": "https://localhost:9/callbacks",
    "merchantReference": "models-1"
}"""
DirectPayinRequest.model_validate_json(text)
created = InitiatedPayment.model_validate_json(ask("direct/payin/mpesa_ke", text))
while (
    found := Transaction.model_validate_json(ask(f"status/{created.gatewayReference}"))
).status.value == "pending":
    pass
assert found.providerData is not None
assert found.providerData.fee is not None
fee = found.providerData.fee.value  # 1 %: no binary number is exactly so much.
print(json.dumps({"status": found.status.value, "fee": str(fee), "kind": type(fee).__name__}))

"""Pays with the client that openapi-python-client writes, and prints how the payment ended."""

from __future__ import annotations

import json
import sys

from generated import AuthenticatedClient
from generated.api.look_ups import look_up
from generated.api.payments import create_direct_payin
from generated.models import (
    DirectPayinRequest,
    InitiatedPayment,
    RequestedMoney,
    RequestedParty,
    Transaction,
)

api, key = sys.argv[1:]
# The key stands alone in its header, which a client of tokens would begin with "Bearer".
client = AuthenticatedClient(base_url=api, token=key, prefix="", auth_header_name="X-Api-Key")
body = DirectPayinRequest(
    amount=RequestedMoney(value=150.00, currency="KES"),
    payer=RequestedParty(id="customer-7", msisdn="254700000007"),
    country="KE",
    result_url="https://localhost:9/callbacks",
    merchant_reference="python-client-1",
)
created = create_direct_payin.sync("mpesa_ke", client=client, body=body)
assert isinstance(created, InitiatedPayment), created
found = None
while not isinstance(found, Transaction) or found.status == "pending":
    found = look_up.sync(created.gateway_reference, client=client)
print(json.dumps({"status": found.status, "value": found.requested_amount.value}))

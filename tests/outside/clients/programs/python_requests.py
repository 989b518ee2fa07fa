"""requests in its default settings."""

from __future__ import annotations

import requests
from receiver import API, BODY, KEY, listen, report, wait_for_callback

listen()
headers = {"X-Api-Key": KEY}
created = requests.post(
    f"{API}/direct/payin/mpesa_ke",
    data=BODY,
    headers=headers | {"Content-Type": "application/json"},
)
result = wait_for_callback()
found = requests.get(f"{API}/status/{created.json()['gatewayReference']}", headers=headers)
report(created.status_code, result, found.json())

"""urllib3 in its default settings."""

from __future__ import annotations

import urllib3
from receiver import API, BODY, KEY, listen, report, wait_for_callback

listen()
headers = {"X-Api-Key": KEY}
created = urllib3.request(
    "POST",
    f"{API}/direct/payin/mpesa_ke",
    body=BODY,
    headers=headers | {"Content-Type": "application/json"},
)
result = wait_for_callback()
found = urllib3.request(
    "GET", f"{API}/status/{created.json()['gatewayReference']}", headers=headers
)
report(created.status, result, found.json())

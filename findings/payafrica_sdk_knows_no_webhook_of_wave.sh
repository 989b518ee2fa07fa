#!/usr/bin/env bash
# Package: PyPI payafrica-sdk 2.0.0, with httpx 0.28.1
# Expected: `WaveProvider.handle_webhook` takes a webhook that is signed as Wave says: a header
#   `Wave-Signature: t=UNIX,v1=HEX`, whose HMAC-SHA256 is of the time and the body in one piece
#   (docs.wave.com/webhook).
# Seen: It reads a header X-Wave-Signature, and compares it with the HMAC of the body alone: a webhook
#   that is signed as documented raises ProviderError, "Invalid Wave webhook signature", under either
#   name of the header.
# Matters: A shop hears of no payment, and Wave repeats each webhook for days. Verify by Wave's own
#   page before the body is handed over, or ask for each session by `check_status`.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet payafrica-sdk==2.0.0 httpx==0.28.1

cat >"$folder/ask.py" <<'END'
import asyncio
import hmac
import json

import httpx
from payafrica.errors import ProviderError
from payafrica.providers.wave import WaveProvider

SECRET = "an-example-of-a-secret"
SESSION = {"id": "cos-18qq25rgr100a", "payment_status": "succeeded", "client_reference": "order-1"}
BODY = json.dumps({"id": "EV_1", "type": "checkout.session.completed", "data": SESSION})


async def take(header):
    signature = hmac.new(SECRET.encode(), f"1764460800{BODY}".encode(), "sha256").hexdigest()
    async with httpx.AsyncClient() as client:
        wave = WaveProvider(client, "key", SECRET)
        try:
            event = await wave.handle_webhook(BODY, {header: f"t=1764460800,v1={signature}"})
        except ProviderError as error:
            return f"ProviderError, {error}"
        return f"taken as {event.status}"


for header in ("Wave-Signature", "X-Wave-Signature"):
    print(f"{header}: {asyncio.run(take(header))}")
END

"$folder/env/bin/python" "$folder/ask.py" | tee "$folder/seen"
diff - "$folder/seen" <<'END'
Wave-Signature: ProviderError, Invalid Wave webhook signature
X-Wave-Signature: ProviderError, Invalid Wave webhook signature
END
